# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of the agent itself: what it costs, what it may not read, and how what it sends fares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from slurmscope import __version__
from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic, Value
from slurmscope.sinks.sink import Tally


class AgentView(msgspec.Struct, frozen=True):
    node: str
    cgroup: str
    jobs: int
    looks: int
    seconds: float
    last_seconds: float
    time: float | None
    missed: Mapping[str, int]
    leftovers: int
    drivers: Mapping[str, bool]  # of GPUs, by name: whether they answer
    sinks: Sequence[tuple[str, Tally]]

    def known(self, part: str) -> bool:
        return True


def _one(value: Callable[[AgentView], Value]) -> Callable[[AgentView], Iterable[Sample]]:
    return lambda view: [((view.node,), value(view))]


def _sinks(value: Callable[[Tally], Value]) -> Callable[[AgentView], Iterable[Sample]]:
    return lambda view: (((view.node, name), value(tally)) for name, tally in view.sinks)


_NODE, _SINK = ("node",), ("node", "sink")

TOPIC: Topic[AgentView] = Topic(
    "the agent itself",
    None,
    frozenset(),
    (
        Family("slurm_agent_info", GAUGE, "Always 1: the agent's version, and which cgroups the host has.", ("node", "version", "cgroup"), lambda view: [((view.node, __version__, view.cgroup), 1)]),
        Family("slurm_agent_jobs", GAUGE, "Jobs on the host.", _NODE, _one(lambda view: view.jobs)),
        Family("slurm_agent_looks_total", COUNTER, "Looks at the jobs.", _NODE, _one(lambda view: view.looks)),
        Family("slurm_agent_seconds_total", COUNTER, "Time that the looks took.", _NODE, _one(lambda view: view.seconds)),
        Family("slurm_agent_last_seconds", GAUGE, "Time that the last look took.", _NODE, _one(lambda view: view.last_seconds)),
        Family("slurm_agent_timestamp_seconds", GAUGE, "When the last look was.", _NODE, _one(lambda view: view.time)),
        Family("slurm_agent_unreadable_total", COUNTER, "Files of the kernel that could not be read, by why; permission: docs/agent.md says which capabilities help.", ("node", "why"), lambda view: (((view.node, why), count) for why, count in sorted(view.missed.items()))),
        Family("slurm_agent_leftover_cgroups", GAUGE, "Cgroups of jobs in which there is no process: an epilog clears them.", _NODE, _one(lambda view: view.leftovers)),
        Family("slurm_agent_gpu_driver_up", GAUGE, "1 if the driver of GPUs answered at the last look.", ("node", "driver"), lambda view: (((view.node, name), int(up)) for name, up in sorted(view.drivers.items()))),
        Family("slurm_agent_sink_up", GAUGE, "1 if what was last sent was taken. Absent until something was sent.", _SINK, _sinks(lambda one: None if one.up is None else int(one.up))),
        Family("slurm_agent_sink_sent_total", COUNTER, "What was taken.", _SINK, _sinks(lambda one: one.sent)),
        Family("slurm_agent_sink_failures_total", COUNTER, "Tries to send that came to nothing.", _SINK, _sinks(lambda one: one.failures)),
        Family("slurm_agent_sink_waiting", GAUGE, "What waits to be sent.", _SINK, _sinks(lambda one: one.queued)),
        Family("slurm_agent_sink_lost_total", COUNTER, "What was never taken: it waited for too long, or was refused.", _SINK, _sinks(lambda one: one.dropped + one.rejected)),
    ),
)  # fmt: skip
