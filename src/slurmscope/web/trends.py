# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How full a cluster was, and how many jobs waited, over a day, a week or a month."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from slurmscope.reports import allocations
from slurmscope.reports.document import Chart, Level, Series
from slurmscope.reports.period import last_days
from slurmscope.settings import Allocation
from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Point, Store
from slurmscope.totals import WHOLE
from slurmscope.usage import DAY
from slurmscope.web.translation import Translation
from slurmscope.words import number

Span = Literal["1d", "7d", "30d"]
# days, seconds of a step of the chart, and the totals that it is made of: at most some 300 steps
SPANS: dict[Span, tuple[int, int, int]] = {
    "1d": (1, MIDDLE, MIDDLE),
    "7d": (7, COARSE, COARSE),
    "30d": (30, 3 * COARSE, COARSE),
}
TITLES: dict[Span, str] = {"1d": "day", "7d": "week", "30d": "month"}
_FINER = {COARSE: MIDDLE, MIDDLE: FINE}


class Trend(msgspec.Struct, frozen=True):
    """Means of each step; None where nothing is kept, which is never taken for nothing."""

    resource: str  # gpus, or cpus where there are none
    times: tuple[int, ...]
    step: int
    used: tuple[float | None, ...]
    there: tuple[float | None, ...]
    waiting: tuple[float | None, ...]


def trend(store: Store, cluster: str, asked: Span, now: int) -> Trend:
    days, step, kept = SPANS[asked]
    start = (now - days * DAY) // step * step
    points = _points(store, cluster, kept, start, now)
    step = _apart(points, step)
    start = (now - days * DAY) // step * step
    resource = "gpus" if any(one.values.get("gpus") for one in points) else "cpus"
    times = tuple(range(start, now, step))
    return Trend(
        resource=resource,
        times=times,
        step=step,
        used=_means(points, f"{resource}_allocated", times, step),
        there=_means(points, resource, times, step),
        waiting=_means(points, "jobs_pending", times, step),
    )


def _points(store: Store, cluster: str, kept: int, since: int, until: int) -> list[Point]:
    """Means of a step; of the last, which is not over yet, the finer ones of which it will be made."""
    found: list[Point] = []
    step: int | None = kept
    while step is not None:
        found += store.points(cluster, WHOLE, step, since, until)
        since = max([since, *(one.time + one.step for one in found[-1:])])
        step = _FINER.get(step)
        # without any coarser ones there may be more of the finer than a page can read
        since = max(since, until - 2 * kept) if step is not None else since
    return found


def _apart(points: Sequence[Point], step: int) -> int:
    """How long a step must be for most to have a point: where polls are far between, that they are is no gap."""
    times = sorted({one.time for one in points})
    distances = sorted(after - before for before, after in pairwise(times))
    usual = distances[len(distances) // 2] if distances else step
    return -(-usual // step) * step if usual > step else step


def _means(points: Sequence[Point], name: str, times: Sequence[int], step: int) -> tuple[float | None, ...]:
    sums: dict[int, tuple[float, int]] = {}
    for one in points:
        # a total that is not told is that of a cluster without such things, if anything was told
        value = one.values.get(name, 0.0)
        at = one.time // step * step
        total, weight = sums.get(at, (0.0, 0))
        sums[at] = total + value * one.step, weight + one.step
    return tuple(total / weight if weight else None for total, weight in (sums.get(at, (0.0, 0)) for at in times))


def charts(found: Trend, cluster: str, promised: Sequence[Allocation], now: int, t: Translation) -> tuple[Chart, Chart]:
    """What is in use, with two levels: how many there are, and how many are promised, which is something else."""
    last = next((value for value in reversed(found.there) if value is not None), None)
    levels = [] if last is None else [Level(t("there {count}", count=number(last)), last)]
    resource = "gpu" if found.resource == "gpus" else "core"
    own = [one for one in promised if one.cluster == cluster and not one.account]
    levels += [
        Level(t("allocation {count}", count=number(one.value)), one.value)
        for one in allocations.levels(own, resource, last_days(1, now))
    ]
    unit = t("GPUs") if resource == "gpu" else t("CPUs")
    title = t("GPUs in use") if resource == "gpu" else t("CPUs in use")
    used = Chart("in_use", title, unit, found.times, found.step, (Series(t("in use"), found.used),), tuple(levels))
    waiting = Series(t("waiting"), found.waiting)
    return used, Chart("waiting_jobs", t("Jobs that wait"), t("jobs"), found.times, found.step, (waiting,))
