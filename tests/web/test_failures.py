# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a failure of a node, and who its peers are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from findings.cases import node
from hypothesis import given
from hypothesis import strategies as some

from slurmscope.store.protocol import NodeChange
from slurmscope.web.failures import Record, compared, counted, stretches

SINCE, END = 1000, 9000
STATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "fine": ("MIXED", ()),
    "planned": ("IDLE", ("MAINT",)),
    "reboot": ("DOWN", ("REBOOT_ISSUED",)),
    "drained": ("IDLE", ("DRAIN",)),
    "down": ("DOWN", ()),
    "silent": ("IDLE", ("NOT_RESPONDING",)),
    "gone": ("", ()),
}


def change(time: int, name: str, **fields: Any) -> NodeChange:
    state, flags = STATES[name]
    return NodeChange("c", "n1", time, state, flags, fields.get("reason"), None, fields.get("reason_time"))


@pytest.mark.parametrize(
    ("course", "downs", "drains"),
    [
        ("fine", 0, 0),
        ("fine down fine", 1, 0),
        ("fine down silent fine", 1, 0),
        ("fine down fine silent", 2, 0),
        ("fine drained fine drained", 0, 2),
        ("fine drained down fine", 1, 1),
        # who looks after one that fell drains it, and that is no second failure
        ("fine down drained fine", 1, 0),
        ("fine planned reboot fine", 0, 0),
        ("fine gone fine", 0, 0),
        ("down fine", 1, 0),
    ],
)
def test_a_failure_is_when_it_went_down(course: str, downs: int, drains: int) -> None:
    changes = [change(SINCE + at, name) for at, name in enumerate(course.split())]
    assert counted(changes, [], SINCE).get("n1", Record()) == Record(downs, drains)


def test_what_began_before_is_not_counted() -> None:
    assert counted([change(SINCE + 1, "down", reason_time=SINCE - 1)], [], SINCE) == {}
    assert counted([change(SINCE + 1, "down", reason_time=SINCE + 1)], [], SINCE) == {"n1": Record(downs=1)}


def test_where_few_are_of_its_kind_those_of_its_partitions_are_its_peers() -> None:
    nodes = [node("n1", cpus=8), *(node(f"n{at}", cpus=16) for at in range(2, 7)), node("x", partitions=("other",))]
    found = compared(nodes[0], nodes, {"n1": Record(downs=3), "n2": Record(downs=1), "x": Record(downs=50)})
    assert (found.peers, found.downs, found.stands_out) == (5, 0.2, True)
    own = compared(nodes[1], nodes, {"n2": Record(downs=1)})
    assert (own.peers, own.stands_out) == (4, False)


@given(some.lists(some.tuples(some.integers(0, END + 500), some.sampled_from(sorted(STATES))), max_size=12))
def test_stretches_are_in_order_and_never_over_each_other(found: list[tuple[int, str]]) -> None:
    changes = [change(time, name) for time, name in sorted(dict(found).items())]
    made = stretches(changes, SINCE, END)
    assert all(one.since < one.until for one in made)
    assert all(one.until == after.since for one, after in itertools.pairwise(made))
    assert all(one.since >= SINCE and one.until <= END for one in made)
    if changes and changes[0].time < END:
        assert made and made[-1].until == END
