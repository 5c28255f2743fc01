# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The course of a job: whatever is told, in whatever order, and however often, all of it counts, and counts once."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slurmscope import course as courses
from slurmscope.buckets import MOST_IN_LANE, STEP
from slurmscope.course import AGENT, AMOUNTS, MIB, MOST, PROMETHEUS, TRACE, Course, Sample, add, between
from slurmscope.measure import GpuUse, Measure, Program
from slurmscope.spans import joined
from slurmscope.summary import moments, node_lines

T0 = 1_700_000_010  # the beginning of a bucket
DAY = 86400


def sample(start: float, end: float, node: str = "n1", **fields: Any) -> Sample:
    return Sample(node=node, start=T0 + start, end=T0 + end, source=fields.pop("source", AGENT), **fields)


def course_of(*samples: Sample) -> Course:
    found: Course | None = None
    for one in samples:
        found = add(found, one)
    assert found is not None
    return found


def sums(course: Course) -> dict[str, int]:
    return {name: sum(column) for name, column in course.amounts.items()}


# --- any samples ------------------------------------------------------------------------------------------------------

NODES = ("n1", "n2", "n3")


@st.composite
def told(draw: st.DrawFn) -> list[Sample]:
    """What agents told of some nodes, each in the order of time, with gaps, over seconds or over months."""
    longest = draw(st.sampled_from((60, 5400, 30 * DAY)))
    found = []
    for node in NODES[: draw(st.integers(1, 3))]:
        at = draw(st.floats(0, longest))
        for _ in range(draw(st.integers(1, 8))):
            start = at + draw(st.sampled_from((0.0, 0.0, 7.3, longest / 10)))
            at = start + draw(st.floats(0.01, max(15.0, longest / 5)))
            found.append(
                sample(
                    start,
                    at,
                    node,
                    cpu_seconds=draw(st.floats(0, 1e6) | st.none()),
                    memory=draw(st.integers(0, 1 << 42) | st.none()),
                    read_bytes=draw(st.integers(0, 1 << 50) | st.none()),
                    written_bytes=draw(st.integers(0, 1 << 50) | st.none()),
                    user_seconds=draw(st.floats(0, 1e6) | st.none()),
                    core_seconds=draw(st.dictionaries(st.integers(0, 2), st.floats(0, 1e6)) | st.none()),
                    reads=draw(st.integers(0, 1 << 50) | st.none()),
                )
            )
    return found


@given(told())
def test_all_that_is_told_is_in_the_buckets_and_in_the_nodes(samples: list[Sample]) -> None:
    course = course_of(*samples)
    found, nodes = sums(course), course.nodes.values()
    assert found["cpu"] == sum(node.cpu or 0 for node in nodes)
    assert found["cpu"] == sum(round(one.cpu_seconds * 1000) for one in samples if one.cpu_seconds is not None)
    assert found["read"] == sum(one.read_bytes or 0 for one in samples) == sum(node.read or 0 for node in nodes)
    assert found["written"] == sum(one.written_bytes or 0 for one in samples)
    assert sum(node.reads or 0 for node in nodes) == sum(one.reads or 0 for one in samples)
    assert sum(node.user or 0 for node in nodes) == sum(round((one.user_seconds or 0) * 1000) for one in samples)
    cores = [round(used * 1000) for one in samples for used in (one.core_seconds or {}).values()]
    assert sum(used for node in nodes for used in (node.cores or {}).values()) == sum(cores)
    assert found["memory"] == sum(node.memory or 0 for node in nodes)
    assert found["covered"] == sum(node.covered for node in nodes)
    assert abs(found["covered"] - sum(one.end - one.start for one in samples) * 1000) <= len(samples)


@given(told())
def test_a_course_has_its_bounds(samples: list[Sample]) -> None:
    course = course_of(*samples)
    assert 0 < course.length <= MOST
    assert course.start % course.step == 0 and course.step % STEP == 0
    assert course.start <= min(one.start for one in samples) and max(one.end for one in samples) <= course.end
    assert set(course.amounts) == set(AMOUNTS) and {len(one) for one in course.amounts.values()} == {course.length}
    assert all(amount >= 0 for column in course.amounts.values() for amount in column)
    bound = course.step * 1000 * len(course.nodes) + len(samples)  # ms that may have been rounded up
    assert all(covered <= bound for covered in course.amounts["covered"]), "no time is covered twice"
    assert course.end - max(one.end for one in samples) < course.step, "no bucket is for nothing"


