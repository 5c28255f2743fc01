# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the functions of the catalogue look at: a snapshot, what was counted over time, and sums made once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from slurmscope.metrics.exposition import Histogram
from slurmscope.metrics.process import Process
from slurmscope.metrics.tally import WAIT_BOUNDS, Tally
from slurmscope.model import PENDING, Cost, Job, Node, Reservation, Snapshot
from slurmscope.slurm.values import hosts

if TYPE_CHECKING:  # it knows us
    from slurmscope.trace.traces import Traces, Use
    from slurmscope.upkeep import Upkeep

OTHER = "other"  # the label of all that a cap leaves out
UNTYPED = "untyped"  # the label of a GPU that was configured or asked for without a type


def gpu_type(kind: str) -> str:
    return kind or UNTYPED


@lru_cache(1024)
def flags_label(flags: frozenset[str]) -> str:
    return "+".join(sorted(flags)).lower()


class Amount(msgspec.Struct, gc=False):
    """Jobs (tasks, that is) and what they hold or ask for."""

    jobs: int = 0
    cpus: int = 0
    memory: int = 0
    nodes: int = 0
    gpus: dict[str, int] = {}

    def add(self, other: Amount) -> None:
        self.jobs += other.jobs
        self.cpus += other.cpus
        self.memory += other.memory
        self.nodes += other.nodes
        for kind, count in other.gpus.items():
            self.gpus[kind] = self.gpus.get(kind, 0) + count


Amounts = dict[tuple[str, ...], Amount]


class Group(msgspec.Struct, frozen=True, gc=False):
    """Jobs that are alike in all that is counted."""

    partition: str
    account: str
    qos: str
    user: str
    state: str
    reason: str | None


class Queue:
    """Sums over the jobs. One pass makes groups, of which there are few; everything else is made of those."""

    def __init__(self, jobs: Iterable[Job], now: float) -> None:
        groups: dict[tuple[str, str, str, str, str, str | None], Amount] = {}
        waiting: dict[tuple[str, int], list[int]] = {}  # tasks that became eligible in the same second
        self._capped: dict[tuple[str, int], tuple[Amounts, int]] = {}
        self.oldest: dict[str, float] = {}
        self.ages: dict[str, Histogram] = {}
        for job in jobs:
            key = (job.partition, job.account, job.qos, job.user, job.state, job.reason)
            amount = groups.get(key)
            if amount is None:
                amount = groups[key] = Amount(gpus={})
            tasks = job.tasks
            amount.jobs += tasks
            amount.cpus += job.cpus * tasks
            amount.memory += (job.memory or 0) * tasks
            amount.nodes += job.nodes * tasks
            if job.gpus:
                for kind, count in job.gpus.items():
                    amount.gpus[kind] = amount.gpus.get(kind, 0) + count * tasks
            eligible = job.eligible_time
            if eligible is not None and eligible <= now and job.state == PENDING:
                waiting.setdefault((job.partition, eligible), []).append(tasks)
        self.groups = [(Group(*key), amount) for key, amount in groups.items()]
        for (partitions, eligible), counts in waiting.items():
            self._wait(partitions, now - eligible, sum(counts))

    def _wait(self, partitions: str, age: float, tasks: int) -> None:
        for partition in partitions.split(","):
            self.oldest[partition] = max(age, self.oldest.get(partition, 0.0))
            self.ages.setdefault(partition, Histogram.empty(WAIT_BOUNDS)).observe(age, tasks)

    def by(self, labels: Callable[[Group], Iterable[tuple[str, ...]]]) -> Amounts:
        """Sums by what `labels` makes of a group. A job that waits in two partitions may be counted in both."""
        sums: Amounts = {}
        for group, amount in self.groups:
            for key in labels(group):
                if key not in sums:
                    sums[key] = Amount(gpus={})
                sums[key].add(amount)
        return sums

    def capped(self, field: str, most: int) -> tuple[Amounts, int]:
        """Sums by `user` or `account` and the state, those beyond the `most` busiest as one; and how many those are.

        Made once for the many families that show it.
        """
        found = self._capped.get((field, most))
        if found is None:
            found = self._capped[field, most] = self._cap(field, most)
        return found

    def _cap(self, field: str, most: int) -> tuple[Amounts, int]:
        weights: dict[str, int] = defaultdict(int)
        for group, amount in self.groups:
            # who holds or wants most comes first; a job counts too, for those that hold nothing any more
            weights[getattr(group, field)] += amount.cpus + amount.jobs
        ranked = sorted(weights, key=lambda one: (-weights[one], one))
        named = set(ranked[:most])
        sums = self.by(lambda group: [(one if (one := getattr(group, field)) in named else OTHER, group.state)])
        return sums, len(ranked) - len(named)


def reason_label(reason: str | None) -> str:
    """A reason without what is particular to one job, such as `ReqNodeNotAvail, UnavailableNodes:n[1-9]` has."""
    return (reason or "None").partition(",")[0].partition(":")[0]


