# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It asked for far more time than it and its like take."""

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import ran
from slurmscope.findings.rule import NOTE, RUNS, SECONDS, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, percent, span

_ROOM = 1.3  # times the longest: what is advised
_TOLD = frozenset({common.COMPLETED, "TIMEOUT"})  # runs that say how long the work takes


def spares(case: Case, limits: Limits) -> str | None:
    limit = case.life.time_limit
    return (
        common.unended(case, limits)
        or ("it did not complete" if case.life.state not in (common.COMPLETED, "VANISHED") else None)
        or common.too_short(case, limits)
        or common.watched(case, limits)
        or ("it has no time limit" if limit is None else None)
        or ("its time limit is short" if limit is not None and limit < limits["least_limit_seconds"] else None)
    )


def fires(case: Case, limits: Limits) -> Finding | None:
    life, limit = case.life, case.life.time_limit or 0
    if not limit or case.seconds >= limits["share"] * limit:
        return None
    earlier = [ran(one, case.now) for one in case.past.same_work(life) if one.state in _TOLD][: int(limits["runs"])]
    longest = max([case.seconds, *earlier])
    share, wanted = longest / limit, lines.rounded_time(_ROOM * longest)
    if share >= limits["share"] or wanted >= limit:
        return None
    more = f" The longest of {amount(len(earlier), 'earlier run')} took {span(max(earlier))}." if earlier else ""
    return Finding(
        headline=f"it took {percent(case.seconds / limit)} of the time that it asked for",
        text=f"It ran for {span(case.seconds)} of {span(limit)}.{more}",
        advice="Ask for what such a job takes, and some more: shorter jobs fit into gaps between others, and start "
        "earlier.",
        changes=lines.time(case, wanted, f"it takes {span(longest)} at most"),
        figures={"share": share, "seconds": float(case.seconds), "limit": float(limit), "longest": float(longest)},
    )


RULE = Rule(
    name="time_request",
    title="Far more time than it takes",
    severity=NOTE,
    about="Slurm plans with the time limit. A job that asks for days and takes hours waits for a gap of days. "
    "It holds nothing longer than it runs: nothing is wasted, and this is never more than a note.",
    needs="How long the job ran. Earlier runs of the same work (user, account, name) are taken into account.",
    exempt="Jobs that did not complete, interactive ones, those that ran for less than `least_seconds` or have a limit "
    "shorter than `least_limit_seconds`.",
    cure="Ask for about 1.3 times what the longest run took.",
    false_positives="Work whose time depends on its input, of which no earlier run is known. Partitions with one "
    "limit for all, where asking for less starts nothing earlier.",
    thresholds=(
        Threshold("share", 0.3, SHARE, "Told where it and its latest runs took less than this share of its limit."),
        Threshold("runs", 10, RUNS, "Earlier runs that are looked at: the longest counts."),
        Threshold("least_limit_seconds", 14400, SECONDS, "Jobs with a shorter limit are not judged."),
        common.least(900),
    ),
    spares=spares,
    lacks=common.vanished,
    fires=fires,
)
