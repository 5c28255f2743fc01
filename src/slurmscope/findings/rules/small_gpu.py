# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A smaller GPU would do."""

import re

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, COUNT, NOTE, SHARE, Change, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, percent, size

_GIB = 1 << 30
_ROOM = 1.2  # times what it used: memory of what is advised
_MEMORY = re.compile(r"(\d+)gb")
_SLICE = re.compile(r"\d+g\.(\d+)gb")  # as sites name slices (MIG): 1g.10gb, a100_2g.20gb


def spares(case: Case, limits: Limits) -> str | None:
    return (
        common.without_gpus(case, limits)
        or ("it has several GPUs" if case.gpus > 1 else None)
        or ("it has a slice of a GPU" if _sliced(case) else None)
        or ("its partition has no other GPUs" if _only(case) else None)
        or ("it has many CPUs" if case.life.cpus > limits["cores"] else None)
        or common.too_short(case, limits)
        or common.briefly_watched(case, limits)
    )


def lacks(case: Case, limits: Limits) -> str | None:
    memory = case.efficiency.gpu_memory
    if not case.ground.gpu_types(case.life):
        return "which GPUs its partition has"
    return common.unknown(case.efficiency.gpu, "what its GPUs did", limits) or common.unknown(
        memory, "the GPU memory that it used", limits
    )


def fires(case: Case, limits: Limits) -> Finding | None:
    share, memory = case.efficiency.gpu.share, case.efficiency.gpu_memory
    if share is None or memory.peak is None or memory.asked is None or memory.share is None:
        return None
    fits = memory.peak < limits["memory"] and memory.share < limits["memory_share"]
    wasted = case.gpu_seconds * (1 - share)
    there = any(_smaller(kind, memory.peak, memory.asked) for kind in _others(case))
    if not 0 < share < limits["share"] or not fits or not there or wasted < limits["least_gpu_seconds"]:
        return None
    return Finding(
        headline="a smaller GPU would do",
        text=f"Its GPU was busy for {percent(share)} of the time and had {size(memory.peak)} of {size(memory.asked)} "
        f"in use at most, with {amount(case.life.cpus, 'CPU')}.",
        advice="Ask for a smaller GPU or for a slice of one (MIG), where the cluster has them: fewer people wait for "
        "those. Or run several such tasks on one GPU, in one job.",
        changes=_changes(case, memory.peak),
        waste=Waste(gpu_seconds=wasted),
        figures={"share": share, "memory": memory.peak, "memory_total": memory.asked},
    )


def _sliced(case: Case) -> bool:
    told = () if case.summary is None else case.summary.gpus
    return any(one.instance is not None for one in told) or any(_SLICE.search(kind) for kind in case.life.gpus)


def _others(case: Case) -> frozenset[str]:
    return case.ground.gpu_types(case.life) - set(case.life.gpus)


def _only(case: Case) -> bool:
    """There is one type of GPUs. A job that asked for any has that one."""
    kinds = case.ground.gpu_types(case.life)
    return bool(kinds) and (not _others(case) or len(kinds) == 1)


def _smaller(kind: str, used: float, total: float) -> bool:
    """It has the memory, and is not larger. Of a type whose name does not tell, that may be so."""
    found = _MEMORY.search(kind)
    return found is None or _ROOM * used <= int(found[1]) * _GIB < total


def _changes(case: Case, used: float) -> tuple[Change, ...]:
    """The smallest slice of its partition that has the memory."""
    found = [(int(match[1]), kind) for kind in case.ground.gpu_types(case.life) if (match := _SLICE.search(kind))]
    kind = next((kind for memory, kind in sorted(found) if memory * _GIB >= _ROOM * used), None)
    if kind is None:
        return ()
    had = next(iter(case.life.gpus))
    return (Change("--gpus-per-node", f"{had}:1" if had else "1", f"{kind}:1", f"{size(used)} were used"),)


RULE = Rule(
    name="small_gpu",
    title="A smaller GPU would do",
    severity=NOTE,
    about="The largest GPUs are the scarcest. A job that hardly uses one waits longer than it must, and so do others.",
    needs="What the job's GPU did, and how much of its memory was in use: from an agent on its node, or Prometheus. "
    "Which GPUs its partition has.",
    exempt="Jobs with several GPUs or with none, with a slice of a GPU, with more CPUs than `cores`; in partitions "
    "that have no other type of GPU; those that ran for less than `least_seconds`, and interactive ones for less than "
    "`interactive_seconds`.",
    cure="Ask for a smaller GPU, for a slice of one, or do several such tasks on one GPU.",
    false_positives="A cluster without smaller GPUs or slices: turn the rule off there. A program that needs what only "
    "the larger one has (a number format, a fast link). Programs that take all GPU memory when they start hide "
    "how little they need.",
    thresholds=(
        Threshold("share", 0.15, SHARE, "Told where the GPU was busy for a smaller share of the time, …"),
        Threshold("memory", 10 * _GIB, BYTES, "… less of its memory was ever in use, …"),
        Threshold("memory_share", 0.5, SHARE, "… which is a smaller share than this of what it has, …"),
        Threshold("cores", 4, COUNT, "… and the job had no more CPUs than these."),
        common.least(1800),
        common.INTERACTIVE,
        common.LEAST_GPU,
        common.COVERAGE,
    ),
    hides=("low_gpu",),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
