# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What agents would have measured of the demo's jobs: courses that come to what the accounting tells of them.

Like that, all of it follows from the job.
"""

from __future__ import annotations

import math
import re

from slurmscope import course as courses
from slurmscope.course import AGENT, Course, Sample
from slurmscope.demo import figures
from slurmscope.life import Accounted
from slurmscope.measure import GpuUse
from slurmscope.slurm.values import hosts
from slurmscope.store.protocol import Measured
from slurmscope.summary import summary

_SAMPLES = 48  # of each node
_MOST_NODES = 8  # of a larger job the others' agents were not set up: its coverage says so
_SHORTEST = 60  # seconds
_GPU_MEMORY = 40  # GiB, where its name does not tell: a100_3g.20gb


def of(told: Accounted) -> Measured | None:
    """None of one that agents saw too little of."""
    job = told.job
    start, end = job.start_time, job.end_time
    if not job.node_list or start is None or end is None or end - start < _SHORTEST or told.cpu_seconds is None:
        return None
    course: Course | None = None
    for number, node in enumerate(list(hosts(job.node_list))[:_MOST_NODES]):
        for sample in _samples(told, node, number):
            course = courses.add(course, sample)
    return None if course is None else Measured(*job.key, summary(course, job.nodes, start, end), course)


def _samples(told: Accounted, node: str, number: int) -> list[Sample]:
    job = told.job
    start, end = job.start_time or 0, job.end_time or 0
    seconds = (end - start) / _SAMPLES
    used = (told.cpu_seconds or 0.0) / job.nodes / _SAMPLES
    memory = max((step.memory_used or 0 for step in told.steps), default=0) // job.nodes
    limit = (job.memory or 0) // job.nodes or None
    moved = sum(step.read_bytes or 0 for step in told.steps) // job.nodes // _SAMPLES
    cpus = max(1, job.cpus // job.nodes)
    share = min(1.0, used / seconds / cpus)
    name = figures.program(job.name)[:15]
    found = []
    for at in range(_SAMPLES):
        # it begins slowly, works in waves, and each node has its own
        wave = 1 + 0.25 * math.sin(at / 4 + number + job.id)
        grown = min(1.0, 0.3 + at / 12)
        found.append(
            Sample(
                node=node,
                start=start + at * seconds,
                end=start + (at + 1) * seconds,
                source=AGENT,
                cpus=cpus,
                cpu_seconds=min(used * wave, cpus * seconds),
                memory=int(memory * grown),
                read_bytes=moved * 2 if at % 8 < 4 else 0,
                written_bytes=moved // 2,
                peak=int(memory * grown * 1.05),
                limit=limit,
                oom_kills=int(job.state == "OUT_OF_MEMORY" and at == _SAMPLES - 1),
                processes=2 + cpus,
                threads=2 + 2 * cpus,
                open_files=12 + cpus,
                scratch=job.id % 3 == 0,
                programs=((name, cpus),),
                gpus=_gpus(job.gpus, job.nodes, node, min(1.0, 0.1 + share * wave)),
            )
        )
    return found


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
