# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is sent to CloudWatch is what Prometheus shows. The server is moto's."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
import recorded
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_text
from servers.process import Server
from sinks import made
from sinks.made import Question, Reply, mock, running, until

from slurmscope.metrics.book import Book
from slurmscope.metrics.compat.states import word_of
from slurmscope.metrics.pages import Pages
from slurmscope.model import HOLDING_STATES, JOB_STATES, NODE_BASE_STATES, NODE_FLAGS, WAITING_STATES, Part, Snapshot
from slurmscope.settings import CloudWatch
from slurmscope.sinks import sender
from slurmscope.sinks.cloudwatch import CloudWatchSink, of_jobs, of_nodes, of_scheduler
from slurmscope.sinks.sink import SinkError

REGION = "eu-north-1"
SNAPSHOT, _ = recorded.read("24.11")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sender, "FIRST_WAIT", 0.05)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)


def snapshot_at(when: float) -> Snapshot:
    """A recording as if it were of this moment."""
    parts = {name: msgspec.structs.replace(SNAPSHOT.part(name), time=when) for name in ("nodes", "jobs", "scheduler")}
    return msgspec.structs.replace(SNAPSHOT, cluster="alpha", **parts)


# --- the same values ----------------------------------------------------------------------------------------------


def shown(pages: Pages, profile: str) -> dict[tuple[str, str], float]:
    """What a page says, by name and by the label that is not the cluster's."""
    body = asyncio.run(Book([pages]).body(profile, openmetrics=False, gzip=False))
    return {
        (sample.name, "+".join(value for name, value in sample.labels.items() if name != "cluster")): sample.value
        for family in parse_text(b"".join(body).decode())
        for sample in family.samples
    }


def check_same(snapshot: Snapshot, vpenso: dict[tuple[str, str], float]) -> None:
    for name, _, value in (*of_nodes(snapshot.nodes.value or ()), *of_jobs(snapshot.jobs.value or ())):
        if name in ("slurm_node_drained", "slurm_node_draining"):
            word = name.rpartition("_")[2]
            assert value == sum(word_of(node) == word for node in snapshot.nodes.value or ())
        else:
            assert vpenso[name.replace("slurm_node_", "slurm_nodes_"), ""] == value, name


@pytest.mark.parametrize("generation", recorded.GENERATIONS)
def test_values_are_those_of_the_prometheus_pages(generation: str) -> None:
    snapshot, pages = recorded.read(generation)
    vpenso, own = shown(pages, "vpenso"), shown(pages, "slurmscope")
    check_same(snapshot, vpenso)
    scheduler = snapshot.scheduler.value
    assert scheduler is not None
    for name, _, value in of_scheduler(scheduler):
        if name == "slurm_scheduler_queue_size":
            assert own["slurm_scheduler_queue_length", "main"] == value
        elif name == "slurm_scheduler_agent_queue_size":
            assert own["slurm_scheduler_agent_queue_length", ""] == value
        elif name.startswith("slurm_jobs_"):
            assert own["slurm_scheduler_job_events_total", name.rpartition("_")[2]] == value
        else:
            assert vpenso.get((name, "")) == value, name
    # nodes and tasks add up, and nothing is a zero that stands for everything
    nodes = {name: value or 0 for name, _, value in of_nodes(snapshot.nodes.value or ())}
    assert nodes["slurm_node_drain"] == nodes["slurm_node_drained"] + nodes["slurm_node_draining"]
    assert sum(value for _, _, value in of_jobs(snapshot.jobs.value or ()) if value) > 0


