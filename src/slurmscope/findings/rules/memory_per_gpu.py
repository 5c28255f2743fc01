# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More memory than belongs to its GPUs, and it was not used."""

from slurmscope.findings import common, lines, memory
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, percent, size


def spares(case: Case, limits: Limits) -> str | None:
    return common.without_gpus(case, limits) or memory.unsettled(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    if _fair(case, limits) is None:
        return "the memory and GPUs of its nodes"
    return common.unknown(case.efficiency.memory, "the memory that it used", limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    asked, fair, needed = case.life.memory, _fair(case, limits), memory.needed(case)
    if not asked or needed is None or fair is None:
        return None
    each, share = asked / case.gpus, needed / asked
    wanted = max(fair * case.gpus, memory.ROOM * needed)
    wasted = (asked - wanted) * case.seconds
    too_much = each > fair * limits["factor"] and share < limits["share"]
    if not too_much or lines.advised(case, wanted) >= asked or wasted < limits["least_byte_seconds"]:
        return None
    told = case.efficiency.memory.share or share  # of all nodes: the fullest one counts for what it needs
    used = size(told * asked)
    return Finding(
        headline=f"{size(each)} of memory for each GPU, {percent(told)} of it used",
        text=f"It asked for {size(asked)} beside {amount(case.gpus, 'GPU')}, where {size(fair)} belong to a "
        f"GPU, and used {used} at most.",
        advice="Ask for the memory that belongs to the GPUs: others cannot use a GPU whose node has no memory left.",
        changes=lines.memory(case, wanted, f"{used} were used at most"),
        waste=Waste(memory_byte_seconds=wasted),
        figures={"memory": each, "fair": fair, "share": share},
    )


def _fair(case: Case, limits: Limits) -> float | None:
    if limits["memory"]:
        return limits["memory"]
    found = case.ground.per_gpu(case.life)
    return None if found is None else found[1]


RULE = Rule(
    name="memory_per_gpu",
    title="Too much memory for its GPUs",
    severity=NOTE,
    about="A node's memory is there for all of its GPUs. Where one job takes it all, the other GPUs stand idle.",
    needs="How much memory and how many GPUs the job's nodes have, and the most memory that the job used.",
    exempt="Jobs without GPUs, those that have whole nodes, interactive ones, those that still run, that ran out of "
    "memory or did not come to their end, and those that ran for less than `least_seconds`.",
    cure="Ask for no more memory for each GPU than the node has for each.",
    false_positives="A job of which this run was a small one, or whose most was between two looks of who measured it.",
    thresholds=(
        Threshold("memory", 0, BYTES, "Memory that belongs to a GPU. 0: that of the node over its GPUs."),
        Threshold("factor", 1.1, RATIO, "Told where it has more than so many times that, …"),
        Threshold("share", 0.8, SHARE, "… and a smaller share of what it asked for was in use at most."),
        common.LEAST_MEMORY,
        common.least(3600),
        common.COVERAGE,
    ),
    hides=("memory_request", "memory_unused"),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
