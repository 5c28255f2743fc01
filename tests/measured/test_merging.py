# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A course in pieces is the course."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from slurmscope import course as courses
from slurmscope.course import AGENT, MOST, TRACE, Course, GpuSum, NodeSum, Sample
from slurmscope.measure import GpuUse
from slurmscope.measured import merging
from slurmscope.measured.merging import emptied, merged
from slurmscope.summary import node_lines

T0 = 1_700_000_000


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    """Of some nodes, each in the order of time, with gaps."""
    times = dict.fromkeys(("n1", "n2"), float(T0))
    found = []
    for _ in range(draw(st.integers(1, 12))):
        node = draw(st.sampled_from(sorted(times)))
        start = times[node] + draw(st.sampled_from([0, 0, 1, 900, 50_000]))
        end = times[node] = start + draw(st.sampled_from([1, 15, 17.5, 600]))
        gpu = GpuUse(uuid="a", index=0, utilization=draw(st.sampled_from([0.0, 0.25, 1.0])), memory_used=1 << 20)
        found.append(
            Sample(
                node=node,
                start=start,
                end=end,
                source=AGENT,
                cpu_seconds=draw(st.none() | st.integers(0, 100)),
                memory=draw(st.none() | st.integers(0, 1 << 40)),
                read_bytes=draw(st.none() | st.integers(0, 1 << 40)),
                user_seconds=draw(st.none() | st.floats(0, 100)),
                system_seconds=draw(st.none() | st.floats(0, 100)),
                core_seconds=draw(st.none() | st.dictionaries(st.integers(0, 3), st.floats(0, 20), max_size=3)),
                swap=draw(st.none() | st.integers(0, 1 << 40)),
                reads=draw(st.none() | st.integers(0, 1 << 40)),
                writes=draw(st.none() | st.integers(0, 1 << 40)),
                processes=draw(st.none() | st.integers(0, 9)),
                limit=draw(st.none() | st.integers(1, 9)),
                gpus=(gpu,),
                scratch=draw(st.none() | st.booleans()),
                programs=(("a", draw(st.integers(1, 9))),),
            )
        )
    return found


@given(samples(), st.sets(st.integers(1, 11)))
def test_a_course_in_pieces_is_the_course(told: list[Sample], cuts: set[int]) -> None:
    whole: Course | None = None
    for sample in told:
        whole = courses.add(whole, sample)
    assert whole is not None
    pieces = [Course.at(told[0].end)]
    for at, sample in enumerate(told):
        if at in cuts:
            pieces.append(emptied(pieces[-1]))
        courses.add(pieces[-1], sample)
    kept: Course | None = None
    for piece in pieces:
        kept = merged(kept, piece)
        assert merged(kept, piece) is kept, "the second time it does nothing"
    assert kept is not None
    assert {name: sum(column) for name, column in kept.amounts.items()} == {
        name: sum(column) for name, column in whole.amounts.items()
    }
    assert (kept.nodes, kept.programs, kept.scratch) == (whole.nodes, whole.programs, whole.scratch)
    assert kept.length <= MOST
    assert kept.start % kept.step == 0


def test_neither_piece_is_changed() -> None:
    one = courses.add(None, Sample(node="n", start=T0, end=T0 + 15, source=AGENT, cpu_seconds=15))
    other = emptied(one)
    courses.add(other, Sample(node="n", start=T0 + 15, end=T0 + 30, source=AGENT, cpu_seconds=15))
    before = deepcopy(one), deepcopy(other)
    both = reduce(merged, [one, other])
    assert (one, other) == before
    assert both.nodes["n"].cpu == 30_000


def test_what_two_pieces_tell_of_a_node_adds_up() -> None:
    first: dict[str, Any] = {"user_seconds": 4.0, "system_seconds": 1.0, "core_seconds": {0: 3.0, 1: 2.0}}
    then: dict[str, Any] = {"user_seconds": 2.0, "core_seconds": {1: 1.5, 2: 0.5}}
    one = courses.add(None, Sample(node="n", start=T0, end=T0 + 15, source=AGENT, swap=9, reads=5, writes=1, **first))
    other = emptied(one)
    courses.add(other, Sample(node="n", start=T0 + 15, end=T0 + 30, source=AGENT, swap=7, reads=2, **then))
    node = merged(one, other).nodes["n"]
    assert (node.user, node.system, node.cores) == (6000, 1000, {0: 3000, 1: 3500, 2: 500})
    assert (node.swap_peak, node.reads, node.writes) == (9, 7, 1)
    assert one.nodes["n"].cores == {0: 3000, 1: 2000} and other.nodes["n"].cores == {1: 1500, 2: 500}


def test_what_the_agent_told_is_not_taken_for_a_trace() -> None:
    traced = courses.add(None, Sample(node="n", start=T0, end=T0 + 15, source=TRACE, part="7", cpu_seconds=15))
    agent = emptied(traced)
    courses.add(agent, Sample(node="n", start=T0 + 15, end=T0 + 30, source=AGENT, cpu_seconds=15))
    both = merged(traced, agent)
    assert (both.nodes["n"].source, both.nodes["n"].covered) == (AGENT, 30_000)


def test_a_course_from_before_lanes_goes_on_with_them() -> None:
    """Of the time before it is not known which node did what: a gap."""

    def told(at: int, node: str) -> Sample:
        return Sample(node=node, start=T0 + at, end=T0 + at + 15, source=AGENT, cpu_seconds=15)

    before = reduce(courses.add, [told(10, "a"), told(10, "b")], Course.at(T0))
    for node in before.nodes.values():
        node.lane = None
    since = reduce(courses.add, [told(25, "a"), told(25, "b")], emptied(before))
    found = node_lines(merged(before, since))
    assert found is not None and [(one.node, one.cpu) for one in found.nodes] == [("a", (1.0,)), ("b", (1.0,))]
    assert found.start == T0 + 25


def test_pieces_of_nodes_that_know_nothing_of_each_other_have_a_lane_each(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [
        courses.add(None, Sample(node=node, start=T0, end=T0 + 15, source=AGENT, cpu_seconds=used))
        for node, used in (("a", 15), ("b", 30), ("c", 45))
    ]
    found = node_lines(reduce(merged, pieces))
    assert found is not None and [(one.node, set(one.cpu)) for one in found.nodes] == [
        ("a", {1.0}),
        ("b", {2.0}),
        ("c", {3.0}),
    ]
    monkeypatch.setattr(merging, "MOST_LANES", 2)
    assert [node.lane is None for node in reduce(merged, pieces).nodes.values()] == [False, False, True]


def test_every_field_is_accounted_for() -> None:
    known = merging.SUMS | merging.PEAKS | merging.LATEST | {"parts", "gpus", "spans", "live", "cores", "lane"}
    assert {field.name for kind in (NodeSum, GpuSum) for field in fields(kind)} == known
