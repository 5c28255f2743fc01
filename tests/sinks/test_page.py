# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""docs/sinks.md tells of every setting, variable, field and metric."""

from __future__ import annotations

from pathlib import Path

import recorded

from slurmscope.config import describe
from slurmscope.sinks.cloudwatch import of_jobs, of_nodes, of_scheduler
from slurmscope.sinks.documents import MAPPINGS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "sinks.md").read_text()


def test_settings() -> None:
    sinks = ("elasticsearch.", "cloudwatch.", "pushgateway.")
    for setting in describe():
        if setting.key.startswith(sinks):
            assert f"| `{setting.key}` | `{setting.env[0]}` |" in PAGE


def test_fields() -> None:
    for fields in MAPPINGS.values():
        for name in fields:
            assert f"`{name}`" in PAGE, name


def test_metrics() -> None:
    snapshot, _ = recorded.read("26.05")
    assert snapshot.scheduler.value is not None
    names = [name for name, _, _ in (*of_nodes(()), *of_jobs(()), *of_scheduler(snapshot.scheduler.value))]
    assert f"{len(names)} metrics" in PAGE
    for name in names:
        assert f"`{name}`" in PAGE, name
