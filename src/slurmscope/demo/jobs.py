# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job of the simulation: what it asks for, and how far it is."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmscope.demo.cluster import HOUR

if TYPE_CHECKING:
    import random

    from slurmscope.demo.cluster import Node
    from slurmscope.demo.limits import Claim
    from slurmscope.demo.people import Stream
    from slurmscope.demo.work import Work

PENDING, RUNNING, COMPLETING = "PENDING", "RUNNING", "COMPLETING"
COMPLETED, CANCELLED, FAILED = "COMPLETED", "CANCELLED", "FAILED"
TIMEOUT, OUT_OF_MEMORY, NODE_FAIL = "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"
LATE = 25  # seconds after its limit at which a job is gone at the latest
# What is told of a job that ended so: the status that wait() gave, and a reason.
ENDS = {
    FAILED: (256, "NonZeroExitCode"),
    OUT_OF_MEMORY: (125, "OutOfMemory"),
    TIMEOUT: (0, "TimeLimit"),
    CANCELLED: (15, None),
    NODE_FAIL: (256, "NodeDown"),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What one task wants, on each of its nodes where not said otherwise."""

    partitions: tuple[str, ...]
    cpus: int
    memory: int  # MiB
    limit: int  # seconds
    nodes: int = 1
    gpu: str = ""  # the type; "" for any
    gpus: int = 0
    host: str | None = None  # this node and no other
    licence: tuple[str, int] | None = None
    reservation: str | None = None
    feature: str | None = None


def draw(work: Work, rng: random.Random) -> Ask:
    """One submission of a kind of work."""
    at = rng.randrange(len(work.cpus))
    cpus = work.cpus[at]
    return Ask(
        partitions=work.partitions,
        cpus=cpus,
        memory=cpus * work.memory,
        limit=int(rng.choice(work.hours) * HOUR),
        nodes=rng.choice(work.nodes),
        gpu=work.gpu,
        # as many GPUs as go with the CPUs, where the one was listed beside the other
        gpus=work.gpus[at] if len(work.gpus) == len(work.cpus) else rng.choice(work.gpus),
        licence=work.licence,
        reservation=work.reservation,
        feature=work.feature,
    )


def fate(limit: int, typical: float, rng: random.Random) -> tuple[str, int]:
    """How a job will end, and after how long."""
    runs = max(5.0, typical * rng.lognormvariate(0, 0.2))
    chance = rng.random()
    if chance < 0.06:
        return FAILED, 3 + int(min(runs, limit - 60) * rng.random() ** 3)
    if chance < 0.075:
        return OUT_OF_MEMORY, 20 + int(min(runs, limit - 60) * rng.random())
    if chance < 0.105:
        return CANCELLED, 10 + int(min(runs, limit - 60) * rng.random())
    if runs >= limit or chance < 0.125:
        return TIMEOUT, limit + rng.randint(0, LATE)
    return COMPLETED, int(runs)


class Job:
    """A job, a task of an array, or the rest of an array that waits."""

    __slots__ = (
        "able",
        "after",
        "array",
        "array_id",
        "ask",
        "base_priority",
        "begin",
        "children",
        "claims",
        "efficiency",
        "eligible",
        "end",
        "estimate",
        "exit_code",
        "first",
        "held",
        "id",
        "last",
        "name",
        "nodes",
        "outcome",
        "partition",
        "plan",
        "priority",
        "qos",
        "rank",
        "reason",
        "restarts",
        "start",
        "state",
        "stream",
        "submit",
        "throttle",
        "touched",
        "typical",
        "user",
    )

    def __init__(self, id_: int, stream: Stream, ask: Ask, name: str, submit: int) -> None:
        self.id = id_
        self.stream = stream
        self.user = stream.user
        self.ask = ask
        self.name = name
        self.qos = stream.work.qos
        self.submit = submit
        self.array_id: int | None = None
        self.array = ""  # all of its tasks, as sbatch was told
        self.first = self.last = 0  # the tasks that it stands for
        self.throttle = 0  # how many of them may run at a time; 0: all
        self.begin: int | None = None
        self.held = False
        self.after: Job | None = None
        self.children: list[Job] = []
        self.eligible: int | None = None
        self.state = PENDING
        self.reason: str | None = None
        self.able: list[Node] = []  # the nodes that are large enough for it
        self.base_priority = 0.0  # the part that never changes
        self.priority = 0
        self.rank: tuple[int, int, int] = (0, 0, 0)
        self.estimate: int | None = None
        self.plan: list[Node] = []  # the nodes that backfill keeps for it
        self.claims: tuple[Claim, ...] = ()
        self.start: int | None = None
        self.end: int | None = None
        self.outcome = COMPLETED
        self.partition = ",".join(ask.partitions)
        self.nodes: list[Node] = []
        self.restarts = 0
        self.exit_code = 0  # as wait() gives it
        self.efficiency = 1.0  # how much of its CPUs it keeps busy
        self.touched = 1.0  # how much of its memory it ever uses
        self.typical = 0.0  # how long a task runs in the mean

    @property
    def tasks(self) -> int:
        return self.last - self.first + 1

    @property
    def cpus(self) -> int:
        return self.ask.cpus * self.ask.nodes

    @property
    def gpus(self) -> int:
        return self.ask.gpus * self.ask.nodes

    @property
    def billing(self) -> int:
        """What a second of it costs its account."""
        return self.cpus + 16 * self.gpus

    @property
    def deadline(self) -> int:
        """When its nodes are free again at the latest."""
        return (self.start or 0) + self.ask.limit

    @property
    def waits_for(self) -> str | None:
        """What keeps it from being considered at all."""
        if self.held:
            return "JobHeldUser"
        if self.after is not None:
            return "Dependency"
        return None if self.begin is None else "BeginTime"

    def split(self, id_: int) -> Job:
        """Its first task as a job of its own; what waits keeps the array's id, as in Slurm."""
        task = copy.copy(self)
        task.id = id_
        task.last = task.first
        task.children = []
        task.plan = []
        task.estimate = None
        self.first += 1
        return task
