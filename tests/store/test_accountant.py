# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Reading the accounting, window by window."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as some
from lives import SUBMIT, accounted, job

from slurmscope import life as lives
from slurmscope.life import Accounted
from slurmscope.model import Job
from slurmscope.slurm.source import Costs, Reading, Window
from slurmscope.slurm.transport import Failed, TimedOut
from slurmscope.store import recorder
from slurmscope.store.accountant import DAY, Accountant, gaps, joined
from slurmscope.store.protocol import Lives, Span, Store
from slurmscope.store.sqlite import SqliteStore

T = TypeVar("T")
NOW = SUBMIT + 100 * DAY


class Slurmdbd:
    """A source that tells the jobs of a window, and remembers which were asked for."""

    def __init__(self, *jobs: Job, most: int = 1000) -> None:
        self.costs: Costs = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        self.jobs = list(jobs)
        self.asked: list[Window] = []
        self.most = most  # more takes too long
        self.error: Exception | None = None
        self.fail_after: int | None = None  # so many good answers

    async def read(self, part: str, window: Window | None = None) -> Reading:
        assert part == "history"
        assert window is not None
        self.asked.append(window)
        if self.error is not None:
            raise self.error
        if self.fail_after is not None and len(self.asked) > self.fail_after:
            raise Failed("sacct exited with 1: Connection refused")
        since, until = window
        found = [one for one in self.jobs if (one.submit_time or 0) < until and (one.end_time or NOW) >= since]
        if len(found) > self.most:
            raise TimedOut("sacct was killed after 120 s")
        told: tuple[Accounted, ...] = tuple(accounted(one) for one in found)
        return Reading(told, "text:sacct")

    async def script(self, job: Job) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is kept open."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(tmp_path / "history.db")
    yield found
    found.close()


def accountant(store: Store, source: Slurmdbd, now: Callable[[], float] = lambda: NOW) -> Accountant:
    async def call(work: Callable[[Store], T]) -> T:
        return work(store)

    return Accountant(source, "alpha", call, clock=now)


def of_days(count: int, each: int = 3) -> list[Job]:
    """So many jobs on each day, from SUBMIT on."""
    return [
        job(
            day * 100 + at,
            "COMPLETED",
            submit_time=(start := SUBMIT + day * DAY + at),
            start_time=start,
            end_time=start + 60,
        )
        for day in range(count)
        for at in range(each)
    ]


def test_what_it_brings_is_yet_to_be_judged(store: SqliteStore) -> None:
    """Nothing that is there already sets the mark back."""
    with store.writing("alpha") as writer:
        writer.put_judged(NOW)
    source = Slurmdbd(*of_days(2))
    asyncio.run(accountant(store, source).read(SUBMIT, SUBMIT + DAY))
    assert store.judged("alpha") == SUBMIT
    with store.writing("alpha") as writer:
        writer.put_judged(NOW)
    asyncio.run(accountant(store, source).read(SUBMIT, SUBMIT + DAY, again=True))
    assert store.judged("alpha") == NOW


def test_an_import_reads_everything_once(store: SqliteStore) -> None:
    source = Slurmdbd(*of_days(90))
    reader = accountant(store, source)
    done = asyncio.run(reader.read(SUBMIT, NOW))
    assert store.count(Lives()) == 270
    assert (done.jobs, done.changed) == (270, 270)
    assert [until - since for since, until in source.asked[:4]] == [DAY, 2 * DAY, 4 * DAY, 8 * DAY], "as much as fits"
    assert source.asked[0][1] == NOW, "the newest first"
    asked = len(source.asked)
    done = asyncio.run(accountant(store, source).read(SUBMIT, NOW))
    assert len(source.asked) == asked + 1, "only the last quarter of an hour may have news"
    assert done.changed == 0
    done = asyncio.run(reader.read(SUBMIT, NOW, again=True))
    assert (done.jobs, done.changed) == (270, 0)
    assert recorder.wrong_usage(store, "alpha") == []


def test_an_import_that_was_stopped_goes_on(store: SqliteStore) -> None:
    source = Slurmdbd(*of_days(90))
    seen = []

    def stop(done: object) -> None:
        seen.append(done)
        if len(seen) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(accountant(store, source).read(SUBMIT, NOW, progress=stop))
    read = min(since for since, _ in source.asked[:5])
    source.asked.clear()
    asyncio.run(accountant(store, source).read(SUBMIT, NOW))
    assert next(until for _, until in source.asked if until <= NOW - DAY) <= read, "what was read is not read again"
    assert store.count(Lives()) == 270


def test_too_much_at_a_time_is_asked_for_in_pieces(store: SqliteStore) -> None:
    source = Slurmdbd(*of_days(4, each=50), most=60)
    source.jobs += [
        job(9000 + at, "COMPLETED", submit_time=SUBMIT + 2 * DAY + at * 60, end_time=SUBMIT + 2 * DAY + at * 60 + 30)
        for at in range(1000)
    ]
    asyncio.run(accountant(store, source).read(SUBMIT, SUBMIT + 5 * DAY))
    assert store.count(Lives()) == 1200