@given(told(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(samples: list[Sample], chance: Any) -> None:
    queues = {node: [one for one in samples if one.node == node] for node in NODES}
    mixed = []
    while any(queues.values()):
        mixed.append(queues[chance.choice([node for node in NODES if queues[node]])].pop(0))
    one, other = course_of(*samples), course_of(*mixed)
    assert (one.start, one.step, one.length) == (other.start, other.step, other.length)
    # how the time in which some node told is cut into pieces depends on who was first, and each is rounded
    walls = [sum(course.amounts.pop("wall")) for course in (one, other)]
    assert abs(walls[0] - walls[1]) <= 2 * len(samples)
    assert one.nodes == other.nodes and sums(one) == sums(other)
    if one.step == STEP:
        assert one.amounts == other.amounts


@given(told(), st.data())
def test_what_was_told_adds_nothing(samples: list[Sample], data: st.DataObject) -> None:
    course = course_of(*samples)
    before = deepcopy(course)
    for one in data.draw(st.lists(st.sampled_from(samples), max_size=9)):
        add(course, one)
    assert course == before
    assert course == course_of(*(again for one in samples for again in (one, one)))


@given(st.integers(1, 400_000), st.lists(st.integers(1, 399_999), max_size=12), st.integers(0, 1000))
def test_however_it_is_cut_it_is_the_same(seconds: int, cuts: list[int], cores: int) -> None:
    """An agent that looks more often tells the same."""
    edges = sorted({0, seconds, *(cut for cut in cuts if cut < seconds)})

    def part(start: int, end: int) -> Sample:
        bytes_ = (end - start) * 4096
        return sample(start, end, cpu_seconds=float((end - start) * cores), memory=3 * MIB, read_bytes=bytes_)

    whole = course_of(part(0, seconds))
    cut = course_of(*(part(start, end) for start, end in pairwise(edges)))
    assert sums(whole) == sums(cut)
    assert sums(whole)["cpu"] == seconds * cores * 1000 and sums(whole)["covered"] == seconds * 1000
    if whole.step == cut.step == STEP:
        assert whole.amounts == cut.amounts
    assert whole.nodes["n1"].cpu == cut.nodes["n1"].cpu


@given(st.integers(0, 200), st.integers(1, 200), st.integers(0, 200), st.integers(1, 200))
def test_what_overlaps_counts_once(first: int, length: int, second: int, other: int) -> None:
    """A node's second sample counts from where the first ended, each with its share."""
    one = sample(first, first + length, cpu_seconds=float(length))
    two = sample(second, second + other, cpu_seconds=float(other))
    course = course_of(one, two)
    more = max(0, second + other - max(first + length, second))
    assert sums(course)["covered"] == (length + more) * 1000 == course.nodes["n1"].covered
    assert sums(course)["cpu"] == (length + more) * 1000
    assert course.nodes["n1"].until == T0 + max(first + length, second + other)


def test_coarser_buckets_hold_the_same() -> None:
    course = course_of(*(sample(at, at + 15, cpu_seconds=30.0, read_bytes=7) for at in range(0, MOST * 15, 15)))
    assert (course.step, course.length) == (STEP, MOST)
    add(course, sample(MOST * 15, MOST * 15 + 15, cpu_seconds=30.0, read_bytes=7))
    assert course.step == 2 * STEP and course.start % course.step == 0
    assert sums(course)["cpu"] == (MOST + 1) * 30_000 and sums(course)["read"] == (MOST + 1) * 7
    assert all(one.cpu == pytest.approx(2) for one in moments(course))


def test_a_course_may_begin_before_its_first_sample() -> None:
    """The agent of another node was slower to tell."""
    course = course_of(sample(100, 115, cpu_seconds=15.0), sample(0, 15, "n2", cpu_seconds=15.0))
    assert course.start == T0 and course.length == 8
    assert course.amounts["covered"] == [15000, 0, 0, 0, 0, 0, 5000, 10000]


# --- who tells --------------------------------------------------------------------------------------------------------


def test_the_agent_wins_over_what_a_job_tells_of_itself() -> None:
    course = course_of(sample(0, 30, source=TRACE, part="a", cpu_seconds=30.0))
    add(course, sample(15, 45, cpu_seconds=60.0))
    assert course.nodes["n1"].source == AGENT
    assert course.nodes["n1"].cpu == 30_000 + 30_000, "what was traced before is counted, the rest is the agent's"
    before = deepcopy(course)
    add(course, sample(45, 60, source=TRACE, part="a", cpu_seconds=15.0))
    assert course == before
    add(course, sample(45, 60, "n2", source=TRACE, cpu_seconds=15.0))
    assert course.nodes["n2"].source == TRACE, "each node by itself"
    add(course, sample(45, 60, source=PROMETHEUS, cpu_seconds=15.0))
    assert course.nodes["n1"].source == PROMETHEUS


def test_processes_of_a_node_add_up_and_cover_its_time_once() -> None:
    course = course_of(
        sample(0, 15, source=TRACE, part="a", cpu_seconds=15.0, memory=MIB),
        sample(0, 30, source=TRACE, part="b", cpu_seconds=60.0, memory=3 * MIB),
        sample(15, 30, source=TRACE, part="a", cpu_seconds=15.0, memory=MIB),
    )
    assert course.amounts["covered"] == [15000, 15000]
    assert course.amounts["cpu"] == [45000, 45000]
    assert course.amounts["memory"] == [60, 60]
    assert [one.cpu for one in moments(course)] == [3, 3]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 90)), max_size=20))
