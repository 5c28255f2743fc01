# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The memory was nearly all used."""

from slurmscope.findings import common, lines, memory
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.words import percent, size

_MORE = 1.25  # of what was used: what is advised to ask for


def spares(case: Case, limits: Limits) -> str | None:
    return common.too_short(case, limits) or ("it ran out of memory" if memory.ran_out(case) else None)


def lacks(case: Case, limits: Limits) -> str | None:
    share = _share(case)
    if share is None:
        return "the memory that it used"
    if share >= limits["share"]:
        return None  # what was seen is so, however little was measured
    if memory.cached(case) and case.coverage < limits["least_coverage"]:
        return "the memory that it used, for most of its time"
    return common.unknown(case.efficiency.memory, "the memory that it used", limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    share = _share(case)
    needed = memory.needed(case, memory.measured(case) if memory.cached(case) else None)
    if share is None or needed is None or share < limits["share"]:
        return None
    asked = case.life.memory
    more = asked is not None and lines.advised(case, needed * _MORE) > asked
    return Finding(
        headline=f"its memory came to {percent(share)} of its limit",
        text=f"It used {size(needed)} at most"
        + (f", and had asked for {size(asked)}." if asked else ".")
        + (" A little more, and it is killed." if share <= 1 else ""),
        advice="Ask for a little more memory, in case that the next run needs more: a job that is killed for want of "
        "memory has to be run again."
        if lines.there(case, needed * _MORE)
        else "No node of its partition has a quarter more than that. Before the next run needs more: use a partition "
        "of larger nodes, several nodes if the program can, or cut the input into pieces.",
        changes=lines.memory(case, needed * _MORE, f"{size(needed)} used at most") if more else (),
        figures={"share": share, "peak": needed},
    )


def _share(case: Case) -> float | None:
    """Of what it asked for, or of its limit on the node where that was closest; file cache left out."""
    asked, seen = case.life.memory, memory.measured(case)
    told = (
        None if memory.cached(case) else case.efficiency.memory.share,
        seen / asked if seen is not None and asked else None,
        None if case.summary is None else case.summary.memory_share,
    )
    return max((one for one in told if one is not None), default=None)


RULE = Rule(
    name="memory_close",
    title="Memory nearly used up",
    severity=NOTE,
    about="A job that is close to its limit of memory may be killed the next time, when its input is a little larger.",
    needs="The most memory that the job used: from sacct when it has ended, or from an agent.",
    exempt="Jobs that ran out of memory, and those that ran for less than `least_seconds`.",
    cure="Ask for a quarter more than was used.",
    false_positives="Programs that take what there is (Java with a heap of the job's size, databases, caches) are "
    "close to their limit by design. Where a site does not enforce limits nothing is killed. Slurm of 2024 and later "
    "may count file cache as memory: where an agent was there, or all was used to the brim, that is seen and left out.",
    thresholds=(
        Threshold("share", 0.9, SHARE, "Told where at least this share of the memory was in use."),
        common.LEAST,
        common.COVERAGE,
    ),
    hides=("memory_per_gpu",),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
