# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Signing in, by each of the ways that the settings offer, and out again."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.web import cookies, identity
from slurmscope.web.errors import NotFound
from slurmscope.web.page import Crumb, Elsewhere, Page, bare
from slurmscope.web.people.checks import LOCAL, OIDC, PROXY
from slurmscope.web.people.errors import OidcError
from slurmscope.web.visit import Visit

_KEPT, _NEXT = "sign-in", "next"  # the cookies that a browser has while it is at the OpenID provider's
_KEPT_SECONDS = 600


class SignInAsked(msgspec.Struct, frozen=True, kw_only=True):
    next: Annotated[str, Meta(description="The page to go on with.")] = ""


class NothingAsked(msgspec.Struct, frozen=True):
    pass


def sign_in(visit: Visit, asked: SignInAsked) -> Page:
    return _form(visit, local_part(asked.next))


def _form(visit: Visit, onward: str, said: str = "", name: str = "") -> Page:
    ways = visit.identity.ways
    return Page(
        document=bare("sign-in", visit.t("Sign in"), visit.now),
        template="sign_in.html",
        crumbs=(Crumb(visit.t("Sign in")),),
        shown={
            "local": LOCAL in ways,
            "oidc": OIDC in ways,
            "proxy": PROXY in ways,
            "ways": ways,
            "next": onward,
            "said": said,
            "name": name,
        },
    )


def with_password(visit: Visit, asked: NothingAsked) -> Page | Elsewhere:
    if LOCAL not in visit.identity.ways:
        raise NotFound("Nobody signs in with a password here.")
    request = visit.request
    name, onward = request.one("name"), local_part(request.one("next"))
    verdict = visit.identity.local.sign_in(name, request.one("password"), visit.identity.client(request), visit.now)
    if verdict.right:
        return _signed_in(visit, name, LOCAL, onward)
    said = visit.t("That name and password are not known here.")
    if verdict.wait:
        said = visit.t("Too many were wrong. Try again in {span}.", span=visit.t.span(verdict.wait))
    return _form(visit, onward, said, name)


def begin_oidc(visit: Visit, asked: SignInAsked) -> Page | Elsewhere:
    if OIDC not in visit.identity.ways:
        raise NotFound("Nobody signs in by OpenID Connect here.")
    try:
        location, kept = visit.identity.oidc.begin(visit.now)
    except OidcError as error:
        return _form(visit, local_part(asked.next), str(error))
    secure = visit.identity.secure(visit.request)
    return Elsewhere(
        location=location,
        cookies=(
            cookies.cookie(_KEPT, kept, _KEPT_SECONDS, secure=secure),
            cookies.cookie(_NEXT, local_part(asked.next), _KEPT_SECONDS, secure=secure),
        ),
    )


def end_oidc(visit: Visit, asked: NothingAsked) -> Page | Elsewhere:
    """The provider has sent the browser back."""
    if OIDC not in visit.identity.ways:
        raise NotFound("Nobody signs in by OpenID Connect here.")
    request = visit.request
    onward = local_part(visit.identity.kept(request, _NEXT))
    try:
        kept = visit.identity.kept(request, _KEPT)
        name = visit.identity.oidc.finish(kept, request.query, visit.now, visit.identity.client(request))
    except OidcError as error:
        return _form(visit, onward, str(error))
    return _signed_in(visit, name, OIDC, onward)


def _signed_in(visit: Visit, name: str, how: str, onward: str) -> Elsewhere:
    token = visit.identity.sessions.begin(name, how, visit.now, visit.identity.client(visit.request))
    secure = visit.identity.secure(visit.request)
    dropped = tuple(cookies.gone(one, secure=secure) for one in (_KEPT, _NEXT))
    return Elsewhere(location=onward, cookies=(cookies.cookie(identity.COOKIE, token, None, secure=secure), *dropped))


def sign_out(visit: Visit, asked: NothingAsked) -> Elsewhere:
    kept = visit.identity.kept(visit.request, identity.COOKIE)
    if kept:
        visit.identity.sessions.end(kept, visit.now, visit.identity.client(visit.request))
    secure = visit.identity.secure(visit.request)
    return Elsewhere(location="/sign-in", cookies=(cookies.gone(identity.COOKIE, secure=secure),))


def local_part(address: str) -> str:
    """A page of this site, whatever an address says: nobody is sent elsewhere by a link to the sign-in."""
    inner = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if inner and address.isascii() else "/"