def test_traced_time_is_covered_once_whoever_tells(steps: list[tuple[str, int]]) -> None:
    assume(steps)
    ends = dict.fromkeys("abc", 0)
    course: Course | None = None
    for part, seconds in steps:
        one = sample(ends[part], ends[part] + seconds, source=TRACE, part=part, cpu_seconds=float(seconds))
        course, ends[part] = add(course, one), ends[part] + seconds
        add(course, one)
    assert course is not None
    assert sums(course)["covered"] == max(ends.values()) * 1000 == course.nodes["n1"].covered
    assert sums(course)["cpu"] == sum(ends.values()) * 1000
    assert max(course.amounts["covered"]) <= course.step * 1000


def test_processes_have_the_same_gpus() -> None:
    gpu = GpuUse(uuid="g", index=0, utilization=0.5, memory_used=MIB, power=100.0)
    course = course_of(*(sample(0, 15, source=TRACE, part=part, gpus=(gpu,)) for part in "ab"))
    assert sums(course)["gpu_covered"] == 15_000 and sums(course)["gpu_energy"] == 1500
    assert course.nodes["n1"].gpus["g"].covered == 15_000


def test_processes_without_end_are_forgotten_the_oldest_first() -> None:
    course = course_of(*(sample(at, at + 1, source=TRACE, part=f"p{at}", cpu_seconds=1.0) for at in range(300)))
    parts = course.nodes["n1"].parts
    assert len(parts) == 256 and "p299" in parts and "p0" not in parts
    assert course.nodes["n1"].cpu == 300_000


def test_nodes_beyond_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "_MOST_NODES", 2)
    course = course_of(*(sample(0, 15, f"n{at}", cpu_seconds=1.0) for at in range(5)))
    assert set(course.nodes) == {"n0", "n1"} and sums(course)["cpu"] == 2000
    assert sums(course)["covered"] == 30_000


# --- node by node -----------------------------------------------------------------------------------------------------


@given(told(), st.randoms(use_true_random=False))
def test_the_lanes_of_the_nodes_hold_what_the_nodes_used(samples: list[Sample], chance: Any) -> None:
    """In whatever order the nodes tell. Of one node there is none: it is the course itself."""
    samples = sorted(samples, key=lambda one: (one.end, chance.random()))
    course = course_of(*samples)
    for name, node in course.nodes.items():
        assert (node.lane is not None) == (len(course.nodes) > 1)
        if node.lane is None:
            continue
        own = [one for one in samples if one.node == name]
        assert sum(node.lane.amounts["cpu"]) == (node.cpu or 0)
        assert abs(sum(node.lane.amounts["covered"]) - node.covered) <= len(own)
        assert 0 < node.lane.length <= MOST_IN_LANE and node.lane.step % STEP == 0 == node.lane.start % node.lane.step
        assert node.lane.start <= own[0].start and own[-1].end <= node.lane.end
        assert all(covered <= node.lane.step * 1000 + len(own) for covered in node.lane.amounts["covered"])


