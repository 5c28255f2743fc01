# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who is hung up on when there are too many connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvicorn

from slurmscope import connection
from slurmscope.server import Receive, Scope, Send

ASK = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Gate:
    """Before /slow: who has come there, and whether they are let through."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[None] = asyncio.Queue()
        self.opened = asyncio.Event()


def serving(look: Callable[[int, Gate], Awaitable[None]]) -> None:
    """`look` has the port of a server."""

    async def run() -> None:
        gate = Gate()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/slow":
                gate.came.put_nowait(None)
                await gate.opened.wait()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok", "more_body": False})

        config = uvicorn.Config(app, http=connection.Connection, lifespan="off", log_config=None, port=0)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        await look(server.servers[0].sockets[0].getsockname()[1], gate)
        gate.opened.set()
        server.should_exit = True
        await task

    asyncio.run(run())


async def client(port: int, path: bytes = b"") -> Client:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if path:
        writer.write(ASK % path)
    return reader, writer


async def answered(one: Client) -> None:
    await asyncio.wait_for(one[0].readuntil(b"ok"), 120)


async def hung_up(one: Client) -> bool:
    return await asyncio.wait_for(one[0].read(), 120) == b""


def test_who_kept_a_connection_the_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST", 3)

    async def look(port: int, gate: Gate) -> None:
        first, second, third = [await client(port, b"/") for _ in range(3)]
        for one in (second, first, third):
            await answered(one)
        first[1].write(ASK % b"/")  # it asks again, and so the second one has been idle the longest
        await answered(first)
        third[1].write(ASK % b"/")
        await answered(third)
        await answered(await client(port, b"/"))
        assert await hung_up(second)
        first[1].write(ASK % b"/")
        await answered(first)

    serving(look)


def test_who_sends_nothing_makes_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST", 3)

    async def look(port: int, gate: Gate) -> None:
        silent = [await client(port) for _ in range(3)]
        kept = []
        for _ in range(10):
            kept.append(await client(port, b"/"))
            await answered(kept[-1])
        assert all([await hung_up(one) for one in silent])

    serving(look)


def test_who_waits_for_an_answer_gets_it_and_who_comes_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST", 3)

    async def look(port: int, gate: Gate) -> None:
        busy = [await client(port, b"/slow") for _ in range(3)]
        for _ in busy:
            await asyncio.wait_for(gate.came.get(), 120)
        assert await hung_up(await client(port))
        gate.opened.set()
        for one in busy:
            await answered(one)

    serving(look)
