# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What rules about memory have in common."""

from __future__ import annotations

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import SACCT
from slurmscope.findings.rule import Limits

OUT_OF_MEMORY = "OUT_OF_MEMORY"
ROOM = 1.2
"""Of what was used: what is advised to ask for."""
# Of its limit: a job that came so near, and was not killed, has filled it with file cache.
_BRIM = 0.01
# A job that failed, or was stopped by somebody, may not have come to where it needs the most.
_WHOLE = frozenset({"COMPLETED", "TIMEOUT"})


def ran_out(case: Case) -> bool:
    """A process of it was killed for want of memory."""
    killed = case.summary is not None and bool(case.summary.oom_kills)
    ended = case.life.state == OUT_OF_MEMORY or any(step.state == OUT_OF_MEMORY for step in case.life.steps)
    return ended or killed


def measured(case: Case) -> float | None:
    """The most that an agent or the like saw in use, file cache not among it."""
    if case.summary is None or case.summary.memory is None:
        return None
    peaks = [node.memory_peak for node in case.summary.nodes if node.memory_peak is not None]
    return float(max(sum(peaks), case.summary.memory.peak))


def cached(case: Case) -> bool:
    """Whether the most that sacct tells may well be file cache, which the kernel gives back when it is asked to.

    Slurm of 2024 and later takes the kernel's own peak where jobs are in cgroups, and that has the cache in it.
    """
    told, asked, seen = case.efficiency.memory, case.life.memory, measured(case)
    if told.source != SACCT or told.peak is None:
        return False
    if seen is None or case.summary is None:
        return bool(asked) and abs(told.peak - (asked or 0)) <= _BRIM * (asked or 0)
    read, written = case.summary.read_bytes, case.summary.written_bytes
    return (read is None and written is None) or told.peak - seen <= (read or 0) + (written or 0)


def needed(case: Case, peak: float | None = None) -> float | None:
    """The most that it used, were each node as full as the fullest: memory is asked for by node."""
    peak = case.efficiency.memory.peak if peak is None else peak
    nodes = case.summary.nodes if case.summary else ()
    fullest = max((node.memory_peak for node in nodes if node.memory_peak is not None), default=0)
    return max(peak or 0.0, float(fullest * case.life.nodes)) if peak or fullest else peak


def enough(case: Case) -> float | None:
    """What to ask for when it is asked for anew: no more than it had. All of that where its use is not settled."""
    asked, used, peak = case.life.memory, case.efficiency.memory, needed(case)
    told = peak is not None and (used.coverage or 0.0) >= common.COVERAGE.default
    if not told or ran_out(case) or case.life.state not in _WHOLE:
        return asked
    return (peak or 0.0) * ROOM if asked is None else min((peak or 0.0) * ROOM, asked)


def fair(case: Case) -> float | None:
    """The memory that belongs to its CPUs."""
    each = case.ground.fair_memory(case.life)
    return None if each is None else each * case.life.cpus


def not_to_spare(case: Case, limits: Limits) -> str | None:
    """For rules that tell of memory which a job could do without."""
    return "memory is shared out by its GPUs" if case.gpus else unsettled(case, limits)


def unsettled(case: Case, limits: Limits) -> str | None:
    """Why what it used does not say that less would do."""
    if (short := common.too_short(case, limits) or common.watched(case, limits)) is not None:
        return short
    if ran_out(case):
        return "it ran out of memory"
    if case.life.state not in _WHOLE:
        return "it still runs, and may need more" if not case.life.ended else "it did not come to its end"
    return "it has whole nodes" if case.ground.full(case.life) else None


def unknown(case: Case, limits: Limits) -> str | None:
    if case.life.memory is None:
        return "the memory that it asked for"
    missing = common.unknown(case.efficiency.memory, "the memory that it used", limits)
    return missing or ("how much memory belongs to a CPU there" if fair(case) is None else None)