@given(told())
def test_the_lines_of_the_nodes_have_the_same_buckets_and_come_to_what_they_used(samples: list[Sample]) -> None:
    course = course_of(*samples)
    found = node_lines(course)
    if len(course.nodes) == 1 or not any(node.cpu is not None for node in course.nodes.values()):
        assert found is None
        return
    assert found is not None
    assert {one.node for one in found.nodes} == {name for name, node in course.nodes.items() if node.cpu is not None}
    assert len({len(one.cpu) for one in found.nodes}) == 1 and len(found.nodes[0].cpu) <= MOST_IN_LANE
    for line in found.nodes:
        own = [one for one in samples if one.node == line.node]
        for at, cores in enumerate(line.cpu):
            start = found.start + at * found.step
            told = sum(max(0.0, min(one.end, start + found.step) - max(one.start, start)) for one in own)
            assert cores is not None or told < 0.01, "what was measured is no gap"
            assert cores is None or told > 0, "and a gap no zero"


def test_a_node_that_joins_later_takes_nothing_from_the_first() -> None:
    course = course_of(*(sample(at, at + 15, cpu_seconds=30.0, cpus=4) for at in range(0, 120, 15)))
    assert course.nodes["n1"].lane is None and node_lines(course) is None
    add(course, sample(60, 75, "n2", cpu_seconds=15.0, cpus=2))
    add(course, sample(90, 120, "n2", cpu_seconds=0.0, cpus=2))
    found = node_lines(course)
    assert found is not None and (found.start, found.step) == (T0, 15)
    assert [(one.node, one.cpus, one.cpu) for one in found.nodes] == [
        ("n1", 4, (2.0,) * 8),
        ("n2", 2, (None, None, None, None, 1.0, None, 0.0, 0.0)),
    ]


def test_lanes_become_coarser_and_are_of_the_nodes_that_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "MOST_LANES", 2)
    nodes = ("n1", "n2", "n3")
    course = course_of(*(sample(at, at + 60, node, cpu_seconds=60.0) for at in range(0, DAY, 60) for node in nodes))
    lanes = [course.nodes[node].lane for node in nodes]
    assert lanes[0] == lanes[1] and lanes[2] is None
    found = node_lines(course)
    assert found is not None and found.step == 15 << 7 and len(found.nodes) == 2
    assert set(found.nodes[0].cpu) == {1.0}


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumped_far_adds_nothing() -> None:
    course = course_of(sample(0, 15, cpu_seconds=15.0))
    before = deepcopy(course)
    for start, end in ((500 * DAY, 500 * DAY + 15), (15, 500 * DAY), (-500 * DAY, 30), (30, 30), (30, 15)):
        add(course, sample(start, end, cpu_seconds=1.0))
        add(course, sample(start, end, "n2", cpu_seconds=1.0))
    assert course == before, "not even the node"


def test_a_clock_that_was_put_right_within_the_first_sample() -> None:
    """The course is where the clock is now, and goes on."""
    course = course_of(Sample(node="n1", start=100.0, end=T0 + 15.0, source=AGENT, cpu_seconds=1.0))
    assert not course.nodes
    add(course, sample(15, 30, cpu_seconds=15.0))
    assert sums(course)["cpu"] == 15_000 and course.step == STEP


def test_a_clock_that_was_put_back_counts_again_when_it_is_past() -> None:
    course = course_of(sample(0, 60, cpu_seconds=60.0), sample(0, 15, cpu_seconds=15.0))
    assert sums(course)["cpu"] == 60_000
    add(course, sample(45, 75, cpu_seconds=30.0))
    assert sums(course)["cpu"] == 75_000 and sums(course)["covered"] == 75_000


# --- two looks at a job -----------------------------------------------------------------------------------------------


def look(**fields: Any) -> Measure:
    return Measure(job=1, **fields)


