# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered of jobs, for how long, and how little it takes whoever sends made-up ones."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from typing import Any

import msgspec
import pytest
from recorded import read

from slurmscope.model import Snapshot
from slurmscope.settings import Trace
from slurmscope.trace.body import Body, WrongBody
from slurmscope.trace.endpoint import TraceEndpoint
from slurmscope.trace.traces import MOST_WAITING, WAITING, Full, NotTheirs, NotYet, Proven, Traces

SNAPSHOT, _ = read("24.11")
RUNNING = [job.id for job in SNAPSHOT.jobs.value or () if job.holding]
FRESH = frozenset({"jobs", "config"})
ALICES, BOBS = 1, 2


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def sample(job_id: int = ALICES, **more: Any) -> Body:
    given: dict[str, Any] = {"pid": 100, "cpus": 50.0, "threads": 2, "mem": 1000, "hostname": "n1"}
    return Body(job_id=job_id, **(given | more))


def made(clock: Clock, *snapshots: Snapshot, **settings: Any) -> Traces:
    traces = Traces(Trace(enabled=True, **settings), clock)
    for snapshot in snapshots or (SNAPSHOT,):
        poll(traces.watch(), snapshot)
    return traces


def poll(listener: Any, snapshot: Snapshot, fresh: frozenset[str] = FRESH) -> None:
    asyncio.run(listener(snapshot, fresh))


def without(*ids: int) -> Snapshot:
    jobs = SNAPSHOT.jobs
    left = tuple(job for job in jobs.value or () if job.id not in ids)
    return SNAPSHOT.replaced(jobs=msgspec.structs.replace(jobs, value=left))


def test_processes_of_a_job_on_a_host_are_summed() -> None:
    clock = Clock()
    traces = made(clock)
    traces.take([sample(pid=7, read_bytes=5.0), sample(pid=3, mem=500), sample(pid=9, hostname="n2")])
    first, second = traces.shown("lab24")
    assert (first.job.id, first.hostname, first.username, first.pid) == (ALICES, "n1", "alice", 7)
    assert (first.cpus, first.threads, first.mem) == (100.0, 4, 1500)
    assert (first.read_bytes, first.write_bytes) == (5.0, None), "what nobody told is unknown"
    assert second.hostname == "n2"
    assert traces.count() == (1, 3)
    assert traces.shown("elsewhere") == []


def test_the_users_name_is_the_queues() -> None:
    traces = made(Clock())
    traces.take([sample(username="mallory")])
    assert [one.username for one in traces.shown("lab24")] == ["alice"]


def test_who_is_not_heard_of_is_not_shown_and_a_job_that_ended_is_forgotten() -> None:
    clock = Clock()
    traces = Traces(Trace(enabled=True, keep_seconds=60), clock)
    listener = traces.watch()
    poll(listener, SNAPSHOT)
    traces.take([sample(ALICES), sample(BOBS)])
    clock.now += 50
    traces.take([sample(BOBS)])
    clock.now += 20
    assert [one.job.id for one in traces.shown("lab24")] == [BOBS]
    poll(listener, without(BOBS))
    assert traces.shown("lab24") == [] and traces.count() == (0, 0)
    poll(listener, SNAPSHOT)
    assert traces.shown("lab24") == []


def test_a_replay_changes_nothing_even_when_the_process_is_not_shown_any_more() -> None:
    clock = Clock()
    traces = made(clock)
    handed: list[Body] = []
    traces.on_sample.append(lambda cluster, body: handed.append(body))
    old = sample(time=clock.now, cpus=10.0)
    assert traces.take([old]) == 1
    assert traces.take([sample(time=clock.now + 5, cpus=20.0)]) == 1
    assert traces.take([old]) == 0
    clock.now += 100
    assert traces.take([old]) == 0
    assert [one.cpus for one in handed] == [10.0, 20.0]


def test_a_job_that_is_not_known_yet_waits_until_it_is() -> None:
    clock = Clock()
    traces = Traces(Trace(enabled=True), clock)
    handed: list[tuple[str, Body]] = []
    traces.on_sample.append(lambda cluster, body: handed.append((cluster, body)))
    listener = traces.watch()
    poll(listener, without(ALICES))
    assert traces.take([sample(cpus=1.0, time=clock.now)]) == 1
    assert traces.take([sample(cpus=2.0, time=clock.now + 1)]) == 1
    assert traces.take([sample(cpus=1.0, time=clock.now)]) == 0, "a replay of what waits"
    assert handed == [] and traces.shown("lab24") == []
    poll(listener, SNAPSHOT)
    assert [(cluster, one.cpus, one.cluster, one.username) for cluster, one in handed] == [
        ("lab24", cpus, "lab24", "alice") for cpus in (1.0, 2.0)
    ]
    assert len(traces.shown("lab24")) == 1


def test_before_it_is_known_which_jobs_there_are_nothing_is_taken() -> None:
    """Who is told that it was taken does not send it again."""
    traces = Traces(Trace(enabled=True), Clock())
    listener = traces.watch()
    for told in (sample(), sample(cluster="lab24")):
        with pytest.raises(NotYet):
            traces.take([told])
    poll(listener, SNAPSHOT, frozenset({"config"}))
    with pytest.raises(NotYet, match="which jobs there are"):
        traces.take([sample()])
    poll(listener, SNAPSHOT)
    assert traces.take([sample()]) == 1


