# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of nodes: each one, and the cluster's sums by state, flags and reservation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View, flags_label, gpu_type
from slurmscope.model import NODE_BASE_STATES, NODE_FLAGS, Node

Value = Callable[[Node], int]
# The uses of CPUs and of memory, which add up to all that a node has.
CPU_USES: tuple[tuple[str, Value], ...] = (
    ("allocated", lambda node: node.cpus_allocated),
    ("idle", lambda node: node.cpus_idle),
    ("other", lambda node: node.cpus_other),
)
MEMORY_USES: tuple[tuple[str, Value], ...] = (
    ("allocated", lambda node: node.memory_allocated),
    ("idle", lambda node: node.memory_idle),
    ("other", lambda node: node.memory_other),
)


def sum_uses(nodes: Iterable[Node], uses: tuple[tuple[str, Value], ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    return (((use,), sum(map(value, nodes))) for use, value in uses)


def sum_gpus(nodes: Iterable[Node]) -> Iterable[tuple[tuple[str, ...], int]]:
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for node in nodes:
        if node.gpus:
            for kind, uses in node.gpu_use().items():
                for use, count in uses.items():
                    found[gpu_type(kind), use] += count
    return found.items()


def _each(value: Callable[[Node], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (((node.name,), value(node)) for node in view.nodes)


def _states(view: View) -> Iterable[Sample]:
    return (((node.name, node.state.lower()), 1) for node in view.nodes)


def _flags(view: View) -> Iterable[Sample]:
    return (((node.name, flag.lower()), 1) for node in view.nodes for flag in sorted(node.flags))


def _cpus(view: View) -> Iterable[Sample]:
    return (((node.name, use), value(node)) for use, value in CPU_USES for node in view.nodes)


def _memory(view: View) -> Iterable[Sample]:
    return (((node.name, use), value(node)) for use, value in MEMORY_USES for node in view.nodes)


def _gpus(view: View) -> Iterable[Sample]:
    for node in view.nodes:
        for kind, uses in node.gpu_use().items():
            for use, count in uses.items():
                yield (node.name, gpu_type(kind), use), count


def _info(view: View) -> Iterable[Sample]:
    for node in view.nodes:
        reservation = view.reserved.get(node.name, "")
        yield (node.name, node.version or "", ",".join(node.partitions), reservation), 1


def _reasons(view: View) -> Iterable[Sample]:
    for node in view.nodes:
        if node.reason is not None:
            yield (node.name, node.state.lower(), flags_label(node.flags), node.reason, node.reason_user or ""), 1


def _reason_times(view: View) -> Iterable[Sample]:
    return (((node.name,), node.reason_time) for node in view.nodes if node.reason is not None)


def _counts(view: View) -> Iterable[Sample]:
    found = Counter({(state.lower(), ""): 0 for state in NODE_BASE_STATES})
    for (state, flags, _), nodes in view.places.items():
        found[state, flags] += len(nodes)
    return found.items()


def _flag_counts(view: View) -> Iterable[Sample]:
    found = Counter({(flag.lower(),): 0 for flag in NODE_FLAGS})
    for node in view.nodes:
        for flag in node.flags:
            found[(flag.lower(),)] += 1
    return found.items()


def _sums(view: View, uses: Callable[[list[Node]], Iterable[tuple[tuple[str, ...], int]]]) -> Iterable[Sample]:
    """Sums of what `uses` gives of the nodes that share a state, flags and reservation."""
    found = {(*place, *more): count for place, nodes in view.places.items() for more, count in uses(nodes)}
    # states that no node is in are told with zeros, so that series do not come and go
    for more in {key[3:] for key in found}:
        for state in NODE_BASE_STATES:
            found.setdefault((state.lower(), "", "", *more), 0)
    return sorted(found.items())


def _cpu_sums(view: View) -> Iterable[Sample]:
    return _sums(view, lambda nodes: sum_uses(nodes, CPU_USES))


def _memory_sums(view: View) -> Iterable[Sample]:
    return _sums(view, lambda nodes: sum_uses(nodes, MEMORY_USES))


def _gpu_sums(view: View) -> Iterable[Sample]:
    return _sums(view, sum_gpus)


def _load(view: View) -> Iterable[Sample]:
    known = [node.load for node in view.nodes if node.load is not None]
    return [((), round(sum(known), 2) if known else None)]


_USE = "allocated, idle or other (the node is not usable, or keeps it for the system); they add up to all there is"
_GPU_USE = "allocated, idle, stranded (free, with no free CPU or memory beside it) or unavailable (its node is)"
_PLACE = ("state", "flags", "reservation")

TOPIC: Topic[View] = Topic(
    "nodes",
    "nodes",
    frozenset({"reservations"}),
    (
        Family("slurm_node_state", GAUGE, "The node's base state: always 1, the state is a label.", ("node", "state"), _states),
        Family("slurm_node_flag", GAUGE, "A flag that is set on the node's state: always 1, absent when it is not set.", ("node", "flag"), _flags),
        Family("slurm_node_cpus_by_use", GAUGE, f"The node's CPUs by use: {_USE}.", ("node", "use"), _cpus),
        Family("slurm_node_memory_by_use_bytes", GAUGE, f"The node's memory by use: {_USE}.", ("node", "use"), _memory),
        Family("slurm_node_memory_os_free_bytes", GAUGE, "Memory that the node's kernel calls free, whoever it is allocated to.", ("node",), _each(lambda node: node.memory_free)),
        Family("slurm_node_gpus_by_use", GAUGE, f"The node's GPUs by type and use: {_GPU_USE}.", ("node", "type", "use"), _gpus),
        Family("slurm_node_load", GAUGE, "The node's load average, as slurmd last told it.", ("node",), _each(lambda node: node.load)),
        Family("slurm_node_weight", GAUGE, "The node's scheduling weight: lower ones are filled first.", ("node",), _each(lambda node: node.weight)),
        Family("slurm_node_info", GAUGE, "Always 1: slurmd's version, the node's partitions and its active reservation.", ("node", "version", "partitions", "reservation"), _info),
        Family("slurm_node_reason_info", GAUGE, "Always 1: why the node is down, drained or failing, and who said so.", ("node", "state", "flags", "reason", "user"), _reasons),
        Family("slurm_node_reason_timestamp_seconds", GAUGE, "When that reason was set.", ("node",), _reason_times),
        Family("slurm_cluster_nodes", GAUGE, "Nodes by base state and the flags that are set together (joined by +).", ("state", "flags"), _counts),
        Family("slurm_cluster_nodes_flagged", GAUGE, "Nodes on which a flag is set. A node with two flags is counted under both.", ("flag",), _flag_counts),
        Family("slurm_cluster_nodes_usable", GAUGE, "Nodes on which a job could start now, if there were room.", (), lambda view: [((), sum(node.usable for node in view.nodes))]),
        Family("slurm_cluster_cpus", GAUGE, f"CPUs by their node's state, flags and active reservation, and by use: {_USE}.", (*_PLACE, "use"), _cpu_sums),
        Family("slurm_cluster_memory_bytes", GAUGE, f"Memory by its node's state, flags and active reservation, and by use: {_USE}.", (*_PLACE, "use"), _memory_sums),
        Family("slurm_cluster_gpus", GAUGE, f"GPUs by their node's state, flags and active reservation, by type and by use: {_GPU_USE}.", (*_PLACE, "type", "use"), _gpu_sums),
        Family("slurm_cluster_load", GAUGE, "Sum of the nodes' load averages.", (), _load),
    ),
)  # fmt: skip
