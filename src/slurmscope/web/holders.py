# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the pages of an account and of a person have in common: the period, the report of it, and its links."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slurmscope.reports.document import NOTE, Block, Cell, Document, Paragraph, Section, Table, Verdict
from slurmscope.reports.holder import ADVICE, SCREEN, Holder
from slurmscope.reports.period import Period, PeriodError, last_days, month_of
from slurmscope.store.protocol import UsageAsked
from slurmscope.waiting.blocked import Blocked
from slurmscope.web.errors import Wrong
from slurmscope.web.request import address_of
from slurmscope.web.route import JSON
from slurmscope.web.visit import Visit

DAYS = ("7", "30", "90")
_DEFAULT: Literal["30"] = "30"


class Counts(msgspec.Struct, frozen=True):
    """Tasks in the queue now."""

    running: int
    waiting: int
    blocked: int  # of those that wait: by a limit


class PeriodAsked(msgspec.Struct, frozen=True, kw_only=True):
    days: Annotated[Literal["7", "30", "90"], Meta(description="Of the last so many days, today among them.")] = (
        _DEFAULT
    )
    month: Annotated[str, Meta(description="Of a month in place of days: 2026-10.", pattern=r"^(\d{4}-\d{2})?$")] = ""


def period_of(visit: Visit, asked: PeriodAsked) -> Period:
    """Raises Wrong."""
    try:
        return month_of(asked.month, visit.now) if asked.month else last_days(int(asked.days), visit.now)
    except PeriodError as error:
        text = str(error)
        raise Wrong("{error}.", "Choose another month.", error=f"{text[:1].upper()}{text[1:]}") from None


def question(asked: PeriodAsked, **more: str) -> dict[str, Any]:
    """What stands behind the address of the same page in another form."""
    days = None if asked.month or asked.days == _DEFAULT else asked.days
    return {"days": days, "month": asked.month, **more}


def periods(visit: Visit, here: str, asked: PeriodAsked, **more: str) -> list[tuple[str, str, bool]]:
    """To choose from: the words, the address, and whether it is this one."""
    return [
        (
            visit.t("{days} days", days=days),
            address_of(here, {"days": None if days == _DEFAULT else days, **more}),
            not asked.month and asked.days == days,
        )
        for days in DAYS
    ]


def nothing(visit: Visit, kind: str, name: str, period: Period) -> Document:
    """In place of a report, where nothing is kept of the time."""
    return Document(
        kind=kind,
        title=f"{name}, {visit.t.period(period.words)}",
        subtitle="",
        made=visit.now,
        verdict=Verdict(
            NOTE, visit.t("{name} used nothing in {period}", name=name, period=visit.t.period(period.words)), ""
        ),
        sections=(),
        data={kind: name, "since": period.start, "until": period.end, "used": None},
    )


def placed(visit: Visit, document: Document, name: str, period: Period, where: str) -> Document:
    """A report with its title and what is under it in the reader's language."""
    _, kept, day = document.subtitle.partition("; kept since ")
    return replace(
        document,
        title=f"{name}, {visit.t.period(period.words)}",
        subtitle=visit.t("{where}; kept since {day}", where=where, day=day) if kept else where,
    )


def compared(visit: Visit, document: Document, cluster: str, period: Period) -> Document:
    """The same of a whole cluster, whose report says with what it is compared."""
    t, before = visit.t, visit.t.period(period.before_words)
    told = "1 day, against {before}" if period.days == 1 else "{days} days, against {before}"
    where = t(told, days=f"{period.days:,}", before=before)
    return placed(visit, document, cluster, period, where)


def now_words(visit: Visit, now: Counts, stopped: Sequence[Blocked], *, read: bool) -> str:
    """What is in the queue now, and what keeps most of it there."""
    t = visit.t
    if not read:
        return t("What is in the queue now has not been read yet.")
    if not now.running and not now.waiting:
        return t("Nothing is in the queue now.")
    told = {"running": _jobs(visit, now.running), "waiting": f"{now.waiting:,}"}
    if not stopped:
        return t("In the queue now: {running} running, {waiting} waiting.", **told)
    most = max(stopped, key=lambda one: one.tasks)
    return t(
        "In the queue now: {running} running, {waiting} waiting, {count} of these for a limit, most for {limit}.",
        count=f"{sum(one.tasks for one in stopped):,}",
        limit=most.said(t),
        **told,
    )


def _jobs(visit: Visit, count: int) -> str:
    return visit.t("1 job") if count == 1 else visit.t("{count} jobs", count=f"{count:,}")


def shown(visit: Visit, document: Document, cluster: str | None) -> Document:
    """A report as the portal shows it: accounts lead to their pages where they may be opened, and what to change is on
    a job's own page."""

    def cell(one: Cell) -> Cell:
        kind, _, name = one.link.partition(":")
        if kind != "account":
            return one
        # of all clusters together an account has no page
        opens = cluster is not None and visit.viewer.sees_account(cluster, name)
        return replace(one, link=f"account:{cluster}/{name}" if opens else "")

    def block(one: Block) -> Block:
        if isinstance(one, Table) and one.name == "by_account":
            return replace(one, rows=tuple(tuple(map(cell, row)) for row in one.rows))
        if isinstance(one, Paragraph):
            return replace(one, text=one.text.replace(ADVICE, visit.t("A job's page says what to change in it.")))
        return one

    sections = (replace(one, blocks=tuple(map(block, one.blocks))) for one in document.sections)
    return replace(document, sections=tuple(sections))


_LONGEST = 60  # seconds for which a report may be shown again: what runs goes on


def version(visit: Visit, holder: Holder, period: Period, queue: Hashable) -> Hashable:
    """Of all that a report is made of: each job that is submitted, starts or ends changes what was used, and `queue` is
    what the last poll saw of them."""
    asked = UsageAsked(since=period.since, until=period.until, only=holder.only)
    used = tuple(one.amounts for one in visit.store.usage(asked))
    return used, queue, visit.site.turn((holder, period), _LONGEST)


def report(visit: Visit, holder: Holder, period: Period, version: Hashable) -> Document | None:
    """Made anew when anything of it changes. What is for scripts is in it where they ask."""
    told, made = visit.form == JSON, visit.reports

    def make() -> Document | None:
        if holder.kind == "user":
            within = holder.within
            return made.user(holder.name, period, holder.cluster, within=within, looked=SCREEN, told=told)
        return made.account(holder.name, period, holder.cluster, looked=SCREEN, told=told)

    # nothing is shared between those who see all and others, though it would be the same
    return visit.site.remembered(("holder", holder, period, told, visit.viewer.staff), version, make)


def composed(
    document: Document,
    period: Period,
    lead: str,
    before: Sequence[Section],
    behind: Sequence[Section],
    data: dict[str, Any],
) -> Document:
    """A report with what is now around it; that is not of a period that is over."""
    if not period.going_on:
        return replace(document, data=document.data | data)
    verdict = replace(document.verdict, lead=" ".join(filter(None, (document.verdict.lead, lead))))
    sections = (*before, *document.sections, *behind)
    return replace(document, verdict=verdict, sections=sections, data=document.data | data)
