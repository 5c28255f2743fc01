# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent posts to `serve`, whatever that answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Callable

import pytest
from sinks.made import Question, Reply, mock

from slurmscope.measure import Report
from slurmscope.node import post
from slurmscope.node.post import Poster
from slurmscope.settings import Agent


def report(number: int, size: int = 0) -> Report:
    return Report(cluster="alpha", node="n" * size or "n1", time=float(number), seconds=0.0, jobs=())


def times(question: Question) -> list[int]:
    return [round(one["time"]) for one in json.loads(gzip.decompress(question.body))]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():
            await asyncio.sleep(0.01)


async def sends(url: str, numbers: range, over: Callable[[Poster], bool]) -> Poster:
    poster = Poster(Agent(serve_url=url))
    await poster.take([report(number) for number in numbers])
    task = asyncio.create_task(poster.run())
    await until(lambda: over(poster))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await poster.close()
    return poster


def test_fewer_are_sent_at_once_to_a_server_that_takes_less_mock() -> None:
    got: list[int] = []
    sizes: list[int] = []

    def answer(question: Question) -> Reply:
        found = times(question)
        sizes.append(len(found))
        if len(found) > 4 or 7 in found:
            return 413, {}, b""
        got.extend(found)
        return 200, {}, b""

    with mock(answer) as url:
        poster = asyncio.run(sends(url, range(40), lambda poster: poster.tally.queued == 0))
    assert sorted(got) == [number for number in range(40) if number != 7] and got == sorted(got)
    assert (poster.tally.sent, poster.tally.rejected, poster.tally.queued_bytes) == (39, 1, 0)
    assert sizes[:4] == [32, 16, 8, 4] and max(sizes[4:]) == 4  # it is not tried again while something waits


def test_each_reason_is_told_once_mock(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.sinks.sender.FIRST_WAIT", 0.01)
    replies: list[Reply] = [(500, {}, b"no 1"), (500, {}, b"no 2"), (401, {}, b""), (500, {}, b"no 3"), (401, {}, b"")]

    def answer(question: Question) -> Reply:
        return replies.pop(0) if replies else (200, {}, b"")

    with caplog.at_level(logging.INFO), mock(answer) as url:
        poster = asyncio.run(sends(url, range(1), lambda poster: poster.tally.sent == 1))
    told = [record.message for record in caplog.records if record.name.startswith("slurmscope")]
    assert told == ["cannot send", "cannot send, for another reason now", "sends again"]
    assert poster.tally.failures == 5


def test_what_waits_is_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    poster = Poster(Agent(serve_url="http://127.0.0.1:1"))
    asyncio.run(poster.take([report(number) for number in range(300)]))
    assert (poster.tally.queued, poster.tally.dropped) == (256, 44)
    monkeypatch.setattr(post, "_MOST_BYTES", 10_000)
    asyncio.run(poster.take([report(number, 3000) for number in range(4)]))
    assert (poster.tally.queued, poster.tally.dropped) == (3, 301)
    assert 9000 < poster.tally.queued_bytes < 10_000
    asyncio.run(poster.take([report(1, 20_000)]))
    assert (poster.tally.queued, poster.tally.queued_bytes) == (0, 0)
