# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster in place of Slurm, read part by part as Slurm is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slurmscope.demo import history, records, reports, scripts
from slurmscope.demo.cluster import DAY, HOUR
from slurmscope.demo.simulation import Simulation
from slurmscope.life import Accounted
from slurmscope.model import Job, Part, Snapshot
from slurmscope.slurm.commands import BY_PART
from slurmscope.slurm.source import Costs, Reading, Window, metered, own_user
from slurmscope.worker import compute

# The story begins a day before somebody first looks, or some hours earlier: whoever starts anew soon finds the same
# cluster.
_BEFORE, _EVERY = DAY, 6 * HOUR
_WATCHED = 900  # how often somebody is told what was, while the story is caught up with

_READ: dict[str, Callable[[Simulation], Any]] = {
    "config": reports.config,
    "jobs": records.all_jobs,
    "nodes": records.all_nodes,
    "scheduler": reports.scheduler,
    "controllers": reports.controllers,
    "partitions": records.all_partitions,
    "reservations": records.all_reservations,
    "licenses": records.all_licenses,
    "shares": reports.shares,
    "limits": reports.limits,
    "accounting": reports.accounting,
    "coordinators": reports.coordinators,
}
# What Slurm's own commands would have asked slurmctld: our questions are counted with everybody's.
_ASKS = {
    "config": ("REQUEST_BUILD_INFO",),
    "jobs": ("REQUEST_JOB_INFO",),
    "nodes": ("REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO"),
    "scheduler": ("REQUEST_STATS_INFO",),
    "controllers": ("REQUEST_PING",),
    "partitions": ("REQUEST_PARTITION_INFO",),
    "reservations": ("REQUEST_RESERVATION_INFO",),
    "licenses": ("REQUEST_LICENSE_INFO",),
    "shares": ("REQUEST_SHARE_INFO",),
    "limits": ("REQUEST_ASSOC_MGR_INFO",),
}
# … and slurmdbd.
_ASKS_DBD = {"history": "DBD_GET_JOBS_COND", "accounting": "DBD_GET_STATS", "coordinators": "DBD_GET_ACCOUNTS"}


def begins(now: float) -> int:
    """When the story begins of a source that is made now; what was before is the past's."""
    return (int(now) - _BEFORE) // _EVERY * _EVERY


class DemoSource:
    """A `Source`. Two with the same seed that are read at the same times tell the same.

    `watch` is told from time to time how things were between the beginning of the story and now.
    """

    def __init__(
        self,
        seed: int = 1,
        clock: Callable[[], float] = time.time,
        watch: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self.costs: Costs = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        self._clock = clock
        self._user = own_user()
        now = int(clock())
        self._simulation = simulation = Simulation(seed, begins(now))
        if watch is not None:
            for moment in range(simulation.begin + _WATCHED, now, _WATCHED):
                simulation.advance(moment)
                watch(_snapshot(simulation))
        simulation.advance(now)

    def lately(self, seconds: int) -> list[Accounted]:
        """The lives of the last time, with what they used so far."""
        return history.lately(self._simulation, self._simulation.now - seconds)

    async def read(self, part: str, window: Window | None = None) -> Reading:
        # in the thread for such things: after a laptop's sleep there may be a night to catch up with
        with metered(self.costs, part, BY_PART[part].program):
            return await compute(self._read, part, window)

    async def script(self, job: Job) -> str | None:
        return scripts.of(job)

    async def close(self) -> None:
        """Nothing is kept open."""

    def _read(self, part: str, window: Window | None) -> Reading:
        simulation = self._simulation
        simulation.advance(int(self._clock()))
        for kind in _ASKS.get(part, ()):
            simulation.ledger.calls.add(kind, self._user)
        if part in _ASKS_DBD:
            simulation.ledger.dbd_calls.add(_ASKS_DBD[part], self._user)
        if part == "history":
            return Reading(history.of(simulation, *(window or (0, simulation.now))), "demo")
        return Reading(_READ[part](simulation), "demo")


def _snapshot(simulation: Simulation) -> Snapshot:
    """What changes all the time."""
    read = {part: Part(_READ[part](simulation), simulation.now, "demo") for part in ("jobs", "nodes", "partitions")}
    return Snapshot(reports.CLUSTER, **read)