class Ledger(Protocol):
    """Who reads the cluster, as far as it keeps count of that: a Source of slurmscope.slurm."""

    @property
    def costs(self) -> Mapping[tuple[str, str], Cost]:
        """By part and by the command (or the like) that was asked."""
        ...

    @property
    def fallbacks(self) -> Mapping[tuple[str, str], int]:
        """By part and way: how often another way had to stand in."""
        ...


class Requests(msgspec.Struct):
    """What was asked of this process over HTTP."""

    total: dict[int, int] = {}
    in_flight: int = 0
    upkeep: Upkeep | None = None  # what else this process does
    traces: Traces | None = None  # what jobs tell of themselves, where that is taken


class View:
    """One snapshot as the catalogue sees it."""

    def __init__(
        self,
        snapshot: Snapshot,
        tally: Tally,
        source: Ledger,
        requests: Requests,
        now: float,
        *,
        up: bool,
        top: int,
        queue: Queue | None,
        dropped: dict[str, int],
        failures: dict[str, int],
    ) -> None:
        self.snapshot = snapshot
        self.tally = tally
        self.source = source
        self.requests = requests
        self.now = now
        self.up = up
        self.top = top
        self._queue = queue
        self.failures = failures  # topics that could not be rendered
        self.dropped = dropped  # series that a cap left out, by family; the functions that cap fill it in

    def known(self, part: str) -> bool:
        return self.snapshot.part(part).value is not None

    @cached_property
    def queue(self) -> Queue:
        return self._queue or Queue(self.jobs, self.now)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return self.snapshot.jobs.value or ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.snapshot.nodes.value or ()

    @cached_property
    def partitions(self) -> list[str]:
        """The partitions that there are, those without nodes or jobs too."""
        found = [partition.name for partition in self.snapshot.partitions.value or ()]
        return found or sorted({name for node in self.nodes for name in node.partitions})

    @cached_property
    def active_reservations(self) -> list[Reservation]:
        return [one for one in self.snapshot.reservations.value or () if one.active(self.now)]

    @cached_property
    def reserved(self) -> dict[str, str]:
        """The active reservation of each node that is in one; the first, where there are several."""
        found: dict[str, str] = {}
        for reservation in self.active_reservations:
            for host in hosts(reservation.node_list):
                found.setdefault(host, reservation.name)
        return found

    @cached_property
    def nodes_of(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {name: [] for name in self.partitions}
        for node in self.nodes:
            for partition in node.partitions:
                found.setdefault(partition, []).append(node)
        return found

    @cached_property
    def gpu_types(self) -> list[str]:
        """The labels of the types of GPUs that the nodes have."""
        return sorted({gpu_type(kind) for node in self.nodes for kind in node.gpus})

    @cached_property
    def places(self) -> dict[tuple[str, str, str], list[Node]]:
        """Nodes that share a state, flags and an active reservation, by those."""
        found: dict[tuple[str, str, str], list[Node]] = {}
        for node in self.nodes:
            place = (node.state.lower(), flags_label(node.flags), self.reserved.get(node.name, ""))
            found.setdefault(place, []).append(node)
        return found

    @cached_property
    def _held_back(self) -> set[str]:
        """Nodes that active reservations hold whole; of others they take some cores, and the rest is free for all."""
        cpus = {node.name: node.cpus for node in self.nodes}
        found: set[str] = set()
        for one in self.active_reservations:
            names = hosts(one.node_list)
            if one.tres.get("cpu", 0) >= sum(cpus.get(name, 0) for name in names) or "cpu" not in one.tres:
                found.update(names)
        return found

    @cached_property
    def startable(self) -> dict[str, list[Node]]:
        """The nodes of each partition on which somebody without a reservation could start a job this moment."""
        closed = {one.name for one in self.snapshot.partitions.value or () if one.state != "UP"}
        room = {
            node.name
            for node in self.nodes
            if node.cpus_idle and (node.memory_idle or not node.memory) and node.name not in self._held_back
        }
        return {
            name: [] if name in closed else [node for node in nodes if node.name in room]
            for name, nodes in self.nodes_of.items()
        }

    def spent(self, part: str, value: Callable[[Cost], int]) -> int:
        """What a part has cost, whoever was asked for it."""
        return sum(map(value, self._costs.get(part, ())))

    @cached_property
    def _costs(self) -> dict[str, list[Cost]]:
        found: dict[str, list[Cost]] = {}
        for (part, _), cost in self.source.costs.items():
            found.setdefault(part, []).append(cost)
        return found

    def age(self, part: str) -> float | None:
        time = self.snapshot.part(part).time
        return None if time is None else max(0.0, self.now - time)

    @cached_property
    def traced(self) -> list[Use]:
        """What jobs told of themselves, by job and host."""
        traces = self.requests.traces
        return [] if traces is None else traces.shown(self.snapshot.cluster)

    @cached_property
    def process(self) -> Process:
        return Process()
