# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated cluster as slurmscope sees it: parts, pages, and statistics that fit."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from slurmscope import model, settings
from slurmscope.demo.source import DemoSource
from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import PARTS, Snapshot
from slurmscope.poll import Poll

NOW = 1_769_600_000  # a Wednesday in January, at noon
MIDNIGHT = NOW // 86400 * 86400


class Clock:
    def __init__(self, time: float) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time


class Cluster:
    """A source and the clock that it goes by."""

    def __init__(self, seed: int = 1, now: float = NOW) -> None:
        self.clock = Clock(now)
        self.source = DemoSource(seed, self.clock)

    def read(self, part: str) -> Any:
        reading = asyncio.run(self.source.read(part))
        assert (reading.source, reading.rows_skipped) == ("demo", 0)
        return reading.value

    def parts(self) -> dict[str, Any]:
        return {part: self.read(part) for part in PARTS}


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def pages(cluster: Cluster) -> Pages:
    """All that a poll brings, through the poll itself."""
    pages = Pages(clock=cluster.clock)
    poll = Poll(cluster.source, settings.Cluster(), pages.publish, cluster.clock)
    pages.source, pages.up = cluster.source, lambda: poll.up
    asyncio.run(poll.once())
    return pages


def body(pages: Pages, profile: str, *, openmetrics: bool = False) -> bytes:
    return b"".join(asyncio.run(Book([pages]).body(profile, openmetrics=openmetrics, gzip=False)))


def test_a_poll_reads_every_part(pages: Pages) -> None:
    snapshot: Snapshot = pages.snapshot
    assert snapshot.cluster == "demo"
    assert pages.up()
    for part in PARTS:
        assert snapshot.part(part).good, part
        assert snapshot.part(part).source == "demo"
    assert snapshot.config.value is not None
    assert snapshot.config.value.version == "24.11.5"


