# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Many very short jobs of the same kind."""

from statistics import median

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import ran
from slurmscope.findings.rule import NOTE, RUNS, SECONDS, Finding, Limits, Rule, Threshold
from slurmscope.words import span


def spares(case: Case, limits: Limits) -> str | None:
    life = case.life
    return (
        common.unended(case, limits)
        or common.unstarted(case, limits)
        or ("it did not complete" if life.state not in (common.COMPLETED, "VANISHED") else None)
    )


def fires(case: Case, limits: Limits) -> Finding | None:
    most = limits["short_seconds"]
    if case.seconds >= most:
        return None
    lately = case.past.lately(case.life, int(limits["window_seconds"]))
    took = [ran(one, case.now) for one in lately if one.state == common.COMPLETED and one.started]
    short = [seconds for seconds in took if seconds < most]
    if len(short) < limits["jobs"]:
        return None
    packed = (
        "Do many of them in one task of the array: a loop over some hundred inputs, or GNU parallel, and as many fewer "
        "tasks."
        if case.life.array_id is not None
        else "Do many of them in one job: a loop over the inputs, GNU parallel, or an array (--array) of which each "
        "task does some hundred."
    )
    return Finding(
        headline=f"one of {len(short)} or more jobs that took less than {span(most)}",
        text=f"At least {len(short)} jobs of this name ended within {span(limits['window_seconds'])}, each in less "
        f"than {span(most)}; half of them took {span(median(short))} or less.",
        advice=packed,
        figures={"jobs": float(len(short)), "seconds": float(median(short))},
    )


RULE = Rule(
    name="short_jobs",
    title="Many very short jobs",
    severity=NOTE,
    about="To start and to end a job costs Slurm and the node seconds, and its place in the queue minutes. A job of a "
    "few seconds is mostly that, and thousands of them slow the scheduler down for all.",
    needs="What else the user ran lately by the same name.",
    exempt="Jobs that did not complete, and those that took longer than `short_seconds`.",
    cure="Put the work of many into one job, so that each takes at least some minutes.",
    false_positives="A workflow engine that has many short steps by one name: most can group them.",
    thresholds=(
        Threshold("jobs", 50, RUNS, "Told where there were at least so many …"),
        Threshold("short_seconds", 60, SECONDS, "… that took less than this …"),
        Threshold("window_seconds", 86400, SECONDS, "… within this time."),
    ),
    spares=spares,
    lacks=common.vanished,
    fires=fires,
)
