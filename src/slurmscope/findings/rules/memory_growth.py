# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The memory in use grew all the time."""

from __future__ import annotations

from statistics import correlation, linear_regression

import msgspec

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, BYTES, NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.summary import Moment
from slurmscope.words import percent, size, span

_STARTING = 600  # seconds in which a program reads its input; a tenth of its time where that is longer
_FEW = 20  # moments that say nothing of a trend
_MORE = 1.5  # times what it was in the middle: a leak that began with the job comes to nearly twice that
_STILL = 0.5  # of its speed: growth that is slower at the end is coming to rest


class _Trend(msgspec.Struct, frozen=True):
    speed: float  # bytes a second
    fit: float  # how well a straight line tells it, 0 to 1
    middle: float  # bytes, by that line
    end: float
    late_speed: float  # in the last quarter
    last: float  # bytes, as measured
    at: float


def spares(case: Case, limits: Limits) -> str | None:
    return common.too_short(case, limits) or common.watched(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    known = len(_points(case))
    enough = known >= _FEW and known >= limits["least_coverage"] * len(_later(case))
    return None if enough else "the memory that it used over time"


def fires(case: Case, limits: Limits) -> Finding | None:
    trend, limit = _trend(_points(case)), _limit(case)
    if trend is None or trend.speed <= 0 or trend.fit < limits["fit"] or trend.late_speed < _STILL * trend.speed:
        return None
    grown = trend.end - trend.middle
    much = limit is not None and grown >= limits["share"] * limit
    more = trend.middle > 0 and trend.end >= _MORE * trend.middle and grown >= limits["least_bytes"]
    if not (much or more):
        return None
    hour = f"{size(trend.speed * 3600)} an hour"
    text = f"It grew by {hour} without a pause, and came to {size(trend.last)}"
    text += f", {percent(trend.last / limit)} of what it has." if limit else "."
    severity, figures = NOTE, {"bytes_per_second": trend.speed, "fit": trend.fit, "grown": grown}
    if limit is not None and not case.life.ended:
        left = max(0.0, (limit - trend.last) / trend.speed - (case.now - trend.at))
        text += f" At that pace its limit is reached in {span(left)}."
        figures["seconds_left"] = left
        until = _until(case)
        severity = BAD if until is not None and left < until else NOTE
    return Finding(
        headline=f"its memory grew all the time, by {hour}",
        text=text,
        advice="Does the program keep what it does not need any more: results, logs, a graph of a model's training, "
        "caches without bounds? Write results out as they come. If the growth is needed, ask for the memory that its "
        "end will take, and write checkpoints.",
        figures=figures,
        severity=severity,
    )


def _later(case: Case) -> list[Moment]:
    """When it had started."""
    if not case.line:
        return []
    first, last = case.line[0].time, case.line[-1].time
    return [one for one in case.line if one.time >= first + max(_STARTING, (last - first) // 10)]


def _points(case: Case) -> list[tuple[float, float]]:
    return [(float(one.time), float(one.memory)) for one in _later(case) if one.memory is not None]


def _trend(points: list[tuple[float, float]]) -> _Trend | None:
    times, sizes = [time for time, _ in points], [used for _, used in points]
    late = max(_FEW // 4, len(points) // 4)
    if len(points) < _FEW or max(sizes) <= min(sizes):
        return None
    speed, base = linear_regression(times, sizes)
    middle = (times[0] + times[-1]) / 2
    return _Trend(
        speed,
        correlation(times, sizes) ** 2,
        base + speed * middle,
        base + speed * times[-1],
        linear_regression(times[-late:], sizes[-late:]).slope,
        sizes[-1],
        times[-1],
    )


def _limit(case: Case) -> int | None:
    if case.life.memory:
        return case.life.memory
    limits = [node.limit for node in case.summary.nodes if node.limit] if case.summary else []
    return sum(limits) if limits and len(limits) >= case.life.nodes else None


def _until(case: Case) -> int | None:
    """Seconds until its time is up."""
    start, limit = case.life.start_time, case.life.time_limit
    return None if start is None or limit is None else start + limit + (case.life.suspended_seconds or 0) - case.now


RULE = Rule(
    name="memory_growth",
    title="Memory that grows and grows",
    severity=NOTE,
    about="A program that never gives memory back ends at its limit, and all that it has done may be lost.",
    needs="The memory in use over time: from an agent on its nodes, `slurmscope run` or Prometheus.",
    exempt="Interactive jobs, and those that ran for less than `least_seconds`. The first ten minutes, and the first "
    "tenth of its time, are left out.",
    cure="Find what the program keeps; write results out as they come; write checkpoints.",
    false_positives="A program that gathers its results in memory, or reads its input bit by bit, grows by design and "
    "ends as it should.",
    thresholds=(
        Threshold("fit", 0.9, RATIO, "Told where a straight line fits the memory at least so well (r²), and …"),
        Threshold("share", 0.2, SHARE, "… it has grown by this share of the limit since the middle, or …"),
        Threshold("least_bytes", 1 << 30, BYTES, "… by half of what it was then, and by at least so much."),
        common.least(3600),
        common.COVERAGE,
    ),
    hides=("memory_close", "swap"),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
