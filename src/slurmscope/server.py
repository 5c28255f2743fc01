# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages over HTTP: an ASGI application without a framework, for it has six addresses and serves bytes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

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


class App:
    """`/`, `/metrics`, `/metrics/<profile>`, `/healthz`, `/readyz`."""

    def __init__(self, book: Book, guard: Guard) -> None:
        self._book = book
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not scope["path"].startswith("/metrics"):
            await self._serve(scope, send)
            return
        requests = self._book.requests
        requests.in_flight += 1
        try:
            status = await self._serve(scope, send)
        finally:
            requests.in_flight -= 1
        requests.total[status] = requests.total.get(status, 0) + 1

    async def _serve(self, scope: Scope, send: Send) -> int:
        try:
            answer = await self._answer(scope)
        except Exception:
            log.exception("a request failed", extra=fields(path=scope["path"]))
            answer = plain(500, "something went wrong; the log says what")
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        body = answer.body if scope["method"] != "HEAD" else []
        for piece in body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return answer.status

    async def _answer(self, scope: Scope) -> Answer:
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return plain(405, "only GET", [(b"allow", b"GET, HEAD")])
        if path == "/healthz":
            return plain(200, "ok")
        if path == "/readyz":
            return self._ready()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not await self._guard.allows_async(headers.get("authorization")):
            challenge = [(b"www-authenticate", b'Basic realm="slurmscope"')]
            return plain(401, "a name and password or a token is needed", challenge)
        return await self._guarded(path, headers)

    async def _guarded(self, path: str, headers: dict[str, str]) -> Answer:
        """What tells of people, and so is only for those who are let in."""
        if path == "/":
            return Answer(200, home(self._book.issue).encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        profile = catalogue.DEFAULT if path == "/metrics" else path.removeprefix("/metrics/")
        if path != "/metrics" and profile not in catalogue.PROFILES:
            there = ", ".join(("/", "/metrics", *(f"/metrics/{name}" for name in catalogue.PROFILES)))
            return plain(404, f"not here; there are {there}, /healthz and /readyz")
        return await self._metrics(profile, headers)

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

    async def _metrics(self, profile: str, headers: dict[str, str]) -> Answer:
        openmetrics = wants_openmetrics(headers.get("accept", ""))
        gzip = accepts_gzip(headers.get("accept-encoding", ""))
        body = await self._book.body(profile, openmetrics=openmetrics, gzip=gzip)
        more: Headers = [(b"vary", b"Accept, Accept-Encoding")]
        if gzip:
            more.append((b"content-encoding", b"gzip"))
        return Answer(200, body, OPENMETRICS if openmetrics else TEXT, more)


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
