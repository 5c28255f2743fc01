# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Judging all jobs of a time, without telling anybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from findings import cases
from findings.cases import RAN, START

from slurmscope.course import AGENT, Course, Sample, add
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.cost import Prices
from slurmscope.findings.history import DAY, StorePast
from slurmscope.findings.policy import Policy
from slurmscope.findings.replay import Replay, replay, window
from slurmscope.life import Life
from slurmscope.measure import GpuUse
from slurmscope.settings import Cost, RuleSetting
from slurmscope.store.protocol import KeptNode, Measured, Store
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary

END = START + RAN
HOUR = 3600
PRICES = Prices(Cost(currency="EUR", core_hour=1.0, gpu_hour={"default": 10.0}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = SqliteStore(tmp_path / "store.db")
    yield found
    found.close()


def only(*names: str) -> Policy:
    """No other rule holds."""
    return Policy([RuleSetting(rule=name, enabled=False) for name in catalogue() if name not in names])


def idle(id_: int, share: float = 0.8, **fields: Any) -> Life:
    """A job of which that share of the CPU time was idle."""
    cpus = fields.get("cpus", 4)
    ran = fields.pop("ran", RAN)
    told = {"cpu_seconds": (1 - share) * cpus * ran}
    return msgspec.structs.replace(cases.life(ran=ran, told=told, **fields), id=id_)


def put(store: Store, *lives: Life, measured: Sequence[tuple[Life, Summary, Course | None]] = ()) -> None:
    with store.writing("c") as writer:
        writer.put_lives([*lives, *(life for life, _, _ in measured)])
        writer.put_measured([Measured(life.id, life.key[1], summary, course) for life, summary, course in measured])
        writer.put_nodes([KeptNode("c", cases.node(), END, START)])


def replayed(store: Store, policy: Policy, since: int = START, until: int = END + HOUR, **given: Any) -> Replay:
    return replay(store, ["c"], since, until, policy, PRICES, **given)


def test_what_each_would_have_been_told(store: Store) -> None:
    put(
        store,
        idle(1),
        idle(2, 0.5),
        idle(3, 0.9, user="bob", cpus=16),
        idle(4, 0.0, user="carol"),
        idle(5, 0.9, array_id=5, array_tasks="7"),
        idle(6, 0.7),
    )
    found = replayed(store, only("low_cpu"))
    assert (found.judged, found.measured, found.told, found.people) == (6, 0, 5, 2)
    bob, alice = found.rows
    assert (bob.user, bob.rule, bob.jobs, bob.severity) == ("bob", "low_cpu", 1, "bad")
    assert bob.cost.cpu_seconds == pytest.approx(0.9 * 16 * RAN)
    assert bob.cost.money == pytest.approx(0.9 * 16 * 2)
    assert (alice.jobs, alice.severity) == (4, "bad")
    assert [one.job for one in alice.worst] == ["5_7", "1", "6"], "the worst first, and no more than three"
    assert alice.worst[1].headline == "80 % of its cores' time was idle"
    assert found.held.cpu_seconds == (5 * 4 + 16) * RAN
    assert found.wasted.cpu_seconds == pytest.approx(bob.cost.cpu_seconds + alice.cost.cpu_seconds)


def test_what_two_rules_say_of_a_job_is_wasted_once(store: Store) -> None:
    life = msgspec.structs.replace(cases.life(gpus={"a100": 2}), id=1)
    told = tuple(cases.gpu(at, mean=0.0, peak=0.0) for at in range(2))
    never = cases.summary(gpu=cases.figures(0.0), gpus=told)
    put(store, measured=[(life, never, None), (idle(2), cases.summary(), None)])
    found = replayed(store, Policy())
    assert found.measured == 2
    assert found.told <= 2
    assert found.wasted.gpu_seconds == 2 * RAN
    assert found.wasted.gpu_seconds <= found.held.gpu_seconds and found.wasted.cpu_seconds <= found.held.cpu_seconds
    assert {row.rule for row in found.rows} >= {"zero_gpu"}


def test_only_what_ended_then_or_runs(store: Store) -> None:
    running = msgspec.structs.replace(cases.life("RUNNING"), id=5)
    later = idle(3, ran=RAN + 2 * HOUR)
    put(store, idle(1, ran=RAN - HOUR), idle(2), later, msgspec.structs.replace(cases.life("PENDING"), id=4), running)
    assert replayed(store, only("low_cpu"), END, END + HOUR).judged == 2, "it ended then, or runs"
    assert replayed(store, only("low_cpu"), END, START).judged == 0
    assert replay(store, ["d"], 0, END, only(), PRICES).judged == 0


def test_of_one_user_and_one_rule(store: Store) -> None:
    put(store, idle(1), idle(2, user="bob"))
    found = replayed(store, Policy(), user="bob", rules=["low_cpu"])
    assert (found.judged, [row.user for row in found.rows]) == (1, ["bob"])
    assert replayed(store, only("low_cpu"), rules=["zero_gpu"]).rows == ()


def test_its_course_is_read_for_a_rule_that_looks(store: Store) -> None:
    """GPUs that had work, and have none since."""
    life = cases.life("RUNNING", gpus={"a100": 1}, ran=6 * HOUR)
    gpu = cases.gpu(mean=0.3, peak=1.0, seconds=6.0 * HOUR)
    course: Course | None = None
    for at in range(START, START + 6 * HOUR, 60):
        course = add(course, _sample(at, 0.9 if at < START + HOUR else 0.0))
    used = cases.summary(gpu=cases.figures(0.3, 1.0), gpus=(gpu,), seconds=6.0 * HOUR)
    put(store, measured=[(life, used, course)])
    found = replayed(store, only("stopped_gpu"), until=START + 6 * HOUR)
    assert [row.rule for row in found.rows] == ["stopped_gpu"]
    store.forget("series", START + 9 * HOUR)
    assert replayed(store, only("stopped_gpu"), until=START + 6 * HOUR).rows == (), "no course, no verdict"


def _sample(at: int, used: float) -> Sample:
    gpu = GpuUse(uuid="GPU-0", index=0, model="A100", utilization=used, memory_used=1 << 30, processes=1)
    return Sample(node="n1", start=at, end=at + 60, source=AGENT, cpus=4, cpu_seconds=60.0, memory=1 << 30, gpus=(gpu,))


def test_its_progress_is_told(store: Store) -> None:
    put(store, *(idle(at) for at in range(1, 1201)), msgspec.structs.replace(cases.life("PENDING"), id=9999))
    told: list[tuple[int, int]] = []
    replayed(store, only("low_cpu"), progress=lambda done, of: told.append((done, of)))
    assert [of for _, of in told] == [1201] * 3
    assert told[-1][0] == 1201 and sorted(told) == told


@pytest.mark.parametrize("user", [None, "alice"])
def test_what_was_before_that_time_is_known(store: Store, user: str | None) -> None:
    """The same work failed three times, two of them before the time that is looked at."""
    failed = [
        msgspec.structs.replace(
            idle(at, 0.0, state="FAILED", ran=RAN + at, exit_code="1:0"), submit_time=START - 90 + at
        )
        for at in range(1, 4)
    ]
    put(store, *failed)
    found = replayed(store, only("failing_again"), since=END + 3, user=user)
    assert (found.judged, [row.rule for row in found.rows]) == (1, ["failing_again"])


def test_what_a_node_lost_is_nobodys_waste(store: Store) -> None:
    put(store, idle(1), idle(2, 0.0, state="NODE_FAIL", user="bob"))
    found = replayed(store, only("low_cpu", "node_failure"))
    alice, bob = found.rows
    assert (bob.rule, bob.cost.cpu_seconds, bob.lost.cpu_seconds) == ("node_failure", 0.0, 4 * RAN)
    assert bob.worst[0].cost.cpu_seconds == 4 * RAN
    assert found.wasted.cpu_seconds == pytest.approx(alice.cost.cpu_seconds)
    assert found.lost.cpu_seconds == 4 * RAN


def test_nodes_that_failed_weeks_ago_are_known_though_their_jobs_are_not(store: Store) -> None:
    """As many as the words say: of 30 days."""
    failed = [
        msgspec.structs.replace(
            idle(at, 0.0, state="NODE_FAIL"), submit_time=START - 90 - days * DAY, end_time=END - days * DAY
        )
        for at, days in enumerate((0, 8, 20, 29, 31), 1)
    ]
    put(store, *failed)
    last = failed[0]
    known = window(store, "c", END, END + HOUR, [last], 1).record(last)
    assert [(one.days, one.failures) for one in known] == [(30, 4)]
    assert known == StorePast(store, "c").record(last)
