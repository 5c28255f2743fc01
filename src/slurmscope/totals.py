# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How many of what there are, in a cluster and in each partition, for graphs over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from slurmscope.model import RUNNING, Job, Node, Snapshot

WHOLE = ""
"""The name under which the whole cluster is counted, as if it were a partition."""
Values = dict[str, float]


def totals(snapshot: Snapshot) -> dict[str, Values]:
    """By partition. Jobs are counted as tasks, and in each partition that they wait in."""
    found: dict[str, Values] = defaultdict(lambda: defaultdict(float))
    for partition in snapshot.partitions.value or ():
        found[partition.name]  # also those with nothing in them
    for node in snapshot.nodes.value or ():
        amounts = _of_node(node)
        for name in (WHOLE, *node.partitions):
            _add(found[name], amounts)
    for job in snapshot.jobs.value or ():
        amounts = _of_job(job)
        if amounts:
            for name in (WHOLE, *job.partitions):
                _add(found[name], amounts)
    every = ("jobs_pending", "jobs_running", "cpus_pending", "gpus_pending", "cpus", "cpus_allocated", "gpus")
    for values in found.values():
        for name in every:
            values.setdefault(name, 0.0)
    return {name: dict(values) for name, values in found.items()}


def _add(values: Values, amounts: Iterable[tuple[str, float]]) -> None:
    for name, amount in amounts:
        values[name] += amount


def _of_node(node: Node) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = [
        ("nodes", 1),
        ("nodes_usable", node.usable),
        ("cpus", node.cpus),
        ("cpus_allocated", node.cpus_allocated),
        ("cpus_idle", node.cpus_idle),
        ("cpus_other", node.cpus_other),
        ("memory", node.memory),
        ("memory_allocated", node.memory_allocated),
    ]
    for kind, uses in node.gpu_use().items() if node.gpus else ():
        total = sum(uses.values())
        found += [("gpus", total), (f"gpus/{kind}", total)]
        for use, count in uses.items():
            found += [(f"gpus_{use}", count), (f"gpus_{use}/{kind}", count)]
    return found


def _of_job(job: Job) -> list[tuple[str, float]]:
    if job.waiting:
        gpus = sum(job.gpus.values())
        return [("jobs_pending", job.tasks), ("cpus_pending", job.tasks * job.cpus), ("gpus_pending", job.tasks * gpus)]
    if job.holding:
        return [("jobs_running" if job.state == RUNNING else "jobs_held_up", 1)]
    return []


def mean(rows: Iterable[tuple[int, Mapping[str, float]]]) -> tuple[int, Values]:
    """The mean of samples that are means themselves, of so many samples each."""
    samples = 0
    sums: Values = defaultdict(float)
    for count, values in rows:
        samples += count
        for name, value in values.items():
            sums[name] += count * value
    return samples, {name: value / samples for name, value in sums.items()}
