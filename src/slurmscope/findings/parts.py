# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What each node of a job did, and each of its cores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Limits
from slurmscope.summary import NodeSummary
from slurmscope.words import listed

_NAMED = 5  # nodes; of more, the number is told
_TOUCHED = 0.05  # the most that a GPU was busy, for it to have done no work
_STRAY = 0.05  # of its time that a job may have spent on other cores, before it was confined to its own


class Part(msgspec.Struct, frozen=True):
    """Of one node, of the time that was measured there."""

    node: str
    cpus: float  # that the job has there
    seconds: float
    cpu_seconds: float
    gpus: int
    gpu: float | None  # mean utilisation of its GPUs there; None: there are none, or nobody told of all of them

    @property
    def share(self) -> float:
        """Of the time of its CPUs there."""
        return self.cpu_seconds / (self.cpus * self.seconds)


def parts(case: Case) -> list[Part]:
    """Of the nodes of which it is known."""
    return [one for node in (case.summary.nodes if case.summary else ()) if (one := _part(case, node)) is not None]


def untold(case: Case, limits: Limits) -> str | None:
    """Where a rule needs to know of every node. One that nobody told of may have done anything."""
    if (missing := common.unmeasured(case, limits)) is not None:
        return missing
    told = [one for one in parts(case) if one.seconds >= limits["least_coverage"] * case.seconds]
    return "what each of its nodes did" if len(told) < case.life.nodes else None


def threads(case: Case) -> int | None:
    """The most that it had on each of its nodes, together; None where a node did not tell."""
    told = [one.threads_peak for one in (case.summary.nodes if case.summary else ()) if one.threads_peak is not None]
    return sum(told) if told and len(told) >= case.life.nodes else None


def cores(case: Case) -> list[float] | None:
    """The share of its time that each core of the job was busy; None where that is not known of all of them."""
    nodes = case.summary.nodes if case.summary else ()
    found: list[float] = []
    for node in nodes:
        if node.core_seconds is None or not node.cpus or not node.seconds or len(node.core_seconds) < node.cpus:
            return None
        used = sorted(node.core_seconds.values(), reverse=True)
        if sum(used[node.cpus :]) > _STRAY * sum(used):
            return None  # it is not confined: which cores are its own nobody can say
        found += [one / node.seconds for one in used[: node.cpus]]
    return found if len(nodes) >= case.life.nodes and found else None


def cores_untold(case: Case, limits: Limits) -> str | None:
    missing = common.unmeasured(case, limits)
    return missing or ("how busy each of its cores was" if cores(case) is None else None)


def unused_gpus_beside(case: Case, nodes: Sequence[str]) -> bool:
    """Whether its other nodes have GPUs that nothing ran on. Programs touch each GPU when they start."""
    told = [one.peak for one in (case.summary.gpus if case.summary else ()) if one.node not in nodes]
    return any(peak is not None and peak <= _TOUCHED for peak in told)


def named(nodes: Sequence[str]) -> str:
    """n1, n2 and 14 more"""
    more = len(nodes) - _NAMED
    return listed(list(nodes) if more <= 1 else [*nodes[: _NAMED - 1], f"{more + 1:,} more"])


def _part(case: Case, node: NodeSummary) -> Part | None:
    cpus = node.cpus or case.life.cpus / max(1, case.life.nodes)
    # where no process of it ever was, Slurm 26.05 makes no group in which time is counted
    used = 0.0 if node.cpu_seconds is None and node.processes_peak == 0 else node.cpu_seconds
    if used is None or node.seconds <= 0 or cpus <= 0:
        return None
    held = [gpu.mean for gpu in (case.summary.gpus if case.summary else ()) if gpu.node == node.node]
    told = [mean for mean in held if mean is not None]
    gpu = sum(told) / len(told) if told and len(told) == len(held) else None
    return Part(node.node, float(cpus), node.seconds, used, len(held), gpu)
