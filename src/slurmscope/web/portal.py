# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal over HTTP: finds the page, knows who asks, and gives the answer the form that was asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import msgspec

from slurmscope.logs import fields
from slurmscope.reports.data import encoded
from slurmscope.reports.rendering import TYPES
from slurmscope.server import CLOSE, Answer, Headers, Receive, Scope, Send, TooLongError, body_of, plain
from slurmscope.store.protocol import StoreError
from slurmscope.web import cookies, files, forms, frame, rendering
from slurmscope.web.errors import NotFound, NotNow, Refusal, SignInFirst, Wrong
from slurmscope.web.events import SEGMENTS as EVENTS
from slurmscope.web.events import Events, Stream
from slurmscope.web.identity import Identity
from slurmscope.web.page import Elsewhere, Page, Raw
from slurmscope.web.people.proxy import ProxyError
from slurmscope.web.people.tokens import presented
from slurmscope.web.people.viewer import Viewer
from slurmscope.web.pool import Pool
from slurmscope.web.preparation import Preparation
from slurmscope.web.request import Request, WrongAsked, address_of, asked_of, fields_of, request_of
from slurmscope.web.route import API, GET, HTML, JSON, PDF, POST, RAW, Found, Route, Routes
from slurmscope.web.site import Site
from slurmscope.web.taste import taste_of
from slurmscope.web.visit import Visit

log = logging.getLogger(__name__)

_THREADS = 4  # more would only wait for each other
_LONG_THREADS = 3  # for what takes long; one more than the scripts that Slurm is asked for at a time
_LONG_WAITING = 12  # who may wait for one of these
_PASSWORDS_WAITING = 15  # who may wait for a password to be looked at
_MOST_FORM = 64 << 10
SIGN_IN = ("sign-in",)
"""How the addresses begin at which people say who they are."""

STRANGER = Viewer(name="", staff=False, leads=frozenset())
"""Who has not signed in, and sees nothing of anybody."""