@given(
    st.lists(st.tuples(st.sampled_from(NODE_BASE_STATES), st.sets(st.sampled_from(NODE_FLAGS), max_size=3))),
    st.lists(
        st.tuples(st.sampled_from(sorted({*JOB_STATES, *WAITING_STATES, *HOLDING_STATES})), st.integers(1, 1000)),
        max_size=20,
    ),
)
def test_any_states_are_counted_as_prometheus_counts_them(
    states: list[tuple[str, set[str]]], jobs: list[tuple[str, int]]
) -> None:
    nodes = tuple(
        made.node(name=f"n{at}", state=state, flags=frozenset(flags)) for at, (state, flags) in enumerate(states)
    )
    queue = tuple(made.job(id=at, state=state, tasks=tasks) for at, (state, tasks) in enumerate(jobs))
    snapshot = Snapshot("alpha", nodes=Part(nodes, 1.0), jobs=Part(queue, 1.0))
    pages = Pages()
    asyncio.run(pages.publish(snapshot, frozenset({"nodes", "jobs"})))
    check_same(snapshot, shown(pages, "vpenso"))


def test_zeros_are_told() -> None:
    assert {(unit, value) for _, unit, value in (*of_nodes(()), *of_jobs(()))} == {("Count", 0)}
    assert len(list(of_nodes(()))) == 12
    assert len(list(of_jobs(()))) == 11


def test_units() -> None:
    scheduler = snapshot_at(1.0).scheduler.value
    assert scheduler is not None
    units = {name: unit for name, unit, _ in of_scheduler(scheduler)}
    assert {name for name, unit in units.items() if unit == "Microseconds"} == {
        "slurm_scheduler_last_cycle",
        "slurm_scheduler_mean_cycle",
        "slurm_scheduler_backfill_last_cycle",
        "slurm_scheduler_backfill_mean_cycle",
    }
    assert units["slurm_scheduler_cycle_per_minute"] == "Count"


# --- what is sent, and when -----------------------------------------------------------------------------------------


def waiting(sink: CloudWatchSink) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in sink._sender._spool.peek(10**6, 10**9)]


def taken(folder: Path, snapshots: list[Snapshot], **settings: Any) -> list[dict[str, Any]]:
    async def main() -> list[dict[str, Any]]:
        sink = CloudWatchSink(CloudWatch(endpoint_url="http://127.0.0.1:1", **settings), folder)
        for snapshot in snapshots:
            await sink.take(snapshot)
        found = waiting(sink)
        sink._sender.close()
        return found

    return asyncio.run(main())


def test_one_reading_an_interval(tmp_path: Path) -> None:
    found = taken(tmp_path, [snapshot_at(1000.0 + 10.1 * at) for at in range(13)])
    times = Counter(one["time"] for one in found)
    assert sorted(times) == [1000.0, pytest.approx(1060.6), pytest.approx(1121.2)]
    assert len(set(times.values())) == 1


def test_what_is_not_newer_is_not_sent_again(tmp_path: Path) -> None:
    before = snapshot_at(1000.0)
    nodes_only = before.replaced(nodes=msgspec.structs.replace(before.nodes, time=2000.0))
    found = taken(tmp_path, [before, before, nodes_only])
    assert {one["name"].split("_")[1] for one in found if one["time"] == 2000.0} == {"node"}


def test_what_is_unknown_is_left_out(tmp_path: Path) -> None:
    snapshot = snapshot_at(1000.0)
    scheduler = snapshot.scheduler.value
    assert scheduler is not None
    main = msgspec.structs.replace(scheduler.main, mean_seconds=None, per_minute=float("nan"))
    part = Part(msgspec.structs.replace(scheduler, main=main, jobs={}), 1000.0)
    found = {one["name"] for one in taken(tmp_path, [snapshot.replaced(scheduler=part, nodes=Part())])}
    assert "slurm_scheduler_last_cycle" in found
    assert not found & {"slurm_scheduler_mean_cycle", "slurm_scheduler_cycle_per_minute", "slurm_jobs_submitted"}
    assert not any(name.startswith("slurm_node_") for name in found)


