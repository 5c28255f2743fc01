# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and charts of who used what, the same in the reports of a user, an account and a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.judgement import GPU_CORES
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Chart, Column, Level, Series, Sheet, Table
from slurmscope.reports.period import Period
from slurmscope.reports.sums import Sum, each
from slurmscope.store.protocol import Store
from slurmscope.usage import AMOUNTS, DAY, KEYS, UNTYPED, ZERO
from slurmscope.words import date, number, percent

Row = tuple[str, Sum]

_COLUMNS = (
    Column("jobs", "jobs ended", True),
    Column("failed", "failed", True),
    Column("core_seconds", "core-hours", True),
    Column("cpu_share", "CPU time in use"),
    Column("gpu_seconds", "GPU-hours", True),
    Column("gpu_share", "GPU time in use"),
    Column("wait_seconds", "mean wait", True),
)


def usage_table(
    name: str, title: str, rows: Sequence[Row], kind: str = "", note: str = "", before: Mapping[str, Sum] | None = None
) -> Table:
    """One row for each. `kind` is what the names are of, for pages that link. With `before`, how much more or less."""
    gpus = any(one.amounts.gpu_seconds for _, one in rows)
    shown = [at for at, column in enumerate(_COLUMNS, 1) if gpus or not column.name.startswith("gpu")]
    columns = (Column(name.removeprefix("by_"), title), *(_COLUMNS[at - 1] for at in shown))
    found = []
    for label, one in rows:
        row = _row(label, one, kind)
        found.append((row[0], *(row[at] for at in shown), *_compared(one, label, before)))
    against = () if before is None else (Column("change", "hours against before", True),)
    return Table(name, (*columns, *against), tuple(found), note)


def _compared(one: Sum, label: str, before: Mapping[str, Sum] | None) -> tuple[Cell, ...]:
    return () if before is None else (_change(one, before.get(label)),)


def _row(label: str, found: Sum, kind: str) -> tuple[Cell, ...]:
    amounts = found.amounts
    return (
        Cell(label or "none", label, link=f"{kind}:{label}" if kind and label else ""),
        cells.count(amounts.ended),
        cells.share(found.failed_share),
        cells.hours(amounts.cpu_seconds),
        cells.meter(found.cpu_share),
        cells.hours(amounts.gpu_seconds or None),
        cells.meter(found.gpu_share) if amounts.gpu_seconds else Cell(""),
        cells.seconds(found.wait),
    )


def weight(found: Sum) -> float:
    """By which many are put in order: a GPU weighs as much as the cores that come with one."""
    return found.amounts.cpu_seconds + GPU_CORES * found.amounts.gpu_seconds


def ranked(sums: Mapping[str, Sum]) -> list[Row]:
    """The largest first."""
    return sorted(sums.items(), key=lambda one: (-weight(one[1]), one[0]))


def _change(now: Sum, before: Sum | None) -> Cell:
    gpus = bool(now.amounts.gpu_seconds)
    one = now.amounts.gpu_seconds if gpus else now.amounts.cpu_seconds
    other = 0 if before is None else before.amounts.gpu_seconds if gpus else before.amounts.cpu_seconds
    return change(one, other)


def change(now: float | None, before: float | None) -> Cell:
    """How much more or less than before; a dash where that is not known."""
    if not before or now is None:
        return Cell("new" if now and before == 0 else cells.DASH)
    share = now / before - 1
    return Cell("as before" if abs(share) < 0.005 else f"{share * 100:+,.0f} %".replace("-", "−"), share)


def change_words(now: float, before: float, than: str) -> str:
    """`12 % more than in the 30 days before`; empty where nothing was before."""
    if not before:
        return ""
    share = now / before - 1
    if abs(share) < 0.01:
        return f"as much as in {than}"
    if share > 2:
        return f"{number(now / before)} times as much as in {than}"
    return f"{abs(share) * 100:.0f} % {'more' if share > 0 else 'less'} than in {than}"


def gpu_table(sums: Mapping[str, Sum], prices: Prices) -> Table:
    """By type of GPU. `sums` are by type."""
    unit = prices.unit
    columns = (
        Column("gpu_type", "GPU"),
        Column("gpu_seconds", "GPU-hours", True),
        *((Column("units", f"{unit}-hours", True),) if unit != "GPU" else ()),
        Column("gpu_share", "in use"),
        Column("jobs", "jobs ended", True),
    )
    rows = []
    for kind, found in ranked(sums):
        if not kind:
            continue
        extra = (cells.hours(prices.units({kind: found.amounts.gpu_seconds})),) if unit != "GPU" else ()
        name = "no type" if kind == UNTYPED else kind
        rows.append(
            (
                Cell(name, kind),
                cells.hours(found.amounts.gpu_seconds),
                *extra,
                cells.meter(found.gpu_share),
                cells.count(found.amounts.ended),
            )
        )
    return Table("by_gpu_type", columns, tuple(rows), empty="no GPU was used")


def daily(
    name: str, held: Mapping[int, float], busy: Mapping[int, float], period: Period, levels: Sequence[Level] = ()
) -> Chart:
    """Hours of each day, and what of them was in use, which may be unknown. A day of which nothing is kept is none, and
    not unknown: usage is kept of all."""
    days = range(period.since, period.until)
    series = [Series("held" if busy else "hours", tuple(held.get(day, 0.0) for day in days))]
    if busy:
        # where nothing was held, nothing was in use
        series.append(Series("in use", tuple(busy.get(day, None if held.get(day) else 0.0) for day in days)))
    note = "The last day is not over." if period.going_on else ""
    return Chart(name, "", "hours", tuple(day * DAY for day in days), DAY, tuple(series), tuple(levels), note)


