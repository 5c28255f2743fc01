# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import gzip
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import recorded
from prometheus_client.parser import text_string_to_metric_families as parse_text
from servers.process import Server
from sinks.made import Question, Reply, mock, running, until

from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.settings import Pushgateway
from slurmscope.sinks import sender
from slurmscope.sinks.pushgateway import PushgatewaySink

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "FIRST_WAIT", 0.05)


class Page:
    """A page of one number."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    async def __call__(self) -> bytes:
        return gzip.compress(f'# TYPE slurm_x gauge\nslurm_x{{cluster="alpha"}} {self.value}\n'.encode())


def series(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def shown(server: Server, job: str) -> Series:
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        found = series(answer.read().decode())
    return {key: value for key, value in found.items() if ("job", job) in key[1]}


def used(sink: PushgatewaySink, body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(sink):
            await body()
        await sink.close()

    asyncio.run(main())


@pytest.mark.parametrize("generation", recorded.GENERATIONS)
def test_the_page_arrives_as_it_is(pushgateway: Server, generation: str) -> None:
    _, pages = recorded.read(generation)
    pieces: list[bytes] = []

    async def page() -> bytes:
        pieces[:] = await Book([pages]).body(catalogue.DEFAULT, openmetrics=False, gzip=True)
        return b"".join(pieces)

    job = f"page {generation}"
    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job=job, grouping={"site": "a/b c"}), page)

    async def body() -> None:
        await sink.take()
        await until(lambda: sink.tally.sent == 1)

    used(sink, body)
    assert (sink.tally.up, sink.tally.failures, sink.tally.queued) == (True, 0, 0)
    group = {("job", job), ("site", "a/b c")}
    ours = series(gzip.decompress(b"".join(pieces)).decode())
    expected = {(name, _same(labels) | group): float(value) for (name, labels), value in ours.items()}
    theirs = shown(pushgateway, job).items()
    found = {(name, _same(labels)): value for (name, labels), value in theirs if not name.startswith("push_")}
    assert found == expected
    assert len(found) > 300


def _same(labels: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """An empty label is none, and a bound is a number however it is written."""
    return frozenset((name, str(float(value)) if name == "le" else value) for name, value in labels if value)


def test_after_an_outage_the_newest_page_is_there(pushgateway: Server) -> None:
    page = Page()
    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job="outage", interval=1), page)

    async def body() -> None:
        await sink.take()
        await until(lambda: sink.tally.sent == 1)
        with pushgateway.stopped():
            for page.value in range(1, 8):
                await sink.take()
            await until(lambda: sink.tally.failures > 1)
            assert (sink.tally.up, sink.tally.queued, sink.tally.sent) == (False, 1, 1)
        await until(lambda: sink.tally.sent == 2)

    used(sink, body)
    assert {key[0]: value for key, value in shown(pushgateway, "outage").items()}["slurm_x"] == 7


@pytest.mark.parametrize("delete", [True, False])
def test_on_a_clean_stop_the_group_may_go(pushgateway: Server, delete: bool) -> None:
    job = f"stop {delete}"
    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job=job, delete_on_stop=delete), Page())

    async def body() -> None:
        await sink.take()
        await until(lambda: sink.tally.sent == 1)

    used(sink, body)
    assert bool(shown(pushgateway, job)) is not delete


def test_what_the_pushgateway_refuses_is_told(pushgateway: Server) -> None:
    async def page() -> bytes:
        return gzip.compress(b"slurm_x 1 1700000000000\n")

    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job="refused"), page)

    async def body() -> None:
        await sink.take()
        await until(lambda: sink.tally.failures > 0)

    used(sink, body)
    assert "was answered with 400" in sink.tally.last_error


def test_no_faster_than_the_interval_and_only_what_is_new(pushgateway: Server) -> None:
    page = Page()
    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job="often", interval=1), page)

    async def body() -> None:
        started = time.monotonic()
        while time.monotonic() - started < 2.5:
            page.value += 1
            await sink.take()
            await asyncio.sleep(0.01)
        assert sink.tally.sent == 3
        await until(lambda: sink.tally.queued == 0)
        sent = sink.tally.sent
        await asyncio.sleep(1.2)
        assert sink.tally.sent == sent

    used(sink, body)


def test_at_the_end_what_is_new_is_pushed(pushgateway: Server) -> None:
    sink = PushgatewaySink(Pushgateway(url=pushgateway.url, job="end"), Page(5))

    async def main() -> None:
        await sink.take()
        await sink.close()

    asyncio.run(main())
    assert shown(pushgateway, "end")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("plain", "site/plain"),
        ("a b?#%", "site/a%20b%3F%23%25"),
        ("a/b", "site@base64/YS9i"),
        ("", "site@base64/="),
        ("..", "site@base64/Li4="),
        ("å", "site/%C3%A5"),
    ],
)
def test_labels_in_an_address(value: str, path: str) -> None:
    sink = PushgatewaySink(Pushgateway(url="http://127.0.0.1:1", grouping={"site": value}), Page())
    assert sink._path == f"/metrics/job/slurmscope/{path}"


def test_mock_who_we_are_and_what_is_sent(tmp_path: Path) -> None:
    questions: list[Question] = []

    def answer(question: Question) -> Reply:
        questions.append(question)
        return (401, {}, b"") if len(questions) == 1 else (202, {}, b"")

    (tmp_path / "password").write_text("sesame\n")

    async def main(url: str) -> None:
        settings: dict[str, Any] = {"user": "alice", "password_file": str(tmp_path / "password")}
        sink = PushgatewaySink(Pushgateway(url=f"{url}/push/", **settings), Page())
        async with running(sink):
            await sink.take()
            await until(lambda: sink.tally.sent == 1)
        await sink.close()
        assert sink.tally.failures == 1

    with mock(answer) as url:
        asyncio.run(main(url))
    assert {one.path for one in questions} == {"/push/metrics/job/slurmscope"}
    assert {one.method for one in questions} == {"PUT"}
    assert {one.headers["Authorization"] for one in questions} == {"Basic YWxpY2U6c2VzYW1l"}
    assert {one.headers["Content-Encoding"] for one in questions} == {"gzip"}
