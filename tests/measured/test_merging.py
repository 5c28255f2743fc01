# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A course in pieces is the course."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from slurmscope import course as courses
from slurmscope.course import AGENT, MOST, TRACE, Course, GpuSum, NodeSum, Sample
from slurmscope.measure import GpuUse
from slurmscope.measured import merging
from slurmscope.measured.merging import emptied, merged

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


def test_what_the_agent_told_is_not_taken_for_a_trace() -> None:
    traced = courses.add(None, Sample(node="n", start=T0, end=T0 + 15, source=TRACE, part="7", cpu_seconds=15))
    agent = emptied(traced)
    courses.add(agent, Sample(node="n", start=T0 + 15, end=T0 + 30, source=AGENT, cpu_seconds=15))
    both = merged(traced, agent)
    assert (both.nodes["n"].source, both.nodes["n"].covered) == (AGENT, 30_000)


def test_every_field_is_accounted_for() -> None:
    known = merging.SUMS | merging.PEAKS | merging.LATEST | {"parts", "gpus", "spans", "live"}
    assert {field.name for kind in (NodeSum, GpuSum) for field in fields(kind)} == known
