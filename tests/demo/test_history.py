# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulation's accounting: it agrees with the queue, and knows what is not in the queue any more."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from slurmscope import totals
from slurmscope.demo import history, records
from slurmscope.demo.cluster import HOUR, Fault
from slurmscope.demo.simulation import Simulation
from slurmscope.demo.source import DemoSource, begins
from slurmscope.life import Accounted, Life, seen, told
from slurmscope.model import Job, Snapshot

BEGIN = 1_767_571_200 + 2 * 86400  # a Wednesday
NOW = BEGIN + 3 * HOUR


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    found = Simulation(3, BEGIN)
    found.advance(NOW)
    return found


@pytest.fixture(scope="module")
def told_of(simulation: Simulation) -> dict[tuple[int, int], Accounted]:
    found = history.of(simulation, BEGIN, NOW)
    by_key = {one.job.key: one for one in found}
    assert len(by_key) == len(found)
    return by_key


def test_all_that_is_in_the_queue_is_told(simulation: Simulation, told_of: dict[tuple[int, int], Accounted]) -> None:
    queue = records.all_jobs(simulation)
    assert {job.key for job in queue} <= told_of.keys()
    for job in queue:
        one = told_of[job.key].job
        state = "RUNNING" if job.holding else job.state
        assert (one.state, one.tasks, one.cpus, one.memory, one.gpus, one.node_list) == (
            *(state, job.tasks, job.cpus, job.memory, job.gpus, job.node_list),
        )
        if job.waiting:
            assert one.start_time is None and one.end_time is None
        else:
            assert one.start_time == job.start_time
            assert one.end_time == (None if job.holding else job.end_time)
    over = [one for one in told_of.values() if one.job.key not in {job.key for job in queue}]
    assert len(over) > 200 and all(BEGIN <= (one.job.end_time or 0) <= NOW for one in over)


def test_what_ended_has_figures(told_of: dict[tuple[int, int], Accounted]) -> None:
    ran = [one for one in told_of.values() if one.job.node_list and one.job.end_time is not None]
    assert len(ran) > 200
    for one in ran:
        elapsed = (one.job.end_time or 0) - (one.job.start_time or 0)
        assert (one.cpu_seconds or 0) <= one.job.cpus * elapsed
        assert {"extern"} < {step.id for step in one.steps}
        assert all(step.end_time is not None and step.memory_used for step in one.steps)
    running = [one for one in told_of.values() if one.job.state == "RUNNING"]
    assert all(one.steps and all(step.end_time is None for step in one.steps) for one in running)
    cancelled = [one for one in told_of.values() if one.job.state == "CANCELLED"]
    assert cancelled and all(one.cancelled_by == one.job.user for one in cancelled)


def test_only_what_was_there_within_the_window(simulation: Simulation) -> None:
    found = history.of(simulation, BEGIN + HOUR, BEGIN + 2 * HOUR)
    ends = [one.job.end_time for one in found if one.job.end_time is not None]
    assert ends and all(BEGIN + HOUR <= end <= BEGIN + 2 * HOUR for end in ends)
    assert all((one.job.submit_time or 0) <= BEGIN + 2 * HOUR for one in found)


def test_polls_and_accounting_make_one_life(simulation: Simulation, told_of: dict[tuple[int, int], Accounted]) -> None:
    polled: dict[tuple[int, int], Life] = {
        job.key: seen(None, "demo", job, simulation.now) for job in records.all_jobs(simulation)
    }
    for key, one in told_of.items():
        life = told(polled.get(key), "demo", one, NOW)
        assert told(life, "demo", one, NOW) is life
        assert life.ended == (one.job.end_time is not None)
        assert all(before.time <= after.time for before, after in pairwise(life.transitions))


def test_a_job_that_loses_its_node_is_another_life_then() -> None:
    simulation = Simulation(1, BEGIN)
    simulation.advance(BEGIN + HOUR)
    node = max(simulation.machine.nodes, key=lambda one: len(one.jobs))
    lost = [(job.id, job.submit) for job in node.jobs]
    simulation.machine.fail(node, Fault(Fault.DOWN, "Not responding", "slurm", simulation.now))
    for job in list(node.jobs):
        simulation._lose(job)
    by_key: dict[tuple[int, int], Job] = {one.job.key: one.job for one in history.of(simulation, BEGIN, NOW)}
    assert {by_key[key].state for key in lost} == {"NODE_FAIL"}
    again = [job for key, job in by_key.items() if key not in lost and job.id in dict(lost)]
    assert again and all(job.state == "PENDING" and job.submit_time == simulation.now for job in again)


def test_the_source_tells_a_window_and_what_it_caught_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.demo.source._BEFORE", 2 * HOUR)
    monkeypatch.setattr("slurmscope.demo.source._EVERY", HOUR)
    found: list[Snapshot] = []
    source = DemoSource(5, lambda: NOW, found.append)
    assert begins(NOW) == NOW - 2 * HOUR
    assert [one.nodes.time for one in found] == list(range(NOW - 2 * HOUR + 900, NOW, 900))
    assert all(totals.totals(one)[totals.WHOLE]["jobs_running"] > 100 for one in found[1:])
    told_of = asyncio.run(source.read("history", (begins(NOW), NOW))).value
    assert {job.key for job in asyncio.run(source.read("jobs")).value} <= {one.job.key for one in told_of}
    plain = DemoSource(5, lambda: NOW)
    assert asyncio.run(plain.read("history", (begins(NOW), NOW))).value == told_of
