# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The documents of a user and of an account: used, wasted, waited, failed; by what, and against the time before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from slurmscope.findings.case import Case
from slurmscope.findings.cost import Prices
from slurmscope.findings.judgement import Judgement
from slurmscope.life import Life
from slurmscope.reports import allocations, cells, largest, usage
from slurmscope.reports.document import FINE, NOTE, Block, Document, Paragraph, Section, Table, Verdict
from slurmscope.reports.found import found_table
from slurmscope.reports.period import Period
from slurmscope.reports.sums import Sum, Usage, first_day
from slurmscope.settings import Allocation
from slurmscope.store.protocol import Lives, Store
from slurmscope.usage import DAY
from slurmscope.words import amount, date, hours, listed, number, percent, span

_MOST_ROWS = 20
_NEARLY_ALL, _HALF = 0.9, 0.5
ADVICE = "`slurmscope report job` says what to change in each."
_LITTLE = 3600.0  # core-seconds and GPU-seconds that are not worth a word


Judged = Callable[[Sequence[Life], Sequence[Life]], tuple[Sequence[Case], Sequence[Judgement]]]
"""The first ones as they are judged, among all the others of theirs."""


class Looked(msgspec.Struct, frozen=True):
    """How many jobs are looked at, one by one."""

    lives: int = 10_000  # that ended in the period, the latest submitted, among which the largest are looked for
    judged: int = 100  # of the largest: to judge one takes half a millisecond
    waits: int = 3000  # of a partition's, from which it is told how long jobs wait


PAPER = Looked()
SCREEN = Looked(lives=1000, judged=20, waits=500)
"""Where somebody waits for it."""


class Holder(msgspec.Struct, frozen=True):
    """Whose usage it is."""

    kind: str  # user, account
    name: str
    cluster: str | None  # None: on all
    within: str | None = None  # of a user: only what was done in this account

    @property
    def only(self) -> dict[str, str]:
        more = {"cluster": self.cluster, "account": self.within}
        return {self.kind: self.name} | {name: value for name, value in more.items() if value is not None}

    @property
    def words(self) -> str:
        inside = "" if self.within is None else f" in the account {self.within}"
        return f"{self.kind} {self.name}{inside} on {'all clusters' if self.cluster is None else self.cluster}"


def holder_document(
    store: Store,
    holder: Holder,
    period: Period,
    prices: Prices,
    promised: Sequence[Allocation],
    now: int,
    judged: Judged,
    looked: Looked = PAPER,
    *,
    told: bool = True,
) -> Document | None:
    """None: nothing is kept of them in that time, nor in the time before. `told`: with what is for scripts."""
    since = first_day(store, period, holder.cluster)
    names = ["account", "partition", "qos"] if holder.kind == "user" else ["user", "partition", "qos"]
    names = [one for one in names if one not in holder.only]
    names += ["cluster"] if holder.cluster is None else []
    now_used = Usage(store, period, holder.only) if told else Usage(store, period, holder.only, names)
    # what is not kept is not less: it is not compared with
    then_used = Usage(store, period.before, holder.only, names) if since == period.before.since else None
    found, before = now_used.total(), None if then_used is None else then_used.total()
    if not any(found.amounts) and (before is None or not any(before.amounts)):
        return None
    lives, cut = _lives(store, holder, period, looked)
    ranked = largest.by_size(lives, now)
    many = holder.kind != "user"
    of_account = [one for one in promised if holder.kind == "account" and one.account == holder.name]
    sections = [
        Section("What was found", _found(ranked, lives, judged, looked)),
        Section("In figures", (usage.key_table(found, before, prices, period),), half=True),
        Section("What became of the jobs", (usage.outcome_table(found, before),), half=True),
        *_promised(store, holder, prices, of_account, period, now),
        *over_time(now_used, period, of_account),
        *splits(now_used, then_used, names, prices),
        Section("The largest jobs", _listed(largest.largest(ranked, now, users=many), cut)),
        Section("The most left unused", _listed(largest.wasteful(ranked, now, users=many), cut)),
    ]
    return Document(
        kind=holder.kind,
        title=f"{holder.name}, {period.words}",
        subtitle=f"{holder.words}{kept_since(since, period)}",
        made=now,
        verdict=_verdict(holder, period, found, before),
        sections=tuple(sections),
        data={"cluster": holder.cluster} | holder.only | usage_data(now_used, then_used, period, prices)
        if told
        else {},
        sheet=partial(usage.sheet, store, period, holder.only),
    )


