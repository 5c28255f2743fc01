# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a course comes to: the line of a chart, and a job's summary, of jobs whose use is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.buckets import STEP
from slurmscope.course import AGENT, MIB, TRACE, Course, Sample, add
from slurmscope.measure import GpuUse
from slurmscope.summary import Figures, GpuSummary, Moment, NodeSummary, moments, summary

T0 = 1_700_000_010  # the beginning of a bucket
GIB = 1 << 30


def sample(start: float, end: float, node: str = "n1", **fields: Any) -> Sample:
    return Sample(node=node, start=T0 + start, end=T0 + end, source=fields.pop("source", AGENT), **fields)


def course_of(*samples: Sample) -> Course:
    found: Course | None = None
    for one in samples:
        found = add(found, one)
    assert found is not None
    return found


def gpu(uuid: str = "GPU-1", index: int = 0, **fields: Any) -> GpuUse:
    known: dict[str, Any] = {"model": "H100", "utilization": 0.5, "memory_used": 10 * GIB, "memory_total": 80 * GIB}
    return GpuUse(uuid=uuid, index=index, **known | {"power": 300.0, "processes": 1} | fields)


# --- a job on two nodes -----------------------------------------------------------------------------------------------


def two_nodes() -> Course:
    """A minute on two nodes of 8 CPUs: the one at 4 cores and then at 8, with a GPU at a half, the other at 2 cores."""
    found = []
    for at in range(0, 60, 15):
        common: dict[str, Any] = {"cpus": 8, "limit": 16 * GIB, "oom_kills": 0, "scratch": False}
        cores = 4.0 if at < 30 else 8.0
        found.append(
            sample(
                at,
                at + 15,
                "n1",
                cpu_seconds=cores * 15,
                memory=4 * GIB if at < 45 else 8 * GIB,
                read_bytes=150 * MIB,
                written_bytes=0,
                peak=12 * GIB,
                processes=3,
                threads=20,
                open_files=7,
                programs=(("python3", 8),),
                gpus=(gpu(),),
                **common,
            )
        )
        found.append(
            sample(at, at + 15, "n2", cpu_seconds=30.0, memory=2 * GIB, read_bytes=0, written_bytes=15 * MIB, **common)
        )
    return course_of(*found)


def test_the_line_of_two_nodes() -> None:
    known = (6.0, 6 * GIB, 10.0 * MIB, 1.0 * MIB, 0.5, 10 * GIB, 300.0)
    assert moments(two_nodes()) == [
        Moment(T0, *known),
        Moment(T0 + 15, *known),
        Moment(T0 + 30, 10.0, *known[1:]),
        Moment(T0 + 45, 10.0, 10 * GIB, *known[2:]),
    ]


def test_the_summary_of_two_nodes() -> None:
    found = summary(two_nodes(), 2, T0, T0 + 60)
    assert (found.source, found.coverage, found.seconds) == (AGENT, 1.0, 120.0)
    assert (found.first, found.last, found.step) == (T0, T0 + 60, STEP)
    assert found.cpu == Figures(8.0, 10.0, 6.0, 6.0, 6.0, 10.0, 10.0)
    assert found.cpu_seconds == 360 + 120
    assert found.cpu_share == (360 + 120) / (2 * 8 * 60)
    assert found.memory == Figures(7.0 * GIB, 10 * GIB, *(6 * GIB,) * 4, 10 * GIB)
    assert found.memory_share == 0.5
    assert found.read == Figures(*(10.0 * MIB,) * 7) and found.written == Figures(*(1.0 * MIB,) * 7)
    assert (found.read_bytes, found.written_bytes) == (600 * MIB, 60 * MIB)
    assert found.gpu == Figures(*(0.5,) * 7) and found.gpu_energy == 60 * 300
    assert (found.oom_kills, found.scratch, found.programs) == (0, False, {"python3": 8})
    assert found.nodes == (
        NodeSummary("n1", 60.0, 8, 360.0, 8.0, 5 * GIB, 8 * GIB, 12 * GIB, 16 * GIB, 0, None, 600 * MIB, 0, 3, 20, 7),
        NodeSummary("n2", 60.0, 8, 120.0, 2.0, 2 * GIB, 2 * GIB, None, 16 * GIB, 0, None, 0, 60 * MIB, *(None,) * 3),
    )
    assert found.gpus == (
        GpuSummary("n1", "GPU-1", 0, None, "H100", 80 * GIB, 0.5, 0.5, 10 * GIB, 60 * 300, 0.0, 60.0),
    )


