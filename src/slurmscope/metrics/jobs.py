# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what jobs use, as agents measure it: on the agent's own page, and on `/metrics/jobs` of `serve`.

The job's number is the label `jobid`, for `job` is Prometheus' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from slurmscope.measure import Gpu, GpuUse, Measure, Pressure, Program, Report
from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic, Value


class JobsView(msgspec.Struct, frozen=True):
    """The newest report of each node of a cluster."""

    reports: Sequence[Report]

    def known(self, part: str) -> bool:
        return True


Samples = Callable[[JobsView], Iterable[Sample]]
_JOB = ("jobid", "user", "account", "node")
_GPU = ("gpu", "uuid", "model")


def _labels(report: Report, job: Measure) -> tuple[str, ...]:
    return str(job.job), job.user, job.account, report.node


def _jobs(value: Callable[[Measure], Value]) -> Samples:
    return lambda view: ((_labels(report, job), value(job)) for report in view.reports for job in report.jobs)


def _cores(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for job in report.jobs:
            for core, seconds in sorted((job.core_seconds or {}).items()):
                yield (*_labels(report, job), str(core)), seconds


def _pressures(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for job in report.jobs:
            told: tuple[tuple[str, Pressure | None], ...] = (
                ("cpu", job.cpu_pressure),
                ("memory", job.memory_pressure),
                ("io", job.io_pressure),
            )
            for resource, pressure in told:
                if pressure is not None:
                    yield (*_labels(report, job), resource, "some"), pressure.some
                    yield (*_labels(report, job), resource, "full"), pressure.full


def _programs(value: Callable[[Program], Value]) -> Samples:
    return lambda view: (
        ((*_labels(report, job), one.name), value(one))
        for report in view.reports
        for job in report.jobs
        for one in job.programs
    )


def gpu_name(gpu: Gpu | GpuUse) -> str:
    """`0`, or `0.1` for an instance (MIG) of it."""
    return str(gpu.index) if gpu.instance is None else f"{gpu.index}.{gpu.instance}"


def _job_gpus(value: Callable[[GpuUse], Value]) -> Samples:
    return lambda view: (
        ((*_labels(report, job), gpu_name(gpu), gpu.uuid, gpu.model), value(gpu))
        for report in view.reports
        for job in report.jobs
        for gpu in job.gpus or ()
    )


def _idle(gpu: GpuUse) -> Value:
    return None if gpu.processes is None else int(gpu.processes == 0)


def _bool(value: bool | None) -> Value:
    return None if value is None else int(value)


JOBS: Topic[JobsView] = Topic(
    "what jobs use",
    None,
    frozenset(),
    (
        Family("slurm_job_start_timestamp_seconds", GAUGE, "When the job started, as Slurm told it to its processes.", _JOB, _jobs(lambda job: job.start_time)),
        Family("slurm_job_cpus", GAUGE, "CPUs that the job may use on the node.", _JOB, _jobs(lambda job: job.cpus)),
        Family("slurm_job_cpu_usage_cores", GAUGE, "Cores that the job used on average since the look before.", _JOB, _jobs(lambda job: job.cores)),
        Family("slurm_job_cpu_seconds_total", COUNTER, "Processor time of the job on the node, that of processes which have ended among it.", _JOB, _jobs(lambda job: job.cpu_seconds)),
        Family("slurm_job_cpu_user_seconds_total", COUNTER, "Processor time in user mode.", _JOB, _jobs(lambda job: job.user_seconds)),
        Family("slurm_job_cpu_system_seconds_total", COUNTER, "Processor time in the kernel.", _JOB, _jobs(lambda job: job.system_seconds)),
        Family("slurm_job_core_cpu_seconds_total", COUNTER, "Processor time by core. Only cgroup version 1 tells it.", (*_JOB, "core"), _cores),
        Family("slurm_job_cpu_throttled_seconds_total", COUNTER, "Time in which the job was held back by a limit on its processor time.", _JOB, _jobs(lambda job: job.throttled_seconds)),
        Family("slurm_job_cpu_throttled_periods_total", COUNTER, "Periods in which it was held back.", _JOB, _jobs(lambda job: job.throttled_periods)),
        Family("slurm_job_memory_bytes", GAUGE, "Memory that is charged to the job: anonymous, file cache, kernel.", _JOB, _jobs(lambda job: job.memory)),
        Family("slurm_job_memory_anonymous_bytes", GAUGE, "Memory that the job's programs allocated and touched.", _JOB, _jobs(lambda job: job.anonymous)),
        Family("slurm_job_memory_file_bytes", GAUGE, "File cache that is charged to the job; the kernel takes it back when memory is short.", _JOB, _jobs(lambda job: job.file)),
        Family("slurm_job_memory_shared_bytes", GAUGE, "Shared memory and files in tmpfs (/dev/shm).", _JOB, _jobs(lambda job: job.shared)),
        Family("slurm_job_memory_swap_bytes", GAUGE, "Memory that was swapped out.", _JOB, _jobs(lambda job: job.swap)),
        Family("slurm_job_memory_rss_bytes", GAUGE, "Resident memory of the job's processes, each by itself: what they share is counted for each.", _JOB, _jobs(lambda job: job.rss)),
        Family("slurm_job_memory_peak_bytes", GAUGE, "The most memory that was ever charged to the job, file cache among it.", _JOB, _jobs(lambda job: job.peak)),
        Family("slurm_job_memory_limit_bytes", GAUGE, "Memory at which the job is killed. Absent: there is no limit.", _JOB, _jobs(lambda job: job.limit)),
        Family("slurm_job_oom_kills_total", COUNTER, "Processes of the job that the kernel killed for want of memory.", _JOB, _jobs(lambda job: job.oom_kills)),
        Family("slurm_job_pressure_seconds_total", COUNTER, "Time in which some, or all (full), of the job's tasks waited for a resource.", (*_JOB, "resource", "kind"), _pressures),
        Family("slurm_job_processes", GAUGE, "Processes of the job, Slurm's own and dead ones not among them.", _JOB, _jobs(lambda job: job.processes)),
        Family("slurm_job_zombies", GAUGE, "Processes of the job that have ended and were not reaped.", _JOB, _jobs(lambda job: job.zombies)),
        Family("slurm_job_threads", GAUGE, "Threads of the job's processes.", _JOB, _jobs(lambda job: job.threads)),
        Family("slurm_job_open_files", GAUGE, "Files that the job's processes have open: what has a path and is no device.", _JOB, _jobs(lambda job: job.open_files)),
        Family("slurm_job_open_descriptors", GAUGE, "Descriptors that the job's processes have open, pipes and sockets among them.", _JOB, _jobs(lambda job: job.descriptors)),
        Family("slurm_job_uses_scratch", GAUGE, "1 if the job was ever seen with a file of a scratch file system open (agent.scratch).", _JOB, _jobs(lambda job: _bool(job.scratch))),
        Family("slurm_job_read_bytes_total", COUNTER, "Bytes that the job's processes caused to be read from disks.", _JOB, _jobs(lambda job: job.read_bytes)),
        Family("slurm_job_written_bytes_total", COUNTER, "Bytes that the job's processes caused to be written to disks.", _JOB, _jobs(lambda job: job.written_bytes)),
        Family("slurm_job_reads_total", COUNTER, "Calls of read and the like.", _JOB, _jobs(lambda job: job.reads)),
        Family("slurm_job_writes_total", COUNTER, "Calls of write and the like.", _JOB, _jobs(lambda job: job.writes)),
        Family("slurm_job_device_read_bytes_total", COUNTER, "Bytes read from block devices, as cgroups tell it.", _JOB, _jobs(lambda job: job.device_read_bytes)),
        Family("slurm_job_device_written_bytes_total", COUNTER, "Bytes written to block devices, as cgroups tell it.", _JOB, _jobs(lambda job: job.device_written_bytes)),
        Family("slurm_job_network_received_bytes_total", COUNTER, "Bytes received, where the job has a network of its own.", _JOB, _jobs(lambda job: job.received_bytes)),
        Family("slurm_job_network_sent_bytes_total", COUNTER, "Bytes sent, where the job has a network of its own.", _JOB, _jobs(lambda job: job.sent_bytes)),
        Family("slurm_job_unreadable_files", GAUGE, "Files of the kernel on this job that could not be read at the last look.", _JOB, _jobs(lambda job: job.missed)),
        Family("slurm_job_program_processes", GAUGE, "Processes by the program that they run (agent.programs of them; the rest is other).", (*_JOB, "program"), _programs(lambda one: one.processes)),
        Family("slurm_job_program_threads", GAUGE, "Threads by program.", (*_JOB, "program"), _programs(lambda one: one.threads)),
        Family("slurm_job_program_memory_rss_bytes", GAUGE, "Resident memory by program.", (*_JOB, "program"), _programs(lambda one: one.rss)),
        Family("slurm_job_program_cpu_seconds", GAUGE, "Processor time of the processes that are there now, by program.", (*_JOB, "program"), _programs(lambda one: one.cpu_seconds)),
        Family("slurm_job_gpu_utilization_ratio", GAUGE, "Share of the time in which the GPU that the job holds was in use, 0 to 1.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.utilization)),
        Family("slurm_job_gpu_memory_bytes", GAUGE, "Memory of the GPU in use by the job; in use at all where the driver does not tell by whom.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.memory_used)),
        Family("slurm_job_gpu_memory_total_bytes", GAUGE, "Memory of the GPU.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.memory_total)),
        Family("slurm_job_gpu_power_watts", GAUGE, "Power that the GPU draws.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.power)),
        Family("slurm_job_gpu_processes", GAUGE, "Processes of the job on the GPU.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.processes)),
        Family("slurm_job_gpu_held_idle", GAUGE, "1 if the job holds the GPU and no process of it is on it.", (*_JOB, *_GPU), _job_gpus(_idle)),
        Family("slurm_job_gpu_jobs", GAUGE, "Jobs that hold the GPU, this one among them.", (*_JOB, *_GPU), _job_gpus(lambda gpu: gpu.shared)),
    ),
)  # fmt: skip


def _gpus(value: Callable[[Gpu], Value]) -> Samples:
    return lambda view: (
        ((report.node, gpu_name(gpu), gpu.uuid, gpu.model), value(gpu))
        for report in view.reports
        for gpu in report.gpus
    )


def _throttled(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for gpu in report.gpus:
            for reason in gpu.throttled or ():
                yield (report.node, gpu_name(gpu), gpu.uuid, gpu.model, reason), 1


def _ecc(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for gpu in report.gpus:
            for kind, count in (("corrected", gpu.ecc_corrected), ("uncorrected", gpu.ecc_uncorrected)):
                yield (report.node, gpu_name(gpu), gpu.uuid, gpu.model, kind), count


def _holders(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        held = [gpu.uuid for job in report.jobs for gpu in job.gpus or ()]
        for gpu in report.gpus:
            yield (report.node, gpu_name(gpu), gpu.uuid, gpu.model), held.count(gpu.uuid)


_OF = ("node", *_GPU)

GPUS: Topic[JobsView] = Topic(
    "GPUs of nodes",
    None,
    frozenset(),
    (
        Family("slurm_gpu_utilization_ratio", GAUGE, "Share of the time in which the GPU was in use, 0 to 1.", _OF, _gpus(lambda gpu: gpu.utilization)),
        Family("slurm_gpu_memory_utilization_ratio", GAUGE, "Share of the time in which its memory was read or written, 0 to 1.", _OF, _gpus(lambda gpu: gpu.memory_utilization)),
        Family("slurm_gpu_memory_used_bytes", GAUGE, "Memory of the GPU in use.", _OF, _gpus(lambda gpu: gpu.memory_used)),
        Family("slurm_gpu_memory_total_bytes", GAUGE, "Memory of the GPU.", _OF, _gpus(lambda gpu: gpu.memory_total)),
        Family("slurm_gpu_power_watts", GAUGE, "Power that it draws.", _OF, _gpus(lambda gpu: gpu.power)),
        Family("slurm_gpu_power_limit_watts", GAUGE, "Power that it may draw.", _OF, _gpus(lambda gpu: gpu.power_limit)),
        Family("slurm_gpu_energy_joules_total", COUNTER, "Energy that it took since its driver was loaded.", _OF, _gpus(lambda gpu: gpu.energy)),
        Family("slurm_gpu_temperature_celsius", GAUGE, "Its temperature.", _OF, _gpus(lambda gpu: gpu.temperature)),
        Family("slurm_gpu_clock_hertz", GAUGE, "Clock of its processors.", _OF, _gpus(lambda gpu: gpu.clock)),
        Family("slurm_gpu_memory_clock_hertz", GAUGE, "Clock of its memory.", _OF, _gpus(lambda gpu: gpu.memory_clock)),
        Family("slurm_gpu_throttled", GAUGE, "1 for each reason for which it is slowed down now.", (*_OF, "reason"), _throttled),
        Family("slurm_gpu_ecc_errors_total", COUNTER, "Errors of its memory, corrected or not, since its driver was loaded.", (*_OF, "kind"), _ecc),
        Family("slurm_gpu_xid_errors_total", COUNTER, "Errors that its driver told (XID) since the agent started.", _OF, _gpus(lambda gpu: gpu.xid_errors)),
        Family("slurm_gpu_last_xid", GAUGE, "Number of the last of them.", _OF, _gpus(lambda gpu: gpu.last_xid)),
        Family("slurm_gpu_processes", GAUGE, "Processes on it, whosever.", _OF, _gpus(lambda gpu: None if gpu.processes is None else len(gpu.processes))),
        Family("slurm_gpu_jobs", GAUGE, "Jobs that hold it.", _OF, _holders),
    ),
)  # fmt: skip


# --- the names of the exporter that this replaces ---------------------------------------------------------------------

_MEGA = 1 << 20
_OLD = ("instance", "slurm_job")


def _old(value: Callable[[Measure], float | None]) -> Samples:
    return lambda view: (((report.node, str(job.job)), value(job)) for report in view.reports for job in report.jobs)


def _mega(value: int | None) -> float | None:
    return None if value is None else value / _MEGA


def _percent(job: Measure) -> float | None:
    return None if job.cores is None else job.cores * 100


def _percent_per_core(job: Measure) -> float | None:
    return None if job.cores is None or not job.cpus else job.cores * 100 / job.cpus


def _old_threads(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for job in report.jobs:
            for one in job.programs:
                yield (report.node, str(job.job), one.name), one.most_threads


def _old_cores(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for job in report.jobs:
            for core, seconds in sorted((job.core_seconds or {}).items()):
                yield (report.node, str(job.job), str(core)), seconds


def _old_gpus(view: JobsView) -> Iterable[Sample]:
    for report in view.reports:
        for job in report.jobs:
            # two makers' drivers may count alike
            for name in dict.fromkeys(gpu_name(gpu) for gpu in job.gpus or ()):
                yield (report.node, str(job.job), name), 1


OLD: Topic[JobsView] = Topic(
    "jobs_exporter's names",
    None,
    frozenset(),
    (
        Family("jobs_cpu_percent", GAUGE, "Processor time of the job since the look before, 100 for each core.", _OLD, _old(_percent)),
        Family("jobs_cpu_percent_per_core", GAUGE, "The same by the number of cores that the job may use.", _OLD, _old(_percent_per_core)),
        Family("jobs_rss", GAUGE, "Resident memory of the job's processes in MiB.", _OLD, _old(lambda job: _mega(job.rss))),
        Family("jobs_spawned_processes", GAUGE, "Processes of the job, not threads.", _OLD, _old(lambda job: job.processes)),
        Family("jobs_opened_files", GAUGE, "Files that the job has open.", _OLD, _old(lambda job: job.open_files)),
        Family("jobs_thread_count", GAUGE, "Threads of a process by its name; of several of that name, those of the one with the most.", (*_OLD, "proc_name"), _old_threads),
        Family("jobs_user_time", GAUGE, "Processor time in user mode in seconds.", _OLD, _old(lambda job: job.user_seconds)),
        Family("jobs_system_time", GAUGE, "Processor time in the kernel in seconds.", _OLD, _old(lambda job: job.system_seconds)),
        Family("jobs_cpu_time_total", GAUGE, "Processor time in seconds.", _OLD, _old(lambda job: job.cpu_seconds)),
        Family("jobs_cpu_time_core", GAUGE, "Processor time by core in seconds (cgroup version 1 alone).", (*_OLD, "core"), _old_cores),
        Family("jobs_uses_scratch", GAUGE, "1 if the job was seen with a file of a scratch file system open.", _OLD, _old(lambda job: None if job.scratch is None else int(job.scratch))),
        Family("jobs_read_mb", GAUGE, "MiB read from disks.", _OLD, _old(lambda job: _mega(job.read_bytes))),
        Family("jobs_write_mb", GAUGE, "MiB written to disks.", _OLD, _old(lambda job: _mega(job.written_bytes))),
        Family("jobs_write_count", GAUGE, "Calls of write.", _OLD, _old(lambda job: job.writes)),
        Family("jobs_read_count", GAUGE, "Calls of read.", _OLD, _old(lambda job: job.reads)),
        Family("jobs_gpus_used", GAUGE, "1 for each GPU that the job holds.", (*_OLD, "gpuid"), _old_gpus),
    ),
)  # fmt: skip

TOPICS = (JOBS, GPUS, OLD)