def kept_since(since: int, period: Period) -> str:
    """What is to be said where history begins within the time that is told of, or compared with."""
    return f"; kept since {date(since * DAY)}" if since > period.before.since else ""


def _lives(store: Store, holder: Holder, period: Period, looked: Looked) -> tuple[list[Life], int]:
    """Those that ended in the period, or still run; and, where there are more that ended, how many were looked at."""
    asked = Lives(
        cluster=holder.cluster,
        user=holder.name if holder.kind == "user" else None,
        account=holder.name if holder.kind == "account" else holder.within,
        limit=looked.lives,
    )
    ended = store.lives(replace(asked, ended_since=period.start, ended_before=period.end))
    running = store.lives(replace(asked, open=True)) if period.going_on else []
    return [life for life in (*ended, *running) if life.started], len(ended) if len(ended) == looked.lives else 0


def _found(ranked: Sequence[Life], lives: Sequence[Life], judged: Judged, looked: Looked) -> tuple[Block, ...]:
    """By the rules, of the jobs that matter most: each can be told what to change (`slurmscope report job`)."""
    most = ranked[: looked.judged]
    table = found_table(*judged(most, lives), "jobs")
    told = f"Of the {amount(len(most), 'largest job')}. " if len(lives) > len(most) else ""
    return table, Paragraph(f"{told}{ADVICE}", soft=True)


def _listed(table: Table, cut: int) -> tuple[Block, ...]:
    return (table, Paragraph(f"Of the latest {amount(cut, 'job')} of the period.", soft=True)) if cut else (table,)


def _verdict(holder: Holder, period: Period, found: Sum, before: Sum | None) -> Verdict:
    amounts = found.amounts
    used = [
        hours(seconds, of) for seconds, of in ((amounts.cpu_seconds, "core"), (amounts.gpu_seconds, "GPU")) if seconds
    ]
    if not used:
        headline = f"{holder.name} used nothing in {period.words}"
        return Verdict(NOTE, headline, f"{amount(amounts.submitted, 'job')} submitted, {amounts.ended} ended.")
    gpus = bool(amounts.gpu_seconds)
    sentences = [compared(found, before, period), idle_words(found)]
    if found.wait is not None:
        sentences.append(f"Jobs waited {span(found.wait)} on average.")
    if found.failed_share:
        sentences.append(f"{percent(found.failed_share)} of them failed or ran out of time.")
    share = found.gpu_share if gpus else found.cpu_share
    level = cells.level_of(share)
    idle = (
        f", {percent(1 - share)} of the {'GPU' if gpus else 'CPU'} time idle"
        if share is not None and level != FINE
        else ""
    )
    return Verdict(level, f"{holder.name} used {listed(used)}{idle}", " ".join(filter(None, sentences)))


def compared(found: Sum, before: Sum | None, period: Period) -> str:
    """How much more or less it is than before, of what matters most; empty where that is not known."""
    if before is None:
        return ""
    gpus = bool(found.amounts.gpu_seconds)
    one, other = (
        (found.amounts.gpu_seconds, before.amounts.gpu_seconds)
        if gpus
        else (found.amounts.cpu_seconds, before.amounts.cpu_seconds)
    )
    change = usage.change_words(one, other, period.before_words)
    return f"{'GPU time' if gpus else 'CPU time'}: {change}." if change else ""