def test_what_a_node_tells_beside_its_course() -> None:
    course = course_of(
        sample(0, 10, user_seconds=4.0, system_seconds=1.0, core_seconds={1: 2.0}, swap=7, reads=5, writes=2),
        sample(10, 20, user_seconds=2.5, core_seconds={1: 0.5, 0: 1.0}, swap=3, writes=1),
    )
    (node,) = summary(course, 1, T0, T0 + 20).nodes
    assert (node.user_seconds, node.system_seconds, node.core_seconds) == (6.5, 1.0, {0: 1.0, 1: 2.5})
    assert (node.swap_peak, node.reads, node.writes) == (7, 5, 3)


@pytest.mark.parametrize(
    ("nodes", "start", "end", "coverage"),
    [
        (2, 0, 60, 1.0),
        (4, 0, 60, 0.5),  # two nodes of which nobody told
        (2, -60, 60, 0.5),  # an hour before the agent was there
        (2, 5, 55, 1.0),  # a sample lies over the end: not more than all
        (None, 0, 60, None),
        (0, 0, 60, None),
        (2, None, 60, None),
        (2, 0, None, None),
        (2, 60, 60, None),
    ],
)
def test_how_much_of_a_job_was_measured(
    nodes: int | None, start: int | None, end: int | None, coverage: float | None
) -> None:
    found = summary(
        two_nodes(), nodes, None if start is None else T0 + start, None if end is None else T0 + end
    ).coverage
    assert found == coverage


# --- gaps and what is unknown -----------------------------------------------------------------------------------------


def test_a_gap_is_none_and_not_zero() -> None:
    course = course_of(sample(0, 15, cpu_seconds=15.0, memory=MIB), sample(45, 60, cpu_seconds=0.0, memory=MIB))
    line = moments(course)
    assert [one.cpu for one in line] == [1.0, None, None, 0.0]
    assert [one.memory for one in line] == [MIB, None, None, MIB]
    found = summary(course, 1, T0, T0 + 60)
    assert found.coverage == 0.5 and found.cpu == Figures(0.5, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0), "gaps count for nothing"


def test_a_bucket_that_was_measured_in_part_has_the_mean_of_that_part() -> None:
    (line,) = moments(course_of(sample(5, 10, cpu_seconds=20.0, memory=3 * MIB)))
    assert (line.cpu, line.memory) == (4.0, 3 * MIB)


def test_nothing_is_made_up_for_a_node_that_does_not_tell() -> None:
    course = course_of(
        sample(0, 15, "n1", cpu_seconds=30.0),
        sample(15, 30, "n1", cpu_seconds=30.0),
        sample(0, 15, "n2", cpu_seconds=30.0),
    )
    assert [one.cpu for one in moments(course)] == [4.0, 2.0]
    assert summary(course, 2, T0, T0 + 30).coverage == 0.75


def test_what_was_never_measured_is_none() -> None:
    course = course_of(sample(0, 15), sample(15, 30, source=TRACE))
    assert moments(course) == [Moment(T0, *(None,) * 7), *moments(course)[1:]]
    found = summary(course, None, None, None)
    told = {"source", "seconds", "first", "last", "step", "programs", "nodes", "gpus"}
    for name in set(found.__struct_fields__) - told:
        assert getattr(found, name) is None, name
    assert found.gpus == () and found.nodes[0].memory_mean is None


def test_bytes_of_one_kind_alone() -> None:
    course = course_of(sample(0, 15, read_bytes=15), sample(15, 30, read_bytes=30))
    found = summary(course, 1, T0, T0 + 30)
    assert (found.read_bytes, found.written_bytes) == (45, None)
    assert [(one.read, one.written) for one in moments(course)] == [(1.0, None), (2.0, None)]
    assert found.written is None


def test_an_empty_course_has_a_summary() -> None:
    found = summary(Course.at(T0), 1, T0, T0 + 60)
    assert (found.source, found.coverage, found.seconds, found.last, found.nodes) == ("", 0.0, 0.0, T0, ())
    assert moments(Course.at(T0)) == []


# --- figures ----------------------------------------------------------------------------------------------------------


def test_percentiles_of_a_known_course() -> None:
    """A hundred buckets with 0 to 99 cores."""
    course = course_of(*(sample(at * 15, at * 15 + 15, cpu_seconds=at * 15.0) for at in range(100)))
    assert summary(course, 1, T0, T0 + 1500).cpu == Figures(49.5, 99, 4, 24, 49, 74, 94)


