# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulation's jobs as its accounting has them."""

from __future__ import annotations

from msgspec.structs import replace

from slurmscope import model
from slurmscope.demo import figures, jobs
from slurmscope.demo.jobs import Job
from slurmscope.demo.records import job_record
from slurmscope.demo.simulation import Simulation
from slurmscope.life import Accounted


def of(simulation: Simulation, since: int, until: int) -> tuple[Accounted, ...]:
    """The lives of a time: those that ended within it, and those that were there by its end and go on."""
    over = [job for job in simulation.ended if since <= (job.end or 0) <= until]
    there = [job for job in (*simulation.holding.values(), *simulation.queue) if job.submit <= until]
    found = sorted((*over, *there), key=lambda job: (job.id, job.submit))
    return tuple(_accounted(simulation, job) for job in found)


def lately(simulation: Simulation, since: int) -> list[Accounted]:
    """Those that ended since then, and those that run, as if they ended now."""
    over = [_accounted(simulation, job) for job in simulation.ended if (job.end or 0) >= since]
    running = [job for job in simulation.holding.values() if job.state == jobs.RUNNING]
    return over + [
        _told(simulation, job, replace(job_record(job, simulation.now), end_time=simulation.now)) for job in running
    ]


def _accounted(simulation: Simulation, job: Job) -> Accounted:
    record = job_record(job, simulation.now)
    if job.state == jobs.PENDING:
        # the scheduler's guess is none of slurmdbd's business
        record = replace(record, start_time=None, end_time=None)
    elif job.state in (jobs.RUNNING, jobs.COMPLETING):
        record = replace(record, state=jobs.RUNNING, end_time=None, exit_code="0:0")
    return _told(simulation, job, record)


def _told(simulation: Simulation, job: Job, record: model.Job) -> Accounted:
    by = job.user.name if job.state == jobs.CANCELLED else None
    use = job.efficiency, job.touched
    return figures.accounted(record, use, simulation.habits[job.stream].steps, by, job.array)
