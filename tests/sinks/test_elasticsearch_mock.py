# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a real server cannot be made to answer: a stand-in does."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from sinks import made
from sinks.made import Question, Reply, mock, running, until

from slurmscope.settings import Elasticsearch
from slurmscope.sinks import sender
from slurmscope.sinks.elasticsearch import ElasticsearchSink

OK: Reply = (200, {}, b'{"acknowledged":true}')


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "FIRST_WAIT", 0.01)


class Stand:
    """Takes every document, unless it is told what to answer first."""

    def __init__(self, *first: Reply | Callable[[Question], Reply]) -> None:
        self.first = list(first)
        self.questions: list[Question] = []
        self.ids: list[str] = []

    def __call__(self, question: Question) -> Reply:
        self.questions.append(question)
        if not question.path.startswith("/_bulk"):
            return OK
        if self.first:
            reply = self.first.pop(0)
            return reply(question) if callable(reply) else reply
        ids = actions(question)
        self.ids += ids
        return bulk([201] * len(ids))


def actions(question: Question) -> list[str]:
    return [next(iter(json.loads(line).values()))["_id"] for line in question.body.splitlines()[::2]]


def bulk(statuses: list[int], error: str = "") -> Reply:
    items = [
        {"index": {"status": status} | ({"error": {"type": error, "reason": "why"}} if status >= 400 else {})}
        for status in statuses
    ]
    return 200, {}, json.dumps({"errors": bool(error), "items": items}).encode()


def sent(stand: Stand, folder: Path, count: int = 4, **settings: Any) -> ElasticsearchSink:
    """A sink that has sent some jobs, or found out that it cannot."""

    async def main(url: str) -> ElasticsearchSink:
        sink = ElasticsearchSink(Elasticsearch(url=url, **settings), folder)
        async with running(sink):
            await sink.take([made.pending(id_) for id_ in range(count)])
            await until(lambda: sink.tally.queued == 0)
        await sink.close()
        return sink

    with mock(stand) as url:
        return asyncio.run(main(url))


def test_mock_templates_come_first_and_documents_have_versions(tmp_path: Path) -> None:
    stand = Stand()
    sent(stand, tmp_path, prefix="hpc")
    assert [f"{one.method} {one.path.partition('?')[0]}" for one in stand.questions] == [
        "PUT /_index_template/hpc-jobs",
        "PUT /_index_template/hpc-nodes",
        "POST /_bulk",
    ]
    action = json.loads(stand.questions[-1].body.splitlines()[0])["index"]
    assert (action["_index"], action["_id"]) == ("hpc-jobs", f"alpha.0.{made.NOW}")
    assert action["version_type"] == "external"
    assert abs(action["version"] / 1e6 - time.time()) < 60


def test_mock_versions_grow_though_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    sent(stand, tmp_path)
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    sent(stand, tmp_path)
    versions = [
        json.loads(line)["index"]["version"]
        for question in stand.questions
        if question.path.startswith("/_bulk")
        for line in question.body.splitlines()[::2]
    ]
    assert versions == sorted(set(versions))


def test_mock_429_waits_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    stand = Stand((429, {"Retry-After": "1"}, b"later"))
    started = time.monotonic()
    sink = sent(stand, tmp_path)
    assert time.monotonic() - started >= 1
    assert (sink.tally.failures, sink.tally.sent) == (1, 4)
    assert "is busy, 429: later" in sink.tally.last_error


def test_mock_retry_after_may_be_a_date(tmp_path: Path) -> None:
    started = time.monotonic()
    sent(Stand((503, {"Retry-After": formatdate(time.time() + 3, usegmt=True)}, b"")), tmp_path)
    assert time.monotonic() - started >= 1


def test_mock_413_halves_the_batch(tmp_path: Path) -> None:
    def small(question: Question) -> Reply:
        return 413, {}, b""

    stand = Stand(small, small)
    sink = sent(stand, tmp_path, count=20)
    assert [len(actions(one)) for one in stand.questions if one.path.startswith("/_bulk")][:4] == [20, 10, 5, 5]
    assert (sink.tally.sent, sink.tally.rejected) == (20, 0)
    assert stand.ids == [f"alpha.{id_}.{made.NOW}" for id_ in range(20)]


def test_mock_items_that_are_refused_for_now_come_again(tmp_path: Path) -> None:
    stand = Stand(bulk([201, 429, 409, 503], "es_rejected_execution_exception"))
    sink = sent(stand, tmp_path)
    assert stand.ids == [f"alpha.1.{made.NOW}", f"alpha.3.{made.NOW}"]
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.failures) == (4, 0, 1)
    assert sink.tally.last_error == "2 of 4 items not now, 429: es_rejected_execution_exception: why"


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, "index_closed_exception"), (400, "validation_exception"), (403, "cluster_block_exception"), (404, "x")],
)
def test_mock_what_is_wrong_with_the_index_costs_no_document(tmp_path: Path, status: int, error: str) -> None:
    stand = Stand(bulk([status] * 4, error))
    sink = sent(stand, tmp_path)
    assert (sink.tally.sent, sink.tally.rejected, len(stand.ids)) == (4, 0, 4)


