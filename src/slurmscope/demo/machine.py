# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The allocator: where a job fits now, when it would fit at the latest, and who holds what."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from slurmscope.demo.cluster import PARTITIONS, Fault, Node, build, folded, reservations
from slurmscope.demo.jobs import Ask, Job
from slurmscope.slurm.values import hosts

Pool = tuple[str, str, str | None]  # a partition, a type of GPU, a host


class Machine:
    def __init__(self, now: int) -> None:
        self.nodes = build(now)
        self.by_name = {node.name: node for node in self.nodes}
        self.tiers = {partition.name: partition.tier for partition in PARTITIONS}
        self.factors = {partition.name: partition.factor for partition in PARTITIONS}
        self._pools: dict[Pool, list[Node]] = {}
        self._open: dict[Pool, tuple[int, list[Node]]] = {}  # nodes with anything to give, and the most CPUs of one
        self._away = 0  # nodes that are closed to most jobs
        self._closing: float = inf  # when the next maintenance begins
        self._to_close = 0  # … and on how many nodes
        self.reserve(now)

    def reserve(self, now: int) -> None:
        """Applies the reservations of this moment to the nodes."""
        for node in self.nodes:
            node.reservation, node.maintained, node.closes = None, False, inf
        for one in reservations(now):
            for name in hosts(one.node_list):
                node = self.by_name[name]
                if not one.maintenance:
                    node.reservation = one.name
                elif one.start <= now:
                    node.maintained = True
                else:
                    node.closes = min(node.closes, one.start)
        self._survey()
        self._closing = min(node.closes for node in self.nodes)
        self._to_close = sum(1 for node in self.nodes if node.closes < inf)

    def fail(self, node: Node, fault: Fault) -> None:
        node.fault = fault
        self._survey()

    def mend(self, node: Node) -> None:
        node.fault = None
        self._survey()

    def _survey(self) -> None:
        for node in self.nodes:
            node.open = node.fault is None and not node.maintained
        self._away = sum(1 for node in self.nodes if not node.open or node.reservation is not None)

    def pool(self, ask: Ask, partition: str) -> list[Node]:
        """The nodes of a partition that could ever serve."""
        key = partition, ask.gpu, ask.host
        found = self._pools.get(key)
        if found is None:
            found = self._pools[key] = [
                node
                for node in self.nodes
                if partition in node.partitions and ask.gpu in ("", node.kind.gpu) and ask.host in (None, node.name)
            ]
        return found

    def look(self) -> None:
        """A cycle begins: which nodes have anything to give is found out anew."""
        self._open.clear()

    def fit(self, ask: Ask, partition: str, now: int, holds: Mapping[Node, int]) -> list[Node] | None:
        """Nodes on which it can start now, the fullest that will do; `holds` says by when some must be free."""
        key = partition, ask.gpu, ask.host
        if key not in self._open:
            nodes = [node for node in self.pool(ask, partition) if node.free_cpus and node.open]
            self._open[key] = max((node.free_cpus for node in nodes), default=0), nodes
        most, room = self._open[key]
        if most < ask.cpus:
            return None
        until = now + ask.limit
        found: list[tuple[int, int, int, Node]] = []
        for node in room:
            if (
                node.free_cpus >= ask.cpus
                and node.free_memory >= ask.memory
                and node.free_gpus >= ask.gpus
                and node.reservation == ask.reservation
                and until <= node.closes
                and until <= holds.get(node, inf)
            ):
                found.append((node.weight, node.free_cpus, node.index, node))
        if len(found) < ask.nodes:
            return None
        if ask.nodes == 1:
            return [min(found)[3]]
        found.sort()
        return [one[3] for one in found[: ask.nodes]]

    def capable(self, ask: Ask) -> list[Node]:
        """Nodes that are large enough."""
        members = dict.fromkeys(node for partition in ask.partitions for node in self.pool(ask, partition))
        return [
            node
            for node in members
            if node.cpus >= ask.cpus and node.memory >= ask.memory and node.kind.gpus >= ask.gpus
        ]

    def obstacle(self, job: Job, now: int) -> str | None:
        """What keeps a job from starting even if nothing else ran, or None: then it waits for others to end."""
        ask = job.ask
        until = now + ask.limit
        spare = len(job.able) - self._away - (self._to_close if until > self._closing else 0)
        if spare >= ask.nodes and ask.reservation is None:
            return None  # so for most, without a look at each node
        fit = [node for node in job.able if node.fault is None and node.reservation == ask.reservation]
        able = sum(1 for node in fit if not node.maintained and until <= node.closes)
        if able >= ask.nodes:
            return None
        if len(fit) >= ask.nodes:
            return "ReqNodeNotAvail, Reserved for maintenance"
        away = folded(node for node in job.able if node.fault is not None)
        return f"ReqNodeNotAvail, UnavailableNodes:{away}"

    def earliest(self, ask: Ask, now: int, holds: Mapping[Node, int]) -> tuple[int, list[Node]] | None:
        """When it will start at the latest and where, if all that runs takes the whole of its time."""
        best: tuple[int, list[Node]] | None = None
        for partition in ask.partitions:
            found = []
            for node in self.pool(ask, partition):
                if node.open and node not in holds and node.reservation == ask.reservation:
                    ready = self._ready(ask, node, now)
                    if ready is not None and ready + ask.limit <= node.closes:
                        found.append((ready, node.index, node))
            if len(found) >= ask.nodes:
                found.sort()
                start = found[ask.nodes - 1][0]
                # what is ready sooner may not be on a node that closes before the last one is
                chosen = [node for _, _, node in found[: ask.nodes] if start + ask.limit <= node.closes]
                if len(chosen) == ask.nodes and (best is None or start < best[0]):
                    best = start, chosen
        return best

    @staticmethod
    def _ready(ask: Ask, node: Node, now: int) -> int | None:
        cpus, memory, gpus = node.free_cpus, node.free_memory, node.free_gpus
        if cpus >= ask.cpus and memory >= ask.memory and gpus >= ask.gpus:
            return now
        ends = node.ends()
        if ask.cpus == node.cpus and node.memory >= ask.memory:  # the whole node, as most that are planned for want
            return max(ends[-1][0], now)
        for end, job in ends:
            cpus += job.ask.cpus
            memory += job.ask.memory
            gpus += job.ask.gpus
            if cpus >= ask.cpus and memory >= ask.memory and gpus >= ask.gpus:
                return max(end, now)
        return None

    def take(self, job: Job) -> None:
        ask = job.ask
        for node in job.nodes:
            node.free_cpus -= ask.cpus
            node.free_memory -= ask.memory
            node.free_gpus -= ask.gpus
            node.jobs[job] = None
            node.timeline = None

    def give(self, job: Job) -> None:
        ask = job.ask
        for node in job.nodes:
            node.free_cpus += ask.cpus
            node.free_memory += ask.memory
            node.free_gpus += ask.gpus
            del node.jobs[job]
            node.timeline = None