def test_dimensions(tmp_path: Path) -> None:
    def of(name: str, **settings: Any) -> dict[str, str]:
        snapshot = msgspec.structs.replace(snapshot_at(1000.0), cluster="blå")
        found: dict[str, str] = taken(tmp_path / name, [snapshot], **settings)[0]["dimensions"]
        return found

    assert of("a") == {"ClusterName": "bl\\xe5"}
    assert of("b", dimensions={"Site": "Bergen"}) == {"ClusterName": "bl\\xe5", "Site": "Bergen"}
    assert of("c", dimensions={"ClusterName": "blue"}) == {"ClusterName": "blue"}


def test_a_cluster_without_a_name_waits_for_it(tmp_path: Path) -> None:
    assert taken(tmp_path, [msgspec.structs.replace(snapshot_at(1000.0), cluster="")]) == []


# --- a server ---------------------------------------------------------------------------------------------------------


def stored(server: Server, namespace: str) -> dict[tuple[str, float], tuple[float, float]]:
    """By metric and time: the sum and the number of values."""
    client = boto3.client("cloudwatch", region_name=REGION, endpoint_url=server.url)
    now = time.time()
    found = {}
    names = {
        one["MetricName"]
        for page in client.get_paginator("list_metrics").paginate(Namespace=namespace)
        for one in page["Metrics"]
    }
    for name in names:
        points = client.get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": "ClusterName", "Value": "alpha"}],
            StartTime=datetime.fromtimestamp(now - 3600, UTC),
            EndTime=datetime.fromtimestamp(now + 60, UTC),
            Period=60,
            Statistics=["Sum", "SampleCount"],
        )["Datapoints"]
        for point in points:
            found[name, point["Timestamp"].timestamp()] = point["Sum"], point["SampleCount"]
    return found


def test_all_arrives_once_over_an_outage(cloudwatch: Server, tmp_path: Path) -> None:
    start = time.time() // 60 * 60 - 1200

    async def main() -> None:
        settings = CloudWatch(region=REGION, endpoint_url=cloudwatch.url, namespace="Outage")
        sink = CloudWatchSink(settings, tmp_path)
        async with running(sink):
            await sink.take(snapshot_at(start))
            await until(lambda: sink.tally.queued == 0)
            with cloudwatch.stopped():
                for minute in range(1, 6):
                    await sink.take(snapshot_at(start + 60 * minute))
                await until(lambda: sink.tally.up is False)
                assert sink.tally.queued > 0
            await until(lambda: sink.tally.queued == 0)
            await sink.take(snapshot_at(start + 360))
        await sink.close()
        assert (sink.tally.queued, sink.tally.dropped, sink.tally.rejected) == (0, 0, 0)

    asyncio.run(main())
    snapshot = snapshot_at(start)
    assert snapshot.scheduler.value is not None
    values = {
        name: value
        for name, _, value in (
            *of_nodes(snapshot.nodes.value or ()),
            *of_jobs(snapshot.jobs.value or ()),
            *of_scheduler(snapshot.scheduler.value),
        )
        if value is not None
    }
    found = stored(cloudwatch, "Outage")
    # moto forgets when it is stopped: what came before is not there any more, what came after is there once
    assert {name for name, _ in found} == set(values)
    after = {key: value for key, value in found.items() if key[1] > start}
    assert after.keys() == {(name, start + 60 * minute) for name in values for minute in range(1, 7)}
    assert {count for _, count in after.values()} == {1.0}
    assert all(total == pytest.approx(values[name]) for (name, _), (total, _) in after.items())


def test_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    sink = after_close(tmp_path, CloudWatch(region=REGION))
    assert sink.tally.last_error == "CloudWatch: Unable to locate credentials"


def test_no_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    sink = after_close(tmp_path, CloudWatch())
    assert "region" in sink.tally.last_error


def test_values_of_more_than_two_weeks_ago_are_dropped(tmp_path: Path) -> None:
    sink = after_close(tmp_path, CloudWatch(region=REGION), at=time.time() - 15 * 86400)
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.queued) == (0, 0, 0)
    assert sink.tally.dropped > 30


