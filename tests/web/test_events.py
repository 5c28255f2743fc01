# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Streams by which pages are told of polls: who is told, when they end, and that there is room for all others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from served import serving
from web.sites import portal_of, site_of

from slurmscope.model import Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.web import events
from slurmscope.web.portal import Portal

JOBS = frozenset({"jobs"})


class Reader:
    """One browser at /events, without a socket between."""

    def __init__(self, portal: Portal, who: str = "") -> None:
        self._who = who
        self.said = b""
        self.status = 0
        self.ended = False
        self.heard = asyncio.Event()
        self._gone = asyncio.Event()
        self._asked = False
        self._task = asyncio.create_task(self._listen(portal))

    async def _listen(self, portal: Portal) -> None:
        headers = [(b"x-remote-user", self._who.encode())] if self._who else []
        scope = {"type": "http", "method": "GET", "path": "/events", "raw_path": b"/events", "headers": headers}
        await portal({**scope, "client": ("127.0.0.1", 1), "scheme": "http"}, self._receive, self._send)

    async def _receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.said += message.get("body", b"")
        self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        self.heard.set()

    async def until(self, words: bytes) -> None:
        while words not in self.said:
            self.heard.clear()
            await asyncio.wait_for(self.heard.wait(), 120)

    async def end(self) -> None:
        await asyncio.wait_for(self._task, 120)

    async def go(self) -> None:
        self._gone.set()
        await self.end()


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    made = portal_of(site_of(tmp_path, [Snapshot(cluster="alpha")]))
    yield made
    made.close()


@contextlib.asynccontextmanager
async def reading(portal: Portal) -> AsyncIterator[Reader]:
    reader = Reader(portal)
    await reader.until(b"retry: ")
    yield reader
    await reader.go()


def test_each_poll_is_told_to_each_reader_by_its_clusters_name(portal: Portal) -> None:
    async def look() -> None:
        async with reading(portal) as one, reading(portal) as other:
            await portal.events.publish(Snapshot(cluster='a"b\n\nevent: x'), JOBS)
            for reader in (one, other):
                assert reader.status == 200
                await reader.until(b'event: poll\ndata: {"cluster":"a\\"b\\n\\nevent: x"}\n\n')

    asyncio.run(look())


def test_a_poll_that_read_nothing_new_is_not_told(portal: Portal) -> None:
    async def look() -> None:
        async with reading(portal) as reader:
            await portal.events.publish(Snapshot(cluster="alpha"), frozenset())
            await portal.events.publish(Snapshot(cluster=""), JOBS)
            await portal.events.publish(Snapshot(cluster="beta"), JOBS)
            await reader.until(b"beta")
            assert reader.said.count(b"event: poll") == 1

    asyncio.run(look())


def test_a_name_that_is_no_text_is_told_all_the_same(portal: Portal) -> None:
    async def look() -> None:
        async with reading(portal) as reader:
            await portal.events.publish(Snapshot(cluster="x\udcff"), JOBS)
            await reader.until(b'{"cluster":"x?"}')

    asyncio.run(look())


def test_something_is_sent_while_nothing_happens(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT", 0.01)

    async def look() -> None:
        async with reading(portal) as reader:
            await reader.until(b":\n\n:\n\n")

    asyncio.run(look())


def test_a_stream_ends_after_a_while_so_that_who_signed_out_is_told_no_more(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST", 0.01)

    async def look() -> None:
        reader = Reader(portal)
        await reader.end()
        assert reader.status == 200 and reader.ended

    asyncio.run(look())


def test_the_end_of_the_server_ends_all_at_once_and_none_begins_after_it(portal: Portal) -> None:
    async def look() -> None:
        readers = [Reader(portal) for _ in range(10)]
        for one in readers:
            await one.until(b"retry: ")
        portal.events.close()
        for one in readers:
            await one.end()
            assert one.ended
        late = Reader(portal)
        await late.end()
        assert late.status == 503

    asyncio.run(look())


def test_there_are_only_so_many_and_who_goes_makes_room(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 3)

    async def look() -> None:
        readers = [Reader(portal) for _ in range(3)]
        for one in readers:
            await one.until(b"retry: ")
        more = Reader(portal)
        await more.end()
        assert more.status == 503 and b"ask for the page itself" in more.said
        await readers[0].go()
        async with reading(portal) as next_one:
            assert next_one.status == 200
        for one in readers[1:]:
            await one.go()

    asyncio.run(look())


def test_one_person_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_OF_ONE", 2)
    settings = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"])
    portal = portal_of(site_of(tmp_path, [Snapshot(cluster="alpha")], settings))

    async def look() -> None:
        hers = [Reader(portal, "alice") for _ in range(2)]
        for one in hers:
            await one.until(b"retry: ")
        more = Reader(portal, "alice")
        await more.end()
        assert more.status == 503
        his = Reader(portal, "bob")
        await his.until(b"retry: ")
        await hers[0].go()
        again = Reader(portal, "alice")
        await again.until(b"retry: ")
        for one in (hers[1], his, again):
            await one.go()

    asyncio.run(look())
    portal.close()


def test_only_who_has_signed_in_is_told(tmp_path: Path) -> None:
    portal = portal_of(site_of(tmp_path, [Snapshot(cluster="alpha")], PortalSettings(sign_in=["local"])))

    async def look() -> None:
        reader = Reader(portal)
        await reader.end()
        assert reader.status == 401
        assert b"event" not in reader.said

    asyncio.run(look())
    portal.close()


# --- by real connections ----------------------------------------------------------------------------------------------


def _asked(port: int, path: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=30)
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return made


def _until(connection: socket.socket, words: bytes) -> bytes:
    said = b""
    while words not in said:
        more = connection.recv(65536)
        assert more, said
        said += more
    return said


def _rest(connection: socket.socket) -> bytes:
    said = b""
    while more := connection.recv(65536):
        said += more
    return said


def test_fifty_readers_with_a_stream_and_kept_connections_starve_no_scraper_and_serve_stops(tmp_path: Path) -> None:
    """A browser opens six connections, and keeps those by which it asks nothing."""
    with serving(tmp_path, "[poll]\ninterval = 1") as served, contextlib.ExitStack() as stack:
        served.wait()
        streams = [stack.enter_context(_asked(served.port, "/events")) for _ in range(50)]
        for one in streams:
            _until(one, b"retry: ")
        for _ in range(250):
            kept = stack.enter_context(_asked(served.port, "/healthz"))
            _until(kept, b"ok\n")
        for _ in range(20):
            assert served.get("/metrics")[0] == 200
        for one in streams:
            _until(one, b"event: poll\n")  # none of them had to go
        assert served.stop() == 0
        for one in streams:
            assert _rest(one).endswith(b"0\r\n\r\n"), "it came to its end, and was not cut off"
