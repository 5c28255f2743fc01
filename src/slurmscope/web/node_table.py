# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes as rows: for people, for spreadsheets, and by why they are away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from slurmscope.model import Node
from slurmscope.reports import cells
from slurmscope.reports.document import FAIL, OFF, OK, RUN, WAIT, Cell, Column, Table
from slurmscope.web import map, states
from slurmscope.web.hostlist import folded
from slurmscope.web.inventory import Openable
from slurmscope.web.translation import Translation
from slurmscope.words import number, percent

_LONG = 160  # characters of the names of nodes that are away for one reason
_MOST_REASONS = 50


class Row(msgspec.Struct, frozen=True):
    cluster: str
    node: Node
    condition: str  # one of map.CONDITIONS
    jobs: int | None  # that hold it now


def level(node: Node, condition: str) -> str:
    """Which of the few shapes goes with its state."""
    if condition == states.UP:
        return RUN if node.cpus_allocated else OK
    return {states.DOWN: FAIL, states.UNKNOWN: OFF}.get(condition, WAIT)


def cpus(node: Node, t: Translation) -> Cell:
    used = map.share(node)
    told = t("{used} of {all}", used=f"{node.cpus_allocated:,}", all=f"{node.cpus_effective:,}")
    return Cell(told, node.cpus_allocated, used)


def memory(node: Node) -> Cell:
    if not node.memory:
        return Cell(cells.DASH)
    share = min(1.0, node.memory_allocated / node.memory)
    return Cell(percent(share), node.memory_allocated, share)


def gpus(node: Node, t: Translation) -> Cell:
    """`3 of 4 a100`."""
    uses = node.gpu_use()
    if not uses:
        return Cell(cells.DASH, 0)
    told = ", ".join(
        t("{used} of {all}", used=use["allocated"], all=f"{sum(use.values())} {kind}".rstrip())
        for kind, use in sorted(uses.items())
    )
    used, total = sum(use["allocated"] for use in uses.values()), sum(sum(use.values()) for use in uses.values())
    return Cell(told, used, used / total if total else None)


def load(node: Node) -> Cell:
    return Cell(cells.DASH if node.load is None else number(node.load, 2), node.load)


def _name(row: Row, may: Openable, t: Translation) -> Cell:
    name = row.node.name
    return cells.words(name, f"node:{row.cluster}/{name}" if may(row.cluster, name) else "")


def state(row: Row, t: Translation) -> Cell:
    return Cell(states.said(states.node_words(row.node), t), row.node.state, level=level(row.node, row.condition))


def reason(node: Node) -> Cell:
    return Cell(node.reason or cells.DASH, node.reason, source=(node.reason_user or "") if node.reason else "")


COLUMNS: dict[str, tuple[Column, Callable[[Row, Openable, Translation], Cell]]] = {
    one.name: (one, make)
    for one, make in (
        (Column("node", "node"), _name),
        (Column("cluster", "cluster"), lambda row, may, t: cells.words(row.cluster, f"cluster:{row.cluster}")),
        (Column("state", "state"), lambda row, may, t: state(row, t)),
        (Column("cpus", "CPUs"), lambda row, may, t: cpus(row.node, t)),
        (Column("memory", "memory"), lambda row, may, t: memory(row.node)),
        (Column("gpus", "GPUs"), lambda row, may, t: gpus(row.node, t)),
        (Column("load", "load", True), lambda row, may, t: load(row.node)),
        (Column("jobs", "jobs", True), lambda row, may, t: cells.count(row.jobs)),
        (Column("reason", "reason"), lambda row, may, t: reason(row.node)),
        (Column("since", "since"), lambda row, may, t: cells.moment(row.node.reason_time)),
        (Column("partitions", "partitions"), lambda row, may, t: cells.words(", ".join(row.node.partitions))),
        (Column("version", "version"), lambda row, may, t: cells.words(row.node.version)),
    )
}


def table(names: Sequence[str], rows: Sequence[Row], may: Openable, t: Translation, empty: str) -> Table:
    return Table(
        "nodes",
        tuple(COLUMNS[name][0] for name in names),
        tuple(tuple(COLUMNS[name][1](row, may, t) for name in names) for row in rows),
        empty=empty,
    )


# --- for spreadsheets -------------------------------------------------------------------------------------------------

_SHEET = (
    *("cluster", "node", "condition", "state", "flags", "reason", "reason_user", "reason_time"),
    *("cpus", "cpus_effective", "cpus_allocated", "memory_bytes", "memory_allocated_bytes"),
    *("gpus", "gpus_allocated", "gpu_types", "load", "jobs", "partitions", "features", "version", "boot_time"),
)


def _values(row: Row) -> tuple[str | float | None, ...]:
    """In the order of _SHEET."""
    node = row.node
    return (
        *(row.cluster, node.name, row.condition, node.state, " ".join(sorted(node.flags))),
        *(node.reason, node.reason_user, node.reason_time),
        *(node.cpus, node.cpus_effective, node.cpus_allocated, node.memory, node.memory_allocated),
        sum(node.gpus.values()),
        sum(use["allocated"] for use in node.gpu_use().values()) if node.gpus else 0,
        " ".join(sorted(node.gpus)),
        *(node.load, row.jobs, " ".join(node.partitions), " ".join(node.features), node.version, node.boot_time),
    )


def sheet(rows: Sequence[Row]) -> Table:
    """All of them, each figure in a column of its own."""
    return Table(
        "nodes",
        tuple(Column(name, name) for name in _SHEET),
        tuple(tuple([Cell("", value) for value in _values(row)]) for row in rows),
    )


# --- why they are away ------------------------------------------------------------------------------------------------


def reasons(rows: Sequence[Row], may: Openable, t: Translation) -> Table:
    """Nodes that cannot take work, those of one reason together, the most first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.condition != states.UP:
            found.setdefault((row.condition, row.node.reason or ""), []).append(row)
    most = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    left = sum(len(some) for _, some in most[_MOST_REASONS:])
    columns = (
        Column("reason", "reason"),
        Column("state", "state"),
        Column("count", "nodes", True),
        Column("which", "which"),
        Column("since", "since"),
        Column("by", "by"),
    )
    made = tuple(_away(condition, why, some, may, t) for (condition, why), some in most[:_MOST_REASONS])
    note = t("{count} more nodes are away for other reasons.", count=f"{left:,}") if left else ""
    return Table("reasons", columns, made, note, t("All of them can take work.") if rows else cells.DASH)


def _away(condition: str, why: str, rows: Sequence[Row], may: Openable, t: Translation) -> tuple[Cell, ...]:
    names = [row.node.name for row in rows]
    told = folded(names)
    # what is too long is all in the CSV
    shown = (told if len(told) <= _LONG else f"{told[:_LONG]}…").replace("],", "], ")
    clusters = {row.cluster for row in rows}
    which = Cell(shown, told, link=f"nodes:{rows[0].cluster}/{condition}" if len(clusters) == 1 else "")
    times = [row.node.reason_time for row in rows if row.node.reason_time is not None]
    by = sorted({row.node.reason_user for row in rows if row.node.reason_user})
    return (
        Cell(why or cells.DASH, why),
        Cell(t(condition), condition, level=level(rows[0].node, condition)),
        cells.count(len(rows)),
        _name(rows[0], may, t) if len(rows) == 1 else which,
        cells.moment(min(times, default=None)),
        cells.words(", ".join(by)),
    )
