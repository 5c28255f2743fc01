# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold in the simulation at every moment: sums, times, and the truth of what it says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmscope.demo import jobs, records, reports
from slurmscope.demo.cluster import DAY, HOUR, WEEK, Fault, Node
from slurmscope.demo.jobs import Job
from slurmscope.demo.queue import Look
from slurmscope.demo.simulation import MIN_JOB_AGE, Simulation
from slurmscope.model import HOLDING_STATES, JOB_STATES, NODE_FLAGS, WAITING_STATES
from slurmscope.slurm.values import array_size, hosts

MONDAY = 1_767_571_200  # 2026-01-05T00:00Z
BEGIN = MONDAY + 2 * DAY


def lived(seed: int = 1, begin: int = BEGIN, seconds: int = 2 * HOUR) -> Simulation:
    simulation = Simulation(seed, begin)
    simulation.advance(begin + seconds)
    return simulation


class Story:
    """A day and a half, and which nodes were away at each hour of it: for tests that only look."""

    def __init__(self) -> None:
        self.simulation = Simulation(3, BEGIN)
        self.away: list[dict[str, str]] = []
        for hour in range(1, 37):
            self.simulation.advance(BEGIN + hour * HOUR)
            nodes = self.simulation.machine.nodes
            self.away.append({node.name: node.fault.reason for node in nodes if node.fault is not None})


@pytest.fixture(scope="module")
def story() -> Story:
    return Story()


# --- determinism ------------------------------------------------------------------------------------------------------


def test_what_is_does_not_depend_on_how_often_one_looks() -> None:
    once, often = lived(5), Simulation(5, BEGIN)
    for step in range(1, 2 * HOUR // 9 + 1):
        often.advance(BEGIN + 9 * step)
        often.advance(BEGIN + 9 * step - 4)  # a clock that was put back
    assert often.now == once.now
    for part in (records.all_jobs, records.all_nodes, reports.scheduler, reports.shares, reports.limits):
        assert part(often) == part(once)


def test_another_seed_is_another_cluster() -> None:
    assert records.all_jobs(lived(5, seconds=600)) != records.all_jobs(lived(6, seconds=600))


# --- sums -------------------------------------------------------------------------------------------------------------


def check_sums(simulation: Simulation) -> None:
    nodes = {node.name: node for node in records.all_nodes(simulation)}
    held: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    for job in records.all_jobs(simulation):
        assert (job.state in HOLDING_STATES) == (job.id in simulation.holding)
        if not job.holding:
            continue
        names = hosts(job.node_list)
        assert len(names) == len(set(names)) == job.nodes
        for name in names:
            assert job.partition in nodes[name].partitions
            held[name]["cpu"] += job.cpus // job.nodes
            held[name]["memory"] += (job.memory or 0) // job.nodes
            for kind, count in job.gpus.items():
                held[name][kind] += count // job.nodes
    for name, node in nodes.items():
        assert node.cpus_allocated == held[name]["cpu"] <= node.cpus_effective
        assert node.memory_allocated == held[name]["memory"] <= node.memory - (node.memory_reserved or 0)
        for kind, total in node.gpus.items():
            assert node.gpus_allocated.get(kind, 0) == held[name][kind] <= total
            assert sum(node.gpu_use()[kind].values()) == total
        assert node.cpus_allocated + node.cpus_idle + node.cpus_other == node.cpus
        assert node.memory_allocated + node.memory_idle + node.memory_other == node.memory
        assert node.state != "DOWN" or not held[name]


def check_jobs(simulation: Simulation) -> None:
    now = simulation.now
    found = records.all_jobs(simulation)
    assert len({job.id for job in found}) == len(found)
    for job in found:
        assert job.state in JOB_STATES
        assert job.submit_time is not None and job.submit_time <= now
        if job.eligible_time is not None:
            assert job.submit_time <= job.eligible_time
        if job.array_tasks is not None:
            assert job.tasks == array_size(f"[{job.array_tasks}]")[0]
        assert job.time_limit
        if job.waiting:
            assert not job.node_list
            assert job.start_time is None or job.start_time >= now
            assert (job.eligible_time is None) == (
                job.reason in ("JobHeldUser", "Dependency", "DependencyNeverSatisfied")
            )
            continue
        assert job.start_time is not None and job.start_time <= now
        assert (job.end_time is not None and job.eligible_time is not None) or job.state == "CANCELLED"
        if job.holding:
            assert job.tasks == 1 and job.node_list
            assert (job.eligible_time or 0) <= job.start_time
            if job.state != "COMPLETING":
                assert job.end_time == job.start_time + job.time_limit >= now - 30
        else:
            assert job.start_time <= (job.end_time or 0) <= now <= (job.end_time or 0) + MIN_JOB_AGE


def check_nodes(simulation: Simulation) -> None:
    completing = {
        node.name for job in simulation.holding.values() if job.state == jobs.COMPLETING for node in job.nodes
    }
    for node in records.all_nodes(simulation):
        assert node.flags.issubset(NODE_FLAGS)
        assert ("COMPLETING" in node.flags) == (node.name in completing)
        away = node.state == "DOWN" or "DRAIN" in node.flags
        assert away == (node.reason is not None) == (node.reason_time is not None)
        if "PLANNED" in node.flags:
            assert node.usable


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, WEEK), st.integers(1, 5 * HOUR))
def test_everything_adds_up_at_any_time_of_any_story(seed: int, begin: int, seconds: int) -> None:
    simulation = lived(seed, MONDAY + begin, seconds)
    check_sums(simulation)
    check_jobs(simulation)
    check_nodes(simulation)


