# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What could start this moment, by partition and by type of GPU; the same nodes count as in the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slurmscope.metrics.view import View, gpu_type
from slurmscope.model import Node
from slurmscope.reports import cells
from slurmscope.reports.document import Column, Table
from slurmscope.web.translation import Translation


class Free(msgspec.Struct, frozen=True):
    """Of GPUs of one type."""

    most: int  # on one node
    total: int
    nodes: int  # that have some


class Room(msgspec.Struct, frozen=True):
    """Of a partition: on nodes with a CPU and memory to spare that no reservation holds."""

    partition: str
    nodes: int
    idle_nodes: int  # of these, with nothing on them
    most_cpus: int  # on one node
    cpus: int
    most_memory: int
    memory: int
    gpus: dict[str, Free]


def rooms(view: View) -> list[Room]:
    return [
        Room(
            partition=name,
            nodes=len(nodes),
            idle_nodes=sum(not one.cpus_allocated for one in nodes),
            most_cpus=max((one.cpus_idle for one in nodes), default=0),
            cpus=sum(one.cpus_idle for one in nodes),
            most_memory=max((one.memory_idle for one in nodes), default=0),
            memory=sum(one.memory_idle for one in nodes),
            gpus=free_gpus(nodes),
        )
        for name, nodes in view.startable.items()
    ]


def whole(view: View) -> list[Node]:
    """The nodes of all partitions that have room, each once."""
    return list({one.name: one for nodes in view.startable.values() for one in nodes}.values())


def free_gpus(nodes: Iterable[Node]) -> dict[str, Free]:
    """By type, those of which there are the most first; none of a type of which none is free."""
    counts: dict[str, list[int]] = {}
    for node in nodes:
        if node.gpus:
            for kind, uses in node.gpu_use().items():
                if uses["idle"]:
                    counts.setdefault(gpu_type(kind), []).append(uses["idle"])
    found = {kind: Free(max(some), sum(some), len(some)) for kind, some in counts.items()}
    return dict(sorted(found.items(), key=lambda one: (-one[1].total, one[0])))


def table(found: Sequence[Room], t: Translation) -> Table:
    columns = [
        Column("partition", "partition"),
        Column("nodes", "nodes with room", True),
        Column("idle_nodes", "all free", True),
        Column("most_cpus", "CPUs on one", True),
        Column("cpus", "CPUs in all", True),
        Column("most_memory_bytes", "memory on one", True),
        Column("memory_bytes", "memory in all", True),
    ]
    with_gpus = any(one.gpus for one in found)
    if with_gpus:
        columns.append(Column("gpus", "GPUs in all"))
    rows = [
        (
            cells.words(one.partition),
            cells.count(one.nodes),
            cells.count(one.idle_nodes),
            cells.count(one.most_cpus),
            cells.count(one.cpus),
            cells.bytes_(one.most_memory),
            cells.bytes_(one.memory),
            *([cells.words(_told(one, t))] if with_gpus else []),
        )
        for one in found
    ]
    note = t("On nodes with a CPU and memory to spare that no reservation holds.")
    return Table("can_start", tuple(columns), tuple(rows), note if rows else "", t("No partition has been seen yet."))


def _told(room: Room, t: Translation) -> str:
    return ", ".join(
        t("{count} {type} ({most} on one)", count=f"{free.total:,}", type=kind, most=f"{free.most:,}")
        for kind, free in room.gpus.items()
    )


def gpu_table(free: Mapping[str, Free], t: Translation) -> Table:
    columns = (
        Column("type", "type"),
        Column("free", "can start now", True),
        Column("most", "on one node", True),
        Column("nodes", "nodes", True),
    )
    rows = tuple(
        (cells.words(kind), cells.count(one.total), cells.count(one.most), cells.count(one.nodes))
        for kind, one in free.items()
    )
    return Table("gpus_can_start", columns, rows, empty=t("No GPU is free beside a free CPU."))
