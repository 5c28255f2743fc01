# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Against a real server that speaks Elasticsearch's protocol, with TLS and users."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from servers import opensearch as servers
from servers.opensearch import Elasticsearch as Server
from servers.process import HERE
from servers.proxy import Keyed
from sinks import made
from sinks.made import NASTY, NOW, running, until

from slurmscope.life import Life
from slurmscope.settings import Elasticsearch
from slurmscope.sinks import sender
from slurmscope.sinks.elasticsearch import ElasticsearchSink
from slurmscope.store.protocol import NodeChange


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "FIRST_WAIT", 0.1)
    monkeypatch.setattr(sender, "LONGEST_WAIT", 1.0)


def settings(server: Server, prefix: str, **more: Any) -> Elasticsearch:
    given = {"user": server.user, "password": server.password, "ca": str(server.ca or "")} | more
    return Elasticsearch(url=given.pop("url", server.url), prefix=prefix, **given)


def found(server: Server, index: str) -> dict[str, dict[str, Any]]:
    """All documents of an index, by their ids."""
    with server.client() as client:
        client.post(f"/{index}/_refresh").raise_for_status()
        hits = client.post(f"/{index}/_search", json={"size": 10_000}).raise_for_status().json()["hits"]["hits"]
    return {hit["_id"]: hit["_source"] for hit in hits}


def count(server: Server, index: str, query: dict[str, Any]) -> int:
    with server.client() as client:
        answer = client.post(f"/{index}/_count", json={"query": query}).raise_for_status().json()
    counted: int = answer["count"]
    return counted


def used(given: Elasticsearch, folder: Path, body: Callable[[ElasticsearchSink], Awaitable[None]]) -> ElasticsearchSink:
    async def main() -> ElasticsearchSink:
        sink = ElasticsearchSink(given, folder)
        async with running(sink):
            await body(sink)
        await sink.close()
        return sink

    return asyncio.run(main())


def sent(given: Elasticsearch, folder: Path, *lives: Life) -> ElasticsearchSink:
    async def body(sink: ElasticsearchSink) -> None:
        await sink.take(lives)
        await until(lambda: sink.tally.queued == 0)

    return used(given, folder, body)


def refused(given: Elasticsearch, folder: Path) -> str:
    """What is said when nothing can be sent; what waits goes on waiting."""

    async def body(sink: ElasticsearchSink) -> None:
        await sink.take([made.pending(1)])
        await until(lambda: sink.tally.failures > 0)

    sink = used(given, folder, body)
    assert (sink.tally.up, sink.tally.queued, sink.tally.sent, sink.tally.rejected) == (False, 1, 0, 0)
    return sink.tally.last_error


# --- what is there, and how it can be asked for -----------------------------------------------------------------------


def test_documents_can_be_asked_for(opensearch: Server, tmp_path: Path) -> None:
    lives = [made.started(made.pending(1)), made.pending(1, "beta", gpus={}), made.pending(2)]

    async def body(sink: ElasticsearchSink) -> None:
        await sink.take(lives, [("alpha", made.NODE, NOW), ("beta", made.NODE, NOW)])
        await until(lambda: sink.tally.queued == 0)

    sink = used(settings(opensearch, "asked"), tmp_path, body)
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.failures) == (5, 0, 0)
    jobs = found(opensearch, "asked-jobs")
    assert set(jobs) == {life.document_id for life in lives}
    assert jobs[f"alpha.1.{NOW}"]["transitions"][1] == {"time": NOW + 60, "state": "RUNNING", "reason": None}
    assert set(found(opensearch, "asked-nodes")) == {"alpha.n1", "beta.n1"}

    def jobs_with(query: dict[str, Any]) -> int:
        return count(opensearch, "asked-jobs", query)

    assert jobs_with({"term": {"cluster": "alpha"}}) == 2
    assert jobs_with({"term": {"gpus.type": "a100"}}) == jobs_with({"term": {"gpu_types": "a100"}}) == 2
    assert jobs_with({"range": {"gpu_count": {"gte": 1}}}) == 2
    # as Grafana asks
    millis = {"gte": (NOW - 1) * 1000, "lte": (NOW + 1) * 1000, "format": "epoch_millis"}
    assert jobs_with({"range": {"@timestamp": millis}}) == 3
    assert jobs_with({"range": {"@timestamp": millis | {"gte": (NOW + 1) * 1000}}}) == 0
    assert jobs_with({"range": {"start_time": {"gte": NOW + 60}}}) == 1
    # what is kept and not indexed
    assert jobs_with({"exists": {"field": "transitions.state"}}) == 0
    assert count(opensearch, "asked-nodes", {"term": {"flags": "PLANNED"}}) == 2
    assert count(opensearch, "asked-nodes", {"range": {"gpus.idle": {"gte": 2}}}) == 2


