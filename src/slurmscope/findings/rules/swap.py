# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of the job was moved to disk."""

from slurmscope.findings import common, lines, memory, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, NOTE, Finding, Limits, Rule, Threshold
from slurmscope.words import size


def spares(case: Case, limits: Limits) -> str | None:
    return common.too_short(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    nodes = case.summary.nodes if case.summary else ()
    if any((node.swap_peak or 0) >= limits["bytes"] for node in nodes):
        return None  # what was seen is so, however little was measured
    untold = all(node.swap_peak is None for node in nodes)
    return common.unmeasured(case, limits) or ("whether its memory was swapped" if untold else None)


def fires(case: Case, limits: Limits) -> Finding | None:
    nodes = case.summary.nodes if case.summary else ()
    swapped = [(node.swap_peak or 0, node.node) for node in nodes if (node.swap_peak or 0) >= limits["bytes"]]
    if not swapped:
        return None
    most, total = max(swapped)[0], sum(count for count, _ in swapped)
    asked, needed = case.life.memory, memory.needed(case)
    wanted = ((needed or 0.0) + most * case.life.nodes) * memory.ROOM
    more = asked is not None and needed is not None and lines.advised(case, wanted) > asked
    return Finding(
        headline=f"{size(total)} of its memory was moved to disk",
        text=f"On {parts.named([name for _, name in swapped])} up to {size(most)} were in swap. What is there is a "
        "thousand times slower than memory.",
        advice="Ask for as much memory as the program needs, or let it use less."
        if more and lines.there(case, wanted)
        else "Let it use less memory, or use a partition of larger nodes: no node of this one has as much as it needs."
        if more
        else "It had asked for enough: tell the help desk, for the node itself was short of memory.",
        changes=lines.memory(case, wanted, f"{size(most)} were in swap") if more else (),
        figures={"swap": float(total)},
    )


RULE = Rule(
    name="swap",
    title="Memory in swap",
    severity=NOTE,
    about="A job whose memory is moved to disk and back is many times slower, and slows the node for others.",
    needs="What the job has in swap, from an agent on its nodes, where these have swap.",
    exempt="Jobs that ran for less than `least_seconds`.",
    cure="Ask for the memory that the program needs.",
    false_positives="What is never touched again may be moved to disk without harm. On shared nodes other jobs may be "
    "the cause.",
    thresholds=(
        Threshold("bytes", 256 << 20, BYTES, "Told where at least so much was in swap, on a node."),
        common.LEAST,
        common.COVERAGE,
    ),
    hides=("memory_close",),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
