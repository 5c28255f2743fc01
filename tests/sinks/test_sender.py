# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from slurmscope.sinks import sender as module
from slurmscope.sinks.sender import Batch, Receipt, Sender, Waits
from slurmscope.sinks.sink import BatchError, SendError
from slurmscope.sinks.spool import Spool, SpoolError


class Far:
    """The other side: takes, or does what it is told to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.tries: list[int] = []
        self.error: Exception | None = None
        self.most = 10**9
        self.poison: set[bytes] = set()
        self.busy: set[bytes] = set()

    async def send(self, batch: Batch) -> Receipt:
        self.tries.append(len(batch))
        if self.error is not None:
            raise self.error
        if len(batch) > self.most:
            raise BatchError("too large: for this one", large=True)
        if len(batch) > 1 and any(body in self.poison for _, body in batch):
            raise BatchError("bad: one of them")
        bad = [(seq, f"bad: {body!r}") for seq, body in batch if body in self.poison]
        good = [(seq, body) for seq, body in batch if body not in self.poison | self.busy]
        self.got += [body for _, body in good]
        return Receipt([seq for seq, _ in good], bad, why="busy" if len(good) + len(bad) < len(batch) else "")


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "sink.db", 1000)
    yield spool
    spool.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.005)


def running(far: Far, spool: Spool, body: Callable[[Sender], Awaitable[None]], most: int = 10) -> Sender:
    """Does something while the loop of a sender runs."""

    async def main() -> Sender:
        sender = Sender("far", spool, far.send, most_items=most, most_bytes=10**6)
        task = asyncio.create_task(sender.run())
        try:
            await body(sender)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return sender

    return asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.002)


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % at for at in range(start, start + count)]


def test_all_of_it_in_order(far: Far, spool: Spool) -> None:
    async def body(sender: Sender) -> None:
        await sender.add(numbers(25))
        await until(lambda: sender.tally.sent == 25)
        await sender.add(numbers(1, 25))
        await until(lambda: sender.tally.sent == 26 and sender.tally.queued == 0)
        assert sender.tally.up is True
        assert sender.tally.last_success is not None

    running(far, spool, body)
    assert far.got == numbers(26)
    assert far.tries == [10, 10, 5, 1]


def test_an_outage_is_told_once_and_its_end_once(far: Far, spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    far.error = SendError("it is away")

    async def body(sender: Sender) -> None:
        await sender.add(numbers(15))
        await until(lambda: sender.tally.failures > 3)
        assert (sender.tally.up, sender.tally.queued, sender.tally.queued_bytes) == (False, 15, 20)
        assert sender.tally.last_error == "it is away"
        far.error = None
        await until(lambda: sender.tally.up is True and sender.tally.queued == 0)

    running(far, spool, body)
    assert far.got == numbers(15)
    assert [record.message for record in caplog.records] == ["cannot send", "sends again"]


def test_a_fault_of_ours_does_not_end_the_loop(far: Far, spool: Spool) -> None:
    far.error = ZeroDivisionError("oops")

    async def body(sender: Sender) -> None:
        await sender.add(numbers(3))
        await until(lambda: sender.tally.failures > 1)
        far.error = None
        await until(lambda: sender.tally.sent == 3)

    running(far, spool, body)
    assert far.got == numbers(3)


def test_a_batch_that_is_too_large_is_halved(far: Far, spool: Spool) -> None:
    far.most = 3

    async def body(sender: Sender) -> None:
        await sender.add(numbers(20))
        await until(lambda: sender.tally.sent == 20)
        await until(lambda: sender.tally.queued == 0)
        far.most = 100
        await asyncio.sleep(0.05)
        await sender.add(numbers(10, 20))
        await until(lambda: sender.tally.sent == 30)

    running(far, spool, body)
    assert far.got == numbers(30)
    assert far.tries[:4] == [10, 5, 2, 2]
    assert far.tries[-1] == 10  # once all is sent, the size is tried again


def test_one_bad_item_is_found_and_left_out(far: Far, spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    far.poison = {b"7", b"13"}

    async def body(sender: Sender) -> None:
        await sender.add(numbers(30))
        await until(lambda: sender.tally.queued == 0)
        assert (sender.tally.sent, sender.tally.rejected, sender.tally.dropped) == (28, 2, 0)

    running(far, spool, body)
    assert far.got == [one for one in numbers(30) if one not in far.poison]
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert told[0].fields["error"] == "bad: b'7'"  # type: ignore[attr-defined]


def test_items_that_are_to_come_again_come_again(far: Far, spool: Spool) -> None:
    far.busy = {b"2"}

    async def body(sender: Sender) -> None:
        await sender.add(numbers(5))
        await until(lambda: sender.tally.failures > 2)
        assert (sender.tally.queued, sender.tally.up) == (1, False)
        far.busy = set()
        await until(lambda: sender.tally.queued == 0)

    running(far, spool, body)
    assert far.got == [b"0", b"1", b"3", b"4", b"2"]


def test_at_the_bound_the_oldest_are_lost_and_it_is_said(
    far: Far, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    far.error = SendError("it is away")

    async def body(sender: Sender) -> None:
        for start in range(0, 300, 100):
            await sender.add([b"%05d" % at for at in range(start, start + 100)])
        assert (sender.tally.queued, sender.tally.dropped) == (200, 100)
        far.error = None
        await until(lambda: sender.tally.queued == 0)

    running(far, spool, body)
    assert far.got == [b"%05d" % at for at in range(100, 300)]
    assert sum("the oldest is lost" in record.message for record in caplog.records) == 1


def test_a_spool_that_fails_costs_what_was_to_be_added_and_nothing_else(
    far: Far, spool: Spool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def full(items: object, mark: int) -> None:
        raise SpoolError("/spool/sink.db: the disk is full")

    async def body(sender: Sender) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(spool, "add", full)
            await sender.add(numbers(2))
            await sender.add(numbers(3))
        assert sender.tally.dropped == 5
        assert sender.tally.last_error.endswith("the disk is full")
        await sender.add(numbers(1, 5))
        await until(lambda: sender.tally.sent == 1)

    running(far, spool, body)
    assert [record.message for record in caplog.records] == ["data is lost", "data is kept again"]


def test_what_has_arrived_is_not_sent_again_though_it_cannot_be_forgotten(
    far: Far, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(seqs: object) -> None:
        raise SpoolError("/spool/sink.db: the disk is full")

    async def body(sender: Sender) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(spool, "done", full)
            await sender.add(numbers(3))
            await until(lambda: sender.tally.failures > 2)
        await until(lambda: sender.tally.queued == 0)

    running(far, spool, body)
    assert far.got == numbers(3)


def test_flush_tries_once(far: Far, spool: Spool) -> None:
    async def main() -> None:
        sender = Sender("far", spool, far.send, most_items=10, most_bytes=10**6)
        await sender.add(numbers(25))
        await sender.flush(5)
        assert (sender.tally.sent, sender.tally.queued) == (25, 0)
        far.error = SendError("it is away")
        await sender.add(numbers(25))
        await sender.flush(5)
        assert (sender.tally.failures, sender.tally.queued) == (1, 25)

        async def hang(batch: Batch) -> Receipt:
            await asyncio.sleep(60)
            return Receipt([])

        slow = Sender("far", spool, hang, most_items=10, most_bytes=10**6)
        async with asyncio.timeout(5):
            await slow.flush(0.05)

    asyncio.run(main())


def test_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 1.0)
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    waits = Waits()
    assert [waits.next(None) for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    waits.over()
    assert waits.next(30.0) == 30.0
    assert waits.next(10**9) == 3600.0
    monkeypatch.undo()
    assert len({Waits().next(None) for _ in range(20)}) > 10
