# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of Mila's sinfo.py: its names and labels, with true values.

docs/compatibility.md lists every difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from slurmscope.metrics.compat.samples import Samples
from slurmscope.metrics.compat.states import word_of
from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View, gpu_type
from slurmscope.model import JOB_STATES, Node

_NO_RESERVATION = "None"


def _place(view: View, node: Node) -> str:
    return view.reserved.get(node.name, _NO_RESERVATION)


def _cpus(value: Callable[[Node], int]) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        sums = {_NO_RESERVATION: 0}
        for node in view.nodes:
            place = _place(view, node)
            sums[place] = sums.get(place, 0) + value(node)
        return (((place,), count) for place, count in sums.items())

    return samples


def _gpus(*wanted: str) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        sums: Counter[tuple[str, str]] = Counter()
        for node in view.nodes:
            place = _place(view, node)
            for kind, uses in node.gpu_use().items():
                sums[gpu_type(kind), place] += sum(uses[use] for use in wanted)
        return sums.items()

    return samples


_STATES = (
    "allocated",
    "completing",
    "idle",
    "maint",
    "mixed",
    "perfctrs",
    "power_up",
    "reserved",
    "reboot",
    "down",
    "drained",
    "draining",
    "fail",
    "failing",
    "future",
    "power_down",
    "unknown",
    "not_responding",
)
# sinfo has a character for these where sinfo.py has a word; the first that is set counts
_IDLE_WORDS = {
    "POWERED_DOWN": "power_down",
    "POWERING_DOWN": "power_down",
    "POWER_DOWN": "power_down",
    "NOT_RESPONDING": "not_responding",
    "POWERING_UP": "power_up",
}


def _state(node: Node) -> str:
    word = word_of(node)
    if word != "idle":
        return word
    return next((told for flag, told in _IDLE_WORDS.items() if flag in node.flags), word)


def _node_states(view: View) -> Iterable[Sample]:
    for node in view.nodes:
        current = _state(node)
        for state in _STATES:
            yield (node.name, state), int(state == current)
        if current not in _STATES:  # Slurm has more states by now
            yield (node.name, current), 1


NODES: Topic[View] = Topic(
    "sinfo nodes",
    "nodes",
    frozenset({"reservations"}),
    (
        Family("slurm_cpus_alloc", GAUGE, "Allocated CPUs.", ("reservation",), _cpus(lambda node: node.cpus_allocated)),
        Family("slurm_cpus_idle", GAUGE, "CPUs that a job could get now.", ("reservation",), _cpus(lambda node: node.cpus_idle)),
        Family("slurm_cpus_drain", GAUGE, "CPUs that are neither allocated nor idle, for whatever reason.", ("reservation",), _cpus(lambda node: node.cpus_other)),
        Family("slurm_cpus_total", GAUGE, "CPUs.", ("reservation",), _cpus(lambda node: node.cpus)),
        Family("slurm_gpus_alloc", GAUGE, "Allocated GPUs.", ("type", "reservation"), _gpus("allocated")),
        Family("slurm_gpus_idle", GAUGE, "GPUs that a job could get now.", ("type", "reservation"), _gpus("idle")),
        Family("slurm_gpus_drain", GAUGE, "GPUs that are neither allocated nor idle, for whatever reason.", ("type", "reservation"), _gpus("stranded", "unavailable")),
        Family("slurm_gpus_total", GAUGE, "GPUs.", ("type", "reservation"), _gpus("allocated", "idle", "stranded", "unavailable")),
        Family("slurm_node_states", GAUGE, "1 for the state that the node is in, 0 for the others.", ("name", "slurm_node_states"), _node_states),
    ),
)  # fmt: skip


def _job_states(view: View) -> Iterable[Sample]:
    sums = Counter(dict.fromkeys(JOB_STATES, 0))
    for group, amount in view.queue.groups:
        sums[group.state] += amount.jobs
    return (((state.lower(),), count) for state, count in sums.items())


def _login_nodes(view: View) -> Iterable[Sample]:
    sums: Counter[str] = Counter()
    for job in view.jobs:
        if job.login_node:
            sums[job.login_node.partition(".")[0]] += job.tasks
    # jobs are submitted from inside of jobs, too
    compute = {node.name for node in view.nodes}
    return (((name,), count) for name, count in sums.items() if name not in compute)


def _partitions(view: View) -> Iterable[Sample]:
    sums = dict.fromkeys(view.partitions, 0)
    for group, amount in view.queue.groups:
        for name in group.partition.split(","):
            sums[name] = sums.get(name, 0) + amount.jobs
    return (((name,), count) for name, count in sums.items())


JOBS: Topic[View] = Topic(
    "sinfo jobs",
    "jobs",
    frozenset({"nodes", "partitions"}),
    (
        Family("slurm_job_states", GAUGE, "Jobs by state.", ("name",), _job_states),
        Family("slurm_login_nodes", GAUGE, "Jobs by the host that they were submitted from, compute nodes left out.", ("name",), _login_nodes),
        Family("slurm_partitions", GAUGE, "Jobs by partition. A job that waits in two is counted in both.", ("name",), _partitions),
    ),
)  # fmt: skip

TOPICS: tuple[Topic[View], ...] = (NODES, JOBS)
