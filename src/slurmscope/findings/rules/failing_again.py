# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The same work fails time after time."""

from collections import Counter
from itertools import takewhile

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.past import by_array, same_array
from slurmscope.findings.rule import BAD, RUNS, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, listed, moment

_FAILED = frozenset({"FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
# These say nothing of the work: somebody or something else ended it.
_OTHERWISE = frozenset({"CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED", "VANISHED", "DEADLINE"})


def spares(case: Case, limits: Limits) -> str | None:
    return common.unended(case, limits) or common.unstarted(case, limits) or common.watched(case, limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    life = case.life
    if life.state not in _FAILED:
        return None
    told = by_array(
        one
        for one in case.past.same_work(life)
        if one.state not in _OTHERWISE and one.started and not same_array(one, life)
    )
    row = [life, *takewhile(lambda one: one.state in _FAILED, told)]
    last = next((one for one in told if one.state == common.COMPLETED), None)
    if len(row) < limits["runs"]:
        return None
    states = [f"{count} x {state}" for state, count in Counter(one.state for one in row).most_common()]
    worked = f" It last completed as job {last.id} at {moment(last.end_time)}." if last is not None else ""
    return Finding(
        headline=f"this work failed {len(row)} times in a row",
        text=f"The last {amount(len(row), 'run')} by this name failed ({listed(states)}), since "
        f"{moment(row[-1].end_time)}.{worked}",
        advice="Look at the output before the next run"
        + (", and at what has changed since it last completed." if last is not None else ".")
        + " Try it with a small input, in a short job, before it is submitted again as a whole.",
        waste=Waste(case.cpu_seconds, case.gpu_seconds, float((life.memory or 0) * case.seconds)),
        figures={"runs": float(len(row))},
    )


RULE = Rule(
    name="failing_again",
    title="The same work fails again and again",
    severity=BAD,
    about="A script that failed three times will fail the fourth time, and take its place in the queue for it.",
    needs="How the job ended, and earlier runs of the same work (user, account, name).",
    exempt="Jobs that have not ended or not run, and interactive ones. Runs that were cancelled or preempted, or lost "
    "by a node that failed, are left out; so are other tasks of the same array. An earlier array counts once, and "
    "not at all if one of its tasks completed.",
    cure="Look at the output of the first that failed.",
    false_positives="Different work by one name (run, job.sh). Programs that end with a status other than 0 when all "
    "is well, and jobs that are meant to run into their time limit.",
    thresholds=(Threshold("runs", 3, RUNS, "Told from so many failures in a row on, this one among them."),),
    spares=spares,
    lacks=common.vanished,
    fires=fires,
)
