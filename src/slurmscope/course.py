# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The course of what a job used, put together from what was measured on its nodes.

All amounts are integrals over time (core-seconds, byte-seconds, bytes), kept in buckets of a step. So what several
nodes told adds up, a sample may lie across buckets and may come late, and two buckets make one of twice the step: a
course never has more than MOST of them, however long the job runs. How much of a job's time was measured is kept beside
(`covered`), and a bucket in which nothing was measured is a gap and not a zero.

Amounts are whole numbers: milliseconds of cores, nodes and GPUs, MiB-seconds, bytes, joules.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from slurmscope.buckets import MOST_IN_LANE, STEP, Lane, lane_of, spread
from slurmscope.measure import GpuUse, Measure
from slurmscope.spans import Piece, joined, missing

T = TypeVar("T")
N = TypeVar("N", int, float)

MOST = 360
"""Buckets of a course."""
MOST_LANES = 32
"""Nodes of a job of which it is kept how busy each was over time: those that told first."""
AGENT, TRACE, PROMETHEUS = "agent", "trace", "prometheus"

# Of each of these a bucket has one number. A `…_covered` is the time in which the amount was measured.
AMOUNTS = (
    "covered",  # ms of nodes
    "cpu",  # ms of cores
    "memory",  # MiB-seconds in use: anonymous and shared
    "io_covered",  # ms of nodes
    "read",  # bytes
    "written",
    "gpu_covered",  # ms of GPUs that the job held and of which the use was told
    "gpu",  # ms of GPUs in use
    "gpu_memory",  # MiB-seconds
    "gpu_energy",  # joules
    "wall",  # ms in which some node told
)

MIB = 1 << 20
_MOST_NODES = 10_000
MOST_PROGRAMS = 20
MOST_PARTS = 256  # processes that trace themselves, of a node
_FAR = 400 * 86400  # seconds: no job is that long, and a clock that jumped must not make a course of one bucket
_SILENT = 300.0  # seconds after which an agent that told of a job is not waited for any more
_RECENT = 60.0  # seconds that a job may have run before its first sample, which then counts from its start