def sheet(store: Store, period: Period, only: Mapping[str, str]) -> Sheet:
    """All of it, row by row, for whoever counts by something else."""
    numbers = tuple(Column(name, name, True) for name in AMOUNTS)
    rows = (
        (
            Cell(date(int(row.key[0]) * DAY), date(int(row.key[0]) * DAY)),
            *(Cell(str(one), one) for one in row.key[1:]),
            *(Cell(str(one), one) for one in row.amounts),
        )
        for row in each(store, period, only)
    )
    return Sheet((*(Column(name, name) for name in KEYS), *numbers), rows)


def outcome_table(found: Sum, before: Sum | None) -> Table:
    """What became of the jobs that ended."""
    columns = (
        Column("outcome", ""),
        Column("jobs", "jobs", True),
        Column("share", "of all"),
        Column("before", "before", True),
    )
    now, then = found.amounts, None if before is None else before.amounts
    rows = []
    for name, title in (
        ("completed", "completed"),
        ("failed", "failed"),
        ("timed_out", "ran out of time"),
        ("cancelled", "cancelled"),
        ("other", "preempted, requeued, lost"),
    ):
        count = getattr(now, name)
        share = count / now.ended if now.ended else None
        rows.append(
            (
                Cell(title, name),
                cells.count(count),
                cells.meter(share, judged=False),
                cells.count(None if then is None else getattr(then, name)),
            )
        )
    return Table("outcomes", columns, tuple(rows))


def key_table(found: Sum, before: Sum | None, prices: Prices, period: Period) -> Table:
    """The few figures that a reader takes away. Without `before`, what was before is not known."""
    columns = (
        Column("figure", ""),
        Column("value", period.words, True),
        Column("before", period.before_words, True),
        Column("change", "change", True),
    )
    gpus = bool(found.amounts.gpu_seconds or (before is not None and before.amounts.gpu_seconds))
    then = _UNKNOWN if before is None else before
    figures = [
        ("jobs", "Jobs ended", *_counted(found, before, "ended", cells.count)),
        ("core_seconds", "Core-hours", *_counted(found, before, "cpu_seconds", cells.hours)),
        ("cpu_share", "CPU time in use", *_shares(found.cpu_share, then.cpu_share)),
        ("cpu_idle_seconds", "Core-hours idle", *_idle(found.cpu_idle, then.cpu_idle, found.cpu_known, then.cpu_known)),
    ]
    if gpus:
        figures += [
            ("gpu_seconds", "GPU-hours", *_counted(found, before, "gpu_seconds", cells.hours)),
            ("gpu_share", "GPU time in use", *_shares(found.gpu_share, then.gpu_share)),
            (
                "gpu_idle_seconds",
                "GPU-hours idle",
                *_idle(found.gpu_idle, then.gpu_idle, found.gpu_known, then.gpu_known),
            ),
        ]
    figures += [
        (
            "wait_seconds",
            "Mean wait",
            cells.seconds(found.wait),
            cells.seconds(then.wait),
            change(found.wait, then.wait),
        ),
        ("failed", "Failed or out of time", *_shares(found.failed_share, then.failed_share)),
        *_costs(found, before, prices),
    ]
    known = [
        f"{percent(share)} of the {name} time"
        for name, share in (("CPU", found.cpu_known), ("GPU", found.gpu_known if gpus else None))
        if share and share < _NEARLY_ALL
    ]
    note = f"What is in use and idle is known of {' and '.join(known)}." if known else ""
    return Table("figures", columns, tuple((Cell(title, name), *rest) for name, title, *rest in figures), note)


_UNKNOWN = Sum(ZERO, {})
_NEARLY_ALL = 0.9


def _counted(
    found: Sum, before: Sum | None, name: str, shown: Callable[[float | None], Cell]
) -> tuple[Cell, Cell, Cell]:
    now = getattr(found.amounts, name)
    then = None if before is None else getattr(before.amounts, name)
    return shown(now), shown(then), change(now, then)


def _idle(now: float | None, then: float | None, *known: float | None) -> tuple[Cell, Cell, Cell]:
    """Compared only where nearly all is known of both: else more would mean that more is known."""
    comparable = all(share is not None and share >= _NEARLY_ALL for share in known)
    return cells.hours(now), cells.hours(then), change(now, then) if comparable else Cell(cells.DASH)


def _shares(now: float | None, then: float | None) -> tuple[Cell, Cell, Cell]:
    difference = None if now is None or then is None else now - then
    points = 0 if difference is None else round(difference * 100)
    word = "point" if abs(points) == 1 else "points"
    told = cells.DASH if difference is None else f"{points:+} {word}".replace("-", "−") if points else "as before"
    return cells.share(now), cells.share(then), Cell(told, difference)


def _costs(found: Sum, before: Sum | None, prices: Prices) -> list[tuple[str, str, Cell, Cell, Cell]]:
    now, then = found.cost(prices), Cost() if before is None else before.cost(prices)
    rows = []
    for name, title, one, other, unit, of in (
        ("energy_joules", "Energy, about", now.energy_joules, then.energy_joules, "kWh", 3.6e6),
        ("co2_grams", "CO2, about", now.co2_grams, then.co2_grams, "kg", 1000.0),
        ("money", "Money", now.money, then.money, now.currency, 1.0),
    ):
        if one is None:
            continue
        told = [Cell(cells.DASH if value is None else f"{number(value / of)} {unit}", value) for value in (one, other)]
        rows.append((name, title, told[0], told[1], change(one, other)))
    return rows