@given(st.lists(st.integers(0, 64), min_size=1, max_size=400))
def test_figures_are_in_order(cores: list[int]) -> None:
    course = course_of(*(sample(at * 15, at * 15 + 15, cpu_seconds=one * 15.0) for at, one in enumerate(cores)))
    found = summary(course, 1, T0, T0 + 15 * len(cores))
    assert found.cpu is not None and found.coverage == 1.0
    figures = found.cpu
    assert figures.p05 <= figures.p25 <= figures.p50 <= figures.p75 <= figures.p95 <= figures.peak
    assert figures.p05 <= figures.mean + 1e-9 and figures.mean <= figures.peak + 1e-9
    assert found.cpu_seconds == sum(cores) * 15
    if course.step == STEP:
        assert figures.mean == pytest.approx(sum(cores) / len(cores)) and figures.peak == max(cores)


# --- GPUs -------------------------------------------------------------------------------------------------------------


def test_gpus_that_are_held_and_not_used() -> None:
    used, idle = gpu("a", 0, utilization=0.9), gpu("b", 1, utilization=0.0, memory_used=0, processes=0, power=50.0)
    busy = gpu("b", 1, utilization=0.1, memory_used=GIB, processes=2, power=50.0)
    course = course_of(sample(0, 45, gpus=(used, idle)), sample(45, 60, gpus=(used, busy)))
    found = summary(course, 1, T0, T0 + 60)
    assert [(one.uuid, one.idle_seconds) for one in found.gpus] == [("a", 0.0), ("b", 45.0)]
    assert found.gpus[1].mean == pytest.approx(0.025) and found.gpus[1].peak == 0.1
    assert found.gpus[1].memory_peak == GIB
    assert moments(course)[0].gpu == pytest.approx(0.45), "of all that it holds"
    assert moments(course)[0].gpu_power == 350.0
    assert found.gpu_energy == 60 * 350


def test_gpus_are_in_the_order_of_the_driver() -> None:
    held = [gpu("d", 1), gpu("c", 0, instance=7), gpu("b", 0, instance=2), gpu("a", 2)]
    course = course_of(sample(0, 15, "n2", gpus=tuple(held[:1])), sample(0, 15, "n1", gpus=tuple(held)))
    found = summary(course, 2, T0, T0 + 15)
    assert [(one.node, one.uuid) for one in found.gpus] == [
        ("n1", "b"), ("n1", "c"), ("n1", "d"), ("n1", "a"), ("n2", "d"),
    ]  # fmt: skip


def test_what_a_driver_does_not_tell_is_unknown() -> None:
    """An instance of a GPU tells neither its use nor its power."""
    silent = gpu(instance=1, utilization=None, power=None, memory_used=None, processes=None)
    course = course_of(sample(0, 15, gpus=(silent,)))
    (found,) = summary(course, 1, T0, T0 + 15).gpus
    assert (found.mean, found.peak, found.memory_peak, found.energy, found.idle_seconds) == (None,) * 5
    whole = summary(course, 1, T0, T0 + 15)
    assert (whole.gpu, whole.gpu_memory, whole.gpu_energy) == (None, None, None)
    used = course_of(sample(0, 15, gpus=(gpu(power=None, memory_used=None),)))
    (line,) = moments(used)
    assert (line.gpu, line.gpu_memory, line.gpu_power) == (0.5, None, None)
    assert summary(used, 1, T0, T0 + 15).gpu_energy is None


def test_where_several_tell_the_better_is_named() -> None:
    course = course_of(sample(0, 15, "n1", source=TRACE, cpu_seconds=1.0), sample(0, 15, "n2", cpu_seconds=1.0))
    assert summary(course, 2, T0, T0 + 15).source == AGENT
    assert summary(course_of(sample(0, 15, source=TRACE)), 1, T0, T0 + 15).source == TRACE


def test_out_of_memory_on_the_node_where_it_was_tightest() -> None:
    course = course_of(
        sample(0, 15, "n1", memory=9 * GIB, limit=10 * GIB, oom_kills=2),
        sample(0, 15, "n2", memory=1 * GIB, limit=10 * GIB, oom_kills=1),
        sample(0, 15, "n3", memory=5 * GIB, oom_kills=None),
    )
    found = summary(course, 3, T0, T0 + 15)
    assert (found.oom_kills, found.memory_share) == (3, 0.9)


def test_a_bucket_counts_for_as_long_as_it_was_told_of() -> None:
    """A job of 16 seconds: 4 cores for 15 of them, none in the last."""
    course = course_of(sample(0, 15, cpu_seconds=60.0), sample(15, 16, cpu_seconds=0.0))
    found = summary(course, 1, T0, T0 + 16).cpu
    assert found is not None and found.mean == 3.75 and found.p50 == 4.0
