# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""An address that takes a body, over real connections: whatever its clients do, they get little of our memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

import pytest
import uvicorn

from slurmscope import connection, server
from slurmscope.auth import Guard
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.server import Answer, App, plain

MOST = 100_000
HEAD = "POST /take HTTP/1.1\r\nHost: x\r\n"


class Taker:
    """Takes all but what comes from mallory."""

    most_bytes = MOST

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def refusal(self, headers: Mapping[str, str]) -> Answer | None:
        return plain(403, "not you") if headers.get("from") == "mallory" else None

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await self.gate.wait()
        self.at_once -= 1
        if body == b"fail":
            raise RuntimeError("a fault of ours")
        self.taken.append(body)
        return plain(200, f"took {len(body)}")

    async def about(self) -> Answer:
        return plain(200, "bodies")


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: str | bytes) -> None:
        self._writer.write(data.encode() if isinstance(data, str) else data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], str]:
        async with asyncio.timeout(10):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
            status, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(status.split()[1]), headers, body.decode().rstrip("\n")

    async def closed(self) -> bool:
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                return await self._reader.read() == b""
            return True

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def serving(taker: Taker) -> AsyncIterator[Callable[[], Coroutine[None, None, Client]]]:
    app = App(Book([Pages()]), Guard({}, []), {"/take": taker, "/other": Taker()})
    config = uvicorn.Config(app, http=connection.Connection, lifespan="off", log_config=None, port=0)
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)))
        return clients[-1]

    try:
        yield connect
    finally:
        for client in clients:
            client.close()
        running.should_exit = True
        await task


def talk(what: Callable[[Taker, Callable[[], Coroutine[None, None, Client]]], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        taker = Taker()
        async with serving(taker) as connect:
            await what(taker, connect)

    asyncio.run(run())


Connect = Callable[[], Coroutine[None, None, Client]]


def test_a_body_is_taken_and_the_connection_kept() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        for size in (0, 5, MOST):
            await client.send(f"{HEAD}Content-Length: {size}\r\n\r\n" + "x" * size)
            status, headers, told = await client.answer()
            assert (status, told) == (200, f"took {size}")
            assert headers.get("connection") != "close"
        await client.send(HEAD + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert taker.taken[-1] == b"abcde"

    talk(what)


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(f"{HEAD}Content-Length: {MOST + 1}\r\n\r\n")
        status, headers, told = await client.answer()
        assert (status, told, headers["connection"]) == (413, f"at most {MOST} bytes are taken here", "close")
        assert await client.closed()

    talk(what)


def test_a_body_that_turns_out_too_long_is_cut_off() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + "Transfer-Encoding: chunked\r\n\r\n")
        piece = "2710\r\n" + "x" * 10_000 + "\r\n"
        for _ in range(MOST // 10_000):
            await client.send(piece)
        await client.send(piece)
        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert await client.closed()
        assert taker.taken == []

    talk(what)


def test_a_long_body_may_come_in_pieces_and_the_next_request_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.5)

    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(f"{HEAD}Content-Length: {MOST}\r\n\r\n")
        for _ in range(MOST // 10_000):
            await asyncio.sleep(0.01)
            await client.send("x" * 10_000)
        assert (await client.answer())[0] == 200
        await asyncio.sleep(0.8)  # longer than a request may take to come
        await client.send(HEAD + "Content-Length: 2\r\n\r\nok")
        assert (await client.answer())[0] == 200

    talk(what)


def test_a_body_that_nobody_reads_does_not_keep_its_connection_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_PATIENCE", 0.5)

    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nx")
        assert (await client.answer())[0] == 200
        await client.send("x")
        assert await client.closed()

    talk(what)


def test_headers_behind_a_body_are_bounded_too() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                await client.send("X-Long: " + "x" * 10_000 + "\r\n")
        assert await client.closed()
        assert taker.taken == []

    talk(what)


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "9" * 30, "9" * 5000])
def test_a_length_that_is_none(length: str) -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(f"{HEAD}Content-Length: {length}\r\n\r\n")
        status, _, _ = await client.answer()
        assert status in (400, 413)
        assert taker.taken == []

    talk(what)


def test_a_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_BODY_SECONDS", 0.3)

    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + "Content-Length: 50\r\n\r\nx")
        status, headers, told = await client.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert told == "the body did not come in 0.3 s"
        assert await client.closed()
        assert taker.taken == []

    talk(what)


def test_who_may_not_send_is_told_before_the_body_is_read() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + "From: mallory\r\nContent-Length: 50\r\n\r\n")
        status, headers, told = await client.answer()
        assert (status, told, headers["connection"]) == (403, "not you", "close")
        assert await client.closed()

    talk(what)


def test_get_tells_about_it_and_other_methods_are_none() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send("GET /take HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[::2] == (200, "bodies")
        for method in ("PUT", "DELETE", "OPTIONS"):
            await client.send(f"{method} /take HTTP/1.1\r\nHost: x\r\n\r\n")
            status, headers, _ = await client.answer()
            assert (status, headers["allow"]) == (405, "GET, POST")
        for elsewhere, status in (("/take/", 404), ("/taken", 404), ("/trace", 404), ("/healthz", 405), ("/", 405)):
            await client.send(f"POST {elsewhere} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            found, _, said = await client.answer()
            assert found == status
            assert {"/taken": "sent to /take", "/trace": "trace.enabled"}.get(elsewhere, "") in said

    talk(what)


def test_so_many_bodies_are_in_hand_at_a_time_and_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_IN_HAND", 16 * MOST)

    async def what(taker: Taker, connect: Connect) -> None:
        taker.gate.clear()
        clients = [await connect() for _ in range(40)]
        for client in clients:
            await client.send(HEAD + "Content-Length: 2\r\n\r\nok")
        while taker.at_once < 16:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert taker.at_once == 16
        taker.gate.set()
        assert [(await client.answer())[0] for client in clients] == [200] * 40
        assert taker.most_at_once == 16

    talk(what)


def test_who_sends_to_one_address_keeps_nobody_waiting_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_IN_HAND", MOST)

    async def what(taker: Taker, connect: Connect) -> None:
        slow = await connect()
        await slow.send(HEAD + "Content-Length: 50\r\n\r\nhalf")
        await asyncio.sleep(0.1)
        client = await connect()
        await client.send(HEAD.replace("/take", "/other") + "Content-Length: 2\r\n\r\nok")
        assert (await asyncio.wait_for(client.answer(), 60))[0] == 200
        slow.close()

    talk(what)


def test_a_body_that_is_cut_off_is_not_taken_and_leaves_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_IN_HAND", 16 * MOST)

    async def what(taker: Taker, connect: Connect) -> None:
        for _ in range(20):  # more than are read at a time
            client = await connect()
            await client.send(HEAD + "Content-Length: 50\r\n\r\nhalf")
            client.close()
        client = await connect()
        await client.send(HEAD + "Content-Length: 5\r\n\r\nwhole")
        assert (await client.answer())[0] == 200
        assert taker.taken == [b"whole"]

    talk(what)


def test_a_fault_of_ours_is_a_500_and_no_more() -> None:
    async def what(taker: Taker, connect: Connect) -> None:
        client = await connect()
        await client.send(HEAD + "Content-Length: 4\r\n\r\nfail")
        assert (await client.answer())[::2] == (500, "something went wrong; the log says what")
        await client.send(HEAD + "Content-Length: 4\r\n\r\ngood")
        assert (await client.answer())[0] == 200

    talk(what)
