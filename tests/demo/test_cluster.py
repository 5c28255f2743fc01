# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated hardware, its reservations, its people and the rhythm of their days."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.demo import people, work
from slurmscope.demo.cluster import (
    DAY,
    HOUR,
    KINDS,
    PARTITIONS,
    WEEK,
    build,
    folded,
    next_change,
    reservations,
)
from slurmscope.demo.jobs import Ask
from slurmscope.demo.machine import Machine
from slurmscope.slurm.values import hosts

MONDAY = 1_767_571_200  # 2026-01-05T00:00Z
NODES = build(MONDAY)


def test_two_hundred_nodes_each_in_a_partition() -> None:
    assert len(NODES) == sum(kind.count for kind in KINDS) == 200
    assert len({node.name for node in NODES}) == 200
    assert all(node.partitions for node in NODES)
    names = {node.name for node in NODES}
    for partition in PARTITIONS:
        assert names.issuperset(hosts(partition.node_list))
    assert any(len(node.partitions) > 1 for node in NODES)
    assert [partition.name for partition in PARTITIONS if partition.default] == ["cpu"]


@given(st.sets(st.integers(0, 199), max_size=40))
def test_a_folded_hostlist_names_the_same_nodes(indices: set[int]) -> None:
    chosen = [NODES[index] for index in sorted(indices)]
    assert list(hosts(folded(chosen))) == [node.name for node in chosen]


def test_hostlists_look_as_slurm_writes_them() -> None:
    assert folded([NODES[0]]) == "cpu001"
    assert folded([NODES[6], NODES[2], NODES[0], NODES[1]]) == "cpu[001-003,007]"
    assert folded([NODES[0], NODES[128]]) == "cpu001,big01"


@given(st.integers(MONDAY, MONDAY + 60 * WEEK))
def test_there_is_always_a_course_and_a_maintenance_ahead(now: int) -> None:
    found = reservations(now)
    assert sum(1 for one in found if one.maintenance and one.start > now) == 1
    assert sum(1 for one in found if not one.maintenance and one.start <= now < one.end) == 1
    assert all(one.end > now for one in found)
    names = {node.name for node in NODES}
    assert all(names.issuperset(hosts(one.node_list)) for one in found)
    change = next_change(now)
    assert now < change <= now + WEEK
    assert reservations(change) != found or any(one.start == change for one in found)
    assert reservations(change - 1) == found


def test_every_kind_of_work_fits_on_some_nodes() -> None:
    machine = Machine(MONDAY)
    for one in work.WORKS:
        limits = {partition.name: partition.max_time for partition in PARTITIONS}
        for cpus in one.cpus:
            ask = Ask(
                one.partitions,
                cpus,
                cpus * one.memory,
                HOUR,
                gpu=one.gpu,
                gpus=max(one.gpus),
                reservation=one.reservation,
            )
            able = [node for node in machine.capable(ask) if node.reservation == one.reservation]
            assert len(able) >= 2 * max(one.nodes), one
        assert max(one.hours) * HOUR <= min(limits[name] for name in one.partitions), one


def test_people_want_as_much_as_the_table_says() -> None:
    rng = random.Random(7)
    wanted = dict.fromkeys(work.DEMAND, 0.0)
    for stream in people.streams(people.users(rng), rng):
        busy = 1 if stream.work.steady else work.MEAN_RHYTHM
        wanted[stream.work.pool] += stream.rate * busy * HOUR * stream.work.cost
    assert wanted == pytest.approx(work.DEMAND)


def test_people_work_by_day_and_less_on_sundays() -> None:
    noon, night = work.rhythm(MONDAY + 10 * HOUR), work.rhythm(MONDAY + 2 * HOUR)
    assert noon > 4 * night > 0
    assert work.rhythm(MONDAY - DAY + 10 * HOUR) < 0.7 * noon
    week = [work.rhythm(MONDAY + hour * HOUR) for hour in range(7 * 24)]
    assert sum(week) / len(week) == pytest.approx(work.MEAN_RHYTHM)


def test_people_have_names_of_their_own() -> None:
    users = people.users(random.Random(7))
    assert 55 <= len(users) <= 70
    assert len({user.name for user in users}) == len(users)
    assert any("." in user.name for user in users)
    assert all(user.accounts[0] == user.account and user.accounts[-1] == people.ROOT for user in users)
    assert {len(user.accounts) for user in users} == {3}  # group, faculty, root
