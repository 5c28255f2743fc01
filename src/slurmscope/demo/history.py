# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulation's jobs as its accounting has them."""

from __future__ import annotations

from msgspec.structs import replace

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


def _accounted(simulation: Simulation, job: Job) -> Accounted:
    record = job_record(job, simulation.now)
    if job.state == jobs.PENDING:
        # the scheduler's guess is none of slurmdbd's business
        record = replace(record, start_time=None, end_time=None)
    elif job.state in (jobs.RUNNING, jobs.COMPLETING):
        record = replace(record, state=jobs.RUNNING, end_time=None, exit_code="0:0")
    by = job.user.name if job.state == jobs.CANCELLED else None
    return figures.accounted(record, job.efficiency, job.touched, simulation.habits[job.stream].steps, by)
