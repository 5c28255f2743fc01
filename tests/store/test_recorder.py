# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From polls to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lives import SUBMIT, accounted, job
from recorded import GENERATIONS, Recorded, read

from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.slurm.source import Way
from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Lives, StoreError
from slurmscope.store.recorder import Changes, Recorder, give_up, rebuild, tell, wrong_usage
from slurmscope.store.sqlite import SqliteStore

ALL = frozenset({"jobs", "nodes"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(tmp_path / "history.db")
    yield found
    found.close()


def node(name: str = "n1", **fields: Any) -> Node:
    given: dict[str, Any] = {
        "state": "IDLE",
        "flags": frozenset(),
        "partitions": ("main",),
        "cpus": 16,
        "cpus_effective": 16,
        "cpus_allocated": 0,
        "load": 0.5,
        "memory": 64 << 30,
        "memory_reserved": 0,
        "memory_allocated": 0,
        "memory_free": 60 << 30,
        "gpus": {"a100": 4},
        "gpus_allocated": {},
        "weight": 1,
        "version": "24.11",
        "features": (),
        "boot_time": SUBMIT,
        "reason": None,
        "reason_user": None,
        "reason_time": None,
    }
    return Node(name=name, **(given | fields))


def poll(at: int, *jobs: Job, nodes: tuple[Node, ...] = (node(),)) -> Snapshot:
    return Snapshot("alpha", jobs=Part(tuple(jobs), at), nodes=Part(nodes, at))


def lives(store: SqliteStore, **asked: Any) -> dict[int, Any]:
    return {life.id: life for life in store.lives(Lives(limit=None, **asked))}


def test_a_queue_is_kept_as_it_changes(store: SqliteStore) -> None:
    recorder = Recorder()
    one, two = job(1), job(2, "RUNNING")
    recorder.notice(poll(SUBMIT + 10, one, two), ALL)
    assert recorder.write(store) == 2
    recorder.notice(poll(SUBMIT + 20, one, two), ALL)
    assert recorder.write(store) == 0, "nothing changed"
    later = msgspec.structs.replace(one, priority=7)
    recorder.notice(poll(SUBMIT + 30, later, two), ALL)
    assert recorder.write(store) == 0, "a priority is no change"
    recorder.notice(poll(SUBMIT + 200, job(1, "RUNNING"), job(2, "FAILED", end_time=SUBMIT + 190)), ALL)
    assert recorder.write(store) == 2
    recorder.notice(poll(SUBMIT + 600, job(1, "RUNNING")), ALL)
    assert recorder.write(store) == 0, "that one who ended is gone is no news"
    recorder.notice(poll(SUBMIT + 610), ALL)
    assert recorder.write(store) == 1
    found = lives(store)
    assert [one.state for one in found[2].transitions] == ["PENDING", "RUNNING", "FAILED"]
    assert (found[1].state, found[1].gone_time) == ("RUNNING", SUBMIT + 610)
    assert wrong_usage(store, "alpha") == []


def test_only_the_first_guess_of_a_start_is_a_change(store: SqliteStore) -> None:
    recorder = Recorder()
    written = []
    for at, guess in ((10, None), (20, 15), (30, 500), (40, 400), (50, None), (60, 700)):
        waiting = job(1, start_time=None if guess is None else SUBMIT + guess, end_time=None)
        recorder.notice(poll(SUBMIT + at, waiting), ALL)
        written.append(recorder.write(store))
    assert written == [1, 0, 1, 0, 0, 0]
    assert lives(store)[1].guess == (SUBMIT + 30, SUBMIT + 500)
    again = Recorder()
    again.notice(poll(SUBMIT + 70, job(1, start_time=SUBMIT + 800)), ALL)
    again.write(store)
    assert lives(store)[1].guess == (SUBMIT + 30, SUBMIT + 500), "nor after a restart"
    recorder.notice(poll(SUBMIT + 80), ALL)
    recorder.notice(poll(SUBMIT + 90, job(1, submit_time=SUBMIT + 85, start_time=SUBMIT + 99)), ALL)
    recorder.write(store)
    assert [life.guess for life in store.lives(Lives(id=1))] == [
        (SUBMIT + 90, SUBMIT + 99),
        (SUBMIT + 30, SUBMIT + 500),
    ]


def test_what_was_missed_while_nobody_looked_is_found_out(store: SqliteStore) -> None:
    first = Recorder()
    first.notice(poll(SUBMIT + 10, job(1), job(2), job(3)), ALL)
    first.write(store)
    second = Recorder()
    second.notice(poll(SUBMIT + 5000, job(2), job(3, submit_time=SUBMIT + 4000)), ALL)
    second.write(store)
    found = {life.key: life for life in store.lives(Lives(limit=None))}
    assert found[1, SUBMIT].gone_time == SUBMIT + 10, "it went some time after it was last seen"
    assert found[2, SUBMIT].gone_time is None
    assert (found[3, SUBMIT].state, found[3, SUBMIT].end_time) == ("REQUEUED", SUBMIT + 4000)
    assert found[3, SUBMIT + 4000].state == "PENDING"
    give_up(store, "alpha", SUBMIT + 6000, SUBMIT + 9000)
    assert lives(store, id=1)[1].state == "VANISHED"
    assert wrong_usage(store, "alpha") == []


def test_a_store_that_is_away_costs_no_transition(store: SqliteStore) -> None:
    recorder = Recorder()
    recorder.notice(poll(SUBMIT + 10, job(1)), ALL)
    recorder.write(store)

    def broken(changes: Changes) -> None:
        raise StoreError("away")

    for at, state in ((200, "RUNNING"), (300, "SUSPENDED"), (400, "RUNNING")):
        recorder.notice(poll(SUBMIT + at, job(1, state)), ALL)
        with pytest.raises(StoreError):
            recorder.write(store, broken)
    assert recorder.waiting
    assert lives(store)[1].state == "PENDING"
    recorder.write(store)
    assert [one.state for one in lives(store)[1].transitions] == ["PENDING", "RUNNING", "SUSPENDED", "RUNNING"]
    assert not recorder.waiting
    assert wrong_usage(store, "alpha") == []


def test_running_jobs_count_from_time_to_time(store: SqliteStore) -> None:
    recorder = Recorder()
    running = job(1, "RUNNING", time_limit=None)
    for at in range(0, 10_000, 500):
        recorder.notice(poll(SUBMIT + 100 + at, running), ALL)
        recorder.write(store)
    assert lives(store)[1].counted_time == SUBMIT + 100 + 8000
    assert wrong_usage(store, "alpha") == []


def test_nodes_turn(store: SqliteStore) -> None:
    recorder = Recorder()
    drained = node(flags=frozenset({"DRAIN"}), reason="bad disk", reason_user="root", reason_time=SUBMIT + 90)
    handed: list[Changes] = []
    for at, found in (
        (0, (node(), node("n2"))),
        (10, (node(state="MIXED", cpus_allocated=4, load=3.0), node("n2"))),
        (100, (drained, node("n2"))),
        (110, (drained,)),
    ):
        recorder.notice(poll(SUBMIT + at, nodes=found), ALL)
        recorder.write(store, handed.append)
    changes = store.node_changes("alpha", 0, 1 << 40)
    assert [(one.time - SUBMIT, one.node, one.state, one.flags) for one in changes] == [
        (0, "n1", "IDLE", ()),
        (0, "n2", "IDLE", ()),
        (100, "n1", "IDLE", ("DRAIN",)),
        (110, "n2", "", ()),
    ]
    assert (changes[2].reason, changes[2].reason_user, changes[2].reason_time) == ("bad disk", "root", SUBMIT + 90)
    (kept,) = store.nodes("alpha")
    assert (kept.node, kept.since) == (drained, SUBMIT + 100)
    assert [one.node_changes for one in handed] == [changes[:2], [changes[2]], [changes[3]]]


def test_totals_are_thinned(store: SqliteStore) -> None:
    start = SUBMIT // COARSE * COARSE
    for begin in (0, 2000):  # slurmscope is started again in between
        recorder = Recorder()
        for at in range(begin, begin + 2000, 10):
            busy = node(state="ALLOCATED", cpus_allocated=16) if at >= 1800 else node()
            recorder.notice(poll(start + at, job(1), job(2, tasks=9), nodes=(busy,)), ALL)
            recorder.write(store)
    fine = store.points("alpha", "", FINE, 0, 1 << 40)
    assert len(fine) == 400
    assert fine[0].values["jobs_pending"] == 10
    assert fine[0].values["gpus_idle/a100"] == 4
    middle = store.points("alpha", "main", MIDDLE, 0, 1 << 40)
    assert [(one.time - start, one.samples, one.values["cpus_allocated"]) for one in middle] == [
        (at, 30, 16 if at >= 1800 else 0) for at in range(0, 3900, 300)
    ]
    (coarse,) = store.points("alpha", "", COARSE, 0, 1 << 40)
    assert (coarse.samples, coarse.values["cpus_allocated"]) == (360, 8)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_recorded_cluster(store: SqliteStore, generation: str) -> None:
    """A queue, and an accounting of another day, in which the same numbers are other lives."""
    snapshot, _ = read(generation)
    history = asyncio.run(Way("text", Recorded(generation)).read("history")).value
    recorder = Recorder()
    recorder.notice(snapshot, ALL)
    assert snapshot.jobs.value is not None
    assert recorder.write(store) == len(snapshot.jobs.value)
    tell(store, snapshot.cluster, history, int(snapshot.jobs.time or 0))
    tell(store, snapshot.cluster, history, int(snapshot.jobs.time or 0))
    keys = {one.key for one in snapshot.jobs.value} | {one.job.key for one in history}
    assert store.count(Lives()) == len(keys)
    assert wrong_usage(store, snapshot.cluster) == []
    by_user = {life.user for life in store.lives(Lives(limit=None))}
    assert by_user == {one.user for one in snapshot.jobs.value}


def test_wrong_sums_are_found_and_made_anew(store: SqliteStore) -> None:
    told = [accounted(job(id_, "COMPLETED", end_time=SUBMIT + 200_000)) for id_ in range(1, 20)]
    tell(store, "alpha", told, SUBMIT)
    assert wrong_usage(store, "alpha") == []
    with store.writing("alpha") as writer:
        writer.clear_usage(SUBMIT // 86400 + 1)
    assert "sums of usage are wrong" in wrong_usage(store, "alpha")[-1]
    assert rebuild(store, "alpha") == 4
    assert wrong_usage(store, "alpha") == []


def test_a_rebuild_leaves_days_alone_whose_jobs_are_forgotten(store: SqliteStore) -> None:
    days = 86400
    for day in range(4):
        one = job(day, "COMPLETED", submit_time=SUBMIT + day * days, start_time=SUBMIT + day * days)
        end = msgspec.structs.replace(one, end_time=SUBMIT + day * days + 60)
        tell(store, "alpha", [accounted(end)], SUBMIT)
    before = store.stats().counts["usage"]
    assert store.forget("jobs", SUBMIT + 2 * days) == 2
    rebuild(store, "alpha")
    assert wrong_usage(store, "alpha") == []
    assert store.stats().counts["usage"] == before