def test_mock_what_is_wrong_with_a_document_costs_that_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = sent(Stand(bulk([201, 400, 400, 201], "mapper_parsing_exception")), tmp_path)
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.failures) == (2, 2, 0)
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1


@pytest.mark.parametrize(
    "reply",
    [
        (200, {}, b"<html>a proxy's page of welcome</html>"),
        (200, {}, b'{"errors":false,"items":[]}'),
        (200, {}, b"[]"),
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
        (400, {}, b'{"error":"no handler"}'),
        (500, {}, b""),
        (200, {}, b" " * (9 << 20)),
    ],
)
def test_mock_answers_that_are_none_lose_nothing(tmp_path: Path, reply: Reply) -> None:
    stand = Stand(reply)
    sink = sent(stand, tmp_path)
    assert (sink.tally.failures, sink.tally.sent, len(stand.ids)) == (1, 4, 4)


def test_mock_templates_are_sent_again_to_whoever_comes_back(tmp_path: Path) -> None:
    stand = Stand((503, {}, b""))
    sent(stand, tmp_path)
    assert sum(one.method == "PUT" for one in stand.questions) == 4


def test_mock_who_we_are(tmp_path: Path) -> None:
    key, basic, file = Stand(), Stand(), Stand()
    sent(key, tmp_path, api_key="c2VjcmV0")
    sent(basic, tmp_path, user="alice", password="pässword:1")
    (tmp_path / "password").write_text("sesame\n")
    sent(file, tmp_path, user="alice", password_file=str(tmp_path / "password"))
    assert {one.headers["Authorization"] for one in key.questions} == {"ApiKey c2VjcmV0"}
    for stand, pair in ((basic, "alice:pässword:1"), (file, "alice:sesame")):
        wanted = "Basic " + base64.b64encode(pair.encode()).decode()
        assert {one.headers["Authorization"] for one in stand.questions} == {wanted}


def test_mock_a_password_that_is_refused_is_read_anew(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")

    def refuse(question: Question) -> Reply:
        password.write_text("new")
        return 401, {}, b"who?"

    stand = Stand(refuse)
    sink = sent(stand, tmp_path, user="alice", password_file=str(password))
    assert stand.questions[-1].headers["Authorization"] == "Basic " + base64.b64encode(b"alice:new").decode()
    assert "is the password of alice right (elasticsearch.password)" in sink.tally.last_error
    assert "old" not in sink.tally.last_error


def test_mock_large_batches_are_bounded(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        sink = ElasticsearchSink(Elasticsearch(url=url), tmp_path)
        await sink.take([made.pending(id_) for id_ in range(1500)])
        await sink.take([made.pending(id_, name="x" * 100_000) for id_ in range(2000, 2120)])
        await sink.close()
        assert sink.tally.sent == 1620

    stand = Stand()
    with mock(stand) as url:
        asyncio.run(main(url))
    batches = [one for one in stand.questions if one.path.startswith("/_bulk")]
    assert max(len(actions(one)) for one in batches) == 1000
    assert max(len(one.body) for one in batches) <= 5_000_000
    assert len(batches) > 3


def test_mock_nodes_of_two_clusters_are_two(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        sink = ElasticsearchSink(Elasticsearch(url=url), tmp_path)
        for cluster in ("alpha", "beta"):
            await sink.take([], [(cluster, made.node(state="DOWN"), made.NOW + 130)])
        await sink.close()

    stand = Stand()
    with mock(stand) as url:
        asyncio.run(main(url))
    assert stand.ids == ["alpha.n1", "beta.n1"]


def test_mock_while_the_server_is_away_only_nodes_that_change_wait(tmp_path: Path) -> None:
    async def main() -> None:
        sink = ElasticsearchSink(Elasticsearch(url="http://127.0.0.1:1"), tmp_path)
        async with running(sink):
            await sink.take([], [("alpha", made.NODE, made.NOW)])
            await until(lambda: sink.tally.up is False)
            await sink.take([], [("alpha", made.node(load=99.0), made.NOW + 3600)])
            assert sink.tally.queued == 1
            await sink.take([], [("alpha", made.node(flags=frozenset({"DRAIN"})), made.NOW + 3700)])
            assert sink.tally.queued == 2
        await sink.close()

    asyncio.run(main())