def test_hostile_names(opensearch: Server, tmp_path: Path) -> None:
    names = [NASTY, "", "\x00", "\ud800", '{"index":{"_id":"forged"}}', "\u2028\r\n", "é" * 600]
    lives = [made.pending(at, name=name, reason=name, gpus={name: 1}) for at, name in enumerate(names, 1)]
    sink = sent(settings(opensearch, "hostile", history=True), tmp_path, *lives)
    assert (sink.tally.rejected, sink.tally.failures) == (0, 0)
    jobs = found(opensearch, "hostile-jobs")
    told = ["\\ud800" if name == "\ud800" else name for name in names]
    assert [jobs[life.document_id]["name"] for life in lives] == told
    assert len(jobs) == len(found(opensearch, "hostile-history")) == len(names)
    with opensearch.client() as client:
        mapping = client.get("/hostile-jobs/_mapping").json()["hostile-jobs"]["mappings"]
    assert str(mapping["dynamic"]) == "false"
    assert set(mapping["properties"]["gpus"]["properties"]) == {"type", "count"}


# --- once, and in order -----------------------------------------------------------------------------------------------


def test_all_arrives_once_over_an_outage(opensearch: Server, tmp_path: Path) -> None:
    waiting = [made.pending(id_) for id_ in range(300)]
    runs = [made.started(life) for life in waiting]
    over = [made.ended(life) for life in runs[:200]]
    drained = made.node(flags=frozenset({"DRAIN"}))
    change = NodeChange("alpha", "n1", NOW + 70, "MIXED", ("DRAIN",), "broken", "root", NOW + 70)

    async def body(sink: ElasticsearchSink) -> None:
        await sink.take(waiting, [("alpha", made.NODE, NOW)])
        await until(lambda: sink.tally.queued == 0)
        with opensearch.stopped():
            await sink.take(runs, [("alpha", drained, NOW + 70)], [change])
            await until(lambda: sink.tally.up is False)
            for life in over:
                await sink.take([life], [], [change])
            assert sink.tally.queued > 800
        await until(lambda: sink.tally.queued == 0)
        assert (sink.tally.up, sink.tally.dropped, sink.tally.rejected) == (True, 0, 0)

    used(settings(opensearch, "outage", history=True), tmp_path, body)
    jobs = found(opensearch, "outage-jobs")
    assert len(jobs) == 300
    assert all(jobs[life.document_id]["state"] == "COMPLETED" for life in over)
    assert all(jobs[life.document_id]["state"] == "RUNNING" for life in runs[200:])
    assert found(opensearch, "outage-nodes")["alpha.n1"]["flags"] == ["DRAIN"]
    history = list(found(opensearch, "outage-history").values())
    events = [(one["job"], one["state"]) for one in history if one["kind"] == "job"]
    expected = [(life.document_id, state) for life in waiting for state in ("PENDING", "RUNNING")]
    assert sorted(events) == sorted([*expected, *((life.document_id, "COMPLETED") for life in over)])
    (of_node,) = [one for one in history if one["kind"] == "node"]
    assert (of_node["@timestamp"], of_node["node"], of_node["reason"]) == (NOW + 70, "n1", "broken")


def test_late_and_repeated_batches_change_nothing(opensearch: Server, tmp_path: Path) -> None:
    given = settings(opensearch, "late", history=True)
    life = made.pending(1)

    async def spool() -> None:
        sink = ElasticsearchSink(settings(opensearch, "late", history=True, url="http://127.0.0.1:1"), tmp_path / "old")
        await sink.take([life, made.started(life)])
        await sink.close()

    asyncio.run(spool())
    shutil.copytree(tmp_path / "old", tmp_path / "again")
    sent(given, tmp_path / "new", made.ended(made.started(life)))
    for folder in ("old", "again"):

        async def nothing(sink: ElasticsearchSink) -> None:
            await until(lambda: sink.tally.queued == 0)

        sink = used(given, tmp_path / folder, nothing)
        assert (sink.tally.failures, sink.tally.rejected) == (0, 0)
    (job,) = found(opensearch, "late-jobs").values()
    assert job["state"] == "COMPLETED"
    assert len(found(opensearch, "late-history")) == 3


