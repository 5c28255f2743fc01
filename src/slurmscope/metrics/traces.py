# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what jobs tell of themselves, under the names that rivosinc's exporter has for it, and of how it is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View
from slurmscope.model import Job

if TYPE_CHECKING:  # what is told, and not who tells it
    from slurmscope.trace.traces import Traces, Use


def _uses(value: Callable[[Use], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (((str(one.job.id), one.hostname, one.username), value(one)) for one in view.traced)


def _jobs(value: Callable[[Job], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        jobs = {one.job.id: one.job for one in view.traced}  # once, on however many hosts it is
        return (((str(job.id),), value(job)) for job in jobs.values())

    return samples


def _endpoint(value: Callable[[Traces], int]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: [] if view.requests.traces is None else [((), value(view.requests.traces))]


def _refused(view: View) -> Iterable[Sample]:
    traces = view.requests.traces
    return [] if traces is None else (((reason,), count) for reason, count in traces.refused.items())


_JOB = ("jobid",)
_USE = ("jobid", "hostname", "username")
_SUM = "by the traced processes of a job on a host, together"

TOPIC: Topic[View] = Topic(
    "traces",
    None,
    frozenset(),
    (
        Family("slurm_proc_cpu_usage", GAUGE, f"CPU used {_SUM}, in percent: 100 is one core.", _USE, _uses(lambda one: one.cpus)),
        Family("slurm_proc_mem_usage", GAUGE, f"Resident memory used {_SUM}, in bytes.", _USE, _uses(lambda one: one.mem)),
        Family("slurm_proc_pid", GAUGE, "The first of the traced processes of a job on a host.", _USE, _uses(lambda one: one.pid)),
        Family("slurm_proc_read_bytes", GAUGE, f"Bytes read from storage {_SUM}, since they began.", _USE, _uses(lambda one: one.read_bytes)),
        Family("slurm_proc_threadcount", GAUGE, f"Threads used {_SUM}.", _USE, _uses(lambda one: one.threads)),
        Family("slurm_proc_write_bytes", GAUGE, f"Bytes written to storage {_SUM}, since they began.", _USE, _uses(lambda one: one.write_bytes)),
        Family("slurm_job_cpu_alloc", GAUGE, "CPUs that a traced job holds, on all of its nodes.", _JOB, _jobs(lambda job: job.cpus)),
        Family("slurm_job_mem_alloc", GAUGE, "Memory that a traced job holds, on all of its nodes, in bytes.", _JOB, _jobs(lambda job: job.memory)),
    ),
)  # fmt: skip

ENDPOINT: Topic[View] = Topic(
    "tracing",
    None,
    frozenset(),
    (
        Family("slurm_trace_samples_total", COUNTER, "Samples that were taken from jobs.", (), _endpoint(lambda one: one.samples)),
        Family("slurm_trace_refused_total", COUNTER, "What was not taken, by reason: body (not as the schema has it), full (trace.jobs, trace.processes), media (no JSON), munge, token, user (of somebody else's job).", ("reason",), _refused),
        Family("slurm_trace_jobs", GAUGE, "Jobs that tell of themselves now.", (), _endpoint(lambda one: one.count()[0])),
        Family("slurm_trace_processes", GAUGE, "Processes of these that do.", (), _endpoint(lambda one: one.count()[1])),
    ),
    common=True,
)  # fmt: skip
