# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Most of the memory was never used."""

from slurmscope.findings import common, lines, memory
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import percent, size


def spares(case: Case, limits: Limits) -> str | None:
    if (short := memory.not_to_spare(case, limits)) is not None:
        return short
    asked, fair = case.life.memory, memory.fair(case)
    if asked is not None and fair is not None and asked <= fair:
        return "it asked for no more than belongs to its CPUs"
    return None


def fires(case: Case, limits: Limits) -> Finding | None:
    asked, share, needed = case.life.memory, case.efficiency.memory.share, memory.needed(case)
    if not asked or share is None or needed is None or share >= limits["share"]:
        return None
    wanted = lines.advised(case, needed * memory.ROOM)
    wasted = float((asked - wanted) * case.seconds)
    if wasted < limits["least_byte_seconds"]:
        return None
    used = share * asked
    return Finding(
        headline=f"it used {percent(share)} of its memory",
        text=f"It asked for {size(asked)}, and never used more than {size(used)}.",
        advice="Ask for what it uses and a fifth more. Jobs that ask for less start sooner.",
        changes=lines.memory(case, needed * memory.ROOM, f"{size(used)} used at most"),
        waste=Waste(memory_byte_seconds=wasted),
        figures={"share": share, "peak": used, "asked": float(asked)},
    )


RULE = Rule(
    name="memory_unused",
    title="Unused memory",
    severity=NOTE,
    about="Memory that a job asked for is nobody else's, and a node without memory to give leaves its CPUs idle.",
    needs="The most memory that the job used: from sacct when it has ended, or from an agent; what its nodes have.",
    exempt="Jobs that asked for no more than the memory that belongs to their CPUs, that have whole nodes or GPUs (see "
    "memory_per_gpu), interactive ones, those that still run, that ran out of memory or did not come to their end, and "
    "those that ran for less than `least_seconds`.",
    cure="Ask for the memory that is used, and a fifth more.",
    false_positives="A peak that is shorter than the time between two looks is not seen. Tasks of an array may need "
    "more than this one did: look at the largest. File cache is not counted, and some programs are slow without it.",
    thresholds=(
        Threshold("share", 0.5, SHARE, "Told where a smaller share of the memory was in use at most."),
        common.LEAST,
        common.LEAST_MEMORY,
        common.COVERAGE,
    ),
    spares=spares,
    lacks=memory.unknown,
    fires=fires,
)
