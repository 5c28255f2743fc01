# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs with GPUs: 4 CPUs, 8 GiB and an A100 on n1, which has 64 CPUs, 256 GiB and 4 of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from findings import cases
from findings.cases import GIB

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change
from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.summary import Moment, Summary

KEPT = Change("--mem", None, "8G", "in place of --mem-per-cpu or --mem-per-gpu")
"""The line that stands beside fewer GPUs, of a job that needs its 8 GiB."""


def life(count: int = 1, state: str = "COMPLETED", **fields: Any) -> Life:
    return cases.life(state, **({"gpus": {"a100": count}} | fields))


def node(name: str = "n1", **fields: Any) -> Node:
    return cases.node(name, **({"cpus": 64, "cpus_effective": 64, "memory": 256 * GIB, "gpus": {"a100": 4}} | fields))


def summary(share: float = 0.8, peak: float = 1.0, count: int = 1, each: dict[str, Any] | None = None) -> Summary:
    """Each of the GPUs as busy as the others; `each` is what else is told of them."""
    told = tuple(cases.gpu(index, **({"mean": share, "peak": peak} | (each or {}))) for index in range(count))
    return cases.summary(gpu=cases.figures(share, peak), gpus=told)


def line(of: Callable[[int], float | None]) -> list[Moment]:
    """Two hours, a moment a minute."""
    return cases.line(120, 60, gpu=of)


def of(of_life: Life | None = None, measured: Summary | None = None, **fields: Any) -> Case:
    return cases.of(of_life or life(), measured, **({"nodes": [node()]} | fields))
