# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Counters that go on, and waits of jobs that were seen to start."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.metrics.tally import Odometer, Tally
from slurmscope.model import Job, Part, Scheduler, Snapshot
from slurmscope.slurm.statistics import parse_scheduler
from slurmscope.slurm.text import Marks

SDIAG = (Path(__file__).parent.parent / "recordings" / "24.11" / "sdiag.txt").read_bytes()


@given(st.lists(st.lists(st.integers(0, 1000), min_size=1), min_size=1, max_size=6))
def test_an_odometer_never_goes_back(lives: list[list[int]]) -> None:
    odometer = Odometer()
    last = 0.0
    for steps in lives:
        value = 0
        for step in steps:
            value += step
            odometer.read(value)
            assert odometer.total >= last
            last = odometer.total


def test_an_odometer_counts_on_after_a_reset() -> None:
    odometer = Odometer()
    for value in (5, 9, 2, 3):
        odometer.read(value)
    assert odometer.total == 9 + 3
    odometer.read(7, reset=True)
    assert odometer.total == 9 + 3 + 7


def scheduler(**changes: object) -> Scheduler:
    found = parse_scheduler(SDIAG, Marks.random()).value
    return msgspec.structs.replace(found, **changes)


def see(tally: Tally, found: Scheduler) -> None:
    tally.update(Snapshot(scheduler=Part(found)), frozenset({"scheduler"}))


def test_jobs_counted_go_on_over_midnight_and_rpcs_are_not_counted_twice() -> None:
    """At midnight slurmctld clears its job counts and moves "since", and keeps its RPC counts."""
    tally = Tally(from_zero=False)
    jobs = dict.fromkeys(("submitted", "started", "completed", "canceled", "failed"), 10)
    see(tally, scheduler(jobs=jobs, since=1))
    rpcs = tally.total("rpcs", "REQUEST_PING")
    see(tally, scheduler(jobs={**jobs, "submitted": 12}, since=2))
    assert tally.total("job_events", "submitted") == 22
    assert tally.total("job_events", "started") == 20
    assert tally.total("rpcs", "REQUEST_PING") == rpcs


def test_rpcs_go_on_over_a_restart() -> None:
    tally = Tally(from_zero=False)
    before = scheduler()
    see(tally, before)
    calls = {rpc.name: rpc.calls for rpc in before.rpcs}
    fewer = tuple(msgspec.structs.replace(rpc, calls=1, seconds=0.5) for rpc in before.rpcs)
    see(tally, scheduler(rpcs=fewer, since=before.since + 100))
    for name, count in calls.items():
        expected = count + 1 if count > 1 else 1
        assert tally.total("rpcs", name) == expected


def test_a_service_counts_what_it_saw_itself() -> None:
    """What slurmctld had counted before is not new each time that the service starts."""
    tally = Tally(from_zero=True)
    first = scheduler()
    see(tally, first)
    assert {total for _, total in tally.totals("job_events")} == {0}
    assert {total for _, total in tally.totals("rpcs")} == {0}
    jobs = {event: count + 5 for event, count in first.jobs.items()}
    newcomer = msgspec.structs.replace(first.rpc_users[0], name="newcomer", calls=3)
    see(tally, scheduler(jobs=jobs, rpc_users=(*first.rpc_users, newcomer)))
    assert {total for _, total in tally.totals("job_events")} == {5}
    assert tally.total("user_rpcs", "newcomer") == 3
    see(tally, scheduler(jobs=dict.fromkeys(jobs, 2), since=first.since + 1))
    assert {total for _, total in tally.totals("job_events")} == {7}


def test_a_part_that_was_not_read_anew_counts_nothing() -> None:
    tally = Tally(from_zero=False)
    found = scheduler()
    see(tally, found)
    tally.update(Snapshot(scheduler=Part(msgspec.structs.replace(found, since=99))), frozenset())
    assert tally.total("job_events", "submitted") == found.jobs["submitted"]


def job(id_: int, state: str, start: int | None = None, **more: object) -> Job:
    fields: dict[str, object] = {
        "id": id_,
        "array_id": None,
        "array_tasks": None,
        "tasks": 1,
        "name": "x",
        "user": "u",
        "account": "a",
        "partition": "main",
        "qos": "normal",
        "state": state,
        "reason": None,
        "priority": 1,
        "submit_time": 1000,
        "eligible_time": 1000,
        "start_time": start,
        "end_time": None,
        "time_limit": None,
        "cpus": 1,
        "memory": None,
        "gpus": {},
        "nodes": 1,
        "node_list": "" if state in ("PENDING", "CANCELLED") else "n1",
        "reservation": None,
        "dependency": None,
        "features": None,
        "licenses": None,
        "login_node": None,
        "restarts": 0,
        "exit_code": None,
    }
    return msgspec.convert({**fields, **more}, Job)


def waits(*polls: list[Job]) -> tuple[int, float]:
    tally = Tally(from_zero=False)
    for jobs in polls:
        tally.update(Snapshot(jobs=Part(tuple(jobs))), frozenset({"jobs"}))
    counted = [(sum(found.counts), found.sum) for found in tally.waits.values()]
    return sum(count for count, _ in counted), sum(total for _, total in counted)


def test_a_job_seen_to_start_is_counted_once() -> None:
    assert waits([job(1, "PENDING")], [job(1, "RUNNING", 1060)], [job(1, "RUNNING", 1060)]) == (1, 60)


def test_jobs_that_ran_before_we_looked_are_not_counted() -> None:
    assert waits([job(1, "RUNNING", 1060)], [job(1, "COMPLETED", 1060)]) == (0, 0)


def test_a_job_that_came_and_went_between_two_polls_is_counted() -> None:
    assert waits([], [job(1, "COMPLETED", 1005)]) == (1, 5)


def test_a_job_that_starts_again_after_a_requeue_is_counted_again() -> None:
    first, again = job(1, "RUNNING", 1010), job(1, "RUNNING", 2000, eligible_time=1500)
    assert waits([], [first], [job(1, "PENDING")], [again]) == (2, 510)


def test_a_guess_of_a_start_is_no_start_and_a_cancelled_job_never_started() -> None:
    assert waits([], [job(1, "PENDING", 9999)], [job(2, "CANCELLED", 1100)]) == (0, 0)


def test_a_job_whose_nodes_are_booting_has_not_started() -> None:
    """slurmctld sets its start anew when they are up."""
    booting, runs = job(1, "CONFIGURING", 1010), job(1, "RUNNING", 1310)
    assert waits([], [booting], [runs]) == (1, 310)


def test_a_wait_counts_from_when_the_job_could_have_started() -> None:
    assert waits([], [job(1, "RUNNING", 1060, eligible_time=1050)]) == (1, 10)
