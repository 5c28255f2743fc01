# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The cores of a job. Where Slurm counts hardware threads as CPUs, a program that keeps each core busy with one thread
uses half of its CPUs, and wastes nothing."""

from __future__ import annotations

from slurmscope.findings import common, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Limits


def held(case: Case) -> int:
    """As many as it has CPUs, where nobody knows how many of these are one core."""
    return case.ground.cores(case.life) or case.life.cpus


def each(case: Case) -> float:
    """CPUs of a core."""
    return case.life.cpus / max(1, held(case))


def busy(case: Case) -> float | None:
    """How many were, on average, at most; None where that is not known."""
    share = case.efficiency.cpu.share
    return None if share is None else min(share * case.life.cpus, float(held(case)))


def none_to_spare(case: Case, limits: Limits) -> str | None:
    """For rules that tell of cores which a job could do without."""
    short = common.short_or_watched(case, limits) or common.with_gpus(case, limits)
    return short or (None if held(case) > 1 else "it has one core")


def unused(case: Case, limits: Limits) -> str | None:
    """What rules lack that ask how many cores were busy."""
    return common.unknown(case.efficiency.cpu, "the CPU time that it used", limits)


def untold(case: Case, limits: Limits) -> str | None:
    """What rules lack that look at each core. Of an idle hardware thread nobody tells whether its core was busy."""
    if (missing := parts.cores_untold(case, limits)) is not None:
        return missing
    return None if case.ground.cores(case.life) == case.life.cpus else "which of its CPUs are one core"