def test_between_two_looks_is_what_was_used() -> None:
    before = look(cpu_seconds=10.0, read_bytes=100, written_bytes=5, anonymous=2 * MIB, shared=MIB)
    now = look(
        cpu_seconds=40.0,
        read_bytes=130,
        written_bytes=5,
        anonymous=4 * MIB,
        shared=MIB,
        memory=99 * MIB,
        cpus=4,
        limit=8 * MIB,
        programs=(Program("python3", 2, 10, 8, MIB, 1.0),),
    )
    found = between(before, now, "n1", 100.0, 115.0, AGENT)
    assert found is not None
    assert (found.cpu_seconds, found.read_bytes, found.written_bytes) == (30, 30, 0)
    assert found.memory == 4 * MIB, "the mean of both looks, file cache not among it"
    assert (found.cpus, found.limit, found.programs) == (4, 8 * MIB, (("python3", 8),))
    assert (found.start, found.end) == (100, 115)


def test_what_was_not_told_is_unknown() -> None:
    found = between(look(cpu_seconds=1.0), look(read_bytes=5), "n1", 0.0, 15.0, AGENT)
    assert found is not None
    assert (found.cpu_seconds, found.read_bytes, found.memory, found.gpus) == (None, None, None, None)
    node = add(None, found).nodes["n1"]
    assert (node.cpu, node.memory, node.read, node.cpu_peak, node.oom_kills) == (None,) * 5


def test_what_a_node_tells_beside_its_course() -> None:
    before = look(user_seconds=5.0, system_seconds=1.0, core_seconds={0: 4.0, 1: 2.0}, swap=8, reads=10, writes=3)
    now = look(user_seconds=9.0, system_seconds=1.5, core_seconds={0: 5.0, 2: 3.5}, swap=4, reads=110, writes=3)
    found = between(before, now, "n1", T0, T0 + 15, AGENT)
    assert found is not None
    assert (found.user_seconds, found.system_seconds, found.core_seconds) == (4.0, 0.5, {0: 1.0, 2: 3.5})
    assert (found.swap, found.reads, found.writes) == (4, 100, 0)
    node = add(None, found).nodes["n1"]
    assert (node.user, node.system, node.cores) == (4000, 500, {0: 1000, 2: 3500})
    assert (node.swap_peak, node.reads, node.writes) == (4, 100, 0)
    first = between(None, msgspec.structs.replace(now, start_time=T0), "n1", T0 + 9, T0 + 9, AGENT)
    assert first is not None and (first.user_seconds, first.core_seconds) == (9.0, {0: 5.0, 2: 3.5})
    assert (first.reads, first.writes) == (110, 3)


def test_what_was_told_before_counts_by_its_share() -> None:
    """A sample that lies half over one before counts for the half that is new."""
    told: dict[str, Any] = {"user_seconds": 8.0, "core_seconds": {0: 8.0}, "reads": 10}
    course = course_of(sample(0, 10, **told), sample(0, 20, **told))
    node = course.nodes["n1"]
    assert (node.user, node.cores, node.reads) == (12_000, {0: 12_000}, 15)


def test_a_counter_that_fell_began_anew() -> None:
    """A job that was requeued in place, or a step's cgroup that is counted no more."""
    found = between(look(cpu_seconds=50.0, read_bytes=9), look(cpu_seconds=3.0, read_bytes=2), "n1", 0, 15, AGENT)
    assert found is not None and (found.cpu_seconds, found.read_bytes) == (3, 2)


@pytest.mark.parametrize(("age", "counts"), [(0, False), (1, True), (60, True), (61, False), (-5, False)])
def test_the_first_look_counts_from_the_start_of_a_job_that_has_just_begun(age: int, counts: bool) -> None:
    found = between(None, look(start_time=T0, cpu_seconds=7.0, rss=MIB), "n1", T0 + age, T0 + age, AGENT)
    assert (found is not None) == counts
    if found is not None:
        assert (found.start, found.end, found.cpu_seconds, found.memory) == (T0, T0 + age, 7, MIB)


def test_a_first_look_without_a_start_counts_nothing() -> None:
    assert between(None, look(cpu_seconds=7.0), "n1", T0, T0 + 15, AGENT) is None


@pytest.mark.parametrize("end", [100.0, 99.0])
def test_no_time_between_two_looks_is_no_sample(end: float) -> None:
    assert between(look(cpu_seconds=1.0), look(cpu_seconds=2.0), "n1", 100.0, end, AGENT) is None