def idle_words(found: Sum) -> str:
    """What was held and not used, and of how much of it that is known."""
    told = []
    for name, of, share, idle, known in (
        ("CPU", "core", found.cpu_share, found.cpu_idle, found.cpu_known),
        ("GPU", "GPU", found.gpu_share, found.gpu_idle, found.gpu_known),
    ):
        if share is not None and idle is not None and known is not None and idle > _LITTLE:
            of_it = "" if known > _NEARLY_ALL else f" of the {percent(known)} of it that is known of"
            told.append(f"{percent(1 - share)} of the {name} time{of_it} ({hours(idle, of)})")
    return f"{listed(told)} was held and not used." if told else ""


def _promised(
    store: Store, holder: Holder, prices: Prices, promised: Sequence[Allocation], period: Period, now: int
) -> list[Section]:
    day = min(period.until - 1, now // DAY)
    found = [
        allocations.progress(store, one, prices, day)
        for one in promised
        if allocations.applies(one, holder.cluster, period)
    ]
    if not found:
        return []
    charts = [allocations.chart(one, f"allocation_{at}") for at, one in enumerate(found)]
    return [Section("Against what is allocated", (allocations.table(found), *charts))]


def over_time(used: Usage, period: Period, promised: Sequence[Allocation] = ()) -> list[Section]:
    """GPU-hours and core-hours of each day, what of them was in use, and what is promised as so many hours a day."""
    days = used.days()
    sections = []
    for name, title, resource in (("gpu", "GPU-hours a day", "gpu"), ("cpu", "Core-hours a day", "core")):
        values = {day: getattr(one.amounts, f"{name}_seconds") / 3600 for day, one in days.items()}
        busy = {day: hours for day, one in days.items() if (hours := _in_use(one, name)) is not None}
        if any(values.values()):
            levels = [replace(one, value=one.value * 24) for one in allocations.levels(promised, resource, period)]
            shown = [replace(one, name=f"allocated {number(one.value)}") for one in levels]
            sections.append(Section(title, (usage.daily(name, values, busy, period, shown),), half=True))
    return sections


def _in_use(found: Sum, name: str) -> float | None:
    """Hours of a resource; None: too little is known of how it was used."""
    share, known = getattr(found, f"{name}_share"), getattr(found, f"{name}_known")
    held = getattr(found.amounts, f"{name}_seconds") / 3600
    return held * min(1.0, share) if share is not None and (known or 0.0) >= _HALF else None


_TITLES = {"qos": "QOS"}


def splits(now: Usage, then: Usage | None, names: Sequence[str], prices: Prices) -> list[Section]:
    """Tables by each of these, and by type of GPU where there are any."""
    sections = []
    for name in names:
        title = _TITLES.get(name, name)
        rows = usage.ranked(now.named(name))
        left = f"and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
        table = usage.usage_table(
            f"by_{name}", title, rows[:_MOST_ROWS], name, left, None if then is None else then.named(name)
        )
        sections.append(Section(f"By {title}", (table,)))
    kinds = now.named("gpu_type")
    if any(kinds):
        sections.append(Section("By GPU", (usage.gpu_table(kinds, prices),)))
    return sections


def usage_data(now: Usage, then: Usage | None, period: Period, prices: Prices) -> dict[str, Any]:
    """For scripts: base units, nothing left out."""

    def told(one: Sum) -> dict[str, Any]:
        return one.amounts._asdict() | {"gpus": one.gpus, "cost": one.cost(prices)}

    by = {
        f"by_{name}": [{name: key, **told(one)} for key, one in sorted(now.named(name).items())]
        for name in ("cluster", "account", "user", "partition", "qos", "gpu_type")
    }
    return {
        "since": period.start,
        "until": period.end,
        "used": told(now.total()),
        "before": None if then is None else told(then.total()),
        **by,
    }
