# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is ahead, what is free, when there is enough, and what can never start."""

from __future__ import annotations

from typing import Any

import pytest
from lives import job
from waiting.snapshots import NOW, node, partition, reservation, snapshot

from slurmscope.model import Job, Snapshot
from slurmscope.waiting.case import Fact
from slurmscope.waiting.explanation import explain

GIB = 1 << 30


def told(one: Job, known: Snapshot) -> dict[str, Fact]:
    return {fact.name: fact for fact in explain(one, known, None, NOW).facts}


# --- ahead ------------------------------------------------------------------------------------------------------------


def test_what_is_ahead_is_of_higher_priority_in_the_same_partitions() -> None:
    queue = (
        job(2, priority=101, cpus=2, tasks=10, user="bob"),
        job(3, priority=200, partition="gpu,main", gpus={"a100": 4}, user="carol"),
        job(4, priority=200, partition="gpu"),
        job(5, priority=100),
        job(6, priority=999, reason="Dependency"),
        job(7, priority=999, reason="JobHeldAdmin"),
        job(8, "RUNNING", priority=999),
        job(9, priority=None),
        job(10, priority=999, reason="QOSGrpCpuLimit"),
    )
    found = told(job(1), snapshot(jobs=queue))["ahead"]
    assert found.values == {"tasks": 11, "cpus": 24, "gpus": 4, "aside": 3, "users": {"bob": 10, "carol": 1}}
    assert found.text == (
        "11 jobs of a higher priority in main, for 24 CPUs and 4 GPUs; whose: bob 10, carol 1; "
        "besides 3 that something else holds back"
    )


def test_with_hidden_priorities_it_says_so() -> None:
    assert "priorities are hidden" in told(job(1, priority=None), snapshot())["ahead"].text


# --- room -------------------------------------------------------------------------------------------------------------


def test_free_nodes_are_those_with_enough_of_all() -> None:
    nodes = (
        node("n1", cpus_allocated=13),
        node("n2", memory_allocated=60 * GIB),
        node("n3", state="DOWN"),
        node("n4", flags=frozenset({"DRAIN"})),
        node("n5"),
        node("n6"),
        node("g1", partitions=("gpu",)),
    )
    found = told(job(1, reason="Resources", nodes=3, cpus=12, memory=24 * GIB), snapshot(nodes=nodes))
    assert (found["free now"].values["nodes"], found["free now"].values["of"]) == (2, 6)
    assert found["asks for"].text == "3 nodes with 4 CPUs and 8 GiB each, if it is spread evenly"
    assert "enough" not in found  # nothing runs of which it is known when it ends
    narrow = told(job(1, reason="Resources"), snapshot(nodes=nodes))
    assert narrow["enough"].text.startswith("by this count that is enough; they may be kept for jobs that come first")


def test_gpus_are_counted_by_type() -> None:
    nodes = (
        node("n1", gpus={"a100": 4}, gpus_allocated={"a100": 3}),
        node("n2", gpus={"h200": 4}),
        node("n3", gpus={"a100": 4}),
    )
    known = snapshot(nodes=nodes)
    assert told(job(1, reason="Resources", gpus={"a100": 2}), known)["free now"].values["nodes"] == 1
    assert told(job(1, reason="Resources", gpus={"": 2}), known)["free now"].values["nodes"] == 2
    assert told(job(1, reason="Resources", gpus={"h200": 4}), known)["free now"].values["gpus"] == 9


def test_reserved_nodes_are_not_free_unless_it_is_its_own_reservation() -> None:
    near, far = reservation(start_time=NOW + 600), reservation("far", start_time=NOW + 9999, node_list="n2")
    known = snapshot(reservations=(near, far))
    assert told(job(1, reason="Resources"), known)["free now"].values["nodes"] == 1
    assert "1 reserved one not counted" in told(job(1, reason="Resources"), known)["free now"].text
    own = told(job(1, reason="Resources", reservation="maint"), known)
    assert (own["free now"].values["nodes"], own["free now"].values["of"]) == (1, 1)


def test_enough_is_free_when_jobs_that_hold_it_must_have_ended() -> None:
    nodes = (node("n1", cpus_allocated=16, memory_allocated=64 * GIB), node("n2", state="DOWN"))
    running = (
        job(2, "RUNNING", cpus=14, memory=10 * GIB, node_list="n1", end_time=int(NOW) + 100),
        job(3, "RUNNING", cpus=2, memory=54 * GIB, node_list="n1", end_time=int(NOW) + 500),
    )
    found = told(job(1, reason="Resources", cpus=8, memory=8 * GIB), snapshot(nodes=nodes, jobs=running))
    assert found["enough"].values == {"time": NOW + 100}
    wide = told(job(1, reason="Resources", cpus=16, memory=8 * GIB), snapshot(nodes=nodes, jobs=running))
    assert wide["enough"].values == {"time": NOW + 500}
    assert "(in 8 min 20 s) at the latest" in wide["enough"].text