class Sample(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a job used on one node from `start` to `end`. None: that was not measured."""

    node: str
    start: float
    end: float
    source: str  # AGENT, TRACE or PROMETHEUS
    part: str = ""  # which process, where several of a node tell of themselves
    cpus: int | None = None
    cpu_seconds: float | None = None
    memory: int | None = None  # in use, on average
    read_bytes: int | None = None
    written_bytes: int | None = None
    peak: int | None = None  # as the kernel has it, file cache among it
    limit: int | None = None
    oom_kills: int | None = None
    throttled_seconds: float | None = None
    processes: int | None = None
    threads: int | None = None
    open_files: int | None = None
    scratch: bool | None = None
    programs: tuple[tuple[str, int], ...] = ()  # names, and the most threads of one
    gpus: tuple[GpuUse, ...] | None = None
    user_seconds: float | None = None
    system_seconds: float | None = None
    core_seconds: dict[int, float] | None = None  # by core
    swap: int | None = None
    reads: int | None = None  # calls
    writes: int | None = None


class GpuSum(msgspec.Struct):
    """A GPU that a job held, on a node. None: that was never told."""

    index: int
    instance: int | None = None
    model: str = ""
    memory_total: int | None = None
    covered: int = 0
    used: int = 0  # ms
    peak: float | None = None  # of its utilisation
    memory: int | None = None  # MiB-seconds
    memory_peak: int | None = None
    energy: int | None = None  # joules
    idle: int | None = None  # ms in which no process of the job was on it


class NodeSum(msgspec.Struct):
    """What a job used on a node. A peak is that of one sample; None: it was never measured."""

    source: str
    until: float = 0.0  # when it last told
    spans: list[Piece] = []  # of which it has told
    parts: dict[str, float] = {}  # of each that tells: until when it has told
    live: dict[str, tuple[float, float, int, int]] = {}  # … where several do: the last of each
    covered: int = 0
    cpus: int | None = None
    cpu: int | None = None
    cpu_peak: float | None = None  # cores
    memory: int | None = None
    memory_peak: int | None = None
    peak: int | None = None
    limit: int | None = None
    oom_kills: int | None = None
    throttled_seconds: float | None = None
    read: int | None = None
    written: int | None = None
    processes_peak: int | None = None
    threads_peak: int | None = None
    open_files_peak: int | None = None
    gpus: dict[str, GpuSum] = {}
    user: int | None = None  # ms of cores, as `cpu`
    system: int | None = None
    cores: dict[int, int] | None = None  # ms, by core
    swap_peak: int | None = None
    reads: int | None = None  # calls
    writes: int | None = None
    lane: Lane | None = None  # where a job has one node only, that of the course


class Course(msgspec.Struct, kw_only=True):
    step: int = STEP
    start: int  # of the first bucket, a multiple of the step
    amounts: dict[str, list[int]]
    spans: list[Piece] = []  # in which some node told
    nodes: dict[str, NodeSum] = {}
    programs: dict[str, int] = {}
    scratch: bool | None = None

    @classmethod
    def at(cls, time: float) -> Course:
        return cls(start=int(time) // STEP * STEP, amounts={name: [] for name in AMOUNTS})

    @property
    def length(self) -> int:
        return len(self.amounts["covered"])

    @property
    def end(self) -> int:
        return self.start + self.length * self.step


def between(before: Measure | None, now: Measure, node: str, start: float, end: float, source: str) -> Sample | None:
    """What a job used between two looks at it; at the first one, since it began, if it has only just."""
    since: Measure
    if before is None:
        if now.start_time is None or not 0 <= end - now.start_time <= _RECENT:
            return None
        since, start = _ZERO, float(now.start_time)
    else:
        since = before
    if end <= start:
        return None
    used = [one for one in (in_use(now), in_use(since) if before is not None else None) if one is not None]
    return Sample(
        node=node,
        start=start,
        end=end,
        source=source,
        cpus=now.cpus,
        cpu_seconds=_grown(since.cpu_seconds, now.cpu_seconds),
        memory=sum(used) // len(used) if used else None,
        read_bytes=_whole(_grown(since.read_bytes, now.read_bytes)),
        written_bytes=_whole(_grown(since.written_bytes, now.written_bytes)),
        peak=now.peak,
        limit=now.limit,
        oom_kills=now.oom_kills,
        throttled_seconds=now.throttled_seconds,
        processes=now.processes,
        threads=now.threads,
        open_files=now.open_files,
        scratch=now.scratch,
        programs=tuple((one.name, one.most_threads) for one in now.programs),
        gpus=now.gpus,
        user_seconds=_grown(since.user_seconds, now.user_seconds),
        system_seconds=_grown(since.system_seconds, now.system_seconds),
        core_seconds=_grown_by_core(since.core_seconds, now.core_seconds),
        swap=now.swap,
        reads=_whole(_grown(since.reads, now.reads)),
        writes=_whole(_grown(since.writes, now.writes)),
    )


_ZERO = Measure(
    job=0,
    cpu_seconds=0.0,
    user_seconds=0.0,
    system_seconds=0.0,
    core_seconds={},
    read_bytes=0,
    written_bytes=0,
    reads=0,
    writes=0,
)


def in_use(measure: Measure) -> int | None:
    """The memory that a job cannot do without: not the file cache, which the kernel takes back."""
    if measure.anonymous is not None:
        return measure.anonymous + (measure.shared or 0)
    return measure.rss if measure.rss is not None else measure.memory


def _grown(before: float | None, now: float | None) -> float | None:
    if before is None or now is None:
        return None
    # a counter that fell began anew: what it says now came since
    return now - before if now >= before else now


def _grown_by_core(before: dict[int, float] | None, now: dict[int, float] | None) -> dict[int, float] | None:
    if before is None or now is None:
        return None
    return {core: _grown(before.get(core, 0.0), used) or 0.0 for core, used in now.items()}


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def add(course: Course | None, sample: Sample) -> Course:
    """The course with a sample added, in place. What was told before (a replay) adds nothing."""
    if course is None:
        course = Course.at(sample.end)  # by its end: where a clock was put right within a sample, its start is wrong
    known = course.nodes.get(sample.node)
    if known is None and len(course.nodes) >= _MOST_NODES:
        return course
    node = NodeSum(sample.source, parts={}, gpus={}) if known is None else known
    if sample.source == TRACE and node.source != TRACE and sample.start < node.parts.get("", 0.0) + _SILENT:
        return course  # the agent sees what the job tells of itself, and more
    start = max(sample.start, node.parts.get(sample.part, sample.start))
    if sample.source != TRACE:
        start = max(start, node.until)  # what was traced before the agent came is counted
    if not start < sample.end or max(abs(time - course.start) for time in (sample.start, sample.end)) > _FAR:
        return course  # without the node: those of a course are nodes of which something is known
    if sample.source != TRACE or known is None:
        node.source = sample.source
    if known is None:
        _open_lane(course, node, sample)
    course.nodes[sample.node] = node
    seconds, share = sample.end - start, (sample.end - start) / (sample.end - sample.start)
    _remember(node, sample)
    node.until = max(node.until, sample.end)
    covered = _spread(course, node, sample, start)
    node.spans = joined(node.spans, (start, sample.end))
    _sum_node(node, sample, seconds, covered, share)
    _sum_gpus(node, sample, covered)
    for name, threads in sample.programs:
        if name in course.programs or len(course.programs) < MOST_PROGRAMS:
            course.programs[name] = max(threads, course.programs.get(name, 0))
    if sample.scratch is not None:
        course.scratch = bool(course.scratch) or sample.scratch
    return course


def _spread(course: Course, node: NodeSum, sample: Sample, start: float) -> float:
    """Puts what is new of a sample into the buckets; the seconds of which nobody has told before."""
    end, covered = sample.end, 0.0
    used = _used(sample, end - start, (end - start) / (end - sample.start))
    spread(course, start, end, used, MOST)
    if node.lane is not None:
        spread(node.lane, start, end, {"cpu": used.get("cpu", 0.0)}, MOST_IN_LANE)
    for fresh in missing(node.spans, start, end):
        seconds = fresh[1] - fresh[0]
        covered += seconds
        spread(course, *fresh, _covered(sample, seconds), MOST)
        if node.lane is not None:
            spread(node.lane, *fresh, {"covered": seconds * 1000}, MOST_IN_LANE)
        for alone in missing(course.spans, *fresh):
            spread(course, *alone, {"wall": (alone[1] - alone[0]) * 1000}, MOST)
        course.spans = joined(course.spans, fresh)
    return covered


def _open_lane(course: Course, node: NodeSum, sample: Sample) -> None:
    """For a node that joins others. What the first of them did so far is all that there is of the course."""
    if len(course.nodes) == 1:
        alone = next(iter(course.nodes.values()))
        alone.lane = alone.lane or lane_of(course)
    if 0 < len(course.nodes) < MOST_LANES:
        node.lane = Lane.at(sample.start)


def _remember(node: NodeSum, sample: Sample) -> None:
    if sample.part not in node.parts and len(node.parts) >= MOST_PARTS:
        del node.parts[min(node.parts, key=node.parts.__getitem__)]
    node.parts[sample.part] = sample.end


def _used(sample: Sample, seconds: float, share: float) -> dict[str, float]:
    """What the part of a sample that is new adds, whoever else told of that time."""
    found = {}
    if sample.cpu_seconds is not None:
        found["cpu"] = sample.cpu_seconds * share * 1000
    if sample.memory is not None:
        found["memory"] = sample.memory / MIB * seconds
    if sample.read_bytes is not None or sample.written_bytes is not None:
        found["read"] = (sample.read_bytes or 0) * share
        found["written"] = (sample.written_bytes or 0) * share
    return found


def _covered(sample: Sample, covered: float) -> dict[str, float]:
    """What the part of a sample adds of which nobody has told: several processes of a node have the same GPUs."""
    found = {"covered": covered * 1000}
    if sample.read_bytes is not None or sample.written_bytes is not None:
        found["io_covered"] = covered * 1000
    for gpu in sample.gpus or ():
        if gpu.utilization is not None:
            found["gpu_covered"] = found.get("gpu_covered", 0.0) + covered * 1000
            found["gpu"] = found.get("gpu", 0.0) + gpu.utilization * covered * 1000
            found["gpu_memory"] = found.get("gpu_memory", 0.0) + (gpu.memory_used or 0) / MIB * covered
            found["gpu_energy"] = found.get("gpu_energy", 0.0) + (gpu.power or 0.0) * covered
    return found


def _sum_node(node: NodeSum, sample: Sample, seconds: float, covered: float, share: float) -> None:
    node.covered += round(covered * 1000)
    node.cpus, node.limit = _told(sample.cpus, node.cpus), _told(sample.limit, node.limit)
    node.oom_kills = _told(sample.oom_kills, node.oom_kills)
    node.throttled_seconds = _told(sample.throttled_seconds, node.throttled_seconds)
    cores, memory, threads = _together(node, sample, share / seconds)
    if sample.cpu_seconds is not None:
        node.cpu = (node.cpu or 0) + round(sample.cpu_seconds * share * 1000)
        node.cpu_peak = _most(node.cpu_peak, cores)
    node.user = _added(node.user, sample.user_seconds, share * 1000)
    node.system = _added(node.system, sample.system_seconds, share * 1000)
    if sample.core_seconds is not None:
        node.cores = {} if node.cores is None else node.cores
        for core, used in sample.core_seconds.items():
            node.cores[core] = node.cores.get(core, 0) + round(used * share * 1000)
    if sample.memory is not None:
        node.memory = (node.memory or 0) + round(sample.memory / MIB * seconds)
        node.memory_peak = _most(node.memory_peak, memory)
    node.read = _added(node.read, sample.read_bytes, share)
    node.written = _added(node.written, sample.written_bytes, share)
    node.reads = _added(node.reads, sample.reads, share)
    node.writes = _added(node.writes, sample.writes, share)
    node.peak = _most(node.peak, sample.peak)
    node.swap_peak = _most(node.swap_peak, sample.swap)
    node.processes_peak = _most(node.processes_peak, sample.processes)
    node.threads_peak = _most(node.threads_peak, None if sample.threads is None else threads)
    node.open_files_peak = _most(node.open_files_peak, sample.open_files)


def _together(node: NodeSum, sample: Sample, rate: float) -> tuple[float, int, int]:
    """Cores, memory and threads of a node in a sample; where several processes tell, of all that told of that time."""
    own = sample.end, (sample.cpu_seconds or 0.0) * rate, sample.memory or 0, sample.threads or 0
    if sample.source != TRACE:
        return own[1:]
    node.live = {part: one for part, one in node.live.items() if one[0] > sample.start and part in node.parts}
    node.live[sample.part] = own
    told = node.live.values()
    return sum(one[1] for one in told), sum(one[2] for one in told), sum(one[3] for one in told)


def _sum_gpus(node: NodeSum, sample: Sample, covered: float) -> None:
    for gpu in sample.gpus or ():
        found = node.gpus.setdefault(gpu.uuid, GpuSum(gpu.index, gpu.instance, gpu.model, gpu.memory_total))
        if gpu.utilization is not None:
            found.covered += round(covered * 1000)
            found.used += round(gpu.utilization * covered * 1000)
            found.peak = _most(found.peak, gpu.utilization)
            if gpu.power is not None:
                found.energy = (found.energy or 0) + round(gpu.power * covered)
        if gpu.memory_used is not None:
            found.memory = (found.memory or 0) + round(gpu.memory_used / MIB * covered)
            found.memory_peak = _most(found.memory_peak, gpu.memory_used)
        if gpu.processes is not None:
            found.idle = (found.idle or 0) + (0 if gpu.processes else round(covered * 1000))


def _added(before: int | None, amount: float | None, of: float) -> int | None:
    return before if amount is None else (before or 0) + round(amount * of)


def _told(new: T | None, old: T | None) -> T | None:
    return old if new is None else new


def _most(one: N | None, other: N | None) -> N | None:
    told = [value for value in (one, other) if value is not None]
    return max(told) if told else None