@given(st.lists(st.floats(0.5, 90), min_size=1, max_size=30), st.integers(1, 64))
def test_looks_at_any_time_come_to_what_the_counter_says(distances: list[float], cores: int) -> None:
    at, course, before = float(T0), None, None
    for distance in distances:
        last, at = at, at + distance
        now = look(start_time=T0, cpu_seconds=(at - T0) * cores)
        if found := between(before, now, "n1", last, at, AGENT):
            course = add(course, found)
        before = now
    if distances[0] <= 60:
        assert course is not None
        assert abs(sums(course)["cpu"] - (at - T0) * cores * 1000) <= len(distances)
        assert abs(sums(course)["covered"] - (at - T0) * 1000) <= len(distances)


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_programs_and_scratch_are_remembered() -> None:
    course = course_of(
        sample(0, 15, programs=(("a", 2), ("b", 1))),
        sample(15, 30, programs=(("a", 5), ("b", 0)), scratch=False),
    )
    assert course.programs == {"a": 5, "b": 1} and course.scratch is False
    add(course, sample(30, 45, scratch=True))
    add(course, sample(45, 60, scratch=False, programs=tuple((f"p{at}", 1) for at in range(50))))
    assert course.scratch is True and len(course.programs) == 20 and course.programs["a"] == 5


def test_peaks_are_those_of_one_sample_and_states_the_last() -> None:
    course = course_of(
        sample(0, 15, cpu_seconds=60.0, memory=5, peak=9, limit=10, oom_kills=0, processes=3, threads=8, open_files=2),
        sample(15, 30, cpu_seconds=15.0, memory=7, limit=20, oom_kills=2, processes=1, throttled_seconds=1.5),
        sample(30, 45),
    )
    node = course.nodes["n1"]
    assert (node.cpu_peak, node.memory_peak, node.peak) == (4, 7, 9)
    assert (node.limit, node.oom_kills, node.throttled_seconds) == (20, 2, 1.5)
    assert (node.processes_peak, node.threads_peak, node.open_files_peak) == (3, 8, 2)
    assert node.covered == 45_000


@given(told())
def test_the_time_in_which_some_node_told_is_that_of_all_of_them_together(samples: list[Sample]) -> None:
    course = course_of(*samples)
    together = joined([], *((one.start, one.end) for one in samples))
    assert abs(sum(course.amounts["wall"]) - sum(end - start for start, end in together) * 1000) <= 2 * len(samples)
    assert all(0 <= wall <= course.step * 1000 + len(samples) for wall in course.amounts["wall"])


def test_a_process_that_tells_late_of_a_time_of_which_nobody_told() -> None:
    """What it used then is no gap."""
    course = course_of(
        sample(150, 300, source=TRACE, part="a", cpu_seconds=150.0),
        sample(0, 150, source=TRACE, part="b", cpu_seconds=150.0),
    )
    assert sums(course)["covered"] == sums(course)["wall"] == 300_000
    assert min(course.amounts["wall"]) == 15_000


def test_a_nodes_peak_is_that_of_its_processes_together() -> None:
    course = course_of(
        *(sample(0, 15, source=TRACE, part=part, cpu_seconds=15.0, memory=MIB, threads=2) for part in "abcd"),
        *(sample(15, 30, source=TRACE, part=part, cpu_seconds=15.0, memory=MIB, threads=2) for part in "ab"),
    )
    node = course.nodes["n1"]
    assert (node.cpu_peak, node.memory_peak, node.threads_peak) == (4.0, 4 * MIB, 8)


def test_an_agent_that_fell_silent_is_not_waited_for_for_ever() -> None:
    course = course_of(sample(0, 60, cpu_seconds=60.0))
    for at in range(60, 900, 60):
        add(course, sample(at, at + 60, source=TRACE, part="a", cpu_seconds=60.0))
    # the first five minutes after it told last are its own
    assert sums(course)["covered"] == 60_000 + (900 - 360) * 1000, "traces do not put off the end of its silence"
    assert course.nodes["n1"].source == AGENT
    add(course, sample(900, 960, cpu_seconds=60.0))
    assert sums(course)["cpu"] == 60_000 + (900 - 360) * 1000 + 60_000
