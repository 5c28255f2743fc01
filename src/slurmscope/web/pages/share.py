# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One job for whoever has a link to it: how such a link is made, and what is behind it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.life import Life
from slurmscope.reports.job import job_document
from slurmscope.signed import LinkError
from slurmscope.web import addresses
from slurmscope.web.errors import NotFound, Wrong
from slurmscope.web.page import Crumb, Page
from slurmscope.web.pages.job import JobAsked, seen_lives
from slurmscope.web.people.ledger import Entry
from slurmscope.web.shares import PATH, Shares
from slurmscope.web.visit import Visit

_DIGITS = 6  # of a number of days that is looked at


class SharedAsked(msgspec.Struct, frozen=True, kw_only=True):
    token: Annotated[str, Meta(description="What the link has behind its last slash.")]


def make(visit: Visit, asked: JobAsked) -> Page:
    lives = seen_lives(visit, asked)
    if len(lives) != 1:
        raise Wrong(
            "An array is not shared as a whole.",
            "Choose one of its tasks.",
            addresses.within(asked.cluster, "jobs", asked.job),
        )
    life = lives[0]
    most = visit.site.settings.portal.share_days
    given = visit.request.one("days")
    days = min(max(1, int(given)), most) if given.isdecimal() and len(given) < _DIGITS else most
    token = Shares(visit.site.settings).token(
        life.cluster, life.id, life.submit_time or 0, visit.viewer.name, days, visit.now
    )
    if visit.identity.ways:
        address = visit.identity.client(visit.request)
        visit.identity.ledger.write(
            Entry(time=visit.now, who=visit.viewer.name, address=address, action="shared", detail=life.document_id)
        )
    page = _page(visit, life, addresses.job(life))
    return msgspec.structs.replace(
        page,
        template="shared_link.html",
        shown={
            **page.shown,
            "link": f"{visit.base}/{PATH}/{token}",
            "days": visit.t("1 day") if days == 1 else visit.t("{days} days", days=f"{days:,}"),
        },
    )


def shared(visit: Visit, asked: SharedAsked) -> Page:
    try:
        share = Shares(visit.site.settings).open(asked.token, visit.now)
    except LinkError as error:
        raise NotFound(str(error)) from None
    life = visit.store.life(share.cluster, share.id, share.submit_time)
    if life is None:
        raise NotFound("The job that was shared is not kept any more.")
    page = _page(visit, life, f"/{PATH}/{asked.token}")
    told = visit.t(
        "Shared by {who} until {when} UTC.",
        who=share.who or visit.t("somebody"),
        when=visit.t.minute(share.expires, year=True),
    )
    return msgspec.structs.replace(page, template="shared.html", shown={**page.shown, "told": told})


def _page(visit: Visit, life: Life, here: str) -> Page:
    document = job_document(visit.reports.job_facts(life), visit.t)
    return Page(
        document=document,
        crumbs=(Crumb(life.cluster), Crumb(document.title)),
        cluster=life.cluster,
        shown={"here": here, "question": ""},
    )
