# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a job used, in the shape that an older web app gave it: scripts go on reading it.

Amounts are in that app's units: MB of 2**20 bytes, percent of one core. What is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.findings.efficiency import efficiency, ran
from slurmscope.life import Life
from slurmscope.summary import NodeSummary, Summary

_MB = 1 << 20
_EXPECTED = 80  # percent of each core that should be busy
_BUSY = 0.8  # of its share of the job's CPU time, for a core to have been used
_CORES, _MEGABYTES, _SECONDS, _PERCENT = "cores", "MB", "s", "%"


class Tres(msgspec.Struct, frozen=True):
    billing: Annotated[float | None, Meta(description="Not kept: always null.")]
    alloc_cpu: int
    alloc_mem: Annotated[float | None, Meta(description="MB.")]
    alloc_nodes: int


class Amount(msgspec.Struct, frozen=True):
    amount: float | None
    unit: str


class UsedAmount(msgspec.Struct, frozen=True):
    amount: float | None
    unit: str
    usage: Annotated[float | None, Meta(description="Percent of what was available.")]


class CoreTime(msgspec.Struct, frozen=True):
    core: Annotated[str, Meta(description="n1_core_3: the node, and the core's number there.")]
    time: float
    unit: str
    percent_of_total: float | None


class MeanUse(msgspec.Struct, frozen=True):
    usage: Annotated[float | None, Meta(description="100 is one core.")]
    lowest_expected_usage: float
    unit: str


class MostUse(msgspec.Struct, frozen=True):
    usage: float | None
    unit: str


class Cpu(msgspec.Struct, frozen=True):
    available: Amount
    used: Annotated[int | None, Meta(description="Cores that had at least 80 % of their share of the CPU time.")]
    time_core: Annotated[
        list[CoreTime] | None, Meta(description="By core, where nodes tell it (cgroups of version 1).")
    ]
    time_total: Annotated[float | None, Meta(description="Seconds.")]
    avg_usage_job: MeanUse
    max_usage_job: MostUse


class Ram(msgspec.Struct, frozen=True):
    used: UsedAmount
    available: Amount


class Moved(msgspec.Struct, frozen=True):
    amount: float | None
    unit: str
    count: Annotated[int | None, Meta(description="Calls of read() or write() and the like.")]


class Io(msgspec.Struct, frozen=True):
    opened_files: int | None
    read: Moved
    write: Moved


class GpuMetrics(msgspec.Struct, frozen=True):
    """Of each GPU, in the same order."""

    avg_utilization: Annotated[list[float | None], Meta(description="Percent.")]
    max_utilization: Annotated[list[float | None], Meta(description="Percent.")]
    max_memory: Annotated[list[float | None], Meta(description="MB.")]


class Gpu(msgspec.Struct, frozen=True):
    alloc_gpu: int
    metrics: GpuMetrics | None


class Used(msgspec.Struct, frozen=True):
    """What one job used."""

    jobid: int
    sponsor: Annotated[str, Meta(description="The account.")]
    username: str
    runtime: Annotated[str | None, Meta(description="[days-]hours:minutes:seconds, as sacct writes it.")]
    uses_scratch: Annotated[str | None, Meta(description="True or False, as a word.")]
    alloc_tres: Tres
    threads: Annotated[dict[str, int] | None, Meta(description="Programs, and the most threads of one.")]
    cpu: Cpu
    ram: Ram
    io: Io
    gpu: Gpu


def used_of(life: Life, summary: Summary | None, now: int) -> Used:
    """Of one that has not ended: so far."""
    nodes = () if summary is None else summary.nodes
    memory = _scaled(life.memory, _MB)
    use = efficiency(life, summary, now).memory
    return Used(
        jobid=life.id,
        sponsor=life.account,
        username=life.user,
        runtime=_elapsed(ran(life, now)) if life.started else None,
        uses_scratch=None if summary is None or summary.scratch is None else str(summary.scratch),
        alloc_tres=Tres(None, life.cpus, memory, life.nodes),
        threads=(None if summary is None else summary.programs) or None,
        cpu=_cpu(life, summary, now),
        ram=Ram(
            UsedAmount(_scaled(use.peak, _MB), _MEGABYTES, _scaled(use.share, 0.01)),
            Amount(memory, _MEGABYTES),
        ),
        io=_io(summary, nodes),
        gpu=_gpu(life, summary),
    )


def _cpu(life: Life, summary: Summary | None, now: int) -> Cpu:
    use = efficiency(life, summary, now).cpu
    told = life.cpu_seconds if life.ended else None
    measured = None if summary is None else summary.cpu_seconds
    # both are what was seen: the truth is no less than the larger one
    total = max((one for one in (told, measured) if one is not None), default=None)
    cores = _cores(() if summary is None else summary.nodes)
    seen = sum(one.time for one in cores)
    return Cpu(
        available=Amount(float(life.cpus), _CORES),
        used=sum(one.time >= _BUSY * seen / life.cpus for one in cores) if cores and life.cpus and seen else None,
        time_core=cores or None,
        time_total=total,
        avg_usage_job=MeanUse(_scaled(use.mean, 0.01), float(_EXPECTED * life.cpus), _PERCENT),
        max_usage_job=MostUse(_scaled(use.peak, 0.01), _PERCENT),
    )


def _cores(nodes: Sequence[NodeSummary]) -> list[CoreTime]:
    found = [
        (f"{node.node}_core_{core}", seconds)
        for node in nodes
        for core, seconds in sorted((node.core_seconds or {}).items())
    ]
    total = sum(seconds for _, seconds in found)
    return [CoreTime(name, seconds, _SECONDS, 100 * seconds / total if total else None) for name, seconds in found]


def _io(summary: Summary | None, nodes: Sequence[NodeSummary]) -> Io:
    read = None if summary is None else summary.read_bytes
    written = None if summary is None else summary.written_bytes
    return Io(
        opened_files=_sum(node.open_files_peak for node in nodes),
        read=Moved(_scaled(read, _MB), _MEGABYTES, _sum(node.reads for node in nodes)),
        write=Moved(_scaled(written, _MB), _MEGABYTES, _sum(node.writes for node in nodes)),
    )


def _gpu(life: Life, summary: Summary | None) -> Gpu:
    gpus = () if summary is None else summary.gpus
    metrics = GpuMetrics(
        avg_utilization=[_scaled(one.mean, 0.01) for one in gpus],
        max_utilization=[_scaled(one.peak, 0.01) for one in gpus],
        max_memory=[_scaled(one.memory_peak, _MB) for one in gpus],
    )
    return Gpu(sum(life.gpus.values()), metrics if gpus else None)


def _sum(values: Iterable[int | None]) -> int | None:
    told = [one for one in values if one is not None]
    return sum(told) if told else None


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _elapsed(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
