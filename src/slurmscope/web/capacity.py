# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster has, and what of it is used, free, stranded or unavailable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from slurmscope.model import Node
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Table
from slurmscope.web.stack import stack
from slurmscope.web.translation import Translation
from slurmscope.words import number, size


class Resource(msgspec.Struct, frozen=True):
    """Used, free, stranded and unavailable are all of it, always."""

    name: str  # CPUs, memory, nodes, or a type of GPU
    kind: str  # cpu, memory, node, gpu
    used: float
    free: float
    stranded: float
    unavailable: float

    @property
    def total(self) -> float:
        return self.used + self.free + self.stranded + self.unavailable

    @property
    def share(self) -> float | None:
        return self.used / self.total if self.total else None

    @property
    def amounts(self) -> tuple[float, float, float, float]:
        return self.used, self.free, self.stranded, self.unavailable

    def bar(self, t: Translation) -> str:
        return stack(self.amounts, t, self.words)

    def words(self, value: float) -> str:
        return size(value) if self.kind == "memory" else number(value)


def capacity(nodes: Iterable[Node]) -> list[Resource]:
    """CPUs, memory, GPUs by type, the most numerous first, and nodes."""
    there = list(nodes)
    cpus = Resource(
        "CPUs",
        "cpu",
        sum(one.cpus_allocated for one in there),
        sum(one.cpus_idle for one in there),
        0,
        sum(one.cpus_other for one in there),
    )
    memory = Resource(
        "memory",
        "memory",
        sum(one.memory_allocated for one in there),
        sum(one.memory_idle for one in there),
        0,
        sum(one.memory_other for one in there),
    )
    return [cpus, memory, *gpus(there), _nodes(there)] if there else []


def _nodes(nodes: Sequence[Node]) -> Resource:
    """One that is used and takes no more work is unavailable."""
    usable = [one for one in nodes if one.usable]
    used = sum(bool(one.cpus_allocated) for one in usable)
    return Resource("nodes", "node", used, len(usable) - used, 0, len(nodes) - len(usable))


def together(clusters: Iterable[Sequence[Resource]]) -> list[Resource]:
    """Of several clusters; what has one name is one thing."""
    sums: dict[tuple[str, str], list[float]] = {}
    for resources in clusters:
        for one in resources:
            row = sums.setdefault((one.kind, one.name), [0.0, 0.0, 0.0, 0.0])
            for at, value in enumerate(one.amounts):
                row[at] += value
    order = ("cpu", "memory", "gpu", "node")
    found = [Resource(name, kind, *row) for (kind, name), row in sums.items()]
    return sorted(found, key=lambda one: (order.index(one.kind), -one.total, one.name))


def busy(resources: Iterable[Resource]) -> float | None:
    """The share of CPUs that jobs have."""
    return next((one.share for one in resources if one.kind == "cpu"), None)


def stranded_gpus(resources: Iterable[Resource]) -> float:
    return sum(one.stranded for one in resources if one.kind == "gpu")


def datum(resource: Resource) -> dict[str, str | float]:
    """For scripts."""
    names = ("name", "kind", "used", "free", "stranded", "unavailable", "total")
    return {name: getattr(resource, name) for name in names}


def gpus(nodes: Iterable[Node]) -> list[Resource]:
    sums: dict[str, list[int]] = {}
    for node in nodes:
        for kind, uses in node.gpu_use().items():
            row = sums.setdefault(kind, [0, 0, 0, 0])
            for at, name in enumerate(("allocated", "idle", "stranded", "unavailable")):
                row[at] += uses[name]
    found = [Resource(kind or "GPU", "gpu", *row) for kind, row in sums.items()]
    return sorted(found, key=lambda one: (-one.total, one.name))


def table(resources: Sequence[Resource], t: Translation) -> Table:
    columns = (
        Column("resource", ""),
        *(Column(name, name, True) for name in ("used", "free", "stranded", "unavailable", "all")),
    )
    rows = tuple(
        (
            Cell(one.name if one.kind == "gpu" else t(one.name), one.name),
            *(Cell(one.words(value) if value else cells.DASH, value) for value in (*one.amounts, one.total)),
        )
        for one in resources
    )
    return Table("resources", columns, rows, empty=t("No node has been seen yet."))
