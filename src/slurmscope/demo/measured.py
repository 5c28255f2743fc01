# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What agents would have measured of the demo's jobs: courses that come to what the accounting tells of them.

Like that, all of it follows from the job.
"""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from slurmscope import course as courses
from slurmscope.course import AGENT, Course, Sample
from slurmscope.demo import scripts
from slurmscope.life import Accounted
from slurmscope.measure import GpuUse
from slurmscope.slurm.values import hosts
from slurmscope.store.protocol import Measured
from slurmscope.summary import summary

_SAMPLES = 24  # of each node
_FEW = 4
_MOST_NODES = 8  # of a larger job the others' agents were not set up: its coverage says so
_SHORTEST = 60  # seconds
_GPU_MEMORY = 40  # GiB, where its name does not tell: a100_3g.20gb


def of(told: Accounted) -> Measured | None:
    """None of one that agents saw too little of."""
    return _measured(told, Course.at(told.job.start_time or 0), _SAMPLES) if _was_seen(told) else None


def in_brief(told: Accounted) -> Measured | None:
    """The same without the course, and in a fraction of the time."""
    if not _was_seen(told):
        return None
    job, found = told.job, Course.at(told.job.start_time or 0)
    while (job.end_time or 0) - (job.start_time or 0) > found.step * _FEW:
        found.step *= 2
    found.start = found.start // found.step * found.step
    return replace(_measured(told, found, _FEW), course=None)


def _was_seen(told: Accounted) -> bool:
    job = told.job
    seconds = (job.end_time or 0) - (job.start_time or 0) if job.end_time and job.start_time else 0
    return bool(job.node_list) and seconds >= _SHORTEST and told.cpu_seconds is not None


def _measured(told: Accounted, course: Course, count: int) -> Measured:
    job = told.job
    for number, node in enumerate(list(hosts(job.node_list))[:_MOST_NODES]):
        for sample in _samples(told, node, number, count):
            courses.add(course, sample)
    return Measured(*job.key, summary(course, job.nodes, job.start_time, job.end_time), course)


def _samples(told: Accounted, node: str, number: int, count: int) -> list[Sample]:
    job = told.job
    start, end = job.start_time or 0, job.end_time or 0
    seconds = (end - start) / count
    used = (told.cpu_seconds or 0.0) / job.nodes / count
    memory = max((step.memory_used or 0 for step in told.steps), default=0) // job.nodes
    limit = (job.memory or 0) // job.nodes or None
    moved = sum(step.read_bytes or 0 for step in told.steps) // job.nodes // count
    cpus = max(1, job.cpus // job.nodes)
    share = min(1.0, used / seconds / cpus)
    name = scripts.program(job.name)[:15]
    # one in eight reads and writes some bytes at a time, and so is often in the kernel
    call, kernel = (512, 0.35) if job.id % 8 == 5 else (128 << 10, 0.02 + job.id % 7 / 100)
    found = []
    for at in range(count):
        # it begins slowly, works in waves, and each node has its own
        wave = 1 + 0.25 * math.sin(at * 12 / count + number + job.id)
        grown = min(1.0, 0.3 + at * 4 / count)
        busy = min(used * wave, cpus * seconds)
        read, written = (0 if at * 6 // count % 2 else moved * 2), moved // 2
        found.append(
            Sample(
                node=node,
                start=start + at * seconds,
                end=start + (at + 1) * seconds,
                source=AGENT,
                cpus=cpus,
                cpu_seconds=busy,
                memory=int(memory * grown),
                read_bytes=read,
                written_bytes=written,
                peak=int(memory * grown * 1.05),
                limit=limit,
                oom_kills=int(job.state == "OUT_OF_MEMORY" and at == count - 1),
                processes=2 + cpus,
                threads=2 + 2 * cpus,
                open_files=12 + cpus,
                scratch=job.id % 3 == 0,
                programs=((name, cpus),),
                gpus=_gpus(job.gpus, job.nodes, node, min(1.0, 0.1 + share * wave)),
                user_seconds=busy * (1 - kernel),
                system_seconds=busy * kernel,
                core_seconds=_cores(busy, cpus, seconds, even=job.id % 4 > 0),
                swap=0,  # their nodes have none
                reads=read // call,
                writes=written // call,
            )
        )
    return found


def _cores(used: float, cpus: int, seconds: float, *, even: bool) -> dict[int, float]:
    """Of most jobs each core has as much to do, of others only as many as are needed."""
    if even:
        return dict.fromkeys(range(cpus), used / cpus)
    return {core: min(seconds, max(0.0, used - core * seconds)) for core in range(cpus)}


def _memory(kind: str) -> int:
    found = re.search(r"([0-9]+)gb", kind)
    return (int(found[1]) if found else _GPU_MEMORY) << 30


def _gpus(gpus: dict[str, int], nodes: int, node: str, busy: float) -> tuple[GpuUse, ...] | None:
    return (
        tuple(
            GpuUse(
                uuid=f"GPU-{node}-{index}",
                index=index,
                model=kind,
                # of several the last is often forgotten
                utilization=0.0 if index and index == count // nodes - 1 and busy < 0.5 else busy,
                memory_used=int(_memory(kind) * (0.2 + 0.7 * busy)),
                memory_total=_memory(kind),
                power=60 + 300 * busy,
                processes=1,
            )
            for kind, count in gpus.items()
            for index in range(count // nodes)
        )
        or None
    )