def test_features_that_are_asked_for_plainly_choose_the_nodes() -> None:
    nodes = (node("n1", features=("ib", "skylake")), node("n2", features=("ib",)))
    known = snapshot(nodes=nodes)
    assert told(job(1, reason="Resources", features="ib&skylake"), known)["free now"].values["of"] == 1
    assert told(job(1, reason="Resources", features="[ib*2|skylake]"), known)["free now"].values["of"] == 2


# --- never ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "parts", "expected"),
    [
        (
            {"time_limit": 7200, "reason": "PartitionTimeLimit"},
            {"max_time": 3600},
            "it asks for 2 h 0 min, and jobs in main may run for 1 h 0 min",
        ),
        (
            {"nodes": 2, "reason": "PartitionNodeLimit"},
            {"max_nodes": 1},
            "it asks for 2 nodes, and jobs in main may have 1",
        ),
        ({}, {"allow_accounts": ("bio",)}, "the account physics may not use main"),
        ({"nodes": 3}, {}, "it asks for 3 nodes, and main has 2"),
        ({"gpus": {"a100": 1}}, {}, "it asks for 1 a100 GPU, and main has 0"),
        ({"cpus": 99}, {}, "it asks for 99 CPUs, and all of main has 32"),
        ({"memory": 129 << 30}, {}, "it asks for 129 GiB, and all of main has 128 GiB"),
    ],
)
def test_what_can_never_start_is_said_plainly(fields: dict[str, Any], parts: dict[str, Any], expected: str) -> None:
    found = explain(job(1, **fields), snapshot(partitions=(partition(**parts),)), None, NOW)
    assert found.never
    assert found.facts[0].text == f"as it is, it can never start: {expected}"
    assert found.estimate.start is None


@pytest.mark.parametrize(
    ("fields", "parts", "expected"),
    [
        ({"cpus": 17}, {}, "no node of main has more than 16 CPUs, unless it may be spread over more nodes"),
        ({"memory": 65 << 30}, {}, "no node of main has more than 64 GiB, unless it may be spread over more nodes"),
        ({"time_limit": 7200}, {"max_time": 3600}, "may run for 1 h 0 min, unless its QOS lifts that"),
    ],
)
def test_what_nobody_told_is_left_open(fields: dict[str, Any], parts: dict[str, Any], expected: str) -> None:
    found = explain(job(1, **fields), snapshot(partitions=(partition(**parts),)), None, NOW)
    assert not found.never
    assert found.facts[0].name == "maybe never" and expected in found.facts[0].text


def test_hidden_nodes_are_not_taken_for_none() -> None:
    known = snapshot(nodes=(node("n1"),))  # of two
    assert "never" not in told(job(1, gpus={"a100": 1}), known)


def test_a_job_in_two_partitions_needs_only_one() -> None:
    known = snapshot(partitions=(partition(max_time=60), partition("long")))
    found = explain(job(1, partition="main,long"), known, None, NOW)
    assert not found.never
    assert found.facts[0].name == "only elsewhere" and "jobs in main may run for 1 min 0 s" in found.facts[0].text


@pytest.mark.parametrize("known", [snapshot(partitions=None), snapshot(nodes=None), snapshot(partitions=())])
def test_of_what_is_not_known_nothing_is_said_to_be_impossible(known: Snapshot) -> None:
    assert not explain(job(1, memory=1 << 60, gpus={"a100": 1}), known, None, NOW).never


def test_memory_that_slurm_does_not_count_is_enough() -> None:
    nodes = (node("n1", memory=1 << 20), node("n2", state="DOWN", memory=1 << 20))
    found = told(job(1, reason="Resources"), snapshot(nodes=nodes))
    assert found["free now"].values["nodes"] == 1 and "never" not in found


# --- partitions -------------------------------------------------------------------------------------------------------


def test_a_partition_is_told_with_its_limits() -> None:
    down = partition(state="DOWN", max_time=3600, max_nodes=4, allow_accounts=("physics",))
    text = told(job(1, reason="PartitionDown"), snapshot(partitions=(down,)))["partition"].text
    assert text == (
        "main is DOWN; jobs may run for 1 h 0 min, this one asks for 1 h 0 min; jobs may have 4 nodes, this one asks "
        "for 1; is for the accounts physics, this one is of physics"
    )
