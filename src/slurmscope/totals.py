# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How many of what there are, in a cluster and in each partition, for graphs over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from slurmscope.model import HOLDING_STATES, RUNNING, WAITING_STATES, Job, Node, Snapshot

WHOLE = ""
"""The name under which the whole cluster is counted, as if it were a partition."""
Values = dict[str, float]


_NODES = (
    "nodes",
    "nodes_usable",
    "cpus",
    "cpus_allocated",
    "cpus_idle",
    "cpus_other",
    "memory",
    "memory_allocated",
)
_JOBS = ("jobs_pending", "cpus_pending", "gpus_pending", "jobs_running", "jobs_held_up")
# What is told of every partition, be it none.
_ALWAYS = ("cpus", "cpus_allocated", "gpus", "jobs_pending", "jobs_running", "cpus_pending", "gpus_pending")


def totals(snapshot: Snapshot) -> dict[str, Values]:
    """By partition. Jobs are counted as tasks, and in each partition that they wait in."""
    found: dict[str, Values] = {WHOLE: defaultdict(float)}
    for partition in snapshot.partitions.value or ():
        found[partition.name] = defaultdict(float)
    # of thousands of nodes most are in the same partitions: they are summed before they are handed out
    for partitions, sums in _of_nodes(snapshot.nodes.value or ()).items():
        _hand_out(found, partitions, sums)
    for partition_list, counts in _of_jobs(snapshot.jobs.value or ()).items():
        _hand_out(found, tuple(partition_list.split(",")), dict(zip(_JOBS, counts, strict=True)))
    for values in found.values():
        for name in _ALWAYS:
            values.setdefault(name, 0.0)
    return {name: dict(values) for name, values in found.items()}


def _hand_out(found: dict[str, Values], partitions: tuple[str, ...], sums: Mapping[str, float]) -> None:
    for name in (WHOLE, *partitions):
        values = found.setdefault(name, defaultdict(float))
        for key, amount in sums.items():
            values[key] += amount


def _of_nodes(nodes: Iterable[Node]) -> dict[tuple[str, ...], Values]:
    found: dict[tuple[str, ...], Values] = {}
    rows: dict[tuple[str, ...], list[int]] = {}
    for node in nodes:
        row = rows.get(node.partitions)
        if row is None:
            row = rows[node.partitions] = [0] * len(_NODES)
        row[0] += 1
        row[1] += node.usable
        row[2] += node.cpus
        row[3] += node.cpus_allocated
        row[4] += node.cpus_idle
        row[5] += node.cpus_other
        row[6] += node.memory
        row[7] += node.memory_allocated
        if node.gpus:
            _add_gpus(found.setdefault(node.partitions, defaultdict(float)), node)
    for partitions, row in rows.items():
        found.setdefault(partitions, {}).update(zip(_NODES, row, strict=True))
    return found


def _add_gpus(values: Values, node: Node) -> None:
    for kind, uses in node.gpu_use().items():
        total = sum(uses.values())
        values["gpus"] += total
        values[f"gpus/{kind}"] += total
        for use, count in uses.items():
            values[f"gpus_{use}"] += count
            values[f"gpus_{use}/{kind}"] += count


def _of_jobs(jobs: Iterable[Job]) -> dict[str, list[int]]:
    """By partition, as a job has it: `a,b` while it waits in several."""
    found: dict[str, list[int]] = {}
    for job in jobs:
        state = job.state
        waiting = state in WAITING_STATES
        if not waiting and state not in HOLDING_STATES:
            continue
        row = found.get(job.partition)
        if row is None:
            row = found[job.partition] = [0] * len(_JOBS)
        if waiting:
            tasks = job.tasks
            row[0] += tasks
            row[1] += tasks * job.cpus
            if job.gpus:
                row[2] += tasks * sum(job.gpus.values())
        else:
            row[3 if state == RUNNING else 4] += 1
    return found


def mean(rows: Iterable[tuple[int, Mapping[str, float]]]) -> tuple[int, Values]:
    """The mean of samples that are means themselves, of so many samples each."""
    samples = 0
    sums: Values = defaultdict(float)
    for count, values in rows:
        samples += count
        for name, value in values.items():
            sums[name] += count * value
    return samples, {name: value / samples for name, value in sums.items()}
