# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A person's week: what was wasted, by which rule, in which jobs. Pure.

Nobody is told for one bad job among many good ones, nor for many that cost nothing: what was wasted must be much, and
so must its share of what the person held: over all, on the mean of the jobs, and on their median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

import msgspec

from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.efficiency import ran
from slurmscope.findings.judgement import weight
from slurmscope.findings.rule import Finding, Waste
from slurmscope.life import Life
from slurmscope.reports import cells
from slurmscope.reports.document import (
    BAD,
    NOTE,
    Cell,
    Column,
    Document,
    Paragraph,
    Section,
    Table,
    Verdict,
)
from slurmscope.reports.job import number_of
from slurmscope.settings import Mail
from slurmscope.summary import Summary
from slurmscope.words import amount, date, hours, listed, number, percent

_WORST = 10
_MOST_ADVICE = 3
_HOUR, _DAY, _WEEK = 3600, 86400, 7 * 86400
_CPU, _GPU = "core", "GPU"


class Judged(msgspec.Struct, frozen=True):
    """A job that ran, with all that was found in it; those without a finding count as well."""

    life: Life
    findings: tuple[Finding, ...]
    summary: Summary | None = None

    @property
    def own(self) -> tuple[Finding, ...]:
        """Those that the person can do something about: what a node lost is not theirs."""
        return tuple(one for one in self.findings if one.lost == Waste())

    @property
    def waste(self) -> Waste:
        """Rules that fire together may speak of the same hours: of each resource the largest."""
        return Waste(
            max((one.waste.cpu_seconds for one in self.findings), default=0.0),
            max((one.waste.gpu_seconds for one in self.findings), default=0.0),
            max((one.waste.memory_byte_seconds for one in self.findings), default=0.0),
        )


class Ratios(msgspec.Struct, frozen=True):
    """Of one resource: what was wasted, and which share of what was held that is."""

    wasted: float  # seconds
    held: float
    mean: float  # over the jobs
    median: float

    @property
    def overall(self) -> float:
        return self.wasted / self.held if self.held else 0.0

    @property
    def least(self) -> float:
        return min(self.overall, self.mean, self.median)


def ratios(judged: Sequence[Judged], now: int) -> dict[str, Ratios]:
    """By resource, of the jobs that held any of it."""
    return {
        _CPU: _ratios([(one.waste.cpu_seconds, float(one.life.cpus * ran(one.life, now))) for one in judged]),
        _GPU: _ratios(
            [(one.waste.gpu_seconds, float(sum(one.life.gpus.values()) * ran(one.life, now))) for one in judged]
        ),
    }


def _ratios(jobs: Sequence[tuple[float, float]]) -> Ratios:
    held = [(min(wasted, all_), all_) for wasted, all_ in jobs if all_ > 0]
    shares = [wasted / all_ for wasted, all_ in held] or [0.0]
    return Ratios(sum(one for one, _ in held), sum(all_ for _, all_ in held), fmean(shares), median(shares))


def spared(found: Mapping[str, Ratios], settings: Mail) -> str | None:
    """Why there is no digest; None: there is one."""
    least = {_CPU: settings.digest_core_hours, _GPU: settings.digest_gpu_hours}
    much = {name: one for name, one in found.items() if one.wasted and one.wasted >= least[name] * _HOUR}
    if not much:
        return "too little was wasted (mail.digest_core_hours, mail.digest_gpu_hours)"
    if all(one.least < settings.digest_share for one in much.values()):
        told = listed([_told(name, one) for name, one in much.items()])
        return f"too small a share was wasted (mail.digest_share): {told}"
    return None


def _told(name: str, one: Ratios) -> str:
    return (
        f"{percent(one.overall)} of the {name}-hours over all, {percent(one.mean)} on the mean of the jobs, "
        f"{percent(one.median)} on the median"
    )


def felt(seconds: float, one: str) -> str:
    """An amount as people can imagine it: as much as 3 nodes for a week."""
    for unit, words in ((_WEEK, "a week"), (_DAY, "a day"), (_HOUR, "an hour")):
        if seconds >= unit:
            count = seconds / unit
            whole = round(count) if count >= 2 else round(count, 1)
            return f"as much as {number(whole)} {one if whole == 1 else one + 's'} for {words}"
    return f"less than one {one} for an hour"


def felt_waste(wasted: Waste, node_cpus: int | None) -> str:
    """GPUs where there are any, else whole nodes, else cores."""
    if wasted.gpu_seconds >= _HOUR:
        return felt(wasted.gpu_seconds, "GPU")
    if node_cpus and wasted.cpu_seconds / node_cpus >= _DAY:
        return felt(wasted.cpu_seconds / node_cpus, "node")
    return felt(wasted.cpu_seconds, "core")


