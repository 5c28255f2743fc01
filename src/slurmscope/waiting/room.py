# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The queue ahead of a job, the room that it would need, when there will be enough, and whether there ever can be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from slurmscope.model import Job, Node, Partition
from slurmscope.waiting.case import Case, Fact, gpus, hosts, most
from slurmscope.waiting.reason import CLUSTER, QUEUE, SLURM
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.words import amount, listed, moment, number, size, span

# Who waits for anything else, a limit or a time or a hold, is in nobody's way.
_IN_THE_WAY = frozenset({QUEUE, CLUSTER, SLURM})
_PLAIN_FEATURES = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")


class Asked(msgspec.Struct, frozen=True):
    """What a job asks for on each of its nodes, if it is spread evenly over as few as it may."""

    nodes: int
    cpus: int
    memory: int
    gpus: dict[str, int]

    @classmethod
    def of(cls, job: Job) -> Asked:
        nodes = max(1, job.nodes)
        share = {kind: -(-count // nodes) for kind, count in job.gpus.items()}
        return cls(nodes, -(-job.cpus // nodes), -(-(job.memory or 0) // nodes), share)

    def fits(self, cpus: float, memory: float, free: dict[str, int]) -> bool:
        if cpus < self.cpus or memory < self.memory:
            return False
        typed = all(free.get(kind, 0) >= count for kind, count in self.gpus.items() if kind)
        return typed and sum(free.values()) >= sum(self.gpus.values())

    def __str__(self) -> str:
        parts = [amount(self.cpus, "CPU")]
        parts += [size(self.memory)] if self.memory else []
        parts += [amount(count, f"{kind} GPU" if kind else "GPU") for kind, count in self.gpus.items()]
        return listed(parts)


# --- ahead ------------------------------------------------------------------------------------------------------------


def ahead_facts(case: Case) -> Iterator[Fact]:
    """The jobs of a higher priority that wait in one of its partitions."""
    if case.snapshot.jobs.value is None:
        return
    if case.job.priority is None:
        yield Fact("ahead", "what is ahead of it cannot be told: priorities are hidden")
        return
    wanted = set(case.job.partitions)
    tasks = cpus = cards = aside = 0
    users: Counter[str] = Counter()
    for job in case.jobs:
        if not job.waiting or job.priority is None or job.priority <= case.job.priority:
            continue
        if wanted.isdisjoint(job.partitions):
            continue
        if reason_of(parse(job.reason)).decides not in _IN_THE_WAY:
            aside += job.tasks
            continue
        tasks += job.tasks
        cpus += job.cpus * job.tasks
        cards += gpus(job) * job.tasks
        users[case.called(job.user)] += job.tasks
    where = listed(case.job.partitions)
    known: dict[str, Any] = {"tasks": tasks, "cpus": cpus, "gpus": cards, "aside": aside}
    besides = f"; besides {aside:,} that something else holds back" if aside else ""
    if not tasks:
        yield Fact("ahead", f"no job of a higher priority is in its way in {where}{besides}", known)
        return
    text = f"{amount(tasks, 'job')} of a higher priority in {where}, for {amount(cpus, 'CPU')}"
    text += f" and {amount(cards, 'GPU')}" if cards else ""
    known["users"] = dict(users.most_common(10))
    yield Fact("ahead", f"{text}; whose: {most(users)}{besides}", known)


# --- room -------------------------------------------------------------------------------------------------------------


def room_facts(case: Case) -> Iterator[Fact]:
    """What is free in its partitions against what it asks for, and when enough must have ended."""
    if case.snapshot.nodes.value is None or not case.nodes:
        return
    asked = Asked.of(case.job)
    nodes, taken = eligible(case), kept_for_others(case)
    usable = [node for node in nodes if node.usable and node.name not in taken]
    enough = [node for node in usable if asked.fits(node.cpus_idle, _memory_idle(node), _gpus_idle(node))]
    free_cpus = sum(node.cpus_idle for node in usable)
    each = f"{amount(asked.nodes, 'node')} with {asked}" + (" each" if asked.nodes > 1 else "")
    yield Fact("asks for", f"{each}, if it is spread evenly", msgspec.to_builtins(asked))
    text = f"{amount(len(enough), 'node')} of {len(nodes):,} in {listed(case.job.partitions)} "
    text += f"{'has' if len(enough) == 1 else 'have'} that free"
    kept = sum(node.name in taken for node in nodes)
    text += f", {amount(kept, 'reserved one')} not counted" if kept else ""
    free_gpus = sum(sum(_gpus_idle(node).values()) for node in usable)
    text += f"; free in all: {amount(free_cpus, 'CPU')}" + (f" and {amount(free_gpus, 'GPU')}" if asked.gpus else "")
    known = {"nodes": len(enough), "of": len(nodes), "cpus": free_cpus, "gpus": free_gpus}
    yield Fact("free now", text, known)
    if len(enough) < asked.nodes and (when := latest(case, asked, usable)) is not None:
        text = f"by {moment(when)} (in {span(when - case.now)}) at the latest, by the time limits of what runs there"
        yield Fact("enough", text + ", if nobody else takes it first", {"time": when})
    elif len(enough) >= asked.nodes:
        text = "by this count that is enough; they may be kept for jobs that come first, or it wants nodes for itself"
        yield Fact("enough", f"{text} (--exclusive), which the queue does not tell", {"time": None})


def kept_for_others(case: Case) -> set[str]:
    """Nodes of reservations that are not its own, and that hold now or would before it has ended."""
    until = case.now + (case.job.time_limit or 0)
    own = set((case.job.reservation or "").split(","))
    return {
        name
        for one in case.reservations
        if one.name not in own and one.end_time > case.now and one.start_time <= until
        for name in hosts(one.node_list)
    }


def eligible(case: Case) -> list[Node]:
    """The nodes of its partitions, or of its reservation; where features are asked for plainly, those with them."""
    own = set((case.job.reservation or "").split(","))
    inside = {name for one in case.reservations if one.name in own for name in hosts(one.node_list)}
    nodes = [node for node in case.nodes if node.name in inside] if inside else case.nodes
    features = case.job.features or ""
    if not _PLAIN_FEATURES.fullmatch(features):
        return nodes
    wanted = set(re.split("[&,]", features))
    return [node for node in nodes if wanted.issubset(node.features)]


def _memory_idle(node: Node) -> float:
    return node.memory_idle if node.memory > 1 << 20 else float("inf")  # 1 MB: memory is not counted here


def _gpus_idle(node: Node) -> dict[str, int]:
    return {kind: use["idle"] + use["stranded"] for kind, use in node.gpu_use().items()}


class _Free(msgspec.Struct):
    """What is free on a node, or will be."""

    cpus: float
    memory: float
    gpus: dict[str, int]

    def give_back(self, job: Job, spread: int) -> None:
        self.cpus += job.cpus / spread
        self.memory += (job.memory or 0) / spread
        for kind, count in job.gpus.items():
            self.gpus[kind] = self.gpus.get(kind, 0) + count // spread


def latest(case: Case, asked: Asked, nodes: Sequence[Node]) -> int | None:
    """When, by their time limits, so many of the running jobs have ended that it fits; None: it is not known."""
    free = {node.name: _Free(node.cpus_idle, _memory_idle(node), _gpus_idle(node)) for node in nodes}
    good = {name for name, one in free.items() if asked.fits(one.cpus, one.memory, one.gpus)}
    for job in sorted((job for job in case.holding if job.end_time is not None), key=lambda job: job.end_time or 0):
        held = hosts(job.node_list)
        for name in held:
            if (one := free.get(name)) is not None:
                one.give_back(job, len(held))
                if asked.fits(one.cpus, one.memory, one.gpus):
                    good.add(name)
        if len(good) >= asked.nodes:
            return max(job.end_time or 0, int(case.now))
    return None


# --- never ------------------------------------------------------------------------------------------------------------


class Obstacle(msgspec.Struct, frozen=True):
    words: str
    unless: str = ""  # what nobody told and would make it none


def never_facts(case: Case) -> Iterator[Fact]:
    """Said where nothing that ends, and nobody who gives way, can ever let the job start."""
    if not case.partitions or len(case.partitions) != len(case.job.partitions):
        return
    found = {one.name: obstacle for one in case.partitions if (obstacle := obstacle_in(case, one))}
    if not found:
        return
    text = "; ".join(one.words + (f", unless {one.unless}" if one.unless else "") for one in found.values())
    known = {"partitions": list(found)}
    if len(found) < len(case.partitions):
        yield Fact("only elsewhere", f"it cannot start in all of its partitions: {text}", known)
    elif any(one.unless for one in found.values()):
        yield Fact("maybe never", text, known)
    else:
        yield Fact("never", f"as it is, it can never start: {text}", known)


def obstacle_in(case: Case, partition: Partition) -> Obstacle | None:
    """What of it is beyond the partition."""
    job, name = case.job, partition.name
    # a QOS may lift what a partition says, and Slurm would then not name the partition as the reason
    qos = "" if case.told.name.startswith("Partition") else "its QOS lifts that"
    if partition.max_time is not None and job.time_limit is not None and job.time_limit > partition.max_time:
        asked = f"it asks for {span(job.time_limit)}, and jobs in {name} may run for {span(partition.max_time)}"
        return Obstacle(asked, qos)
    if partition.max_nodes is not None and job.nodes > partition.max_nodes:
        return Obstacle(
            f"it asks for {amount(job.nodes, 'node')}, and jobs in {name} may have {partition.max_nodes:,}", qos
        )
    if partition.allow_accounts and job.account not in partition.allow_accounts:
        return Obstacle(f"the account {job.account} may not use {name}")
    if job.nodes > partition.nodes:
        return Obstacle(f"it asks for {amount(job.nodes, 'node')}, and {name} has {partition.nodes:,}")
    if job.cpus > partition.cpus:
        return Obstacle(f"it asks for {amount(job.cpus, 'CPU')}, and all of {name} has {partition.cpus:,}")
    nodes = case.nodes_of(name)
    # nodes may be hidden from whoever asks
    return _too_much(job, name, nodes) if len(nodes) >= partition.nodes and nodes else None


def _too_much(job: Job, name: str, nodes: list[Node]) -> Obstacle | None:
    for kind, count in job.gpus.items():
        there = sum(node.gpus.get(kind, 0) if kind else sum(node.gpus.values()) for node in nodes)
        if count > there:
            return Obstacle(f"it asks for {amount(count, f'{kind} GPU' if kind else 'GPU')}, and {name} has {there:,}")
    memory = sum(map(_memory_of, nodes))
    if (job.memory or 0) > memory:
        return Obstacle(f"it asks for {size(job.memory)}, and all of {name} has {size(memory)}")
    asked = Asked.of(job)
    checks: tuple[tuple[int, Callable[[Node], int], Callable[[int], str]], ...] = (
        (asked.cpus, lambda node: node.cpus_effective, lambda count: amount(count, "CPU")),
        (asked.memory, _memory_of, size),
    )
    for wanted, has, shown in checks:
        largest = max(map(has, nodes))
        if wanted > largest:
            each = " on each node" if asked.nodes > 1 else ""
            words = f"it asks for {shown(wanted)}{each}, and no node of {name} has more than {shown(largest)}"
            return Obstacle(words, "it may be spread over more nodes")
    return None


def _memory_of(node: Node) -> int:
    # where memory is not counted, Slurm has 1 MB for it
    return node.memory - (node.memory_reserved or 0) if node.memory > 1 << 20 else 1 << 62


# --- partition --------------------------------------------------------------------------------------------------------


def partition_facts(case: Case) -> Iterator[Fact]:
    """Each of its partitions: its state, and its limits beside what the job asks for."""
    for one in case.partitions:
        job, parts = case.job, [f"is {one.state}"]
        if one.max_time is not None:
            limit = "no limit" if job.time_limit is None else span(job.time_limit)
            parts.append(f"jobs may run for {span(one.max_time)}, this one asks for {limit}")
        if one.max_nodes is not None:
            parts.append(f"jobs may have {amount(one.max_nodes, 'node')}, this one asks for {number(job.nodes)}")
        if one.allow_accounts:
            parts.append(f"is for the accounts {listed(list(one.allow_accounts[:10]))}, this one is of {job.account}")
        known = {
            "partition": one.name,
            "state": one.state,
            "max_time": one.max_time,
            "max_nodes": one.max_nodes,
            "allow_accounts": list(one.allow_accounts),
        }
        yield Fact("partition", f"{one.name} {'; '.join(parts)}", known)