def test_what_takes_too_long_even_in_the_smallest_piece_is_an_error(store: SqliteStore) -> None:
    source = Slurmdbd(*of_days(1, each=50), most=1)
    with pytest.raises(TimedOut):
        asyncio.run(accountant(store, source).read(SUBMIT - DAY, SUBMIT + DAY))


def test_the_regular_pass_reads_what_is_new(store: SqliteStore) -> None:
    clock = [float(NOW)]
    source = Slurmdbd()
    reader = accountant(store, source, lambda: clock[0])
    asyncio.run(reader.catch_up(7 * DAY))
    assert min(since for since, _ in source.asked) == NOW - 7 * DAY
    for _ in range(3):
        source.asked.clear()
        clock[0] += 300
        asyncio.run(reader.catch_up(7 * DAY))
        ((since, until),) = source.asked
        assert until == clock[0]
        assert 300 <= until - since <= 2400, "a little more than what is new: slurmdbd may lag"
    clock[0] += 3 * DAY  # a stop
    source.asked.clear()
    asyncio.run(accountant(store, source, lambda: clock[0]).catch_up(7 * DAY))
    assert min(since for since, _ in source.asked) <= clock[0] - 3 * DAY


def test_a_job_that_is_missing_is_looked_for_until_it_is_told(store: SqliteStore) -> None:
    """slurmdbd was away for hours, and got the news late."""
    clock = [float(NOW)]
    source = Slurmdbd()
    reader = accountant(store, source, lambda: clock[0])
    asyncio.run(reader.catch_up(7 * DAY))
    running = job(1, "RUNNING", submit_time=NOW - 1000, start_time=NOW - 900)
    gone = lives.unseen(lives.seen(None, "alpha", running, NOW - 800), NOW)
    with store.writing("alpha") as writer:
        writer.put_lives([gone])
    for _ in range(20):
        clock[0] += 1800
        asyncio.run(reader.catch_up(7 * DAY))
    source.jobs = [job(1, "COMPLETED", submit_time=NOW - 1000, start_time=NOW - 900, end_time=NOW - 10)]
    clock[0] += 300
    asyncio.run(reader.catch_up(7 * DAY))
    (found,) = store.lives(Lives())
    assert (found.state, found.end_time) == ("COMPLETED", NOW - 10)


def test_what_fails_leaves_the_time_unread(store: SqliteStore) -> None:
    source = Slurmdbd(*of_days(3))
    source.error = Failed("sacct exited with 1: slurm_persist_conn_open: Connection refused")
    with pytest.raises(Failed):
        asyncio.run(accountant(store, source).read(SUBMIT, SUBMIT + 3 * DAY))
    assert store.spans("alpha") == []
    source.error = None
    asyncio.run(accountant(store, source).read(SUBMIT, SUBMIT + 3 * DAY))
    assert store.spans("alpha") == [Span(SUBMIT, SUBMIT + 3 * DAY)]


SPANS = some.lists(
    some.tuples(some.integers(0, 60), some.integers(1, 20)).map(lambda one: Span(one[0], one[0] + one[1]))
)


@given(SPANS, some.integers(0, 60), some.integers(1, 40))
def test_spans_are_sets_of_moments(spans: list[Span], start: int, length: int) -> None:
    def moments(found: list[Span]) -> set[int]:
        return {moment for span in found for moment in range(span.start, span.end)}

    together = joined(spans)
    assert moments(together) == moments(spans)
    assert all(one.end < other.start for one, other in itertools.pairwise(together))
    asked = Span(start, start + length)
    missing = gaps(asked, spans)
    assert moments(missing) == moments([asked]) - moments(spans)
    assert sum(span.end - span.start for span in missing) == len(moments(missing))


def test_a_pass_that_was_broken_off_leaves_no_gap(store: SqliteStore) -> None:
    """slurmscope was stopped for six days, and slurmdbd fails in the middle of catching up."""
    with store.writing("alpha") as writer:
        writer.put_spans([Span(NOW - 20 * DAY, NOW - 6 * DAY)])
    start = NOW - 5 * DAY
    source = Slurmdbd(job(1, "COMPLETED", submit_time=start, start_time=start, end_time=start + 60))
    reader = accountant(store, source)
    source.fail_after = 1
    with pytest.raises(Failed):
        asyncio.run(reader.catch_up(7 * DAY))
    source.fail_after = None
    asyncio.run(accountant(store, source).catch_up(7 * DAY))
    assert store.count(Lives(id=1)) == 1
    assert len(store.spans("alpha")) == 1


def test_a_job_that_ended_in_a_long_stop_is_found(store: SqliteStore) -> None:
    """It ended ten days ago, when slurmscope stopped: farther back than is read after a stop."""
    seen = NOW - 10 * DAY
    running = job(1, "RUNNING", submit_time=seen - 1000, start_time=seen - 900)
    with store.writing("alpha") as writer:
        writer.put_lives([lives.unseen(lives.seen(None, "alpha", running, seen), seen)])
        writer.put_spans([Span(NOW - 20 * DAY, seen)])
    source = Slurmdbd(job(1, "COMPLETED", submit_time=seen - 1000, start_time=seen - 900, end_time=seen + 600))
    asyncio.run(accountant(store, source).catch_up(7 * DAY))
    (found,) = store.lives(Lives())
    assert (found.state, found.end_time) == ("COMPLETED", seen + 600)
