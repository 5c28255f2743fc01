# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was used of what was promised, and where that leads by the end: years of GPUs, cores or the site's own unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import Any

import msgspec

from slurmscope.findings.cost import Prices
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Chart, Column, Level, Series, Table
from slurmscope.reports.period import Period
from slurmscope.reports.sums import begun
from slurmscope.settings import Allocation
from slurmscope.store.protocol import Store, UsageAsked
from slurmscope.usage import DAY, Amounts
from slurmscope.words import date as date_of
from slurmscope.words import number

YEAR = 365 * DAY
_EPOCH = date(1970, 1, 1)
_RECENT = 30  # days by which it goes on, until the end


class Progress(msgspec.Struct, frozen=True):
    allocation: Allocation
    unit: str  # GPU-years, core-years, RGU-years
    since: int  # days since 1970-01-01
    until: int
    first: int  # the day since when usage is kept
    used: tuple[float, ...]  # in all by the end of each day since then, up to today
    total: float
    expected: float  # by the end, if it goes on as in the last days

    @property
    def share(self) -> float:
        return self.total / self.allocation.amount


def applies(allocation: Allocation, cluster: str | None, period: Period) -> bool:
    """Whether it is of that cluster (None: of any), and of some of that time."""
    since, until = _days(allocation)
    return (cluster is None or allocation.cluster in ("", cluster)) and since < period.until and period.since < until


def _days(allocation: Allocation) -> tuple[int, int]:
    return (allocation.start - _EPOCH).days, (allocation.end - _EPOCH).days


def progress(store: Store, allocation: Allocation, prices: Prices, today: int) -> Progress:
    """Up to a day, which is among it: that of today, or the last of a period that is over."""
    since, until = _days(allocation)
    last = min(until, today + 1)
    cluster = {"cluster": allocation.cluster} if allocation.cluster else {}
    days: dict[int, float] = {}
    only = cluster | ({"account": allocation.account} if allocation.account else {})
    for found in store.usage(UsageAsked(since=since, until=last, by=("day", "gpu_type"), only=only)):
        day, kind = int(found.key[0]), str(found.key[1])
        days[day] = days.get(day, 0.0) + _years(allocation.resource, kind, found.amounts, prices)
    first = since
    if not begun(store, since, allocation.cluster or None):
        begins = store.first_used(since, last, allocation.cluster or None)
        first = last if begins is None else begins
    used = tuple(accumulate(days.get(day, 0.0) for day in range(first, last)))
    total = used[-1] if used else 0.0
    unit = {"gpu": "GPU", "core": "core", "unit": prices.unit}[allocation.resource]
    expected = total + _pace(days, first, last) * max(0, until - last)
    return Progress(allocation, f"{unit}-years", since, until, first, used, total, expected)


def _pace(days: Mapping[int, float], first: int, last: int) -> float:
    """A day, of the last ones that are over and known of; of today, where there is none before."""
    over = range(max(first, last - 1 - _RECENT), last - 1) or range(first, last)
    return sum(days.get(day, 0.0) for day in over) / len(over) if len(over) else 0.0


def _years(resource: str, kind: str, amounts: Amounts, prices: Prices) -> float:
    if resource == "core":
        return amounts.cpu_seconds / YEAR
    return (amounts.gpu_seconds if resource == "gpu" else prices.units({kind: amounts.gpu_seconds})) / YEAR


def words(found: Progress) -> str:
    """One sentence."""
    amount = found.allocation.amount
    whose = found.allocation.account or found.allocation.cluster
    used = f"{number(found.total)} of {number(amount)} {found.unit} ({found.share * 100:.0f} %)"
    told = f"{whose} has used {used}" if whose else f"All clusters have used {used}"
    if found.first > found.since:
        told += f" since {date_of(found.first * DAY)}, when what is kept begins"
    if len(found.used) >= found.until - found.first:
        return f"{told}."
    share = found.expected / amount * 100
    by = f"it comes to {number(found.expected)} by {found.allocation.end} ({share:.0f} %)"
    return f"{told}; at the pace of the last days {by}."


def chart(found: Progress, name: str) -> Chart:
    """What was used in all, against what was promised, to the end; the way there is a line of its own."""
    days = range(found.since, found.until)
    unknown = (None,) * (found.first - found.since)
    left = len(days) - len(unknown) - len(found.used)
    step = (found.expected - found.total) / left if left else 0.0
    series = [Series("used", (*unknown, *found.used, *(None,) * left))]
    if left and found.used:
        ahead = [found.total + step * at for at in range(1, left + 1)]
        series.append(Series("at this pace", (*unknown, *(None,) * (len(found.used) - 1), found.total, *ahead)))
    whose = found.allocation.account or found.allocation.cluster or "all clusters"
    return Chart(
        name,
        f"{found.unit} of {whose}",
        found.unit,
        tuple(day * DAY for day in days),
        DAY,
        tuple(series),
        (Level(f"allocated {number(found.allocation.amount)}", found.allocation.amount),),
        words(found),
    )


def table(all_of: Sequence[Progress], most: int = 50) -> Table:
    columns = (
        Column("whose", "allocation"),
        Column("unit", "unit"),
        Column("amount", "allocated", True),
        Column("used", "used", True),
        Column("share", "of it"),
        Column("expected", "by the end, at this pace", True),
        Column("end", "until", True),
    )
    rows = tuple(
        (
            cells.words(" on ".join(filter(None, (one.allocation.account, one.allocation.cluster))) or "all"),
            cells.words(one.unit),
            cells.count(one.allocation.amount),
            cells.count(one.total),
            cells.meter(one.share, judged=False),
            cells.count(one.expected),
            Cell(str(one.allocation.end), str(one.allocation.end)),
        )
        for one in sorted(all_of, key=lambda one: -one.share)[:most]
    )
    note = f"and {len(all_of) - most} more" if len(all_of) > most else ""
    return Table("allocations", columns, rows, note, "none is set ([[allocations]])")


def levels(promised: Sequence[Allocation], resource: str, period: Period) -> list[Level]:
    """What is promised, as so many of them all the time: a line in a chart of what is used a day."""
    found = []
    for one in promised:
        since, until = _days(one)
        if one.resource == resource and since < period.until and period.since < until:
            # years over the time of which they are
            amount = one.amount * YEAR / ((until - since) * DAY)
            found.append(Level(f"allocated {number(amount)}", amount))
    return found


def data(found: Progress) -> dict[str, Any]:
    """For scripts: times in seconds, amounts in years."""
    return {
        **msgspec.structs.asdict(found.allocation),
        "unit": found.unit,
        "since": found.since * DAY,
        "until": found.until * DAY,
        "kept_since": found.first * DAY,
        "used": found.total,
        "expected": found.expected,
        "by_day": found.used,
    }