def test_who_comes_too_early_is_told_to_come_again() -> None:
    traces = Traces(Trace(enabled=True))
    traces.watch()
    answer = asyncio.run(TraceEndpoint(Trace(enabled=True), traces).take({}, msgspec.json.encode(sample())))
    assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"10")


def test_a_cluster_that_has_not_told_its_name_may_be_the_one_that_is_meant() -> None:
    traces = made(Clock())
    traces.watch()
    with pytest.raises(NotYet, match="told their names"):
        traces.take([sample(cluster="other")])
    assert traces.take([sample(cluster="lab24")]) == 1


def test_all_that_waited_is_handed_on_in_order_up_to_a_bound() -> None:
    clock = Clock()
    traces = Traces(Trace(enabled=True), clock)
    handed: list[Body] = []
    traces.on_sample.append(lambda cluster, body: handed.append(body))
    listener = traces.watch()
    poll(listener, without(ALICES))
    told = [sample(time=clock.now - 3500 + 2 * at, cpus=float(at)) for at in range(1000)]
    for at in range(0, 1000, 100):
        assert traces.take(told[at : at + 100]) == 100
    poll(listener, SNAPSHOT)
    assert [one.cpus for one in handed] == [float(at) for at in range(1000 - MOST_WAITING, 1000)]
    assert traces.take(told) == 0


def test_processes_are_counted_by_when_they_were_heard_and_not_by_what_they_say() -> None:
    clock = Clock()
    traces = made(clock, processes=4)
    taken = 0
    for at in range(100):
        with contextlib.suppress(Full):
            taken += traces.take([sample(hostname=f"h{at}", time=clock.now - 3000 + at)])
    assert taken == 4
    clock.now += 61
    assert traces.take([sample(hostname="h99", time=clock.now)]) == 1


def test_who_proved_who_they_are_tells_of_their_own_jobs_alone() -> None:
    clock = Clock()
    traces = Traces(Trace(enabled=True), clock)
    alice = Proven("alice", 1001)
    listener = traces.watch()
    poll(listener, without(ALICES, BOBS))
    traces.take([sample(BOBS)], alice)  # not known yet
    traces.take([sample(ALICES, username="bob")], alice)
    poll(listener, SNAPSHOT)
    assert [one.job.id for one in traces.shown("lab24")] == [ALICES]
    assert traces.refused["user"] == 1
    with pytest.raises(NotTheirs, match=r"^job 2 is not alice's$"):
        traces.take([sample(ALICES, time=clock.now + 1), sample(BOBS)], alice)
    assert traces.shown("lab24")[0].cpus == 50.0, "nothing of a body is taken when some of it is not theirs"


def test_made_up_jobs_neither_push_out_honest_ones_nor_grow_memory() -> None:
    clock = Clock()
    traces = made(clock, jobs=10)
    traces.take([sample(job) for job in RUNNING[:5]])
    before = traces.shown("lab24")
    tracemalloc.start()
    for job_id in range(1000, 101_000):
        assert traces.take([sample(job_id)]) == 1
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 5_000_000
    assert traces.shown("lab24") == before
    assert traces.take([sample(RUNNING[6])]) == 1, "there is room for honest ones"
    assert WAITING == 4000


def test_when_all_places_are_taken_more_are_refused_until_one_is_free() -> None:
    clock = Clock()
    traces = made(clock, jobs=2, processes=2, keep_seconds=60)
    first, second, third = RUNNING[:3]
    traces.take([sample(first), sample(second)])
    with pytest.raises(Full, match=r"2 jobs are traced already: raise trace.jobs"):
        traces.take([sample(third)])
    traces.take([sample(first, pid=2)])
    with pytest.raises(Full, match=r"2 processes of job \d+ are traced already: trace one a node, or raise trace.pro"):
        traces.take([sample(first, pid=3)])
    assert traces.take([sample(first, pid=3), sample(first, pid=2, time=clock.now + 1)]) == 1, "what there is room for"
    clock.now += 61
    assert traces.take([sample(first, pid=3)]) == 1
    assert traces.take([sample(third)]) == 1
    assert {one.job.id for one in traces.shown("lab24")} == {first, third}


def test_what_is_too_old_is_forgotten() -> None:
    clock = Clock()
    traces = made(clock)
    traces.take([sample()])
    clock.now += 3601
    traces.expire(clock.now)
    assert traces.take([sample(time=clock.now - 3600)]) == 1, "nothing is left to compare it with"
    assert traces.shown("lab24") == [], "and it is no news"


def test_several_clusters_want_a_name() -> None:
    other, _ = read("22.05")
    traces = made(Clock(), SNAPSHOT, other)
    with pytest.raises(WrongBody, match=r"^cluster: expected one of lab24, lab22, for several are read here"):
        traces.take([sample()])
    with pytest.raises(WrongBody, match=r"^cluster: expected one of lab24, lab22, found 'moon'$"):
        traces.take([sample(cluster="moon")])
    traces.take([sample(cluster="lab22")])
    assert traces.shown("lab24") == [] and len(traces.shown("lab22")) == 1


def test_the_only_cluster_may_be_named_as_slurm_does_or_as_the_settings_do() -> None:
    renamed = msgspec.structs.replace(SNAPSHOT, cluster="alpha")
    traces = made(Clock(), renamed)
    for pid, name in enumerate((None, "alpha", "lab24"), start=1):
        assert traces.take([sample(pid=pid, cluster=name)]) == 1
    assert traces.shown("alpha")[0].cpus == 150.0
    with pytest.raises(WrongBody, match="expected one of alpha"):
        traces.take([sample(cluster="beta")])
