# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Totals of the past, as polls would have found them: means over each step, from all that changed.

A change adds to the step in which it falls by the time that is left of it, and to all later ones whole. What is kept
are the differences between steps, so that a change costs two additions, however long it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add

from slurmscope.demo.cluster import PARTITIONS, Node
from slurmscope.demo.ground import Group
from slurmscope.store.protocol import FINE, MIDDLE, Point
from slurmscope.totals import WHOLE

_MIB = 2**20
# Of each group of nodes; what else is told follows from these.
_OF_NODES = (
    *("usable", "cpus_allocated", "cpus_idle", "memory_allocated"),
    *("gpus_allocated", "gpus_idle", "gpus_stranded"),
)
_OF_JOBS = ("jobs_pending", "cpus_pending", "gpus_pending", "jobs_running")
_GPU_USES = ("allocated", "idle", "stranded", "unavailable")
Series = list[int]


class Sums:
    def __init__(self, begin: int, end: int, groups: Sequence[Group]) -> None:
        self._begin = begin
        self._steps = (end - begin) // MIDDLE
        self._groups = groups
        self._nodes: dict[Group, tuple[Series, ...]] = {group: self._new(len(_OF_NODES)) for group in groups}
        self._jobs: dict[str, tuple[Series, ...]] = {}
        self._last: dict[Node, tuple[int, ...]] = {}  # what was last added for each node
        for group in groups:
            for node in group.nodes:
                self._last[node] = (0,) * len(_OF_NODES)
                self.see(node, group, begin)

    def _new(self, count: int) -> tuple[Series, ...]:
        return tuple([0] * (self._steps + 2) for _ in range(count))

    def see(self, node: Node, group: Group, now: int) -> None:
        """A node is another from now on."""
        idle, taken = node.free_cpus, node.memory - node.free_memory
        state: tuple[int, ...]
        if group.kind.gpus:
            held, free = group.kind.gpus - node.free_gpus, node.free_gpus
            if not node.open:
                state = (0, node.cpus - idle, 0, taken, held, 0, 0)
            elif idle and node.free_memory:
                state = (1, node.cpus - idle, idle, taken, held, free, 0)
            else:
                state = (1, node.cpus - idle, idle, taken, held, 0, free)
        else:
            state = (1, node.cpus - idle, idle, taken) if node.open else (0, node.cpus - idle, 0, taken)
        last = self._last[node]
        self._last[node] = state
        at, passed = divmod(now - self._begin, MIDDLE)
        left = MIDDLE - passed
        # this is where most of the time goes: no series is touched that does not change
        for series, after, before in zip(self._nodes[group], state, last):  # noqa: B905
            if after != before:
                series[at] += (after - before) * left
                series[at + 1] += (after - before) * passed

    def count(self, partition: str, which: int, amount: int, start: int, end: int) -> None:
        """So much of one of _OF_JOBS, from start to end."""
        found = self._jobs.get(partition)
        if found is None:
            found = self._jobs[partition] = self._new(len(_OF_JOBS))
        series = found[which]
        at, passed = divmod(start - self._begin, MIDDLE)
        series[at] += amount * (MIDDLE - passed)
        series[at + 1] += amount * passed
        at, passed = divmod(end - self._begin, MIDDLE)
        series[at] -= amount * (MIDDLE - passed)
        series[at + 1] -= amount * passed

    def waited(self, partition: str, tasks: int, cpus: int, gpus: int, start: int, end: int) -> None:
        """Tasks that wanted so much each."""
        if end > start:
            self.count(partition, 0, tasks, start, end)
            self.count(partition, 1, tasks * cpus, start, end)
            if gpus:
                self.count(partition, 2, tasks * gpus, start, end)

    def ran(self, partition: str, start: int, end: int) -> None:
        self.count(partition, 3, 1, start, end)

    # --- what it comes to ---------------------------------------------------------------------------------------------

    def size(self, steps: Sequence[tuple[int, int]]) -> int:
        """How many points there will be."""
        end = self._begin + self._steps * MIDDLE
        return (1 + len(PARTITIONS)) * sum((end - since) // step for step, since in steps)

    def points(self, cluster: str, steps: Sequence[tuple[int, int]]) -> Iterator[Point]:
        """Of the whole and of each partition, at each of the steps since a time."""
        for name in sorted((WHOLE, *(one.name for one in PARTITIONS))):
            columns = self._columns(name)
            for step, since in steps:
                width = step // MIDDLE
                skipped = max(0, since - self._begin) // step
                means = [_means(column, width, skipped) for column in columns.values()]
                first = self._begin + skipped * step
                for at, values in enumerate(zip(*means, strict=True)):
                    yield Point(
                        cluster, name, step, first + at * step, step // FINE, dict(zip(columns, values, strict=True))
                    )

    def _columns(self, name: str) -> dict[str, Series]:
        """The sums of each step by the names that totals have."""
        groups = [group for group in self._groups if name in (WHOLE, *group.partitions)]
        usable, taken, idle, memory = (self._total(self._nodes[group][at] for group in groups) for at in range(4))
        cpus = sum(group.kind.cpus * len(group.nodes) for group in groups)
        other = [cpus * MIDDLE - one - two for one, two in zip(taken, idle, strict=True)]
        found = {
            "nodes": self._always(sum(len(group.nodes) for group in groups)),
            "nodes_usable": usable,
            "cpus": self._always(cpus),
            "cpus_allocated": taken,
            "cpus_idle": idle,
            "cpus_other": other,
            "memory": self._always(sum(group.kind.memory * len(group.nodes) for group in groups) * _MIB),
            "memory_allocated": [one * _MIB for one in memory],
            "gpus": self._always(sum(group.kind.gpus * len(group.nodes) for group in groups)),
        }
        kinds = sorted({group.kind.gpu for group in groups if group.kind.gpus})
        for kind in (WHOLE, *kinds) if kinds else ():
            found |= self._gpus(kind, [group for group in groups if group.kind.gpus and kind in ("", group.kind.gpu)])
        for at, value in enumerate(_OF_JOBS):
            parts = (
                series[at] for partition, series in self._jobs.items() if name == WHOLE or name in partition.split(",")
            )
            found[value] = self._total(parts)
        return found

    def _gpus(self, kind: str, groups: list[Group]) -> dict[str, Series]:
        tail = f"/{kind}" if kind else ""
        total = sum(group.kind.gpus * len(group.nodes) for group in groups)
        taken, idle, stranded = (self._total(self._nodes[group][at] for group in groups) for at in (4, 5, 6))
        away = [total * MIDDLE - one - two - three for one, two, three in zip(taken, idle, stranded, strict=True)]
        uses = dict(zip(_GPU_USES, (taken, idle, stranded, away), strict=True))
        return {f"gpus{tail}": self._always(total), **{f"gpus_{use}{tail}": series for use, series in uses.items()}}

    def _always(self, amount: int) -> Series:
        return [amount * MIDDLE] * self._steps

    def _total(self, parts: Iterable[Series]) -> Series:
        total = [0] * (self._steps + 2)
        for part in parts:
            total = list(map(add, total, part))
        return list(accumulate(total))[: self._steps]


def _means(column: Series, width: int, skipped: int) -> list[float]:
    """Over so many steps each, some of the first left out."""
    if width == 1:
        return [one / MIDDLE for one in column[skipped:]]
    return [sum(column[at : at + width]) / (width * MIDDLE) for at in range(skipped * width, len(column), width)]
