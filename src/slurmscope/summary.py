# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the course of a job comes to: a line for a chart, and a summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from slurmscope.buckets import MOST_IN_LANE, Lane, lane_of
from slurmscope.course import AGENT, MIB, PROMETHEUS, TRACE, Course, GpuSum, NodeSum


class Moment(msgspec.Struct, frozen=True, gc=False):
    """A bucket for a chart: means over its time, of the whole job. None: not measured then."""

    time: int
    cpu: float | None  # cores
    memory: int | None
    read: float | None  # bytes a second
    written: float | None
    gpu: float | None  # share of its GPUs' time, 0 to 1
    gpu_memory: int | None
    gpu_power: float | None  # watts


class Figures(msgspec.Struct, frozen=True, gc=False):
    """Of one quantity over the time that was measured, each bucket alike."""

    mean: float
    peak: float
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float


class GpuSummary(msgspec.Struct, frozen=True, gc=False):
    node: str
    uuid: str
    index: int
    instance: int | None
    model: str
    memory_total: int | None
    mean: float | None  # of its utilisation
    peak: float | None
    memory_peak: int | None
    energy: int | None  # joules
    idle_seconds: float | None  # in which it was held, and no process of the job was on it
    seconds: float | None = None  # of which its utilisation was told


class NodeSummary(msgspec.Struct, frozen=True, gc=False):
    node: str
    seconds: float  # that were measured
    cpus: int | None
    cpu_seconds: float | None
    cpu_peak: float | None
    memory_mean: int | None
    memory_peak: int | None
    peak: int | None
    limit: int | None
    oom_kills: int | None
    throttled_seconds: float | None
    read_bytes: int | None
    written_bytes: int | None
    processes_peak: int | None
    threads_peak: int | None
    open_files_peak: int | None
    user_seconds: float | None = None
    system_seconds: float | None = None
    core_seconds: dict[int, float] | None = None  # by core; only cgroups of version 1 tell it
    swap_peak: int | None = None
    reads: int | None = None  # calls of read() and the like
    writes: int | None = None


class NodeLine(msgspec.Struct, frozen=True, gc=False):
    """The cores of a node that a job kept busy, bucket by bucket. None: not measured then."""

    node: str
    cpus: int | None  # that it could use there
    cpu: tuple[float | None, ...]


class NodeLines(msgspec.Struct, frozen=True, gc=False):
    """Of the nodes of a job, of all the same buckets."""

    start: int
    step: int
    nodes: tuple[NodeLine, ...]


class Summary(msgspec.Struct, frozen=True, gc=False):
    """What a job used, as far as it was measured. None: that was not."""

    source: str
    coverage: float | None  # share of the time of its nodes that was measured, 0 to 1
    seconds: float  # of nodes, that were measured
    first: int
    last: int
    step: int
    cpu: Figures | None  # cores
    cpu_seconds: float | None
    cpu_share: float | None  # of the time of the cores that it could use
    memory: Figures | None  # bytes, over its nodes
    memory_share: float | None  # of its limit, on the node where that was most
    read: Figures | None  # bytes a second
    written: Figures | None
    read_bytes: int | None
    written_bytes: int | None
    gpu: Figures | None
    gpu_memory: Figures | None
    gpu_energy: int | None
    oom_kills: int | None
    scratch: bool | None
    programs: dict[str, int]  # names, and the most threads of one
    nodes: tuple[NodeSummary, ...]
    gpus: tuple[GpuSummary, ...]


def moments(course: Course) -> list[Moment]:
    """What the nodes that told used together; nothing is made up for those that did not."""
    held = [gpu for node in course.nodes.values() for gpu in node.gpus.values() if gpu.covered]
    told = {name for name in ("cpu", "memory", "read", "written") if _anybody(course, name)}
    told |= {"gpu_memory"} if any(gpu.memory is not None for gpu in held) else set()
    told |= {"gpu_energy"} if any(gpu.energy is not None for gpu in held) else set()
    columns = course.amounts
    found = []
    for at in range(course.length):
        wall, covered, io, gpu = (columns[name][at] for name in ("wall", "covered", "io_covered", "gpu_covered"))

        def mean(name: str, known: int, of: float, wall: int = wall, at: int = at) -> float | None:
            return columns[name][at] * of / (wall / 1000) if name in told and known and wall else None

        found.append(
            Moment(
                course.start + at * course.step,
                mean("cpu", covered, 1 / 1000),
                _whole(mean("memory", covered, MIB)),
                mean("read", io, 1),
                mean("written", io, 1),
                columns["gpu"][at] / gpu if gpu else None,
                _whole(mean("gpu_memory", gpu, MIB)),
                mean("gpu_energy", gpu, 1),
            )
        )
    return found


