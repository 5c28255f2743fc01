# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What of all that is told may be counted: numbers that can be, of nodes that the job has. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from slurmscope.course import Sample
from slurmscope.measure import GpuUse
from slurmscope.model import Job
from slurmscope.slurm.values import hosts

# Of a node. Beyond these a number is wrong; and what stays below them, of all nodes together, a store can nearly
# always hold.
_MOST_CORES, _MOST_BYTES_A_SECOND, _MOST_CALLS_A_SECOND = 1 << 14, 1 << 40, 1 << 32
_MOST_MEMORY = 1 << 48
_MOST_COUNT = 1 << 32  # processes, threads, files, seconds
_MOST_GPUS = 256
_MOST_WATTS = 1_000_000.0


def plausible(sample: Sample) -> bool:
    seconds = sample.end - sample.start
    moved = max(sample.read_bytes or 0, sample.written_bytes or 0)
    if _most_cores(sample) > _MOST_CORES * seconds or moved > _MOST_BYTES_A_SECOND * seconds:
        return False
    if max(sample.reads or 0, sample.writes or 0) > _MOST_CALLS_A_SECOND * seconds:
        return False
    if max(sample.memory or 0, sample.peak or 0, sample.limit or 0, sample.swap or 0) > _MOST_MEMORY:
        return False
    counts = (sample.cpus, sample.oom_kills, sample.throttled_seconds, sample.processes, sample.threads)
    if max(one or 0 for one in (*counts, sample.open_files)) > _MOST_COUNT:
        return False
    if any(threads > _MOST_COUNT for _, threads in sample.programs):
        return False
    gpus = sample.gpus or ()
    return len(gpus) <= _MOST_GPUS and all(map(_plausible_gpu, gpus))


def _most_cores(sample: Sample) -> float:
    """Seconds of all cores, whoever told most of them."""
    cores = sample.core_seconds or {}
    if max(cores, default=0) >= _MOST_CORES:
        return math.inf
    told = sample.cpu_seconds or 0.0, (sample.user_seconds or 0.0) + (sample.system_seconds or 0.0)
    return max(*told, sum(cores.values()))


def _plausible_gpu(gpu: GpuUse) -> bool:
    memory = max(gpu.memory_used or 0, gpu.memory_total or 0)
    count = max(gpu.index, gpu.instance or 0, gpu.processes or 0)
    # a driver's utilisation may be a little more than all of it
    return (
        memory <= _MOST_MEMORY
        and count <= _MOST_COUNT
        and (gpu.power or 0.0) <= _MOST_WATTS
        and (gpu.utilization or 0.0) <= 2.0
    )


def node_of(job: Job, host: str) -> str | None:
    """The job's node that a host is; None: it is none of them. Where Slurm does not tell its nodes, any may be."""
    held = _held(job.node_list)
    if not held:
        return host
    if len(held) <= 2 and len(set(held.values())) == 1:
        # a node's name may be another than its host's; so what agents and jobs themselves tell is of the same node
        return next(iter(held.values()))
    return held.get(host) or held.get(_short(host))


@lru_cache(4096)
def _held(node_list: str) -> Mapping[str, str]:
    """Names of nodes, by what their hosts may be called: either may have a domain."""
    try:
        names = hosts(node_list)
    except ValueError:
        return {}
    return {_short(name): name for name in names} | {name: name for name in names}


def _short(name: str) -> str:
    return name.partition(".")[0]
