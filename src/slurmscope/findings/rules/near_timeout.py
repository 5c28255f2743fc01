# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It still runs, and its time limit is near."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import ran
from slurmscope.findings.rule import NOTE, RUNS, SECONDS, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.life import Life
from slurmscope.model import RUNNING
from slurmscope.words import moment, percent, span

_GRACE = 3600  # seconds that Slurm may let a job run beyond its limit (OverTimeLimit)


def spares(case: Case, limits: Limits) -> str | None:
    limit = case.life.time_limit
    return (
        ("it does not run" if case.life.state != RUNNING or not case.life.started else None)
        or common.watched(case, limits)
        or ("it has no time limit" if limit is None else None)
        or ("its time limit is short" if limit is not None and limit < limits["least_limit_seconds"] else None)
    )


def lacks(case: Case, limits: Limits) -> str | None:
    end = _end(case.life)
    # Slurm has ended it by now, and nobody has looked since
    old = end is not None and case.now > end + _GRACE
    return "whether it still runs" if old or case.life.gone_time is not None else None


def fires(case: Case, limits: Limits) -> Finding | None:
    limit, end = case.life.time_limit, _end(case.life)
    if not limit or end is None:
        return None
    left = max(0, end - case.now)
    if case.seconds < limits["share"] * limit and left > limits["left_seconds"]:
        return None
    earlier = [ran(one, case.now) for one in common.completed(case, int(limits["runs"]))]
    if earlier and len(earlier) >= limits["runs"] and case.seconds <= max(earlier) < limit:
        return None
    return Finding(
        headline=f"its time limit ends it in {span(left)}" if left else "its time limit is over, and may end it now",
        text=f"It has run for {span(case.seconds)} of {span(limit)} ({percent(case.seconds / limit)}). "
        + (f"Slurm ends it at {moment(end)}." if left else f"Slurm may end it at any time since {moment(end)}."),
        advice="Let it write a checkpoint if it can. The operators of the cluster can give it more time while it runs; "
        "users cannot. Ask for more time the next time.",
        figures={"left": float(left), "seconds": float(case.seconds), "limit": float(limit), "end": float(end)},
    )


def _end(life: Life) -> int | None:
    """When its time is up."""
    if life.end_time is not None or life.start_time is None or life.time_limit is None:
        return life.end_time
    return life.start_time + life.time_limit + (life.suspended_seconds or 0)


RULE = Rule(
    name="near_timeout",
    title="Near its time limit",
    severity=NOTE,
    about="Slurm ends a job at its time limit, whatever it is doing. While it runs something can still be done.",
    needs="That the job runs, since when, and its limit. Earlier runs of the same work (user, account, name) tell "
    "whether it will end by itself.",
    exempt="Jobs that do not run, interactive ones, those with a limit shorter than `least_limit_seconds`; and work of "
    "which the last `runs` runs completed, for as long as the longest of them took.",
    cure="Write a checkpoint, or ask the operators for more time.",
    false_positives="A job that ends by itself just before its limit, and of which no earlier run is known.",
    thresholds=(
        Threshold("share", 0.9, SHARE, "Told where this share of its time limit is gone, …"),
        Threshold("left_seconds", 900, SECONDS, "… or no more than this is left."),
        Threshold("runs", 3, RUNS, "So many completed runs tell how long it takes."),
        Threshold("least_limit_seconds", 3600, SECONDS, "Jobs with a shorter limit are not judged."),
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
