# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It ran into its time limit."""

from itertools import takewhile

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import ran
from slurmscope.findings.past import by_array, same_array
from slurmscope.findings.rule import BAD, RUNS, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, span

_TIMEOUT = "TIMEOUT"
_ROOM = 1.3  # times the longest: what is advised


def spares(case: Case, limits: Limits) -> str | None:
    return common.unended(case, limits) or common.watched(case, limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    life = case.life
    if life.state != _TIMEOUT:
        return None
    limit = life.time_limit or case.seconds
    earlier = [ran(one, case.now) for one in common.completed(case, int(limits["runs"]))]
    longest = max(earlier, default=0)
    checkpoints = "let the program write checkpoints and go on from the last one (--signal warns it before the end)"
    if not earlier:
        known, advice = "", f"Ask for more time, and {checkpoints}: what it had done is lost otherwise."
    else:
        known = f" {amount(len(earlier), 'earlier run')} completed, the longest after {span(longest)}."
        advice = (
            f"Ask for more time than earlier runs took, and {checkpoints}."
            if _ROOM * longest > limit
            else f"Look at its output whether it hung: earlier runs took less. If there was more to do, {checkpoints}."
        )
    before = by_array(one for one in case.past.same_work(life) if not same_array(one, life))
    again = len(list(takewhile(lambda one: one.state == _TIMEOUT, before)))
    row = f" So ended {again + 1} runs in a row." if again else ""
    why = f"earlier runs took up to {span(longest)}"
    return Finding(
        headline=f"it was ended by its time limit of {span(limit)}",
        text=f"Slurm ended it after {span(case.seconds)}, which was its time limit.{row}{known}",
        advice=advice,
        changes=lines.time(case, _ROOM * longest, why) if _ROOM * longest > limit else (),
        figures={"seconds": float(case.seconds), "limit": float(limit), "before": float(again)},
    )


RULE = Rule(
    name="timeout",
    title="Ended by its time limit",
    severity=BAD,
    about="Slurm ends a job at its time limit, whatever it is doing. What it has not written by then is lost.",
    needs="How the job ended. Earlier runs of the same work (user, account, name) tell how long it takes.",
    exempt="Jobs that have not ended, and interactive ones.",
    cure="Ask for more time, or write checkpoints.",
    false_positives="Jobs that are meant to run until they are ended, and go on in the next one from a checkpoint.",
    thresholds=(Threshold("runs", 20, RUNS, "Earlier runs that are looked at."),),
    hides=("failing_again", "near_timeout", "time_request"),
    spares=spares,
    lacks=common.vanished,
    fires=fires,
)
