# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The charts of a job: what it used over time, on each node and on each core."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from slurmscope.findings.case import Case
from slurmscope.reports.document import Bars, Chart, Heat, HeatRow, Level, Series
from slurmscope.summary import Moment, NodeLines, NodeSummary
from slurmscope.words import listed, minute, rounded

_GIB, _MIB = 1 << 30, 1 << 20
_EXPECTED = 0.8  # of the CPUs that it asked for should be busy
_MOST_NODES = 48
_MOST_GAPS = 3

Value = Callable[[Moment], float | None]


def charts(case: Case) -> list[Chart]:
    """Over time, of what was measured."""
    life = case.life
    memory = [] if life.memory is None else [Level(f"asked {rounded(life.memory / _GIB, 4)} GiB", life.memory / _GIB)]
    cpus = [Level(f"asked {life.cpus}", float(life.cpus))]
    if life.cpus > 1:
        cpus.append(Level(f"80 %: {rounded(life.cpus * _EXPECTED, 4)}", life.cpus * _EXPECTED))
    made = [
        _chart(case, "cpu", "CPU, cores busy", "cores", lambda one: one.cpu, cpus),
        _chart(case, "memory", "Memory", "GiB", lambda one: _scaled(one.memory, _GIB), memory),
        _chart(case, "gpu", _gpu_title(case), "%", lambda one: _scaled(one.gpu, 0.01), [], ceiling=100.0),
        _chart(case, "gpu_memory", "GPU memory", "GiB", lambda one: _scaled(one.gpu_memory, _GIB), _gpu_memory(case)),
        _chart(case, "gpu_power", "GPU power", "W", lambda one: one.gpu_power, []),
        _chart(case, "read", "Read", "MiB/s", lambda one: _scaled(one.read, _MIB), []),
        _chart(case, "written", "Written", "MiB/s", lambda one: _scaled(one.written, _MIB), []),
    ]
    return [one for one in made if one is not None]


def _gpu_title(case: Case) -> str:
    return "GPU" if case.gpus <= 1 else f"GPU, mean of {case.gpus}"


def _gpu_memory(case: Case) -> list[Level]:
    total = case.efficiency.gpu_memory.asked
    return [] if total is None else [Level(f"there {rounded(total / _GIB, 4)} GiB", total / _GIB)]


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _chart(
    case: Case, name: str, title: str, unit: str, value: Value, levels: Sequence[Level], ceiling: float | None = None
) -> Chart | None:
    values = tuple(value(one) for one in case.line)
    if all(one is None for one in values):
        return None
    times = tuple(one.time for one in case.line)
    step = case.step or (0 if case.summary is None else case.summary.step)
    return Chart(
        name,
        title,
        unit,
        times,
        step,
        (Series(title, values),),
        tuple(levels),
        _gaps(times, values, step, case.now),
        ceiling,
    )


def _gaps(times: Sequence[int], values: Sequence[float | None], step: int, now: int) -> str:
    """What was not measured between the first and the last value, in words."""
    told = [at for at, value in enumerate(values) if value is not None]
    gaps: list[tuple[int, int]] = []
    for at in range(told[0], told[-1]):
        if values[at] is None:
            if gaps and gaps[-1][1] == times[at]:
                gaps[-1] = gaps[-1][0], times[at] + step
            else:
                gaps.append((times[at], times[at] + step))
    if not gaps:
        return ""
    spans = [f"{minute(start, now)} to {minute(end, now)}" for start, end in gaps[:_MOST_GAPS]]
    more = f" and {len(gaps) - _MOST_GAPS} more times" if len(gaps) > _MOST_GAPS else ""
    return f"Not measured from {listed(spans)}{more}."


# --- by node and core -------------------------------------------------------------------------------------------------


