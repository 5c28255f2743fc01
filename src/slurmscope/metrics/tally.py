# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What only a succession of snapshots can tell: counters over slurmctld's resets, and how long jobs waited."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from slurmscope.metrics.exposition import Histogram
from slurmscope.model import Accounting, Job, Rpc, Scheduler, Snapshot

# From a second to a month: what a debug queue and what a full machine show.
WAIT_BOUNDS = (
    1.0,
    10.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    4 * 3600.0,
    12 * 3600.0,
    86400.0,
    3 * 86400.0,
    7 * 86400.0,
    30 * 86400.0,
)


class Odometer(msgspec.Struct):
    """A counter that goes on when the one behind it starts again from 0."""

    start: float = 0  # where the one behind it stood when we began to count
    before: float = 0
    last: float = 0

    def read(self, value: float, *, reset: bool = False) -> None:
        if reset or value < self.last:
            self.before += self.last
        self.last = value

    @property
    def total(self) -> float:
        return self.before + self.last - self.start


class Tally:
    """Counts on from snapshot to snapshot.

    slurmctld clears its statistics when it starts, when `sdiag --reset` is run and, most of them, at midnight. The
    last is told by the time that they are "since"; RPCs and the jobs backfilled since the start outlive it, so that
    only a smaller value tells of their reset.

    A service that is scraped counts from 0, what it saw itself: if it began with what slurmctld had counted before,
    Prometheus would take that for new each time the service is started. A single look shows what slurmctld has.
    """

    def __init__(self, *, from_zero: bool) -> None:
        self._from_zero = from_zero
        self._seen: set[str] = set()  # parts of which there was a first reading
        self.counters: dict[tuple[str, ...], Odometer] = {}
        self.waits: dict[tuple[str, str], Histogram] = {}
        self._since: int | None = None
        self._started: dict[tuple[int, int], int] | None = None

    def total(self, *key: str) -> float | None:
        found = self.counters.get(key)
        return None if found is None else found.total

    def totals(self, name: str) -> Iterable[tuple[tuple[str, ...], float]]:
        return [(key[1:], one.total) for key, one in self.counters.items() if key[0] == name]

    def update(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes in the parts that were read since the last time."""
        if "jobs" in fresh and snapshot.jobs.value is not None:
            self._see_jobs(snapshot.jobs.value)
        if "scheduler" in fresh and snapshot.scheduler.value is not None:
            self._see_scheduler(snapshot.scheduler.value)
            self._seen.add("scheduler")
        if "accounting" in fresh and snapshot.accounting.value is not None:
            self._see_accounting(snapshot.accounting.value)
            self._seen.add("accounting")

    def _count(self, *key: str, value: float, reset: bool = False) -> None:
        counter = self.counters.get(key)
        if counter is None:
            # what comes up later, such as a user who had asked nothing yet, is new from its first call on
            part = "accounting" if key[0].startswith("dbd_") else "scheduler"
            old = self._from_zero and part not in self._seen
            counter = self.counters[key] = Odometer(start=value if old else 0)
        counter.read(value, reset=reset)

    def _count_rpcs(self, calls: str, seconds: str, rpcs: tuple[Rpc, ...]) -> None:
        for rpc in rpcs:
            self._count(calls, rpc.name, value=rpc.calls)
            self._count(seconds, rpc.name, value=rpc.seconds)

    def _see_scheduler(self, found: Scheduler) -> None:
        reset = self._since is not None and found.since != self._since
        self._since = found.since
        for event, count in found.jobs.items():
            self._count("job_events", event, value=count, reset=reset)
        for name, cycles in (("main", found.main), ("backfill", found.backfill)):
            self._count("cycles", name, value=cycles.total, reset=reset)
            for reason, count in cycles.exits.items():
                self._count("exits", name, reason, value=count, reset=reset)
        self._count("backfilled_jobs", value=found.backfill_more.jobs_since_start)
        if found.backfill_more.het_components is not None:
            self._count("backfilled_het", value=found.backfill_more.het_components, reset=reset)
        self._count_rpcs("rpcs", "rpc_seconds", found.rpcs)
        self._count_rpcs("user_rpcs", "user_rpc_seconds", found.rpc_users)

    def _see_accounting(self, found: Accounting) -> None:
        self._count_rpcs("dbd_rpcs", "dbd_rpc_seconds", found.rpcs)
        self._count_rpcs("dbd_user_rpcs", "dbd_user_rpc_seconds", found.rpc_users)
        if found.rollup_cycles is not None:
            self._count("dbd_rollups", value=found.rollup_cycles)
        if found.rollup_seconds is not None:
            self._count("dbd_rollup_seconds", value=found.rollup_seconds)

    def _see_jobs(self, jobs: tuple[Job, ...]) -> None:
        """A job was seen to start when it has started now and had not the last time; finished ones count, for they
        may have come and gone between two polls."""
        before = self._started
        started: dict[tuple[int, int], int] = {}
        for job in jobs:
            # a start is known for good when the nodes are booted: slurmctld sets it anew then
            if job.start_time is None or job.waiting or job.state in ("CONFIGURING", "POWER_UP_NODE"):
                continue
            started[job.key] = job.start_time
            # a job that never ran has a start time too, the one at which it was cancelled
            if before is None or before.get(job.key) == job.start_time or not job.node_list:
                continue
            since = job.eligible_time or job.submit_time
            if since is None:
                continue
            key = job.partition, job.qos
            if key not in self.waits:
                self.waits[key] = Histogram.empty(WAIT_BOUNDS)
            self.waits[key].observe(max(0, job.start_time - since))
        self._started = started