class Portal:
    def __init__(self, site: Site, routes: Sequence[Route], identity: Identity) -> None:
        self.site = site
        self._routes = Routes(routes)
        self._sections = frozenset(one.section for one in routes if one.section)
        self._identity = identity
        self.events = Events()
        self.preparation = Preparation(site, self.events.publish)
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="portal")
        # passwords one after the other: a flood of wrong ones costs one core and one scrypt's memory
        self._passwords = Pool("portal passwords", 1, _PASSWORDS_WAITING)
        self._provider = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="portal provider")
        self._long = Pool("portal long", _LONG_THREADS, _LONG_WAITING)

    @property
    def signs_in(self) -> bool:
        return bool(self._identity.ways)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        if isinstance(answer, Stream):
            await self.events.stream(answer, receive, send)
            return
        headers = [*answer.headers, *(rendering.STRICT if self._identity.strict(scope) else ())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else b"".join(answer.body)
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Stream:
        request = await self._read(scope, receive)
        if isinstance(request, Answer):
            return request
        if request.segments[:1] == ("static",):
            accepted = request.headers.get("accept-encoding", "")
            return files.answer(request.segments, accepted) or plain(404, "there is no such file")
        loop = asyncio.get_running_loop()
        if request.segments == EVENTS and request.method == GET:
            who = await loop.run_in_executor(self._threads, self._reader, request)
            return who if isinstance(who, Answer) else self.events.begun(who)
        method = GET if request.method == "HEAD" else request.method
        found = self._routes.find(method, request.segments, request.suffix)
        # strangers take no place of those who may have it
        if found is not None and found.long and (found.route.open or await self._is_known(request)):
            return await self._at_length(self._long, request, found)
        if found is not None and request.segments == SIGN_IN and request.method == POST:
            return await self._at_length(self._passwords, request, found)
        # those who wait for a provider keep nobody else waiting
        threads = self._provider if request.segments[:1] == SIGN_IN != request.segments else self._threads
        return await loop.run_in_executor(threads, self._answered, request, found)

    async def _is_known(self, request: Request) -> bool:
        who = await asyncio.get_running_loop().run_in_executor(self._threads, self._reader, request)
        return isinstance(who, str)

    async def _at_length(self, pool: Pool, request: Request, found: Found) -> Answer:
        """A few of those that take long are made at a time, some wait, and further ones are told to come again: so
        pages go on being answered, however many PDFs are asked for."""
        making = pool.submit(self._answered, request, found)
        if making is None:
            refused = msgspec.structs.replace(found, route=msgspec.structs.replace(found.route, view=_busy))
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answered, request, refused)
        return await asyncio.wrap_future(making)

    async def _read(self, scope: Scope, receive: Receive) -> Request | Answer:
        """What is asked, or why that cannot be told."""
        try:
            request = request_of(scope)
            if request.method == POST:
                form = fields_of(await body_of(receive, _MOST_FORM))
                request = msgspec.structs.replace(request, form=form)
        except WrongAsked as error:
            return _unread(scope, f"{error}.")
        except TooLongError:
            return plain(413, f"at most {_MOST_FORM} bytes are taken here", [CLOSE])
        except TimeoutError:
            return plain(408, "the form did not come in time", [CLOSE])
        except ConnectionError:
            return plain(400, "the form did not come", [CLOSE])  # nobody is there to hear it
        return request

    def _reader(self, request: Request) -> str | Answer:
        """Who asks; or why nothing is told."""
        try:
            viewer = self._identity.viewer(request)
        except (StoreError, ProxyError):
            return plain(503, "who asks cannot be known just now")
        return plain(401, "only those who have signed in are told") if viewer is None else viewer.name

    def _answered(self, request: Request, found: Found | None) -> Answer:
        viewer: Viewer | None = None
        kept = self._identity.kept(request, forms.COOKIE)
        secret = forms.secret_of(kept)
        visit = self._visit(request, STRANGER, found)
        try:
            viewer = self._identity.viewer(request)
            visit = self._visit(request, viewer or STRANGER, found)
            answer = self._of(visit, viewer, found, secret)
        except Refusal as refusal:
            answer = self._refused(visit, viewer, found, refusal, secret)
        except ProxyError as error:
            # it names addresses, which are for the log
            log.warning("a proxy is not believed", extra=fields(error=str(error)))
            wrong = Refusal("The proxy before this site says something that cannot be.", "The log says what.")
            answer = self._refused(visit, viewer, found, wrong, secret)
        except StoreError as error:
            log.warning("the portal cannot read the store", extra=fields(error=str(error)))
            later = NotNow(
                "What is kept cannot be read just now.", "It is tried again at each visit; the log says why."
            )
            answer = self._refused(visit, viewer, found, later, secret)
        except Exception:
            # the address stays out of the log: it may be a key
            log.exception("a page failed", extra=fields(page="" if found is None else found.route.name))
            failed = Refusal("This page could not be made.", "The log of slurmscope says why.")
            answer = self._refused(visit, viewer, found, failed, secret)
        if kept != secret and answer.headers[0][1].startswith(b"text/html"):
            line = cookies.cookie(forms.COOKIE, secret, None, secure=self._identity.secure(request))
            answer.headers.append((b"set-cookie", line.encode()))
        return answer

    def _visit(self, request: Request, viewer: Viewer, found: Found | None) -> Visit:
        taste = taste_of(request.cookies, request.headers.get("accept-language", ""))
        form = _form_of(request.segments) if found is None else found.form
        return Visit(request, viewer, taste, self.site, self._identity, form, self._routes.all)

    def _of(self, visit: Visit, viewer: Viewer | None, found: Found | None, secret: str) -> Answer:
        """Raises Refusal."""
        request = visit.request
        if found is None:
            if methods := self._routes.methods(request.segments, request.suffix):
                return plain(405, f"only {', '.join(methods)}", [(b"allow", ", ".join(methods).encode())])
            raise NotFound("There is no such page.", "The bar at the left has those that there are.", "/")
        if viewer is None and not found.route.open:
            if presented(request.headers):
                raise SignInFirst(
                    "This token does not hold: it was revoked, is too old, or was not copied whole.",
                    "Make another one in the settings",
                    "/settings",
                )
            raise SignInFirst("Only those who have signed in see this.", "Sign in", "/sign-in")
        if request.method == POST:
            forms.check(request, self._identity.kept(request, forms.COOKIE), self.site.settings.mail.url)
        try:
            asked = asked_of(found.route.asked, found.params, request.query)
        except WrongAsked as error:
            raise Wrong("{error}.", "Correct the address, or begin anew.", "/", error=error) from None
        page = found.route.view(visit, asked)
        if isinstance(page, Elsewhere):
            return _elsewhere(page)
        if isinstance(page, Raw):
            return rendering.sent(visit, 200, page.body, page.kind)
        return rendering.answered(visit, page, found.form, self._around(visit, viewer, found, page.cluster, secret))

    def _around(
        self, visit: Visit, viewer: Viewer | None, found: Found | None, cluster: str, secret: str
    ) -> dict[str, Any]:
        section = "" if found is None else found.route.section
        known = viewer is not None
        return {
            "entries": frame.entries(visit, section, cluster, self._sections) if known else [],
            "key": forms.key(secret),
            "viewer": viewer,
            "forms": () if found is None else found.route.forms,
        }

    def _refused(
        self, visit: Visit, viewer: Viewer | None, found: Found | None, refusal: Refusal, secret: str
    ) -> Answer:
        # a link to what is no page may be opened by a person or by a program
        person = "text/html" in visit.request.headers.get("accept", "")
        page = visit.form == HTML or (visit.form in (RAW, PDF) and person)
        if isinstance(refusal, SignInFirst) and page and visit.request.method == "GET":
            return _elsewhere(Elsewhere(location=f"/sign-in?next={quote(_here(visit.request), safe='')}"))
        form = HTML if page else visit.form
        visit = msgspec.structs.replace(visit, form=form)
        answer = rendering.refused(visit, refusal, form, self._around(visit, viewer, found, "", secret))
        if refusal.again is not None:
            answer.headers.append((b"retry-after", str(refusal.again).encode()))
        if isinstance(refusal, SignInFirst):
            answer.headers.append((b"www-authenticate", b'Bearer realm="slurmscope"'))
        return answer

    def close(self) -> None:
        self.preparation.close()
        for pool in (self._passwords, self._long):
            pool.close()
        for threads in (self._threads, self._provider):
            threads.shutdown(wait=True, cancel_futures=True)
        self._identity.close()
        self.site.close()


def _busy(visit: Visit, asked: object) -> Page:
    raise NotNow("Many want something just now that takes a while.", "Try again in a moment.")


def _form_of(segments: Sequence[str]) -> str:
    """In which it is said that there is no such page."""
    return JSON if tuple(segments[: len(API)]) == API or (segments[-1:] or ("",))[0].endswith(".json") else HTML


def _unread(scope: Scope, error: str) -> Answer:
    """To what could not even be read."""
    if _form_of([one for one in scope["path"].split("/") if one]) == JSON:
        return Answer(400, encoded(rendering.Said(error, "")), TYPES[JSON], list(rendering.HEADERS))
    return plain(400, error)


def _here(request: Request) -> str:
    """The address that was asked for, as it was written."""
    return address_of(request.path, dict(request.query))


def _elsewhere(page: Elsewhere) -> Answer:
    headers: Headers = [*rendering.HEADERS, (b"location", page.location.encode("ascii", "replace"))]
    headers += [(b"set-cookie", one.encode()) for one in page.cookies]
    return Answer(303, b"", "text/plain; charset=utf-8", headers)
