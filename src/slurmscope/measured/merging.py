# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Two pieces of a course as one: what is kept, and what came since. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from slurmscope.buckets import Lane, lane_of, merged_lanes
from slurmscope.course import (
    AMOUNTS,
    MOST,
    MOST_LANES,
    MOST_PARTS,
    MOST_PROGRAMS,
    TRACE,
    Course,
    GpuSum,
    NodeSum,
)
from slurmscope.spans import joined


def merged(before: Course | None, since: Course) -> Course:
    """What was measured before, and what was measured since, unless that is in it already. Neither is changed."""
    if before is None:
        return since
    if _has(before, since):
        return before
    step = max(before.step, since.step)
    while True:
        start = min(before.start, since.start) // step * step
        length = -(-(max(before.end, since.end) - start) // step)
        if length <= MOST:
            break
        step *= 2
    amounts = {name: [0] * length for name in AMOUNTS}
    for one in (before, since):
        _add_amounts(amounts, one, start, step)
    nodes = dict(before.nodes)
    for name, node in since.nodes.items():
        nodes[name] = _merged_node(nodes[name], node) if name in nodes else node
    if len(nodes) > 1:
        for at, (name, node) in enumerate(nodes.items()):
            if at < MOST_LANES:
                nodes[name] = replace(node, lane=merged_lanes(_lane(before, name), _lane(since, name)))
            elif node.lane is not None:
                nodes[name] = replace(node, lane=None)
    programs = dict(before.programs)
    for name, threads in since.programs.items():
        if name in programs or len(programs) < MOST_PROGRAMS:
            programs[name] = max(threads, programs.get(name, 0))
    return Course(
        step=step,
        start=start,
        amounts=amounts,
        spans=joined(before.spans, *since.spans),
        nodes=nodes,
        programs=programs,
        scratch=since.scratch if before.scratch is None else before.scratch or bool(since.scratch),
    )


def _lane(course: Course, name: str) -> Lane | None:
    """What a node did over time; of the only one it is the course itself."""
    if name not in course.nodes:
        return None
    return lane_of(course) if len(course.nodes) == 1 and course.length else course.nodes[name].lane


def _add_amounts(amounts: dict[str, list[int]], one: Course, start: int, step: int) -> None:
    # steps are each other's multiples, and a course begins at one of its own: a bucket lies in one bucket
    if one.step == step and not any(amounts["covered"]):
        first = (one.start - start) // step
        for name, column in one.amounts.items():
            amounts[name][first : first + one.length] = column
        return
    places = [(one.start + at * one.step - start) // step for at in range(one.length)]
    for name, column in one.amounts.items():
        if any(column):
            into = amounts[name]
            for place, amount in zip(places, column, strict=True):
                into[place] += amount


def _has(course: Course, piece: Course) -> bool:
    """Whether a piece was added before: whoever tells a node's part tells it in the order of time."""
    return all(
        name in course.nodes and course.nodes[name].parts.get(part, 0.0) >= until
        for name, node in piece.nodes.items()
        for part, until in node.parts.items()
    )


def emptied(course: Course) -> Course:
    """One to go on with: it has nothing, and knows of which times each node has told."""
    until = max((node.until for node in course.nodes.values()), default=float(course.start))
    fresh = Course.at(until)
    fresh.spans = list(course.spans)
    fresh.nodes = {
        name: NodeSum(
            node.source,
            until=node.until,
            spans=list(node.spans),
            parts=dict(node.parts),
            live=dict(node.live),
            gpus={},
            lane=Lane.at(until) if len(course.nodes) > 1 and at < MOST_LANES else None,
        )
        for at, (name, node) in enumerate(course.nodes.items())
    }
    return fresh


# What becomes of each field of a node's, and of a GPU's.
SUMS = frozenset(
    {
        "covered",
        "cpu",
        "user",
        "system",
        "memory",
        "read",
        "written",
        "reads",
        "writes",
        "used",
        "energy",
        "idle",
    }
)
PEAKS = frozenset(
    {
        "until",
        "cpu_peak",
        "memory_peak",
        "peak",
        "swap_peak",
        "processes_peak",
        "threads_peak",
        "open_files_peak",
    }
)
LATEST = frozenset(
    {"cpus", "limit", "oom_kills", "throttled_seconds", "index", "instance", "model", "memory_total", "source"}
)


def _merged_node(before: NodeSum, since: NodeSum) -> NodeSum:
    gpus = dict(before.gpus)
    for uuid, gpu in since.gpus.items():
        gpus[uuid] = replace(gpu, **_merged_fields(gpus[uuid], gpu)) if uuid in gpus else gpu
    source = before.source if since.source == TRACE else since.source
    latest = sorted({**before.parts, **since.parts}.items(), key=lambda one: one[1])
    own: dict[str, Any] = {"source": source, "gpus": gpus, "parts": dict(latest[-MOST_PARTS:]), "live": since.live}
    if before.cores is not None and since.cores is not None:
        both = before.cores.keys() | since.cores.keys()
        own["cores"] = {core: before.cores.get(core, 0) + since.cores.get(core, 0) for core in sorted(both)}
    spans = joined(before.spans, *since.spans)
    return replace(since, **_merged_fields(before, since) | own | {"spans": spans})


def _merged_fields(before: NodeSum | GpuSum, since: NodeSum | GpuSum) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in before.__struct_fields__:
        one, other = getattr(before, name), getattr(since, name)
        if one is None or other is None:
            found[name] = one if other is None else other
        elif name in SUMS:
            found[name] = one + other
        elif name in PEAKS:
            found[name] = max(one, other)
        elif name in LATEST:
            found[name] = other
    return found
