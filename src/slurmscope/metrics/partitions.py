# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of partitions: what is in them, and what could start there now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.nodes import CPU_USES, MEMORY_USES, Value, sum_gpus, sum_uses
from slurmscope.metrics.view import View, gpu_type
from slurmscope.model import NODE_BASE_STATES, NODE_FLAGS, Node

_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def _state(view: View) -> Iterable[Sample]:
    for partition in view.snapshot.partitions.value or ():
        for state in dict.fromkeys((*_STATES, partition.state)):
            yield (partition.name, state.lower()), int(partition.state == state)


def _by_state(view: View) -> Iterable[Sample]:
    for name, nodes in view.nodes_of.items():
        states = [node.state for node in nodes]
        for state in NODE_BASE_STATES:
            yield (name, state.lower()), states.count(state)


def _flagged(view: View) -> Iterable[Sample]:
    for name, nodes in view.nodes_of.items():
        found = dict.fromkeys(NODE_FLAGS, 0)
        for node in nodes:
            for flag in node.flags:
                found[flag] = found.get(flag, 0) + 1
        for flag, count in found.items():
            yield (name, flag.lower()), count


def _sums(uses: tuple[tuple[str, Value], ...]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (
        ((name, *use), count) for name, nodes in view.nodes_of.items() for use, count in sum_uses(nodes, uses)
    )


def _gpus(view: View) -> Iterable[Sample]:
    return (((name, *use), count) for name, nodes in view.nodes_of.items() for use, count in sum_gpus(nodes))


def _free(fold: Callable[[Iterable[int]], int], value: Callable[[Node], int]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (((name,), fold([value(node) for node in nodes])) for name, nodes in view.startable.items())


def _most(found: Iterable[int]) -> int:
    return max(found, default=0)


def _free_gpus(fold: Callable[[Iterable[int]], int]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        for name, nodes in view.startable.items():
            # types that there are but that are all taken are told with 0
            found: dict[str, list[int]] = {kind: [] for node in view.nodes_of[name] for kind in node.gpus}
            for node in nodes:
                for kind, uses in node.gpu_use().items():
                    found[kind].append(uses["idle"])
            for kind, counts in found.items():
                yield (name, gpu_type(kind)), fold(counts)

    return samples


_USE = "allocated, idle or other"
_NOW = "on usable nodes with a CPU and memory to spare that no active reservation holds"

TOPIC: Topic[View] = Topic(
    "partitions",
    "nodes",
    frozenset({"partitions", "reservations"}),
    (
        Family("slurm_partition_state", GAUGE, "1 for the state that the partition is in, 0 for the others.", ("partition", "state"), _state),
        Family("slurm_partition_nodes_by_state", GAUGE, "The partition's nodes by base state.", ("partition", "state"), _by_state),
        Family("slurm_partition_nodes_flagged", GAUGE, "The partition's nodes on which a flag is set.", ("partition", "flag"), _flagged),
        Family("slurm_partition_nodes_usable", GAUGE, "The partition's nodes on which a job could start now, if there were room.", ("partition",), lambda view: (((name,), sum(node.usable for node in nodes)) for name, nodes in view.nodes_of.items())),
        Family("slurm_partition_cpus_by_use", GAUGE, f"CPUs of the partition's nodes by use: {_USE}. Who allocated them may be in another partition.", ("partition", "use"), _sums(CPU_USES)),
        Family("slurm_partition_memory_by_use_bytes", GAUGE, f"Memory of the partition's nodes by use: {_USE}.", ("partition", "use"), _sums(MEMORY_USES)),
        Family("slurm_partition_gpus_by_use", GAUGE, "GPUs of the partition's nodes by type and use: allocated, idle, stranded or unavailable.", ("partition", "type", "use"), _gpus),
        Family("slurm_partition_startable_nodes", GAUGE, f"Nodes that could take a job now: {_NOW}.", ("partition",), _free(sum, lambda node: 1)),
        Family("slurm_partition_startable_cpus", GAUGE, f"CPUs that could be had now, {_NOW}.", ("partition",), _free(sum, lambda node: node.cpus_idle)),
        Family("slurm_partition_startable_memory_bytes", GAUGE, f"Memory that could be had now, {_NOW}.", ("partition",), _free(sum, lambda node: node.memory_idle)),
        Family("slurm_partition_startable_gpus", GAUGE, f"GPUs that could be had now, {_NOW}.", ("partition", "type"), _free_gpus(sum)),
        Family("slurm_partition_largest_cpus", GAUGE, "The most CPUs that could be had now on one node.", ("partition",), _free(_most, lambda node: node.cpus_idle)),
        Family("slurm_partition_largest_memory_bytes", GAUGE, "The most memory that could be had now on one node.", ("partition",), _free(_most, lambda node: node.memory_idle)),
        Family("slurm_partition_largest_gpus", GAUGE, "The most GPUs of a type that could be had now on one node.", ("partition", "type"), _free_gpus(_most)),
    ),
)  # fmt: skip
