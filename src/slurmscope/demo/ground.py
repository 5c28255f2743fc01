# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""An allocator for the past: which nodes have room, found in a moment.

Nodes that serve the same jobs are a group, and are kept there by how much is free on each: CPUs, or GPUs where there
are any. So the fullest node that will do is found without a look at the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slurmscope.demo.cluster import KINDS, PARTITIONS, Kind, Node, build, reservations
from slurmscope.demo.jobs import Ask
from slurmscope.demo.people import Stream
from slurmscope.slurm.values import hosts


class Group:
    """Nodes of one kind, in the same partitions, kept for the same jobs. Closed ones are left out."""

    __slots__ = ("kind", "levels", "mask", "nodes", "partitions", "queues", "reservation", "top")

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.kind: Kind = nodes[0].kind
        self.partitions = nodes[0].partitions
        self.reservation = nodes[0].reservation
        self.top = self.kind.gpus or nodes[0].cpus
        self.levels: list[dict[Node, None]] = [{} for _ in range(self.top + 1)]  # dicts, for they keep an order
        self.mask = 0  # which of the levels have nodes
        self.queues: list[Queue] = []
        for node in nodes:
            self.put(node)

    def put(self, node: Node) -> None:
        level = node.free_gpus if self.kind.gpus else node.free_cpus
        self.levels[level][node] = None
        self.mask |= 1 << level

    def remove(self, node: Node) -> None:
        level = node.free_gpus if self.kind.gpus else node.free_cpus
        inside = self.levels[level]
        del inside[node]
        if not inside:
            self.mask ^= 1 << level


@dataclass(slots=True, eq=False)
class Submission:
    """What somebody submitted: a job, or an array."""

    number: int  # how many tasks there were before
    stream: Stream
    ask: Ask
    name: str
    tasks: int
    typical: float
    use: tuple[float, float]
    doomed: bool
    children: list[Waiting] = field(default_factory=list)  # what waits for it to end well
    left: int = 0  # tasks that have not ended
    well: bool = True  # all of those that have were completed


class Waiting:
    """A job that waits, or the rest of an array."""

    __slots__ = ("eligible", "first", "job", "last", "over", "queue", "restarts", "submit")

    def __init__(self, job: Submission, queue: Queue, first: int, last: int, submit: int, restarts: int = 0) -> None:
        self.job = job
        self.queue = queue
        self.first = first
        self.last = last
        self.submit = submit
        self.eligible: int | None = None  # None: not yet
        self.restarts = restarts
        self.over = False  # it has started, or was given up


@dataclass(slots=True, eq=False)
class Queue:
    """Jobs that want the same groups."""

    ways: tuple[tuple[str, tuple[Group, ...]], ...]  # partitions, each with its groups
    tier: int
    jobs: dict[Waiting, None]


class Ground:
    def __init__(self, begin: int) -> None:
        self.nodes = build(begin)
        kept = [one for one in reservations(begin) if not one.maintenance]
        reserved = {name: one.name for one in kept for name in hosts(one.node_list)}
        found: dict[tuple[str, tuple[str, ...], str | None], list[Node]] = {}
        for node in self.nodes:
            node.reservation = reserved.get(node.name)
            found.setdefault((node.kind.prefix, node.partitions, node.reservation), []).append(node)
        self.groups = [Group(nodes) for nodes in found.values()]
        self.group = {node: group for group in self.groups for node in group.nodes}
        self._queues: dict[tuple[tuple[str, ...], str, bool, str | None], Queue] = {}

    def queue(self, ask: Ask) -> Queue:
        key = ask.partitions, ask.gpu, ask.gpus > 0, ask.reservation
        if key not in self._queues:
            order = {kind: place for place, kind in enumerate(sorted(KINDS, key=lambda kind: kind.weight))}
            ways = tuple(
                (
                    name,
                    tuple(
                        group
                        for group in sorted(self.groups, key=lambda group: order[group.kind])
                        if name in group.partitions
                        and ask.gpu in ("", group.kind.gpu)
                        and (group.kind.gpus or not ask.gpus)
                        and group.reservation == ask.reservation
                    ),
                )
                for name in ask.partitions
            )
            tier = max(one.tier for one in PARTITIONS if one.name in ask.partitions)
            queue = self._queues[key] = Queue(ways, tier, {})
            for group in dict.fromkeys(group for _, groups in ways for group in groups):
                group.queues.append(queue)
        return self._queues[key]

    @property
    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    @staticmethod
    def fit(groups: tuple[Group, ...], ask: Ask, until: int, *, whole: bool) -> list[Node] | None:
        """Nodes on which it can run until then, the fullest that will do; with or without those that are empty."""
        cpus, memory, found = ask.cpus, ask.memory, []
        for group in groups:
            level = ask.gpus if group.kind.gpus else cpus
            mask = group.mask >> level << level
            if not whole:
                mask &= (1 << group.top) - 1
            while mask:
                low = mask & -mask
                mask ^= low
                for node in group.levels[low.bit_length() - 1]:
                    if node.free_cpus >= cpus and node.free_memory >= memory and node.closes >= until:
                        found.append(node)
                        if len(found) == ask.nodes:
                            return found
        return None

    def take(self, node: Node, ask: Ask) -> None:
        group = self.group[node]
        group.remove(node)
        node.free_cpus -= ask.cpus
        node.free_memory -= ask.memory
        node.free_gpus -= ask.gpus
        group.put(node)

    def give(self, node: Node, ask: Ask) -> None:
        group = self.group[node]
        if node.open:
            group.remove(node)
        node.free_cpus += ask.cpus
        node.free_memory += ask.memory
        node.free_gpus += ask.gpus
        if node.open:
            group.put(node)

    def turn(self, node: Node) -> None:
        """A fault or a maintenance came over it, or is over."""
        usable = node.fault is None and not node.maintained
        if usable != node.open:
            node.open = usable
            if usable:
                self.group[node].put(node)
            else:
                self.group[node].remove(node)
