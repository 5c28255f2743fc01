# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages over HTTP: an ASGI application without a framework, for it has few addresses and serves bytes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Protocol

from slurmscope.auth import Guard
from slurmscope.home import home
from slurmscope.hosts import Hosts
from slurmscope.logs import fields
from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.metrics.exposition import OPENMETRICS, TEXT
from slurmscope.poll import FAST_PARTS

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class Answer:
    def __init__(self, status: int, body: bytes | list[bytes], kind: str, headers: Headers | None = None) -> None:
        self.status = status
        self.body = body if isinstance(body, list) else [body]
        self.headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(sum(map(len, self.body))).encode()),
            *(headers or []),
        ]


def plain(status: int, text: str, headers: Headers | None = None) -> Answer:
    return Answer(status, text.encode() + b"\n", "text/plain; charset=utf-8", headers)


class Receiver(Protocol):
    """Takes what is sent to one address. Who may send, and what, is for it to say."""

    @property
    def most_bytes(self) -> int:
        """Of a body; a longer one is refused before it is read."""
        ...

    async def refusal(self, headers: Mapping[str, str]) -> Answer | None:
        """Before the body is read: why not, if so."""
        ...

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Names of headers are in lower case."""
        ...

    async def about(self) -> Answer:
        """For whoever only looks (GET): what is taken here."""
        ...


class Shown(Protocol):
    """A page of metrics besides those of the book."""

    async def body(self, *, openmetrics: bool, gzip: bool) -> list[bytes]: ...


class TooLongError(Exception):
    """A body of more than is taken."""


_BODY_SECONDS = 10.0
_MOST_IN_HAND = 64 << 20  # bytes of bodies of one receiver at a time: so much of our memory can senders take
_MOST_AT_PREFIX = 100  # bodies of all addresses of one beginning at a time
CLOSE = (b"connection", b"close")
_MISLED = (
    "this is for programs and browsers of this machine, and you came by a name that is none of its own: "
    "take localhost or 127.0.0.1; where something of yours stands before it, put the name into serve.names"
)
# Said where nobody receives at the address that others know by default.
_OFF = {
    "/trace": "tracing is off here, or at another address: trace.enabled, trace.path",
    "/agent": "reports of agents are not taken here: agents.enabled",
}


def _too_long(receiver: Receiver) -> Answer:
    return plain(413, f"at most {receiver.most_bytes} bytes are taken here")


async def body_of(receive: Receive, most: int) -> bytes:
    """All of a body. Raises TimeoutError, ConnectionError and TooLongError."""
    pieces: list[bytes] = []
    size = 0
    async with asyncio.timeout(_BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most:
                raise TooLongError
            if not message.get("more_body"):
                return b"".join(pieces)


class Door(Protocol):
    """All addresses that nobody else has."""

    @property
    def signs_in(self) -> bool:
        """Whether it knows itself who asks; else whoever may read the pages of metrics may read its own."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class App:
    """`/`, `/metrics`, `/metrics/<profile>`, `/healthz`, `/readyz`, those at which things are received, `pages` of
    metrics, and answers that are `fixed`."""

    def __init__(
        self,
        book: Book,
        guard: Guard,
        receivers: Mapping[str, Receiver] | None = None,
        pages: Mapping[str, Shown] | None = None,
        fixed: Mapping[str, Answer] | None = None,
        prefixes: Mapping[str, Callable[[str], Receiver]] | None = None,
        portal: Door | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        """`prefixes` are beginnings of addresses, and give who receives at the rest of them. The `portal` has the first
        page, and all addresses that nobody else has. `hosts` are the names by which browsers may come, where only this
        machine's own can."""
        self._book = book
        self._guard = guard
        self._receivers = receivers or {}
        self._pages = pages or {}
        self._fixed = fixed or {}
        self._prefixes = prefixes or {}
        self._portal = portal
        self._hosts = hosts
        # each has its own, so that who sends to one address keeps nobody waiting at another
        self._bodies = {
            path: asyncio.Semaphore(max(1, _MOST_IN_HAND // one.most_bytes)) for path, one in self._receivers.items()
        } | {prefix: asyncio.Semaphore(_MOST_AT_PREFIX) for prefix in self._prefixes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        place, receiver = self._receiver(scope["path"])
        if receiver is not None and scope["method"] != "HEAD":
            await self._respond(scope, send, self._received(receiver, place, scope, receive))
            return
        if self._portal is not None and not self._is_ours(scope["path"]):
            allowed = self._portal.signs_in or await self._allowed(scope)
            if allowed:
                await self._portal(scope, receive, send)
            else:
                await self._respond(scope, send, self._challenge())
            return
        if not scope["path"].startswith("/metrics"):
            await self._respond(scope, send, self._answer(scope))
            return
        requests = self._book.requests
        requests.in_flight += 1
        try:
            status = await self._respond(scope, send, self._answer(scope))
        finally:
            requests.in_flight -= 1
        requests.total[status] = requests.total.get(status, 0) + 1

    async def _respond(self, scope: Scope, send: Send, answering: Awaitable[Answer]) -> int:
        try:
            answer = await answering
        except ConnectionError:
            return 499  # nobody is there to hear it
        except Exception:
            log.exception("a request failed", extra=fields(path=scope["path"]))
            answer = plain(500, "something went wrong; the log says what")
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        body = answer.body if scope["method"] != "HEAD" else []
        for piece in body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return answer.status

    def _receiver(self, path: str) -> tuple[str, Receiver | None]:
        """Who receives there, and under which address it is counted."""
        if path in self._receivers:
            return path, self._receivers[path]
        prefix = next((one for one in self._prefixes if path.startswith(one)), "")
        return prefix, self._prefixes[prefix](path.removeprefix(prefix)) if prefix else None

    async def _received(self, receiver: Receiver, place: str, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] == "GET":
            return await receiver.about()
        if scope["method"] != "POST":
            return plain(405, "only GET and POST", [(b"allow", b"GET, POST")])
        headers = request_headers(scope)
        length = headers.get("content-length", "0")
        if self._hosts is not None and place in self._receivers and "origin" in headers:
            # only browsers say from which page they come, and no page sends anything here but those of others
            answer: Answer | None = plain(403, "programs send things here, and no pages in a browser")
        elif not length.isdecimal() or int(length) > receiver.most_bytes:
            answer = _too_long(receiver)
        else:
            answer = await receiver.refusal(headers)
        if answer is not None:
            # what is left of the body must not be taken for the next request
            answer.headers.append(CLOSE)
            return answer
        try:
            async with self._bodies[place]:
                return await receiver.take(headers, await body_of(receive, receiver.most_bytes))
        except TooLongError:
            answer = _too_long(receiver)
        except TimeoutError:
            answer = plain(408, f"the body did not come in {_BODY_SECONDS:g} s")
        answer.headers.append(CLOSE)
        return answer

    async def _answer(self, scope: Scope) -> Answer:
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            if not self._is_page(path):
                return plain(404, self._nothing_taken(path))
            return plain(405, "only GET", [(b"allow", b"GET, HEAD")])
        if path == "/healthz":
            return plain(200, "ok")
        if path == "/readyz":
            return self._ready()
        return await self._kept_out(scope) or await self._guarded(path, request_headers(scope))

    async def _kept_out(self, scope: Scope) -> Answer | None:
        if await self._allowed(scope):
            return misled(self._hosts, self._guard, request_headers(scope))
        return await self._challenge()

    async def _allowed(self, scope: Scope) -> bool:
        return await self._guard.allows_async(request_headers(scope).get("authorization"))

    async def _challenge(self) -> Answer:
        challenge = [(b"www-authenticate", b'Basic realm="slurmscope"')]
        return plain(401, "a name and password or a token is needed", challenge)

    def _is_ours(self, path: str) -> bool:
        """Whether it is no business of the portal's."""
        return path != "/" and (self._is_page(path) or path in _OFF or path.startswith("/metrics"))

    def _is_page(self, path: str) -> bool:
        profiles = {f"/metrics/{name}" for name in catalogue.PROFILES}
        return path in {"/", "/metrics", "/healthz", "/readyz"} | profiles | self._pages.keys() | self._fixed.keys()

    def _nothing_taken(self, path: str) -> str:
        """For who sends something to an address that takes nothing; most often that is not turned on."""
        if path in _OFF:
            return _OFF[path]
        there = ", ".join(self._receivers)
        return f"nothing is taken here; {f'things are sent to {there}' if there else 'nor anywhere else'}"

    async def _guarded(self, path: str, headers: dict[str, str]) -> Answer:
        """What tells of people, and so is only for those who are let in."""
        if path == "/":
            page = home(self._book.issue, self._pages, self._fixed)
            return Answer(200, page.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        if path in self._fixed:
            return self._fixed[path]
        openmetrics = wants_openmetrics(headers.get("accept", ""))
        gzip = accepts_gzip(headers.get("accept-encoding", ""))
        profile = catalogue.DEFAULT if path == "/metrics" else path.removeprefix("/metrics/")
        if path in self._pages:
            body = await self._pages[path].body(openmetrics=openmetrics, gzip=gzip)
        elif path == "/metrics" or profile in catalogue.PROFILES:
            body = await self._book.body(profile, openmetrics=openmetrics, gzip=gzip)
        else:
            there = ", ".join(
                ("/", "/metrics", *(f"/metrics/{name}" for name in catalogue.PROFILES), *self._pages, *self._fixed)
            )
            return plain(404, f"not here; there are {there}, /healthz and /readyz")
        more: Headers = [(b"vary", b"Accept, Accept-Encoding")]
        if gzip:
            more.append((b"content-encoding", b"gzip"))
        return Answer(200, body, OPENMETRICS if openmetrics else TEXT, more)

    def _ready(self) -> Answer:
        """Ready once there is a cluster to show; a slurmctld that goes down later does not change that."""
        snapshots = [edition.snapshot for edition in self._book.issue.editions]
        # errors may name paths and hosts: they are on the first page and in the log
        missing = [[part for part in FAST_PARTS if one.part(part).value is None] for one in snapshots]
        told = [
            ", ".join(parts) if len(snapshots) == 1 else f"{one.cluster or 'no name'} ({', '.join(parts)})"
            for one, parts in zip(snapshots, missing, strict=True)
            if parts
        ]
        lines = ["ready"] if len(told) < len(snapshots) else []
        if told:
            lines.append(f"not read yet: {', '.join(told)}")
        upkeep = self._book.requests.upkeep
        if upkeep is not None and upkeep.troubles:
            # what is served is not the worse for it
            lines.append(f"degraded: {', '.join(upkeep.troubles)}")
        return plain(200 if lines[0] == "ready" else 503, "\n".join(lines))


def misled(hosts: Hosts | None, guard: Guard, headers: Mapping[str, str]) -> Answer | None:
    """For a browser that came to this machine by a name of another site, which could read what it is told. Where a
    password is asked for it knows none."""
    if hosts is None or not guard.open or hosts.mean(headers.get("host")):
        return None
    if name := hosts.stranger(headers.get("host", "")):
        # whoever scrapes is often told no more than the number
        log.warning("refused by its Host header (421); serve.names lets it in", extra=fields(host=name))
    return plain(421, _MISLED)


def request_headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _choices(header: str) -> Iterable[tuple[str, float]]:
    """(value, quality) of each item of an Accept header; a quality that cannot be read counts as 1."""
    for item in header.split(","):
        value, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, number = parameter.partition("=")
            if name.strip() == "q":
                try:
                    quality = float(number)
                except ValueError:
                    quality = 1.0
        yield value, quality


def wants_openmetrics(accept: str) -> bool:
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for value, quality in _choices(accept):
        if value in best:
            best[value] = max(best[value], quality)
    return best["application/openmetrics-text"] > best["text/plain"]


def accepts_gzip(accept_encoding: str) -> bool:
    found = dict(_choices(accept_encoding))
    return found.get("gzip", found.get("*", 0.0)) > 0
