# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Processes were killed for want of memory."""

from slurmscope.findings import lines, memory
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, RATIO, Change, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, listed, size

_ABOVE = 1.25  # of what it had: a peak that nobody saw was more than was seen


def spares(case: Case, limits: Limits) -> str | None:
    return None if case.life.started else "it has not run"


def lacks(case: Case, limits: Limits) -> str | None:
    """The state of a job that has ended tells it."""
    if case.life.ended or memory.ran_out(case):
        return None
    untold = case.summary is None or case.summary.oom_kills is None
    return "whether processes were killed for want of memory" if untold else None


def fires(case: Case, limits: Limits) -> Finding | None:
    if not memory.ran_out(case):
        return None
    life, peak = case.life, memory.needed(case)
    kills = (case.summary.oom_kills or 0) if case.summary else 0
    wanted = max(limits["ratio"] * (peak or 0.0), _ABOVE * (life.memory or 0))
    steps = [step.name for step in life.steps if step.state == memory.OUT_OF_MEMORY and step.id.isdecimal()]
    whole = life.state == memory.OUT_OF_MEMORY
    told = [
        f"it had asked for {size(life.memory)}" if life.memory else "",
        f"the most that was seen in use is {size(peak)}" if peak else "",
        f"{amount(kills, 'process', 'processes')} {'was' if kills == 1 else 'were'} killed" if kills else "",
        f"it happened in {listed(steps[:3])}" if steps else "",
    ]
    change, advice = _change(case, wanted)
    return Finding(
        headline="it ran out of memory" if whole else "a part of it was killed for want of memory",
        text=f"The kernel ended it{'' if whole else ' in part'}: {'; '.join(filter(None, told)) or 'it needed more'}.",
        advice=advice if whole else f"What it left behind may not be whole. {advice}",
        changes=change,
        figures={"kills": float(kills)} | ({} if peak is None else {"peak": peak}),
    )


def _change(case: Case, wanted: float) -> tuple[tuple[Change, ...], str]:
    if not lines.there(case, wanted):
        return (), (
            "No node of its partition has as much more as it may need. Use a partition of larger nodes, several nodes "
            "if the program can, or cut the input into pieces."
        )
    if not wanted:
        return (), "Ask for more memory with --mem."
    return lines.memory(case, wanted, "it ran out of memory"), (
        "Ask for more memory, and lower it again when the job's use is known. Fewer tasks or threads on a node may "
        "need less of it."
    )


RULE = Rule(
    name="out_of_memory",
    title="Out of memory",
    severity=BAD,
    about="A process that needs more memory than the job has is killed, and its work is lost.",
    needs="The state of the job and of its steps; an agent tells of processes that were killed while the job went on.",
    exempt="None that ran.",
    cure="Ask for half as much again as was used, or more; use less in one process.",
    false_positives="A program that starts parts of itself to find out how much memory there is. The memory that was "
    "seen may be far below what was needed for a moment.",
    thresholds=(Threshold("ratio", 1.5, RATIO, "Of what was seen in use, what is advised to ask for at least."),),
    hides=(
        "failing_again",
        "memory_close",
        "memory_growth",
        "memory_per_gpu",
        "memory_request",
        "memory_unused",
        "swap",
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
