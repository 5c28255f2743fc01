# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The jobs that wait, in the order of their priority, and the two schedulers that start them.

As in Slurm, the main scheduler goes down the queue and gives a partition up at the first job that finds no room
there: that one waits for Resources, those behind it for Priority. Backfill goes on, after it has set nodes aside
for the first few, and starts what will be gone before those need their nodes.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slurmscope.demo.cluster import WEEK, Node
from slurmscope.demo.fairshare import FairShare
from slurmscope.demo.jobs import Job
from slurmscope.demo.limits import Limits
from slurmscope.demo.machine import Machine
from slurmscope.demo.people import Stream

_PLANS = 2  # jobs of one partition that nodes are set aside for
_DEEPEST = 50  # … and that backfill finds no room for before it gives the partition up (bf_max_job_part)
_QOS = {"normal": 0.2, "high": 1.0, "debug": 0.5}
_AGE, _FAIR, _QUALITY, _PARTITION, _SIZE = 4000, 10_000, 2000, 1000, 500

Start = Callable[[Job, list[Node], str], None]


@dataclass(slots=True)
class Look:
    """What one cycle did."""

    length: int  # of the queue when it began
    depth: int = 0  # jobs looked at
    tried: int = 0  # … and tried to place
    started: int = 0


class Queue:
    def __init__(self, machine: Machine, limits: Limits, shares: FairShare) -> None:
        self._machine = machine
        self._limits = limits
        self._shares = shares
        self._eligible: list[Job] = []  # by rank
        self._others: dict[Job, None] = {}  # held, dependent, or to begin later
        self.waiting: Counter[Stream] = Counter()  # records, whatever they wait for
        self._cpus = sum(node.cpus for node in machine.nodes)

    def __iter__(self) -> Iterator[Job]:
        yield from self._eligible
        yield from self._others

    def add(self, job: Job, now: int) -> None:
        """A job that waits, for its turn or for something else first."""
        self.waiting[job.stream] += 1
        job.reason = job.waits_for
        job.able = self._machine.capable(job.ask)
        job.eligible = now if job.reason is None else job.begin
        self._rank_first(job, now)
        if job.reason is None:
            insort(self._eligible, job, key=lambda one: one.rank)
        else:
            self._others[job] = None

    def release(self, job: Job, now: int) -> None:
        """What it waited for first is over, or it waits for the next such thing."""
        if job in self._others:
            self.remove(job)
            self.add(job, now)

    def remove(self, job: Job) -> None:
        self._unplan(job)
        self.waiting[job.stream] -= 1
        if job in self._others:
            del self._others[job]
        else:
            self._eligible.remove(job)

    def __contains__(self, job: Job) -> bool:
        return job in self._others or job in self._eligible

    def rerank(self, now: int) -> None:
        """Priorities anew: ages have grown, and shares were used."""
        for job in self:
            self._rank(job, now)
        self._eligible.sort(key=lambda one: one.rank)

    def _rank(self, job: Job, now: int) -> None:
        since = now if job.eligible is None else min(job.eligible, now)
        age = min(1.0, (now - since) / WEEK)
        fair = self._shares.factor(job.user.name)
        job.priority = 0 if job.held else int(job.base_priority + _AGE * age + _FAIR * fair)
        job.rank = job.rank[0], -job.priority, job.id

    def _rank_first(self, job: Job, now: int) -> None:
        partitions = job.ask.partitions
        job.base_priority = (
            _QUALITY * _QOS[job.qos]
            + _PARTITION * max(self._machine.factors[name] for name in partitions) / 10
            + _SIZE * job.cpus / self._cpus
        )
        tier = max(self._machine.tiers[name] for name in partitions)
        job.rank = -tier, 0, job.id
        self._rank(job, now)

    def cycle(self, now: int, start: Start, *, backfill: bool) -> Look:
        """One look through the queue. `start` takes a job's first task out of it."""
        look = Look(len(self._eligible))
        self._machine.look()
        if backfill:
            for job in [job for job in self._eligible if job.plan]:
                self._unplan(job)
        blocked: set[str] = set()
        given_up = set() if backfill else blocked
        failures: dict[str, int] = defaultdict(int)
        holds: dict[Node, int] = {}
        for job in list(self._eligible):
            look.depth += 1
            partitions = job.ask.partitions
            if job.reason == "Priority" and not job.plan and given_up.issuperset(partitions):
                continue  # most of the queue, most of the time
            reason = self._try(job, now, start, look, given_up, holds)
            if reason == "Resources" and job.ask.host is None and job.ask.reservation is None:
                if blocked.issuperset(partitions):
                    reason = "Priority"
                blocked.update(partitions)
                for name in partitions:
                    failures[name] += 1
                if backfill:
                    if all(failures[name] <= _PLANS for name in partitions):
                        self._plan(job, now, holds)
                    given_up.update(name for name in partitions if failures[name] >= _DEEPEST)
            for node in job.plan:
                holds[node] = min(job.estimate or now, holds.get(node, job.estimate or now))
            job.reason = reason
        return look

    def _try(
        self, job: Job, now: int, start: Start, look: Look, given_up: set[str], holds: dict[Node, int]
    ) -> str | None:
        """Starts as many tasks as can be, and says what keeps the next one."""
        while True:
            full = self._limits.full(job)
            if full is not None:
                return full
            if given_up.issuperset(job.ask.partitions):
                return "Priority"
            look.tried += 1
            for partition in job.ask.partitions:
                nodes = None if partition in given_up else self._machine.fit(job.ask, partition, now, holds)
                if nodes is not None:
                    break
            else:
                return self._machine.obstacle(job, now) or "Resources"
            look.started += 1
            last = job.tasks == 1
            start(job, nodes, partition)
            if last:
                return None

    def _plan(self, job: Job, now: int, holds: dict[Node, int]) -> None:
        found = self._machine.earliest(job.ask, now, holds)
        if found is not None:
            job.estimate, job.plan = found
            for node in job.plan:
                node.planned = True

    @staticmethod
    def _unplan(job: Job) -> None:
        job.estimate = None
        for node in job.plan:
            node.planned = False
        job.plan = []