def node_lines(course: Course) -> NodeLines | None:
    """None where a job has one node only, or where this was not kept."""
    lanes = {
        name: node.lane
        for name, node in sorted(course.nodes.items())
        if node.lane is not None and node.lane.length and node.cpu is not None
    }
    if not lanes:
        return None
    step = max(lane.step for lane in lanes.values())
    while True:
        start = min(lane.start for lane in lanes.values()) // step * step
        length = -(-(max(lane.end for lane in lanes.values()) - start) // step)
        if length <= MOST_IN_LANE:
            break
        step *= 2
    return NodeLines(
        start,
        step,
        tuple(
            NodeLine(name, course.nodes[name].cpus, _cores(lane_of(lane, step), start, length))
            for name, lane in lanes.items()
        ),
    )


def _cores(lane: Lane, start: int, length: int) -> tuple[float | None, ...]:
    found: list[float | None] = [None] * length
    columns = lane.amounts["covered"], lane.amounts["cpu"]
    for at, (covered, used) in enumerate(zip(*columns, strict=True), (lane.start - start) // lane.step):
        found[at] = used / covered if covered else None
    return tuple(found)


def summary(course: Course, nodes: int | None, start: int | None, end: int | None) -> Summary:
    """Of a job on so many nodes, from `start` to `end`, where these are known."""
    line, wall = moments(course), course.amounts["wall"]
    covered = sum(course.amounts["covered"]) / 1000
    expected = nodes * (end - start) if nodes and start is not None and end is not None and end > start else None
    sums = course.nodes.values()
    last = max((node.until for node in sums), default=float(course.start))
    cpu = [(node.cpu / 1000, node.cpus * node.covered / 1000) for node in sums if node.cpu is not None and node.cpus]
    shares = [node.memory_peak / node.limit for node in sums if node.memory_peak is not None and node.limit]
    sources = {node.source for node in sums}
    return Summary(
        source=next((one for one in (PROMETHEUS, AGENT, TRACE) if one in sources), ""),
        coverage=None if expected is None else min(1.0, covered / expected),
        seconds=covered,
        first=course.start,
        last=int(last),
        step=course.step,
        cpu=_figures([one.cpu for one in line], wall),
        cpu_seconds=_total([node.cpu for node in sums], 1000),
        cpu_share=sum(used for used, _ in cpu) / sum(of for _, of in cpu) if sum(of for _, of in cpu) else None,
        memory=_figures([one.memory for one in line], wall),
        memory_share=max(shares) if shares else None,
        read=_figures([one.read for one in line], wall),
        written=_figures([one.written for one in line], wall),
        read_bytes=_whole(_total([node.read for node in sums])),
        written_bytes=_whole(_total([node.written for node in sums])),
        gpu=_figures([one.gpu for one in line], wall),
        gpu_memory=_figures([one.gpu_memory for one in line], wall),
        gpu_energy=_whole(_total([gpu.energy for node in sums for gpu in node.gpus.values()])),
        oom_kills=_whole(_total([node.oom_kills for node in sums])),
        scratch=course.scratch,
        programs=dict(course.programs),
        nodes=tuple(_node_summary(name, node) for name, node in sorted(course.nodes.items())),
        gpus=tuple(
            _gpu_summary(name, uuid, gpu)
            for name, node in sorted(course.nodes.items())
            for uuid, gpu in sorted(node.gpus.items(), key=lambda one: (one[1].index, one[1].instance or 0))
        ),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _anybody(course: Course, name: str) -> bool:
    return any(getattr(node, name) is not None for node in course.nodes.values())


def _total(values: Iterable[float | None], of: int = 1) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / of if told else None


def _figures(values: Sequence[float | None], weights: Sequence[int]) -> Figures | None:
    """Each value counts for as long as it was so."""
    pairs = zip(values, weights, strict=True)
    told = sorted((value, weight) for value, weight in pairs if value is not None and weight)
    if not told:
        return None
    until = list(accumulate(weight for _, weight in told))

    def at(share: float) -> float:
        """The least that is not exceeded for that share of the time."""
        return told[bisect_left(until, share * until[-1])][0]

    mean = sum(value * weight for value, weight in told) / until[-1]
    return Figures(mean, told[-1][0], at(0.05), at(0.25), at(0.5), at(0.75), at(0.95))


def _node_summary(name: str, node: NodeSum) -> NodeSummary:
    seconds = node.covered / 1000
    return NodeSummary(
        name,
        seconds,
        node.cpus,
        _seconds(node.cpu),
        node.cpu_peak,
        None if node.memory is None or not seconds else int(node.memory / seconds * MIB),
        node.memory_peak,
        node.peak,
        node.limit,
        node.oom_kills,
        node.throttled_seconds,
        node.read,
        node.written,
        node.processes_peak,
        node.threads_peak,
        node.open_files_peak,
        _seconds(node.user),
        _seconds(node.system),
        None if node.cores is None else {core: used / 1000 for core, used in sorted(node.cores.items())},
        node.swap_peak,
        node.reads,
        node.writes,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _gpu_summary(name: str, uuid: str, gpu: GpuSum) -> GpuSummary:
    return GpuSummary(
        name,
        uuid,
        gpu.index,
        gpu.instance,
        gpu.model,
        gpu.memory_total,
        gpu.used / gpu.covered if gpu.covered else None,
        gpu.peak,
        gpu.memory_peak,
        gpu.energy,
        _seconds(gpu.idle),
        gpu.covered / 1000,
    )