def test_boto3_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SinkError, match=r"pip install 'slurmscope\[cloudwatch\]'"):
        CloudWatchSink(CloudWatch(enabled=True), tmp_path)


def after_close(folder: Path, settings: CloudWatch, at: float | None = None) -> CloudWatchSink:
    async def main() -> CloudWatchSink:
        sink = CloudWatchSink(settings, folder)
        await sink.take(snapshot_at(time.time() if at is None else at))
        await sink.close()
        return sink

    return asyncio.run(main())


# --- what only a stand-in says ----------------------------------------------------------------------------------------


def error(code: str, status: int = 400) -> Reply:
    headers = {"Content-Type": "application/x-amz-json-1.0", "x-amzn-query-error": f"{code};Sender"}
    return status, headers, json.dumps({"__type": f"com.amazonaws#{code}Exception", "message": "no"}).encode()


class Stand:
    def __init__(self, *first: Reply, bad: str = "") -> None:
        self.first = list(first)
        self.bad = bad
        self.questions: list[Question] = []
        self.names: list[str] = []

    def __call__(self, question: Question) -> Reply:
        self.questions.append(question)
        if self.first:
            return self.first.pop(0)
        packed = question.headers.get("Content-Encoding") == "gzip"
        body = json.loads(gzip.decompress(question.body) if packed else question.body)
        names = [one["MetricName"] for one in body["MetricData"]]
        if self.bad in names:
            return error("InvalidParameterValue")
        self.names += names
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, b"{}"


def mocked(folder: Path, stand: Stand, **settings: Any) -> CloudWatchSink:
    with mock(stand) as url:
        return after_close(folder, CloudWatch(region=REGION, endpoint_url=url, **settings))


def test_mock_requests_are_compressed_and_bounded(tmp_path: Path) -> None:
    stand = Stand()
    sink = mocked(tmp_path, stand, dimensions={f"Dimension{at}": "x" * 1000 for at in range(29)})
    assert sink.tally.sent == len(stand.names) > 30
    assert len(stand.questions) > 1
    assert all(one.headers["Content-Encoding"] == "gzip" for one in stand.questions)
    assert all(len(gzip.decompress(one.body)) < 1_000_000 for one in stand.questions)


def test_mock_tries_again_are_the_senders(tmp_path: Path) -> None:
    stand = Stand((500, {}, b""), (500, {}, b""))
    sink = mocked(tmp_path, stand)
    assert (len(stand.questions), sink.tally.failures, sink.tally.sent) == (1, 1, 0)


def test_mock_throttling_loses_nothing(tmp_path: Path) -> None:
    sink = mocked(tmp_path, Stand(error("Throttling")))
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.dropped) == (0, 0, 0)
    assert sink.tally.queued > 30


def test_mock_413_halves_the_batch(tmp_path: Path) -> None:
    stand = Stand((413, {}, b""))
    sink = mocked(tmp_path, stand)
    assert (sink.tally.sent, sink.tally.rejected) == (len(stand.names), 0)
    assert len(stand.questions) >= 3


def test_mock_a_value_that_aws_refuses_costs_that_one(tmp_path: Path) -> None:
    stand = Stand(bad="slurm_node_mix")
    sink = mocked(tmp_path, stand)
    assert (sink.tally.sent, sink.tally.rejected, sink.tally.queued) == (len(stand.names), 1, 0)
    assert sink.tally.last_error.startswith("InvalidParameterValue: ")


def test_mock_who_may_not_is_told_so(tmp_path: Path) -> None:
    sink = mocked(tmp_path, Stand(error("AccessDenied", 403)))
    assert "AccessDenied" in sink.tally.last_error
    assert "secret" not in sink.tally.last_error
    assert sink.tally.queued > 30
