# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A reader's own settings: how pages look, and tokens for programs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.web import cookies
from slurmscope.web.errors import NotFound, Wrong
from slurmscope.web.page import Crumb, Elsewhere, Page, bare
from slurmscope.web.pages.sign_in import NothingAsked
from slurmscope.web.people.tokens import MOST_DAYS, TokenError
from slurmscope.web.taste import LANGUAGES, THEMES, zone_of, zones
from slurmscope.web.visit import Visit

_YEAR = 365 * 86400


class TokenAsked(msgspec.Struct, frozen=True, kw_only=True):
    token: Annotated[int, Meta(description="Its number.", ge=1, le=(1 << 63) - 1)]


def settings(visit: Visit, asked: NothingAsked) -> Page:
    return _page(visit)


def _page(visit: Visit, secret: str = "", said: str = "") -> Page:
    signed_in = bool(visit.viewer.name)
    tokens = visit.identity.tokens.all(visit.viewer.name, visit.now) if signed_in else []
    return Page(
        document=bare("settings", visit.t("Settings"), visit.now),
        template="settings.html",
        crumbs=(Crumb(visit.t("Settings"), "/settings"),),
        shown={
            "themes": THEMES,
            "zones": ["UTC", *sorted(zones() - {"UTC"})],
            "tokens": tokens,
            "signed_in": signed_in,
            "secret": secret,
            "said": said,
            "most_days": MOST_DAYS,
        },
    )


def change(visit: Visit, asked: NothingAsked) -> Elsewhere:
    """What a reader likes is kept in the reader's browser."""
    given = {name: visit.request.one(name) for name in ("theme", "language", "zone")}
    if given["theme"] not in THEMES or given["language"] not in LANGUAGES or zone_of(given["zone"]) is None:
        raise Wrong("There is no such theme, language or zone.", "Settings", "/settings")
    secure = visit.identity.secure(visit.request)
    kept = tuple(cookies.cookie(name, value, _YEAR, secure=secure, script=True) for name, value in given.items())
    return Elsewhere(location="/settings", cookies=kept)


def make_token(visit: Visit, asked: NothingAsked) -> Page:
    """The page has the token, this once: nobody can be told again."""
    _must_be_somebody(visit)
    request = visit.request
    days = request.one("days")
    try:
        secret = visit.identity.tokens.make(
            visit.viewer.name,
            request.one("label"),
            int(days) if days.isdecimal() and len(days) < 6 else 0,
            visit.now,
            visit.identity.client(request),
        )
    except TokenError as error:
        return _page(visit, said=str(error))
    return _page(visit, secret=secret)


def revoke_token(visit: Visit, asked: TokenAsked) -> Elsewhere:
    _must_be_somebody(visit)
    name, address = visit.viewer.name, visit.identity.client(visit.request)
    if not visit.identity.tokens.revoke(name, asked.token, visit.now, name, address):
        raise NotFound("There is no such token of yours.", "Settings", "/settings")
    return Elsewhere(location="/settings")


def _must_be_somebody(visit: Visit) -> None:
    if not visit.viewer.name:
        raise NotFound("Nobody signs in here, and so nobody has tokens.", "Settings", "/settings")
