# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The machine that jobs run on, as far as judging them needs it: what a node has, what a core's fair share is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.slurm.values import hosts

_ROOM = 0.8  # of a node's memory that jobs are packed into
_ALL = 0.9  # of a node's memory: whoever has so much has all of it, as nodes are set up


def node_names(life: Life) -> tuple[str, ...]:
    """Those that it has, or had; none where what Slurm told is no list of hosts."""
    try:
        return hosts(life.node_list)
    except ValueError:
        return ()


class Ground:
    """The nodes of a cluster as they were last seen."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._largest: dict[str, int | None] = {}  # memory of a node, by partition, as it was asked for

    @cached_property
    def _partitions(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self._nodes.values():
            for name in node.partitions:
                found.setdefault(name, []).append(node)
        return found

    def _largest_in(self, partition: str) -> int | None:
        if partition not in self._largest:
            self._largest[partition] = _largest(self.nodes_in(partition))
        return self._largest[partition]

    def nodes_of(self, life: Life) -> Sequence[Node]:
        """Those that it has, or had, and that are known."""
        return [self._nodes[name] for name in node_names(life) if name in self._nodes]

    def nodes_in(self, partition: str) -> Sequence[Node]:
        return self._partitions.get(partition, ())

    def full(self, life: Life) -> bool | None:
        """Whether it has all CPUs of its nodes; None where these are not known."""
        found = self.nodes_of(life)
        if not found or len(found) < life.nodes:
            return None
        return life.cpus >= sum(node.cpus_effective for node in found)

    def whole(self, life: Life) -> bool:
        """Whether it has its nodes to itself, as far as is known: all their CPUs, and about all of their memory."""
        if not self.full(life):
            return False
        return life.memory is None or life.memory >= _ALL * sum(_memory(node) for node in self.nodes_of(life))

    def largest(self, life: Life) -> int | None:
        """The most memory that a node of its partitions has for jobs; None where no node there is known."""
        found = [_largest(self.nodes_of(life)), *(self._largest_in(name) for name in life.partitions)]
        return max((one for one in found if one is not None), default=None)

    def cores(self, life: Life) -> int | None:
        """Its CPUs counted as cores, of the nodes with the most threads a core; None where these are not known."""
        threads = [node.threads_per_core for node in self.nodes_of(life)]
        if not threads or len(threads) < life.nodes or None in threads:
            return None
        return math.ceil(life.cpus / max(1, *filter(None, threads)))

    def fair_memory(self, life: Life) -> float | None:
        """Bytes a CPU: what each has where all are given out. Of the leanest of its nodes; else of its partition's."""
        found = self.nodes_of(life) or [node for name in life.partitions for node in self.nodes_in(name)]
        return min((_memory(node) / node.cpus for node in found if node.memory and node.cpus), default=None)

    def gpu_nodes(self, life: Life) -> Sequence[Node]:
        """Its nodes that have GPUs."""
        return [node for node in self.nodes_of(life) if node.gpus]

    def per_gpu(self, life: Life) -> tuple[float, float] | None:
        """CPUs and bytes a GPU: what each has where all are given out. Of the leanest of its nodes with GPUs."""
        shares = [
            (node.cpus_effective / count, _memory(node) / count)
            for node in self.gpu_nodes(life)
            if (count := sum(node.gpus.values())) and node.cpus_effective and node.memory
        ]
        return (min(cpus for cpus, _ in shares), min(size for _, size in shares)) if shares else None

    def fewest(self, life: Life, memory: float) -> int | None:
        """Nodes that its CPUs, its GPUs and so many bytes would fit on, each like its smallest one; None: unknown."""
        found = self.nodes_of(life)
        if not found or len(found) < life.nodes:
            return None
        gpus = sum(life.gpus.values())
        wanted = [
            (life.cpus, min(node.cpus_effective for node in found)),
            (memory, _ROOM * min(_memory(node) for node in found)),
            *([(gpus, min(_gpus(node, life) for node in found))] if gpus else []),
        ]
        if any(size <= 0 for _, size in wanted):
            return None
        return max(1, *(math.ceil(count / size) for count, size in wanted))

    def gpu_types(self, life: Life) -> frozenset[str]:
        """All that there are in its partitions."""
        return frozenset(kind for name in life.partitions for node in self.nodes_in(name) for kind in node.gpus)


def _memory(node: Node) -> int:
    """That jobs can have."""
    return max(0, node.memory - (node.memory_reserved or 0))


def _largest(nodes: Iterable[Node]) -> int | None:
    return max((_memory(node) for node in nodes if node.memory), default=None)


def _gpus(node: Node, life: Life) -> int:
    """Of the types that it has; of all where it asked for none."""
    typed = sum(count for kind, count in node.gpus.items() if kind in life.gpus)
    return typed or sum(node.gpus.values())
