# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A page of metrics as a test sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")
SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


class Page:
    """The samples of a page, to be summed up by label."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def sum(self, name: str, /, **labels: str) -> float:
        """The sum of the series that have these labels; 0 when there are none, for then nothing was counted."""
        return sum(
            value
            for found, value in self.samples.get(name, ())
            if all(found.get(key, "") == wanted for key, wanted in labels.items())
        )

    def by(self, name: str, *labels: str, **only: str) -> dict[tuple[str, ...], float]:
        """Sums by these labels, those that are 0 left out."""
        found: dict[tuple[str, ...], float] = {}
        for sample, value in self.samples.get(name, ()):
            if all(sample.get(key, "") == wanted for key, wanted in only.items()):
                key = tuple(sample.get(label, "") for label in labels)
                found[key] = found.get(key, 0) + value
        return {key: value for key, value in found.items() if value}


def run_slurmscope(bin_dir: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "SLURMSCOPE_SLURM_BIN_DIR": str(bin_dir), **environment}
    return subprocess.run([SLURMSCOPE, *arguments], env=env, capture_output=True, check=False)


def page_of(bin_dir: Path, profile: str = "slurmscope", warnings: int = 0) -> Page:
    done = run_slurmscope(bin_dir, "metrics", "--profile", profile)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stderr.splitlines()) == warnings, done.stderr.decode()
    return Page(done.stdout.decode())


def at_one_moment(ask: Callable[[], T], look: Callable[[], Page]) -> tuple[T, Page]:
    """What `ask` gives and a page of the same moment: nothing changed from before the page to after it."""
    for _ in range(30):
        before = ask()
        page = look()
        if ask() == before:
            return before, page
    raise AssertionError("the cluster never stood still")
