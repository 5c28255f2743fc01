# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How much of the machine could be used, and why the rest could not."""

from __future__ import annotations

from findings import cases
from hypothesis import given
from hypothesis import strategies as some

from slurmscope.reports.availability import availability
from slurmscope.store.protocol import KeptNode, NodeChange

START, END = 1000, 2000


def change(node: str, time: int, state: str = "IDLE", *flags: str, reason: str | None = None) -> NodeChange:
    return NodeChange("c", node, time, state, flags, reason, None, None)


def kept(node: str, since: int = 0, **fields: object) -> KeptNode:
    return KeptNode("c", cases.node(node, **fields), END, since)


def test_nodes_that_were_well_all_the_time() -> None:
    found = availability([kept("n1"), kept("n2")], [], START, END)
    assert (found.node_seconds, found.lost, found.share) == (2000, {}, 1.0)


def test_a_drain_counts_from_when_it_began_to_when_it_ended() -> None:
    changes = [
        change("n1", 10),
        change("n1", 1200, "IDLE", "DRAIN", reason="disk"),
        change("n1", 1500, "DOWN", reason="gone"),
        change("n1", 1600, "MIXED"),
    ]
    found = availability([kept("n1", 1600), kept("n2")], changes, START, END)
    assert found.lost == {"drained: disk": 300, "down: gone": 100}
    assert found.share == 0.8


def test_one_that_was_down_before_and_still_is() -> None:
    down = kept("n1", 500, state="DOWN", reason="PSU")
    assert availability([down], [], START, END).lost == {"down: PSU": 1000}
    assert availability([], [change("n1", 500, "DOWN", reason="PSU")], START, END).share == 0.0


def test_maintenance_is_told_apart() -> None:
    changes = [change("n1", 10, "IDLE", "MAINT", reason="October"), change("n1", 1100)]
    assert availability([kept("n1", 1100)], changes, START, END).lost == {"maintenance: October": 100}


def test_a_node_counts_while_it_is_there() -> None:
    came = [change("n1", 1500)]
    went = [change("n2", 10), change("n2", 1250, "")]
    found = availability([kept("n1", 1500)], [*came, *went], START, END)
    assert (found.node_seconds, found.share) == (750, 1.0)


def test_nothing_known() -> None:
    found = availability([], [], START, END)
    assert (found.node_seconds, found.share) == (0, None)


STATES = some.sampled_from(["IDLE", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN", ""])
FLAGS = some.lists(some.sampled_from(["DRAIN", "MAINT", "NOT_RESPONDING", "PLANNED", "REBOOT_ISSUED"]), max_size=2)


@given(some.lists(some.tuples(some.sampled_from(["a", "b"]), some.integers(0, 2500), STATES, FLAGS), max_size=20))
def test_what_is_lost_is_never_more_than_there_was(found: list[tuple[str, int, str, list[str]]]) -> None:
    changes = [change(node, time, state, *flags) for node, time, state, flags in sorted(found, key=lambda one: one[1])]
    got = availability([], changes, START, END)
    assert 0 <= sum(got.lost.values()) <= got.node_seconds <= 2 * (END - START)
