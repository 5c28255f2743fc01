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


class _TooLongError(Exception):
    pass


_BODY_SECONDS = 10.0
_MOST_IN_HAND = 64 << 20  # bytes of bodies of one receiver at a time: so much of our memory can senders take
_CLOSE = (b"connection", b"close")
# Said where nobody receives at the address that others know by default.
_OFF = {
    "/trace": "tracing is off here, or at another address: trace.enabled, trace.path",
    "/agent": "reports of agents are not taken here: agents.enabled",
}


def _too_long(receiver: Receiver) -> Answer:
    return plain(413, f"at most {receiver.most_bytes} bytes are taken here")


async def _body(receive: Receive, most: int) -> bytes:
    """All of a body. Raises TimeoutError, ConnectionError and _TooLongError."""
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
                raise _TooLongError
            if not message.get("more_body"):
                return b"".join(pieces)


class App:
    """`/`, `/metrics`, `/metrics/<profile>`, `/healthz`, `/readyz`, those at which things are received, and `pages`."""

    def __init__(
        self,
        book: Book,
        guard: Guard,
        receivers: Mapping[str, Receiver] | None = None,
        pages: Mapping[str, Shown] | None = None,
    ) -> None:
        self._book = book
        self._guard = guard
        self._receivers = receivers or {}
        self._pages = pages or {}
        # each has its own, so that who sends to one address keeps nobody waiting at another
        self._bodies = {
            path: asyncio.Semaphore(max(1, _MOST_IN_HAND // one.most_bytes)) for path, one in self._receivers.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        receiver = self._receivers.get(scope["path"])
        if receiver is not None and scope["method"] != "HEAD":
            await self._respond(scope, send, self._received(receiver, scope, receive))
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

    async def _received(self, receiver: Receiver, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] == "GET":
            return await receiver.about()
        if scope["method"] != "POST":
            return plain(405, "only GET and POST", [(b"allow", b"GET, POST")])
        headers = request_headers(scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > receiver.most_bytes:
            answer: Answer | None = _too_long(receiver)
        else:
            answer = await receiver.refusal(headers)
        if answer is not None:
            # what is left of the body must not be taken for the next request
            answer.headers.append(_CLOSE)
            return answer
        try:
            async with self._bodies[scope["path"]]:
                return await receiver.take(headers, await _body(receive, receiver.most_bytes))
        except _TooLongError:
            answer = _too_long(receiver)
        except TimeoutError:
            answer = plain(408, f"the body did not come in {_BODY_SECONDS:g} s")
        answer.headers.append(_CLOSE)
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
        headers = request_headers(scope)
        if not await self._guard.allows_async(headers.get("authorization")):
            challenge = [(b"www-authenticate", b'Basic realm="slurmscope"')]
            return plain(401, "a name and password or a token is needed", challenge)
        return await self._guarded(path, headers)

    def _is_page(self, path: str) -> bool:
        profiles = {f"/metrics/{name}" for name in catalogue.PROFILES}
        return path in {"/", "/metrics", "/healthz", "/readyz"} | profiles | self._pages.keys()

    def _nothing_taken(self, path: str) -> str:
        """For who sends something to an address that takes nothing; most often that is not turned on."""
        if path in _OFF:
            return _OFF[path]
        there = ", ".join(self._receivers)
        return f"nothing is taken here; {f'things are sent to {there}' if there else 'nor anywhere else'}"

    async def _guarded(self, path: str, headers: dict[str, str]) -> Answer:
        """What tells of people, and so is only for those who are let in."""
        if path == "/":
            page = home(self._book.issue, measured=bool(self._pages))
            return Answer(200, page.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        openmetrics = wants_openmetrics(headers.get("accept", ""))
        gzip = accepts_gzip(headers.get("accept-encoding", ""))
        profile = catalogue.DEFAULT if path == "/metrics" else path.removeprefix("/metrics/")
        if path in self._pages:
            body = await self._pages[path].body(openmetrics=openmetrics, gzip=gzip)
        elif path == "/metrics" or profile in catalogue.PROFILES:
            body = await self._book.body(profile, openmetrics=openmetrics, gzip=gzip)
        else:
            there = ", ".join(("/", "/metrics", *(f"/metrics/{name}" for name in catalogue.PROFILES), *self._pages))
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
