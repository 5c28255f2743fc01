# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""So much memory was asked for and not used that CPUs beside it could not be given to anybody."""

from slurmscope.findings import common, lines, memory
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import number, size


def fires(case: Case, limits: Limits) -> Finding | None:
    asked, fair = case.life.memory, memory.fair(case)
    share, needed = case.efficiency.memory.share, memory.needed(case)
    if not asked or not fair or share is None or needed is None or asked <= limits["ratio"] * fair:
        return None
    wanted = lines.advised(case, needed * memory.ROOM)
    # what it may well have: its own share, or what it needs
    blocked = (asked - max(fair, wanted)) / (fair / case.life.cpus)
    if share >= limits["share"] or blocked * case.seconds < limits["least_cpu_seconds"]:
        return None
    used = share * asked
    return Finding(
        headline=f"its memory kept {number(blocked)} other CPUs from being used",
        text=f"It asked for {size(asked)} and used {size(used)} at most. {size(fair)} belong to its {case.life.cpus} "
        f"CPUs; what it took beyond that, and did not use, is the share of {number(blocked)} other CPUs.",
        advice="Ask for what it uses and a fifth more."
        + (
            " That is within the share of its CPUs, which is often the default without --mem." if wanted <= fair else ""
        ),
        changes=lines.memory(case, needed * memory.ROOM, f"{size(used)} used at most"),
        waste=Waste(memory_byte_seconds=float((asked - wanted) * case.seconds)),
        figures={"share": share, "peak": used, "asked": float(asked), "fair": fair, "cpus": blocked},
    )


RULE = Rule(
    name="memory_request",
    title="Memory beyond its share",
    severity=NOTE,
    about="A node's memory belongs to its CPUs. A job that takes much more than the share of its own, and does not use "
    "it, leaves CPUs that nobody can have.",
    needs="The most memory that the job used: from sacct when it has ended, or from an agent; what its nodes have.",
    exempt="Jobs that have whole nodes or GPUs (see memory_per_gpu), interactive ones, those that still run, that ran "
    "out of memory or did not come to their end, and those that ran for less than `least_seconds`.",
    cure="Ask for the memory that is used, and a fifth more.",
    false_positives="A peak that is shorter than the time between two looks is not seen. Tasks of an array may need "
    "more than this one did: look at the largest. On nodes that are given out whole nobody is kept from anything.",
    thresholds=(
        Threshold("ratio", 1.1, RATIO, "Told where more was asked for than this times what belongs to its CPUs, and …"),
        Threshold("share", 0.7, SHARE, "… a smaller share of it was in use at most."),
        common.LEAST,
        Threshold("least_cpu_seconds", 3600, common.LEAST_CPU.unit, "Of CPUs kept from others: less is not told."),
        common.COVERAGE,
    ),
    hides=("memory_unused",),
    spares=memory.not_to_spare,
    lacks=memory.unknown,
    fires=fires,
)
