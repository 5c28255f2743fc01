# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of any period: which there are, and one of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.reports import cells
from slurmscope.reports import period as periods
from slurmscope.reports.document import Block, Cell, Column, Document, Facts, Paragraph, Section, Table, Verdict
from slurmscope.reports.period import Period, PeriodError
from slurmscope.settings import Mail
from slurmscope.web import cluster_report, holders
from slurmscope.web.addresses import within
from slurmscope.web.errors import NotFound, Wrong
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.route import JSON
from slurmscope.web.visit import Visit

_MONTHS = 12
_MOST_ACCOUNTS = 20  # of one who coordinates them
_EPOCH = date(1970, 1, 1)


class ReportsAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Of which cluster; of all where it is not given.")] = ""


class ReportAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="The cluster.")]
    month: Annotated[
        str, Meta(description="A month: 2026-10. Its report has two pages.", pattern=r"^(\d{4}-\d{1,2})?$")
    ] = ""
    days: Annotated[int, Meta(description="The last days, today among them; 0 for none.", ge=0, le=3660)] = 0
    since: Annotated[str, Meta(description="The first day: 2026-10-01.", pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    until: Annotated[str, Meta(description="The last day.", pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    full: Annotated[bool, Meta(description="Of a month: all of it, and not the two pages for directors.")] = False


def reports(visit: Visit, asked: ReportsAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    clusters = [asked.cluster] if asked.cluster else visit.site.clusters()
    kept = {one: _months(visit, one) for one in clusters}
    rows = tuple(row for cluster in clusters for month in kept[cluster] for row in _rows(visit, cluster, month))
    columns = (Column("cluster", "cluster"), Column("month", "month"), Column("of", "of"))
    days = visit.site.settings.store.usage_days
    lead = visit.t("Each is a page, a PDF, a table and JSON.")
    if days:
        lead += " " + visit.t("They reach back for {count} days.", count=f"{days:,}")
    return Page(
        document=Document(
            kind="reports",
            title=visit.t("Reports"),
            subtitle=asked.cluster,
            made=visit.now,
            verdict=Verdict("", visit.t("Reports"), lead),
            sections=(
                Section(visit.t("Months"), (Table("months", columns, rows, empty=visit.t("Nothing is kept yet.")),)),
                Section(visit.t("Sent by itself"), (_scheduled(visit),)),
            ),
            data={"months": {cluster: [f"{one:%Y-%m}" for one in months] for cluster, months in kept.items()}},
        ),
        template="reports.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(visit.t("reports"), within(asked.cluster, "reports")))),
        cluster=asked.cluster,
        shown={"clusters": clusters, "today": f"{datetime.fromtimestamp(visit.now, UTC):%Y-%m-%d}"},
    )


def _months(visit: Visit, cluster: str) -> list[date]:
    """Those of which something is kept, the latest first."""
    found = []
    last = datetime.fromtimestamp(visit.now, UTC).date()
    for _ in range(_MONTHS):
        first = last.replace(day=1)
        if visit.store.first_used(_day(first), _day(last) + 1, cluster) is not None:
            found.append(first)
        last = first - timedelta(days=1)
    return found


def _day(one: date) -> int:
    """As usage is kept by."""
    return (one - _EPOCH).days


def _rows(visit: Visit, cluster: str, month: date) -> Iterator[tuple[Cell, ...]]:
    """Staff have the whole cluster's; others their own, and those of accounts that they coordinate."""
    name, viewer = f"{month:%Y-%m}", visit.viewer
    named = f"{visit.t(f'{month:%B}')} {month:%Y}"

    def row(link: str, of: str) -> tuple[Cell, ...]:
        return cells.words(cluster, f"cluster:{cluster}"), Cell(named, name, link=link), cells.words(of)

    if viewer.staff:
        yield row(f"report:{cluster}/{name}", visit.t("the cluster"))
        return
    yield row(f"report:{cluster}/{name}/{viewer.name}", visit.t("your jobs"))
    coordinators = visit.site.snapshot(cluster).coordinators.value or ()
    for account in sorted({one.account for one in coordinators if one.user == viewer.name})[:_MOST_ACCOUNTS]:
        yield row(f"month:{cluster}/{name}/{account}", visit.t("the account {account}", account=account))


def _scheduled(visit: Visit) -> Block:
    mail = visit.site.settings.mail
    if mail == Mail():
        return Paragraph(visit.t("Nothing: there is no [mail] in the settings."))
    sent = visit.t("sent") if mail.enabled else visit.t("written down, and not sent (mail.enabled)")
    day = visit.t(mail.digest_day)
    weekly = visit.t("each {day}, to whoever wasted much in the week before: {sent}", day=day, sent=sent)
    rows = (
        (visit.t("Digest"), Cell(weekly, None)),
        (
            visit.t("Job mails"),
            Cell(visit.t("at the end of a job in which something was found: {sent}", sent=sent), None),
        ),
    )
    return Facts(rows)


def report(visit: Visit, asked: ReportAsked) -> Page:
    visit.site.must_know(asked.cluster)
    if not visit.viewer.staff:
        # it names people
        raise NotFound("Reports of a whole cluster are for its staff.", "Your own", within("", "reports"))
    period = period_of(asked, visit.now) or periods.last_month(visit.now)
    whole = cluster_report.Asked(asked.cluster, period, period.month and not asked.full, visit.form == JSON)
    document = cluster_report.report(visit.site, whole)
    if document is None:
        all_of = within(asked.cluster, "reports")
        text, cure = "Nothing is kept of {cluster} in {period}.", "Reports that there are"
        raise NotFound(text, cure, all_of, cluster=asked.cluster, period=visit.t.period(period.words))
    visit.site.read_report(whole)
    document = holders.compared(visit, document, asked.cluster, period)
    here = within(asked.cluster, "report")
    given = {name: getattr(asked, name) or None for name in ("month", "days", "since", "until")}
    given["full"] = "true" if asked.full else None
    listed = Crumb(visit.t("reports"), within(asked.cluster, "reports"))
    return Page(
        document=holders.shown(visit, document, asked.cluster),
        crumbs=tuple(visit.crumbs(asked.cluster, listed, Crumb(visit.t.period(period.words), here))),
        cluster=asked.cluster,
        shown={"here": here, "question": address_of("", given)},
    )


def period_of(asked: ReportAsked, now: int) -> Period | None:
    """None: none is asked for. Raises Wrong."""
    if sum(map(bool, (asked.month, asked.days, asked.since))) > 1 or (asked.until and not asked.since):
        raise Wrong("Expected one of month, days and since (with until, if it is to end before today).")
    try:
        if asked.month:
            return periods.month_of(asked.month, now)
        if asked.since:
            return periods.between(asked.since, asked.until or None, now)
    except PeriodError as error:
        raise Wrong(str(error)) from None
    return periods.last_days(asked.days, now) if asked.days else None