@pytest.fixture
def short_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources begin an hour before they are first read, and not a day."""
    monkeypatch.setattr("slurmscope.demo.source._BEFORE", 3600)
    monkeypatch.setattr("slurmscope.demo.source._EVERY", 3600)


@pytest.mark.usefixtures("short_story")
def test_the_same_seed_and_times_tell_the_same() -> None:
    one, other = Cluster(8), Cluster(8)
    for seconds in (0, 10, 730):
        for each in (one, other):
            each.clock.time = NOW + seconds
        assert one.parts() == other.parts()


@pytest.mark.parametrize("profile", catalogue.NAMES)
@pytest.mark.parametrize("openmetrics", [False, True])
def test_every_page_can_be_made(pages: Pages, profile: str, openmetrics: bool) -> None:
    assert len(body(pages, profile, openmetrics=openmetrics)) > 1000


def test_the_sums_of_the_page_are_the_cluster(pages: Pages) -> None:
    found: dict[str, int] = {"allocated": 0, "idle": 0, "other": 0}
    for line in body(pages, "slurmscope").decode().splitlines():
        if line.startswith("slurm_cluster_cpus{"):
            labels, _, value = line.rpartition(" ")
            found[labels.rpartition('use="')[2].rstrip('"}')] += int(value)
    nodes: tuple[model.Node, ...] = pages.snapshot.nodes.value or ()
    jobs: tuple[model.Job, ...] = pages.snapshot.jobs.value or ()
    assert sum(found.values()) == sum(node.cpus for node in nodes) == 13_824
    assert found["allocated"] == sum(job.cpus for job in jobs if job.holding)
    assert found["allocated"] > found["idle"] > 0 and found["other"] > 0


@pytest.mark.prometheus
def test_promtool_finds_nothing_to_say(pages: Pages, promtool: str) -> None:
    said = subprocess.run(
        [promtool, "check", "metrics"],
        input=body(pages, "slurmscope"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert (said.returncode, said.stdout.decode()) == (0, "")


def test_what_a_newcomer_sees(cluster: Cluster) -> None:
    parts = cluster.parts()
    jobs: tuple[model.Job, ...] = parts["jobs"]
    nodes: tuple[model.Node, ...] = parts["nodes"]
    assert len(nodes) == 200
    assert {node.state for node in nodes} >= {"IDLE", "MIXED", "ALLOCATED"}
    assert {flag for node in nodes for flag in node.flags} >= {"DRAIN", "PLANNED", "RESERVED"}
    assert 0.75 < sum(node.cpus_allocated for node in nodes) / sum(node.cpus for node in nodes) < 0.95
    assert 400 < sum(1 for job in jobs if job.holding) < 1100
    assert 500 < sum(job.tasks for job in jobs if job.waiting) < 3000
    assert len({job.reason for job in jobs if job.waiting}) >= 6
    assert len({job.user for job in jobs}) > 30
    assert {job.qos for job in jobs} == {"normal", "high", "debug"}
    assert any(job.start_time is not None for job in jobs if job.waiting)  # backfill's guess
    kinds = {kind for node in nodes for kind in node.gpus}
    assert kinds == {"a100", "h100", "l40s", "a100_3g.20gb"}
    assert {one.name for one in parts["partitions"]} == {"cpu", "gpu", "long", "debug", "bigmem"}
    assert [one.active(NOW) for one in parts["reservations"]] == [False, True]
    assert all(one.used + one.free == one.total for one in parts["licenses"])


def test_statistics_fit_the_jobs(cluster: Cluster) -> None:
    before: model.Scheduler = cluster.read("scheduler")
    assert before.since == MIDNIGHT
    assert before.jobs["started"] >= before.jobs["completed"] > 500
    assert before.job_states["pending"] > 500
    assert before.main.total > before.backfill.total > 100
    assert (before.main.max_seconds or 0) >= before.main.last_seconds > 0
    for events in (before, cluster.read("accounting")):
        assert sum(rpc.calls for rpc in events.rpcs) == sum(rpc.calls for rpc in events.rpc_users)
        assert sum(rpc.seconds for rpc in events.rpcs) == pytest.approx(sum(rpc.seconds for rpc in events.rpc_users))
    assert before.rpc_users[0].calls > 20 * before.rpc_users[5].calls  # somebody hammers


@pytest.mark.usefixtures("short_story")
def test_statistics_grow_and_begin_anew_at_midnight() -> None:
    cluster = Cluster(2, MIDNIGHT + 86400 - 330)
    before: model.Scheduler = cluster.read("scheduler")
    calls = {rpc.name: rpc.calls for rpc in before.rpcs}
    for seconds in range(-320, 400, 40):
        cluster.clock.time = MIDNIGHT + 86400 + seconds
        after: model.Scheduler = cluster.read("scheduler")
        if seconds < 0:
            assert after.since == before.since
            assert all(after.jobs[event] >= count for event, count in before.jobs.items())
        else:
            assert after.since == MIDNIGHT + 86400
            assert after.jobs["completed"] < 100
        now = {rpc.name: rpc.calls for rpc in after.rpcs}
        assert all(now[name] >= count for name, count in calls.items())  # these outlive midnight
        assert after.backfill_more.jobs_since_start >= before.backfill_more.jobs_since_start
        calls = now


def test_our_own_questions_are_counted(cluster: Cluster) -> None:
    pages = Pages(clock=cluster.clock)
    snapshot = Snapshot(cluster="demo", scheduler=model.Part(cluster.read("scheduler"), cluster.clock()))
    asyncio.run(pages.publish(snapshot, frozenset({"scheduler"})))
    line = next(
        one for one in body(pages, "slurmscope").decode().splitlines() if one.startswith("slurm_own_rpc_ratio{")
    )
    assert 0 < float(line.rpartition(" ")[2]) < 0.02


def test_the_fair_share_tree(cluster: Cluster) -> None:
    shares: tuple[model.Share, ...] = cluster.read("shares")
    root = shares[0]
    assert (root.account, root.depth, root.parent) == ("root", 0, None)
    for parent in {share.parent for share in shares} - {None}:
        children = [share for share in shares if share.parent == parent]
        assert sum(share.norm_shares or 0 for share in children) == pytest.approx(1)
        assert sum(share.effective_usage or 0 for share in children) == pytest.approx(1)
    users = [share for share in shares if share.user is not None]
    assert sum(share.norm_usage or 0 for share in users) == pytest.approx(1)
    assert sorted(share.fair_share or 0 for share in users) == pytest.approx(
        [(place + 1) / len(users) for place in range(len(users))]
    )
    assert {share.depth for share in users} == {3}


def test_limits_are_never_exceeded(cluster: Cluster) -> None:
    limits: tuple[model.Limit, ...] = cluster.read("limits")
    known = [limit for limit in limits if limit.used is not None]
    assert len(known) > 20
    assert all(0 <= (limit.used or 0) <= limit.limit for limit in known)
    assert {limit.kind for limit in limits} == {"association", "qos"}
    running = [job for job in cluster.read("jobs") if job.holding and job.account == "nlp"]
    nlp = next(limit for limit in limits if limit.account == "nlp" and limit.name == "GrpTRES")
    assert nlp.used == sum(sum(job.gpus.values()) for job in running)
