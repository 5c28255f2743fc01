# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document of a cluster over a period, and the two pages of a month for those who pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from slurmscope.findings.cost import Prices
from slurmscope.findings.judgement import GPU_CORES
from slurmscope.reports import allocations, cells, usage
from slurmscope.reports.availability import Availability, availability, look_back
from slurmscope.reports.document import (
    FINE,
    NOTE,
    Cell,
    Chart,
    Column,
    Document,
    Level,
    Section,
    Series,
    Sheet,
    Table,
    Verdict,
)
from slurmscope.reports.holder import compared, idle_words, kept_since, over_time, splits, usage_data
from slurmscope.reports.period import Period
from slurmscope.reports.sums import Sum, Usage, first_day
from slurmscope.settings import Allocation
from slurmscope.store.protocol import COARSE, MIDDLE, Point, Store
from slurmscope.totals import WHOLE
from slurmscope.usage import DAY
from slurmscope.words import amount, hours, listed, number, percent, span

_MOST_REASONS = 8
_MOST_PEOPLE = 10
_MOST_ACCOUNTS = 20  # in the two pages, of which the second has room
_LEAST_HOURS = 100.0  # core-hours of somebody whose use of them is compared with others'
_MOST_CHARTS = 2  # of allocations, in the two pages
_HALF = 0.5


class ClusterFacts(msgspec.Struct, kw_only=True):
    cluster: str
    period: Period
    now: int
    prices: Prices
    used: Usage
    before: Usage | None  # None: not all of it is kept
    since: int  # the day since when anything is kept, of the period and the one before
    points: Sequence[Point]  # of the whole cluster, of an hour each
    availability: Availability
    promised: Sequence[allocations.Progress]
    allocations: Sequence[Allocation]
    sheet: Callable[[], Sheet]  # all of it
    told: bool = True  # with what is for scripts


SPLITS = ("account", "user", "partition", "qos")
MONTH_SPLITS = ("account", "partition")


