# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was measured within jobs, on one node, at one moment: what the agent finds, and what goes over the wire.

The rules of the model hold: base units (seconds, bytes, hertz, watts, joules, shares from 0 to 1), and unknown is
``None``, never 0. What is called a counter grows for as long as the job is on the node, and is never taken back.
"""

from __future__ import annotations

import msgspec


class GpuProcess(msgspec.Struct, frozen=True, gc=False):
    """A process that has a context on a GPU."""

    pid: int
    memory: int | None = None
    utilization: float | None = None  # its share of the GPU's time; drivers do not tell it for all


class Gpu(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A GPU, or an instance of one (MIG), which jobs are given like a whole one."""

    uuid: str
    index: int  # as the driver counts; of an instance, that of its GPU
    minor: int | None = None  # of its device file, /dev/nvidia<minor>; by this Slurm counts
    instance: int | None = None  # the number of an instance within its GPU
    profile: str | None = None  # 1g.10gb
    model: str = ""
    vendor: str = ""  # nvidia, amd
    utilization: float | None = None
    memory_utilization: float | None = None  # share of the time in which memory was read or written
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    energy: float | None = None  # a counter, since the driver was loaded
    temperature: float | None = None
    clock: float | None = None  # of the processors
    memory_clock: float | None = None
    throttled: tuple[str, ...] | None = None  # why it is slowed down now: power_cap, thermal, …
    ecc_corrected: int | None = None  # since the driver was loaded
    ecc_uncorrected: int | None = None
    xid_errors: int | None = None  # since the agent started
    last_xid: int | None = None
    processes: tuple[GpuProcess, ...] | None = None  # None: the driver does not tell


class GpuUse(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A GPU that a job may use, as the job has it."""

    uuid: str
    index: int
    instance: int | None = None
    model: str = ""
    utilization: float | None = None  # by this job, as far as the driver tells its share from others'
    memory_used: int | None = None  # by this job's processes; of the whole where the driver does not tell whose it is
    memory_total: int | None = None
    power: float | None = None
    processes: int | None = None  # of this job; 0: it holds the GPU and does not use it
    shared: int = 1  # how many jobs of this node hold it


class Program(msgspec.Struct, frozen=True, gc=False):
    """Processes of a job that run the same program."""

    name: str
    processes: int
    threads: int
    most_threads: int  # of one process
    rss: int
    cpu_seconds: float  # of those that are there now, and of the children that they have reaped


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """Time in which some, or all, of a job's tasks waited for a resource; counters."""

    some: float
    full: float | None = None


class Measure(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One job on one node."""

    job: int
    uid: int | None = None
    user: str = ""
    account: str = ""
    start_time: int | None = None  # of the job, as Slurm told it to its processes
    cpus: int | None = None  # that it may use here
    cores: float | None = None  # in use, on average since the look before
    # counters; those of cgroups know of processes that have ended, whoever reaped them
    cpu_seconds: float | None = None
    user_seconds: float | None = None
    system_seconds: float | None = None
    core_seconds: dict[int, float] | None = None  # by core, where the kernel tells it (cgroup v1)
    throttled_seconds: float | None = None
    throttled_periods: int | None = None
    # memory
    memory: int | None = None  # all that is charged to the job: anonymous, file cache, kernel
    anonymous: int | None = None
    file: int | None = None  # page cache, shared memory not among it
    shared: int | None = None  # tmpfs and shared memory
    swap: int | None = None
    peak: int | None = None
    limit: int | None = None  # None: there is none, or it is unknown
    oom_kills: int | None = None
    rss: int | None = None  # of its processes, each by itself
    # pressure
    cpu_pressure: Pressure | None = None
    memory_pressure: Pressure | None = None
    io_pressure: Pressure | None = None
    # processes
    processes: int | None = 0
    threads: int | None = 0
    zombies: int | None = 0
    open_files: int | None = None  # that have a path, devices not among them
    descriptors: int | None = None  # pipes, sockets and all
    scratch: bool | None = None  # whether it was ever seen with a file of a scratch file system open
    # input and output: counters. Of processes: what they read and wrote that reached a disk or a file server
    read_bytes: int | None = None
    written_bytes: int | None = None
    reads: int | None = None  # calls of read() and the like
    writes: int | None = None
    device_read_bytes: int | None = None  # of block devices, as cgroups tell it
    device_written_bytes: int | None = None
    received_bytes: int | None = None  # over the network, where the job has a network of its own
    sent_bytes: int | None = None
    programs: tuple[Program, ...] = ()  # those with the most processor time
    gpus: tuple[GpuUse, ...] | None = None  # None: nobody can tell
    missed: int = 0  # files that could not be read this time


class Report(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """All jobs of a node at a moment."""

    cluster: str
    node: str
    time: float
    seconds: float  # what it took
    jobs: tuple[Measure, ...]
    gpus: tuple[Gpu, ...] = ()