def digest(
    person: str,
    judged: Sequence[Judged],
    prices: Prices,
    titles: Mapping[str, str],
    *,
    since: int,
    until: int,
    node_cpus: int | None = None,
) -> Document:
    """`titles` are what rules are called; `node_cpus` is how many a node of theirs has."""
    bad = [one for one in judged if one.own]
    costs = {one.life.document_id: prices.waste(one.life, one.summary, until, one.waste) for one in bad}
    wasted = sum((one.waste for one in bad), Waste())
    total = sum(costs.values(), Cost())
    money = total.money is not None
    rules = _by_rule(bad, prices, until)
    worst = sorted(bad, key=lambda one: -weight(one.waste))[:_WORST]
    parts = [hours(all_, of) for all_, of in ((wasted.gpu_seconds, _GPU), (wasted.cpu_seconds, _CPU)) if all_]
    fewer = f"Of {amount(len(judged), 'job')} {len(bad):,} could have asked for less."
    price = f" In money: {number(total.money or 0.0)} {total.currency}." if money else ""
    return Document(
        kind="user",
        title="Your week",
        subtitle=f"{person}, {date(since)} to {date(until - 1)}",
        made=until,
        verdict=Verdict(
            BAD if any(one.severity == BAD for job in bad for one in job.own) else NOTE,
            f"{listed(parts)} held and not used",
            f"That is {felt_waste(wasted, node_cpus)}. {fewer}{price}",
        ),
        sections=(
            Section("What stood out", (_rules_table(rules, titles, money=money), *_advice(rules, titles))),
            Section("The worst jobs", (_jobs_table(worst, costs, titles, money=money),)),
        ),
        data={
            "person": person,
            "since": since,
            "until": until,
            "jobs": len(judged),
            "wasted": msgspec.to_builtins(total),
            "rules": {name: {"jobs": len(found), "wasted": msgspec.to_builtins(cost)} for name, found, cost in rules},
        },
        table="rules",
    )


_Rule = tuple[str, list[tuple[Judged, Finding]], Cost]


def _by_rule(bad: Sequence[Judged], prices: Prices, now: int) -> list[_Rule]:
    """The largest waste first."""
    found: dict[str, list[tuple[Judged, Finding]]] = {}
    for job in bad:
        for one in job.own:
            found.setdefault(one.rule, []).append((job, one))
    rows = [
        (name, jobs, sum((prices.waste(job.life, job.summary, now, one.waste) for job, one in jobs), Cost()))
        for name, jobs in found.items()
    ]
    return sorted(rows, key=lambda row: (-weight(row[2]), row[0]))


_WASTES = (Column("core_seconds", "Core-hours", True), Column("gpu_seconds", "GPU-hours", True))
_MONEY = Column("money", "Money", True)


def _wastes(cost: Cost, *, money: bool) -> tuple[Cell, ...]:
    told = (cells.hours(cost.cpu_seconds or None), cells.hours(cost.gpu_seconds or None))
    if not money:
        return told
    return (*told, Cell("–" if cost.money is None else f"{number(cost.money, 2)} {cost.currency}", cost.money))


def _rules_table(rules: Sequence[_Rule], titles: Mapping[str, str], *, money: bool) -> Table:
    columns = (Column("rule", "What"), Column("jobs", "Jobs", True), *_WASTES, *((_MONEY,) if money else ()))
    rows = tuple(
        (Cell(titles.get(name, name), name), cells.count(len(jobs)), *_wastes(cost, money=money))
        for name, jobs, cost in rules
    )
    return Table("rules", columns, rows)


def _advice(rules: Sequence[_Rule], titles: Mapping[str, str]) -> list[Paragraph]:
    return [Paragraph(f"{titles.get(name, name)}: {jobs[0][1].advice}") for name, jobs, _ in rules[:_MOST_ADVICE]]


def _jobs_table(worst: Sequence[Judged], costs: Mapping[str, Cost], titles: Mapping[str, str], *, money: bool) -> Table:
    columns = (
        Column("job", "Job"),
        Column("name", "Name"),
        Column("what", "What"),
        *_WASTES,
        *((_MONEY,) if money else ()),
    )
    rows = tuple(
        (
            Cell(number_of(one.life), one.life.id, link=f"job:{one.life.cluster}/{one.life.id}"),
            Cell(one.life.name, one.life.name),
            Cell(titles.get(one.own[0].rule, one.own[0].rule), one.own[0].rule),
            *_wastes(costs[one.life.document_id], money=money),
        )
        for one in worst
    )
    return Table("jobs", columns, rows)