def cluster_facts(
    store: Store,
    cluster: str,
    period: Period,
    prices: Prices,
    promised: Sequence[Allocation],
    now: int,
    names: Sequence[str] = SPLITS,
    *,
    told: bool = True,
) -> ClusterFacts:
    """`names` are those by which the document tells of usage."""
    day = min(period.until - 1, now // DAY)
    end = min(period.end, now)
    here = [one for one in promised if allocations.applies(one, cluster, period)]
    changes = store.node_changes(cluster, look_back(period.start), end)
    since, only = first_day(store, period, cluster), {"cluster": cluster}
    return ClusterFacts(
        cluster=cluster,
        period=period,
        now=now,
        prices=prices,
        used=Usage(store, period, only) if told else Usage(store, period, only, names),
        before=Usage(store, period.before, only, names) if since == period.before.since else None,
        since=since,
        points=_points(store, cluster, period),
        availability=availability(store.nodes(cluster), changes, period.start, end),
        promised=[allocations.progress(store, one, prices, day) for one in here],
        allocations=here,
        sheet=partial(usage.sheet, store, period, only),
        told=told,
    )


def _points(store: Store, cluster: str, period: Period) -> list[Point]:
    """Means of an hour; of the last days, of which there are none yet, those of five minutes."""
    found = store.points(cluster, WHOLE, COARSE, period.start, period.end)
    last = found[-1].time + COARSE if found else period.start
    return [*found, *store.points(cluster, WHOLE, MIDDLE, last, period.end)]


def known(facts: ClusterFacts) -> bool:
    return any(facts.used.total().amounts) or bool(facts.points)


# --- the whole --------------------------------------------------------------------------------------------------------


def cluster_document(facts: ClusterFacts) -> Document:
    period, found, before = facts.period, facts.used.total(), _before(facts)
    sections = [
        Section("In figures", (usage.key_table(found, before, facts.prices, period),), half=True),
        Section("What became of the jobs", (usage.outcome_table(found, before),), half=True),
        *_allocated(facts),
        *_occupancy(facts),
        *over_time(facts.used, period, _own(facts)),
        Section("What could be used", (_availability_table(facts.availability, _MOST_REASONS * 3),)),
        *splits(facts.used, facts.before, SPLITS, facts.prices),
        Section("The best and the least used", (_use_table(facts),)),
    ]
    return _document(facts, "cluster", tuple(sections))


def _before(facts: ClusterFacts) -> Sum | None:
    return None if facts.before is None else facts.before.total()


def _own(facts: ClusterFacts) -> list[Allocation]:
    """What is promised of this cluster as a whole."""
    return [one for one in facts.allocations if one.cluster and not one.account]


def _document(facts: ClusterFacts, kind: str, sections: tuple[Section, ...]) -> Document:
    return Document(
        kind=kind,
        title=f"{facts.cluster}, {facts.period.words}",
        subtitle=f"{amount(facts.period.days, 'day')}, against {facts.period.before_words}"
        + kept_since(facts.since, facts.period),
        made=facts.now,
        verdict=_verdict(facts),
        sections=sections,
        data=_data(facts) if facts.told else {},
        sheet=facts.sheet,
    )


def _verdict(facts: ClusterFacts) -> Verdict:
    found = facts.used.total()
    amounts = found.amounts
    shares = (("GPUs", _occupied(facts.points, "gpus")), ("cores", _occupied(facts.points, "cpus")))
    busy = [f"{percent(share)} of its {name}" for name, share in shares if share is not None]
    used = [
        hours(seconds, of) for seconds, of in ((amounts.gpu_seconds, "GPU"), (amounts.cpu_seconds, "core")) if seconds
    ]
    if busy:
        headline = f"{facts.cluster} had {listed(busy)} allocated"
    else:
        headline = f"{facts.cluster} gave {listed(used)}" if used else f"Nothing ran on {facts.cluster}"
    sentences = [f"{listed(used)} were given." if busy and used else "", compared(found, _before(facts), facts.period)]
    if found.wait is not None:
        sentences.append(f"Jobs waited {span(found.wait)} on average.")
    if facts.availability.share is not None:
        sentences.append(f"{percent(facts.availability.share)} of the nodes' time could be used.")
    sentences.append(idle_words(found))
    level = cells.level_of(_in_use(found)) if _in_use(found) is not None else FINE
    return Verdict(level if used else NOTE, headline, " ".join(filter(None, sentences)))


# --- the month --------------------------------------------------------------------------------------------------------


def month_document(facts: ClusterFacts) -> Document:
    """Two pages: what was used against what was promised, how full it was, how long people waited, and who they are."""
    found, before = facts.used.total(), _before(facts)
    people = usage.ranked(facts.used.named("account"))
    left = f"and {len(people) - _MOST_ACCOUNTS} more" if len(people) > _MOST_ACCOUNTS else ""
    then = None if facts.before is None else facts.before.named("account")
    who = usage.usage_table("by_account", "account", people[:_MOST_ACCOUNTS], "account", left, then)
    sections = [
        Section("In figures", (usage.key_table(found, before, facts.prices, facts.period),), half=True),
        Section("What could be used", (_availability_table(facts.availability, _MOST_REASONS),), half=True),
        *_allocated(facts, _MOST_CHARTS),
        *_occupancy(facts),
        Section("Who used it", (who,)),
        *[one for one in splits(facts.used, facts.before, ("partition",), facts.prices) if one.title != "By GPU"],
    ]
    return _document(facts, "month", tuple(sections))


# --- the parts --------------------------------------------------------------------------------------------------------


def _allocated(facts: ClusterFacts, most: int = 12) -> list[Section]:
    """The cluster's own first, each with its chart; accounts' in one table."""
    whole = [one for one in facts.promised if not one.allocation.account]
    accounts = [one for one in facts.promised if one.allocation.account]
    sections = [
        Section(
            f"{one.unit} against what is allocated",
            (msgspec.structs.replace(allocations.chart(one, f"allocation_{at}"), title=""),),
        )
        for at, one in enumerate(whole[:most])
    ]
    rest = [*whole[most:], *accounts]
    if rest:
        sections.append(Section("Allocations", (allocations.table(rest, _MOST_PEOPLE),)))
    return sections


def _occupancy(facts: ClusterFacts) -> list[Section]:
    """How many jobs had, beside how many there are and how many were promised: three different things."""
    sections = []
    for name, title, resource in (("gpus", "GPUs allocated", "gpu"), ("cpus", "Cores allocated", "core")):
        days = _by_day(facts.points, f"{name}_allocated")
        totals = _by_day(facts.points, name)
        if not any(value for value in totals.values()):
            continue
        most = max(totals.values())
        levels = [Level(f"there {number(most)}", most), *_promises(facts, resource)]
        every = range(facts.period.since, facts.period.until)
        values = tuple(days.get(one) for one in every)
        times = tuple(one * DAY for one in every)
        share = _occupied(facts.points, name)
        note = "" if share is None else f"{percent(share)} of those that are there, on average."
        chart = Chart(
            f"{name}_in_use", "", title.split()[0], times, DAY, (Series("allocated", values),), tuple(levels), note
        )
        sections.append(Section(title, (chart,), half=True))
    return sections


def _promises(facts: ClusterFacts, resource: str) -> list[Level]:
    return [
        msgspec.structs.replace(one, name=one.name.replace("allocated", "promised"))
        for one in allocations.levels(_own(facts), resource, facts.period)
    ]


def _by_day(points: Sequence[Point], name: str) -> dict[int, float]:
    sums: dict[int, tuple[float, int]] = {}
    for one in points:
        if name in one.values:
            total, count = sums.get(one.time // DAY, (0.0, 0))
            # an hour weighs as much as twelve times five minutes
            weight = one.step // MIDDLE or 1
            sums[one.time // DAY] = total + one.values[name] * weight, count + weight
    return {day: total / count for day, (total, count) in sums.items()}


def _occupied(points: Sequence[Point], name: str) -> float | None:
    there = used = 0.0
    for one in points:
        weight = one.step // MIDDLE or 1
        there += one.values.get(name, 0.0) * weight
        used += one.values.get(f"{name}_allocated", 0.0) * weight
    return used / there if there else None


def _availability_table(found: Availability, most: int) -> Table:
    columns = (Column("why", ""), Column("node_seconds", "node-hours", True), Column("share", "of all"))
    total = found.node_seconds
    usable = total - sum(found.lost.values())
    reasons = list(found.lost.items())
    rows = [("could be used", usable), *reasons[:most]]
    if rest := sum(seconds for _, seconds in reasons[most:]):
        rows.append((f"{len(reasons) - most} other reasons", rest))
    return Table(
        "availability",
        columns,
        tuple(
            (cells.words(why), cells.hours(seconds), cells.meter(seconds / total if total else None, judged=False))
            for why, seconds in rows
        )
        if total
        else (),
        empty="nothing is kept of the nodes in that time",
    )


def _use_table(facts: ClusterFacts) -> Table:
    """Of those who used much, who used it best and who least."""
    columns = (
        Column("user", "user"),
        Column("core_seconds", "core-hours", True),
        Column("gpu_seconds", "GPU-hours", True),
        Column("idle", "held and not used, in core-hours", True),
        Column("share", "in use"),
    )
    rows = [(name, one, _in_use(one)) for name, one in facts.used.named("user").items()]
    large = [
        (name, one, share)
        for name, one, share in rows
        if share is not None and usage.weight(one) >= _LEAST_HOURS * 3600 and _known_enough(one)
    ]
    large.sort(key=lambda row: (-row[2], row[0]))
    shown = large if len(large) <= _MOST_PEOPLE else [*large[: _MOST_PEOPLE // 2], *large[-_MOST_PEOPLE // 2 :]]
    return Table(
        "by_use",
        columns,
        tuple(
            (
                Cell(name, name, link=f"user:{name}"),
                cells.hours(one.amounts.cpu_seconds),
                cells.hours(one.amounts.gpu_seconds),
                cells.hours((one.cpu_idle or 0.0) + GPU_CORES * (one.gpu_idle or 0.0)),
                cells.meter(share),
            )
            for name, one, share in shown
        ),
        f"Of those who used {number(_LEAST_HOURS)} core-hours or more; a GPU counts as {GPU_CORES} cores.",
    )


def _known_enough(found: Sum) -> bool:
    """What is known of a small part says little of somebody."""
    return all(share is None or share >= _HALF for share in (found.cpu_known, found.gpu_known))


def _in_use(found: Sum) -> float | None:
    """Of cores and GPUs together, as far as it is known."""
    amounts = found.amounts
    known_ = amounts.cpu_known_seconds + GPU_CORES * amounts.gpu_known_seconds
    return (amounts.cpu_used_ms + GPU_CORES * amounts.gpu_used_ms) / 1000 / known_ if known_ else None


def _data(facts: ClusterFacts) -> dict[str, Any]:
    return {
        "cluster": facts.cluster,
        **usage_data(facts.used, facts.before, facts.period, facts.prices),
        "availability": facts.availability,
        "cpus_allocated": _occupied(facts.points, "cpus"),
        "gpus_allocated": _occupied(facts.points, "gpus"),
        "allocations": [allocations.data(one) for one in facts.promised],
    }