def test_everything_adds_up_after_a_while(story: Story) -> None:
    check_sums(story.simulation)
    check_jobs(story.simulation)
    check_nodes(story.simulation)


# --- reasons ----------------------------------------------------------------------------------------------------------


def _free(simulation: Simulation, job: Job, partition: str) -> int:
    """Nodes on which it could start, those left out that backfill keeps for others."""
    until = simulation.now + job.ask.limit

    def serves(node: Node) -> bool:
        return (
            partition in node.partitions
            and node.fault is None
            and not node.maintained
            and (not node.planned or node in job.plan)
            and node.reservation == job.ask.reservation
            and until <= node.closes
            and job.ask.gpu in ("", node.kind.gpu)
            and job.ask.host in (None, node.name)
            and node.free_cpus >= job.ask.cpus
            and node.free_memory >= job.ask.memory
            and node.free_gpus >= job.ask.gpus
        )

    return sum(1 for node in simulation.machine.nodes if serves(node))


def _limit_is_full(simulation: Simulation, job: Job) -> bool:
    """The limit that the reason names has no room for another task, by the records that are told."""
    name, tres = {
        "QOSMaxCpuPerUserLimit": ("MaxTRESPU", "cpu"),
        "QOSMaxGRESPerUser": ("MaxTRESPU", "gres/gpu"),
        "QOSGrpCpuLimit": ("GrpTRES", "cpu"),
        "QOSMaxJobsPerUserLimit": ("MaxJobsPU", None),
        "AssocGrpGRES": ("GrpTRES", "gres/gpu"),
        "AssocGrpCpuLimit": ("GrpTRES", "cpu"),
        "AssocMaxJobsLimit": ("MaxJobs", None),
    }[job.reason or ""]
    amount = {"cpu": job.cpus, "gres/gpu": job.gpus, None: 1}[tres]
    return any(
        (limit.used or 0) + amount > limit.limit
        for limit in reports.limits(simulation)
        if limit.used is not None
        and (limit.name, limit.tres) == (name, tres)
        and limit.kind == ("qos" if (job.reason or "").startswith("QOS") else "association")
        and limit.qos in (None, job.qos)
        and limit.account in (None, *job.user.accounts)
        and limit.user in (None, job.user.name)
    )


def check_reason(simulation: Simulation, job: Job) -> None:
    now, waiting = simulation.now, list(simulation.queue)
    match (job.reason or "").split(":")[0]:
        case "Resources":
            if len(job.ask.partitions) == 1:
                assert _free(simulation, job, job.ask.partitions[0]) < job.ask.nodes
        case "Priority":
            for partition in job.ask.partitions:
                assert any(
                    one.reason == "Resources" and partition in one.ask.partitions and one.rank < job.rank
                    for one in waiting
                )
        case "Dependency":
            assert job.after is not None and job.after.state in (jobs.PENDING, jobs.RUNNING, jobs.COMPLETING)
        case "DependencyNeverSatisfied":
            assert job.after is not None and job.after.state in JOB_STATES[3:12] and job.after.state != jobs.COMPLETED
        case "JobHeldUser":
            assert job.held and job.priority == 0
        case "BeginTime":
            assert job.begin is not None and job.begin > now
        case "JobArrayTaskLimit":
            running = [one for one in simulation.holding.values() if one.array_id == job.array_id]
            assert len(running) >= job.throttle > 0
        case "Licenses":
            assert job.ask.licence is not None
            name, count = job.ask.licence
            assert next(one.free for one in records.all_licenses(simulation) if one.name == name) < count
        case "ReqNodeNotAvail, UnavailableNodes":
            named = hosts((job.reason or "").partition(":")[2])
            assert named and all(simulation.machine.by_name[name].fault is not None for name in named)
        case "ReqNodeNotAvail, Reserved for maintenance":
            assert any(one.start_time < now + job.ask.limit for one in records.all_reservations(simulation))
        case _:
            assert _limit_is_full(simulation, job)