_WRITER = """
import asyncio, sys
from pathlib import Path
from sinks import made
from slurmscope.settings import Elasticsearch
from slurmscope.sinks.elasticsearch import ElasticsearchSink

async def main():
    sink = ElasticsearchSink(Elasticsearch(url="http://127.0.0.1:1", prefix="killed"), Path(sys.argv[1]))
    for id_ in range(10**9):
        await sink.take([made.pending(id_)])
        print(id_, flush=True)

asyncio.run(main())
"""


def test_kill_minus_9(opensearch: Server, tmp_path: Path) -> None:
    """What was taken by a process that was killed is sent by the next one."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(HERE.parent)},
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 200:
            break
    writer.send_signal(signal.SIGKILL)
    last = int([line, *writer.stdout.read().split()][-1])
    writer.wait()
    sent(settings(opensearch, "killed"), tmp_path)
    ids = sorted(one["id"] for one in found(opensearch, "killed-jobs").values())
    assert ids == list(range(len(ids)))
    assert last < len(ids) <= last + 2


def test_at_the_bound_the_oldest_are_lost_and_counted(opensearch: Server, tmp_path: Path) -> None:
    async def spool() -> tuple[int, int]:
        sink = ElasticsearchSink(settings(opensearch, "bound", url="http://127.0.0.1:1", spool_megabytes=1), tmp_path)
        for id_ in range(0, 2000, 100):
            await sink.take([made.pending(at) for at in range(id_, id_ + 100)])
        await sink.close()
        return sink.tally.queued, sink.tally.dropped

    queued, dropped = asyncio.run(spool())
    assert dropped > 100
    assert queued + dropped == 2000
    sink = sent(settings(opensearch, "bound", spool_megabytes=1), tmp_path)
    assert (sink.tally.sent, sink.tally.dropped) == (queued, dropped)
    ids = sorted(one["id"] for one in found(opensearch, "bound-jobs").values())
    assert ids == list(range(dropped, 2000))


def test_items_that_the_index_refuses(opensearch: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opensearch.client() as client:
        wrong = {"mappings": {"properties": {"name": {"type": "ip"}}}}
        client.put("/refusing-jobs", json=wrong).raise_for_status()
    lives = [made.pending(1), made.pending(2, name="10.0.0.1"), made.pending(3)]
    sink = sent(settings(opensearch, "refusing"), tmp_path, *lives)
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.queued) == (1, 2, 0)
    assert [one["id"] for one in found(opensearch, "refusing-jobs").values()] == [2]
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "failed to parse field [name]" in told.fields["error"]  # type: ignore[attr-defined]


# --- who is let in ----------------------------------------------------------------------------------------------------


def test_a_wrong_password(opensearch: Server, tmp_path: Path) -> None:
    said = refused(settings(opensearch, "wrong", password="hunter2"), tmp_path)
    assert "with 401: is the password of tester right (elasticsearch.password)" in said
    assert "hunter2" not in said
    sink = sent(settings(opensearch, "wrong"), tmp_path)  # the right one, and what waited is sent
    assert sink.tally.sent == 1


def test_somebody_without_rights(opensearch: Server, tmp_path: Path) -> None:
    said = refused(settings(opensearch, "rights", user=servers.GUEST), tmp_path)
    assert "refused PUT /_index_template/rights-jobs with 403" in said


def test_nobody(opensearch: Server, tmp_path: Path) -> None:
    said = refused(settings(opensearch, "nobody", user="", password=""), tmp_path)
    assert "it wants to know who we are (elasticsearch.user)" in said


def test_an_api_key(opensearch: Server, opensearch_key: Keyed, tmp_path: Path) -> None:
    given = {"url": opensearch_key.url, "user": "", "password": ""}
    said = refused(settings(opensearch, "key", **given, api_key="d3Jvbmc="), tmp_path)
    assert "with 401: is elasticsearch.api_key right" in said
    assert "d3Jvbmc" not in said
    sent(settings(opensearch, "key", **given, api_key=opensearch_key.key), tmp_path)
    assert len(found(opensearch, "key-jobs")) == 1


@pytest.mark.parametrize("other", [True, False])
def test_another_certificate(opensearch: Server, tmp_path: Path, other: bool) -> None:
    if other:
        servers._certify(tmp_path / "ca.pem", tmp_path / "key.pem")
    ca = str(tmp_path / "ca.pem") if other else ""  # the system's
    said = refused(settings(opensearch, "ca", ca=ca), tmp_path)
    assert "CERTIFICATE_VERIFY_FAILED" in said