def bars(case: Case) -> list[Bars]:
    nodes = () if case.summary is None else case.summary.nodes[:_MOST_NODES]
    many = len(nodes) > 1
    left = 0 if case.summary is None else len(case.summary.nodes) - len(nodes)
    made = [
        _by_node(nodes, "cpu_by_node", "CPU by node", "cores", _mean_cores, _cores(nodes)) if many else None,
        _by_node(nodes, "memory_by_node", "Memory by node, at its most", "GiB", _memory_peak, ()) if many else None,
        _modes(nodes),
        _cores_of(nodes),
    ]
    note = f"Of the first {_MOST_NODES} of {_MOST_NODES + left} nodes." if left else ""
    return [msgspec.structs.replace(one, note=note) for one in made if one is not None]


def _mean_cores(node: NodeSummary) -> float | None:
    return None if node.cpu_seconds is None or not node.seconds else node.cpu_seconds / node.seconds


def _memory_peak(node: NodeSummary) -> float | None:
    return _scaled(node.memory_peak, _GIB)


def _cores(nodes: Sequence[NodeSummary]) -> tuple[Level, ...]:
    asked = {node.cpus for node in nodes}
    return (Level(f"asked {nodes[0].cpus}", float(nodes[0].cpus)),) if len(asked) == 1 and nodes[0].cpus else ()


def _by_node(
    nodes: Sequence[NodeSummary],
    name: str,
    title: str,
    unit: str,
    value: Callable[[NodeSummary], float | None],
    levels: tuple[Level, ...],
) -> Bars | None:
    values = tuple(value(node) for node in nodes)
    if all(one is None for one in values):
        return None
    return Bars(name, title, unit, tuple(node.node for node in nodes), (Series(title, values),), levels)


def _modes(nodes: Sequence[NodeSummary]) -> Bars | None:
    """User against system time: a program that is in the kernel for long moves data, or waits for locks."""
    told = [node for node in nodes if node.user_seconds is not None and node.system_seconds is not None]
    if not told:
        return None
    user = Series("user", tuple(_scaled(node.user_seconds, 3600) for node in told))
    system = Series("system", tuple(_scaled(node.system_seconds, 3600) for node in told))
    return Bars("modes", "User and system time", "CPU-hours", tuple(node.node for node in told), (user, system))


def _cores_of(nodes: Sequence[NodeSummary]) -> Bars | None:
    found = [
        (f"{node.node} {core}" if len(nodes) > 1 else str(core), seconds / 3600)
        for node in nodes
        for core, seconds in sorted((node.core_seconds or {}).items())
    ]
    if not found:
        return None
    return Bars(
        "cores",
        "CPU time by core",
        "hours",
        tuple(label for label, _ in found),
        (Series("CPU time", tuple(hours for _, hours in found)),),
    )


# --- node by node -----------------------------------------------------------------------------------------------------


def heat(lines: NodeLines, nodes: int) -> Heat:
    """How busy the cores were that a job could use on each of its `nodes`."""
    rows = tuple(HeatRow(one.node, tuple(_share(value, one.cpus) for value in one.cpu)) for one in lines.nodes)
    left = nodes - len(rows)
    note = f"Of {len(rows)} of its {nodes} nodes." if left > 0 else ""
    return Heat("nodes", "", "of its cores busy", _times(lines), lines.step, rows, note)


def node_chart(lines: NodeLines, name: str) -> Chart | None:
    """The cores busy on one node; None where nothing is known of it."""
    found = next((one for one in lines.nodes if one.node == name), None)
    if found is None:
        return None
    levels = () if found.cpus is None else (Level(f"there {found.cpus}", float(found.cpus)),)
    return Chart(
        "cpu_of_node",
        f"CPU of {name}, cores busy",
        "cores",
        _times(lines),
        lines.step,
        (Series(name, found.cpu),),
        levels,
    )


def _times(lines: NodeLines) -> tuple[int, ...]:
    most = max((len(one.cpu) for one in lines.nodes), default=0)
    return tuple(lines.start + at * lines.step for at in range(most))


def _share(cores: float | None, cpus: int | None) -> float | None:
    return None if cores is None or not cpus else min(1.0, cores / cpus)