@pytest.mark.parametrize(("seed", "begin"), [(1, MONDAY + 22 * HOUR), (2, MONDAY + 4 * DAY + 8 * HOUR)])
def test_each_reason_is_true_when_the_scheduler_gives_it(
    seed: int, begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at after every cycle: what frees a node between two changes no reason until the next."""
    simulation = lived(seed, begin, 5 * HOUR)
    cycle = simulation.queue.cycle
    seen: Counter[str] = Counter()

    def checked(*args: Any, **kwargs: Any) -> Look:
        look = cycle(*args, **kwargs)
        for job in simulation.queue:
            seen[(job.reason or "").split(":")[0]] += 1
            check_reason(simulation, job)
        return look

    monkeypatch.setattr(simulation.queue, "cycle", checked)
    simulation.advance(simulation.now + 600)
    assert {"Resources", "Priority", "Dependency", "JobHeldUser"} <= seen.keys()
    assert len(seen) >= 8


# --- a lively cluster -------------------------------------------------------------------------------------------------


def test_it_is_busy_and_people_wait(story: Story) -> None:
    simulation = story.simulation
    cpus = sum(node.cpus for node in simulation.machine.nodes)
    taken = cpus - sum(node.free_cpus for node in simulation.machine.nodes)
    assert 0.7 < taken / cpus < 0.97
    assert 350 < len(simulation.holding) < 1200
    assert 400 < sum(job.tasks for job in simulation.queue) < 3500
    assert any(job.tasks > 1 for job in simulation.queue)
    held = list(simulation.holding.values())
    assert any(job.gpus for job in held)
    assert any(job.ask.nodes > 4 for job in held)
    assert any(job.array_id is not None for job in held)


def test_jobs_come_and_go() -> None:
    simulation = lived(4, seconds=6 * HOUR)
    before = {job.id for job in records.all_jobs(simulation)}
    states: Counter[str] = Counter()
    seen: set[int] = set()
    for _ in range(18):
        simulation.advance(simulation.now + 200)
        for job in simulation.finished:
            if job.id not in seen:
                seen.add(job.id)
                states[job.state] += 1
    after = {job.id for job in records.all_jobs(simulation)}
    assert len(after - before) > 50
    assert len(before - after) > 50
    assert len(after & before) > 200
    assert states["COMPLETED"] > 50
    assert {"FAILED", "CANCELLED"} <= states.keys()
    assert not states.keys() & (HOLDING_STATES | WAITING_STATES)


def test_nodes_fail_and_come_back(story: Story) -> None:
    counts = [len(away) for away in story.away]
    assert max(counts) < 20
    assert 1 < sum(counts) / len(counts) < 12
    hours = Counter(name for away in story.away for name in away)
    assert len(hours) > 8
    assert sum(1 for name in hours if name not in story.away[-1]) > 4
    reasons = {reason for away in story.away for reason in away.values()}
    assert len(reasons) > 4
    assert any(reason.startswith("NHC") for reason in reasons)


def test_a_node_that_goes_down_loses_its_jobs() -> None:
    simulation = lived(1, seconds=HOUR)
    node = max(simulation.machine.nodes, key=lambda one: len(one.jobs))
    lost = list(node.jobs)
    simulation.machine.fail(node, Fault(Fault.DOWN, "Not responding", "slurm", simulation.now))
    for job in lost:
        simulation._lose(job)
    check_sums(simulation)
    assert not node.jobs
    assert {job.state for job in lost} <= {"PENDING", "NODE_FAIL"}
    again = [job for job in lost if job.state == "PENDING"]
    assert again and all(job.restarts == 1 and job.reason == "BeginTime" for job in again)
    simulation.advance(simulation.now + 300)
    check_jobs(simulation)
    assert not any(job.reason == "BeginTime" for job in again)


def test_maintenance_empties_its_nodes_in_time() -> None:
    window = MONDAY + DAY + 5 * HOUR
    simulation = Simulation(2, window - 10 * HOUR)
    simulation.advance(window + 60)
    nodes = [node for node in records.all_nodes(simulation) if "MAINT" in node.flags]
    assert len(nodes) == 10
    assert all(not node.usable and not node.cpus_idle for node in nodes)
    assert sum(node.cpus_allocated for node in nodes) == 0
    simulation.advance(window + 4 * HOUR + 600)
    assert not any("MAINT" in node.flags for node in records.all_nodes(simulation))
    assert any(
        node.cpus_allocated for node in records.all_nodes(simulation) if node.name in {one.name for one in nodes}
    )
