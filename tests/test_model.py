# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that everybody relies on: what adds up, and what a GPU is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.model import NODE_BASE_STATES, NODE_FLAGS, Node

GIB = 2**30
IDLE = Node(
    name="n1",
    state="IDLE",
    flags=frozenset(),
    partitions=("main",),
    cpus=64,
    cpus_effective=64,
    cpus_allocated=0,
    load=0.0,
    memory=256 * GIB,
    memory_reserved=None,
    memory_allocated=0,
    memory_free=None,
    gpus={"a100": 4},
    gpus_allocated={},
    weight=1,
    version="24.11.5",
    features=(),
    boot_time=None,
    reason=None,
    reason_user=None,
    reason_time=None,
)


def node(**changes: object) -> Node:
    return msgspec.structs.replace(IDLE, **changes)


nodes = st.builds(
    lambda state, flags, cpus, kept, cpus_taken, memory, memory_kept, memory_taken, gpus, gpus_taken: node(
        state=state,
        flags=frozenset(flags),
        cpus=cpus,
        cpus_effective=cpus - min(kept, cpus),
        cpus_allocated=min(cpus_taken, cpus),
        memory=memory,
        memory_reserved=memory_kept,
        memory_allocated=min(memory_taken, memory),
        gpus=gpus,
        gpus_allocated=gpus_taken,
    ),
    st.sampled_from(NODE_BASE_STATES),
    st.sets(st.sampled_from(NODE_FLAGS)),
    st.integers(1, 256),
    st.integers(0, 8),
    st.integers(0, 256),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 2**34),
    st.integers(0, 2**40),
    st.dictionaries(st.sampled_from(["a100", "h100", ""]), st.integers(1, 8), max_size=3),
    st.dictionaries(st.sampled_from(["a100", "h100", "", "gone"]), st.integers(0, 9), max_size=3),
)


@given(nodes)
def test_uses_add_up_to_all_there_is(found: Node) -> None:
    assert found.cpus_allocated + found.cpus_idle + found.cpus_other == found.cpus
    assert found.memory_allocated + found.memory_idle + found.memory_other == found.memory
    assert min(found.cpus_idle, found.cpus_other, found.memory_idle, found.memory_other) >= 0
    for kind, uses in found.gpu_use().items():
        assert sum(uses.values()) == found.gpus[kind]
        assert min(uses.values()) >= 0


@given(nodes)
def test_nothing_is_idle_where_no_job_can_start(found: Node) -> None:
    if not found.usable:
        assert found.cpus_idle == found.memory_idle == 0
        assert all(uses["idle"] == uses["stranded"] == 0 for uses in found.gpu_use().values())


@pytest.mark.parametrize("state", ["IDLE", "MIXED", "ALLOCATED"])
@pytest.mark.parametrize(
    "flag", [None, "PLANNED", "RESERVED", "COMPLETING", "CLOUD", "REBOOT_REQUESTED", "POWERING_UP", "POWERED_DOWN"]
)
def test_usable(state: str, flag: str | None) -> None:
    assert node(state=state, flags=frozenset({flag} if flag else ())).usable


@pytest.mark.parametrize(
    "flag", ["DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "POWERING_DOWN", "INVALID_REG", "REBOOT_ISSUED", "BLOCKED"]
)
def test_not_usable_by_a_flag(flag: str) -> None:
    assert not node(flags=frozenset({flag})).usable


@pytest.mark.parametrize("state", ["DOWN", "ERROR", "FUTURE", "UNKNOWN"])
def test_not_usable_by_its_state(state: str) -> None:
    assert not node(state=state).usable


@pytest.mark.parametrize(
    ("changes", "free"),
    [
        ({}, "idle"),
        ({"cpus_allocated": 63}, "idle"),
        ({"cpus_allocated": 64}, "stranded"),
        ({"cpus_effective": 60, "cpus_allocated": 60}, "stranded"),
        ({"memory_allocated": 256 * GIB}, "stranded"),
        ({"memory_reserved": 6 * GIB, "memory_allocated": 250 * GIB}, "stranded"),
        ({"flags": frozenset({"DRAIN"})}, "unavailable"),
        ({"state": "DOWN"}, "unavailable"),
    ],
)
def test_a_free_gpu_is_idle_stranded_or_unavailable(changes: dict[str, object], free: str) -> None:
    uses = node(gpus_allocated={"a100": 1}, **changes).gpu_use()["a100"]
    assert uses == {"allocated": 1, "idle": 0, "stranded": 0, "unavailable": 0, free: 3}


def test_a_copy_is_worked_out_anew() -> None:
    drained = msgspec.structs.replace(IDLE, flags=frozenset({"DRAIN"}))
    assert (drained.usable, drained.cpus_idle, drained.cpus_other) == (False, 0, 64)
    assert msgspec.structs.replace(drained, flags=frozenset()).cpus_idle == 64
