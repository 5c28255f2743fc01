# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of vpenso/prometheus-slurm-exporter: its names, labels and units, with true values.

docs/compatibility.md lists every difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.compat.samples import Samples, capped, micros, of_scheduler
from slurmscope.metrics.compat.states import word_of
from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import Amount, View
from slurmscope.model import HOLDING_STATES, PENDING, RUNNING, SUSPENDED, WAITING_STATES, Node

_MEGABYTE = 2**20

# --- nodes ----------------------------------------------------------------------------------------------------


def _sum(value: Callable[[Node], int]) -> Samples:
    return lambda view: [((), sum(value(node) for node in view.nodes))]


def _gpus(node: Node, *wanted: str) -> int:
    return sum(count for uses in node.gpu_use().values() for use, count in uses.items() if use in wanted)


def _gpus_in_use(view: View) -> Iterable[Sample]:
    total = sum(sum(node.gpus.values()) for node in view.nodes)
    # a part of nothing is not a number
    return [((), sum(_gpus(node, "allocated") for node in view.nodes) / total)] if total else ()


def _each(value: Callable[[Node], int]) -> Samples:
    return lambda view: (((node.name, word_of(node)), value(node)) for node in view.nodes)


def _in(*words: str) -> Samples:
    return _sum(lambda node: word_of(node) in words)


_NODE = ("node", "status")

NODES: Topic[View] = Topic(
    "vpenso nodes",
    "nodes",
    frozenset(),
    (
        Family("slurm_cpus_alloc", GAUGE, "Allocated CPUs.", (), _sum(lambda node: node.cpus_allocated)),
        Family("slurm_cpus_idle", GAUGE, "CPUs that a job could get now.", (), _sum(lambda node: node.cpus_idle)),
        Family("slurm_cpus_other", GAUGE, "CPUs that are neither allocated nor idle.", (), _sum(lambda node: node.cpus_other)),
        Family("slurm_cpus_total", GAUGE, "CPUs.", (), _sum(lambda node: node.cpus)),
        Family("slurm_gpus_alloc", GAUGE, "Allocated GPUs.", (), _sum(lambda node: _gpus(node, "allocated"))),
        Family("slurm_gpus_idle", GAUGE, "GPUs that a job could get now.", (), _sum(lambda node: _gpus(node, "idle"))),
        Family("slurm_gpus_total", GAUGE, "GPUs.", (), _sum(lambda node: sum(node.gpus.values()))),
        Family("slurm_gpus_utilization", GAUGE, "Allocated GPUs as a part of all.", (), _gpus_in_use),
        Family("slurm_node_cpu_alloc", GAUGE, "The node's allocated CPUs.", _NODE, _each(lambda node: node.cpus_allocated)),
        Family("slurm_node_cpu_idle", GAUGE, "The node's CPUs that a job could get now.", _NODE, _each(lambda node: node.cpus_idle)),
        Family("slurm_node_cpu_other", GAUGE, "The node's CPUs that are neither allocated nor idle.", _NODE, _each(lambda node: node.cpus_other)),
        Family("slurm_node_cpu_total", GAUGE, "The node's CPUs.", _NODE, _each(lambda node: node.cpus)),
        Family("slurm_node_mem_alloc", GAUGE, "The node's allocated memory in MiB.", _NODE, _each(lambda node: node.memory_allocated // _MEGABYTE)),
        Family("slurm_node_mem_total", GAUGE, "The node's memory in MiB.", _NODE, _each(lambda node: node.memory // _MEGABYTE)),
        Family("slurm_nodes_alloc", GAUGE, "Allocated nodes.", (), _in("allocated")),
        Family("slurm_nodes_comp", GAUGE, "Completing nodes.", (), _in("completing")),
        Family("slurm_nodes_down", GAUGE, "Nodes that are down.", (), _in("down")),
        Family("slurm_nodes_drain", GAUGE, "Nodes that are drained or draining.", (), _in("drained", "draining")),
        Family("slurm_nodes_err", GAUGE, "Nodes in error.", (), _in("error")),
        Family("slurm_nodes_fail", GAUGE, "Nodes that fail or are failing.", (), _in("fail", "failing")),
        Family("slurm_nodes_idle", GAUGE, "Idle nodes, those that are planned for a job included.", (), _in("idle", "planned")),
        Family("slurm_nodes_maint", GAUGE, "Nodes in maintenance.", (), _in("maint")),
        Family("slurm_nodes_mix", GAUGE, "Nodes of which some CPUs are allocated.", (), _in("mixed")),
        Family("slurm_nodes_resv", GAUGE, "Idle nodes in a reservation.", (), _in("reserved")),
    ),
)  # fmt: skip


def _partition(value: Callable[[Node], int]) -> Samples:
    return lambda view: (((name,), sum(value(node) for node in nodes)) for name, nodes in view.nodes_of.items())


PARTITIONS: Topic[View] = Topic(
    "vpenso partitions",
    "nodes",
    frozenset({"partitions"}),
    (
        Family("slurm_partition_cpus_allocated", GAUGE, "Allocated CPUs of the partition's nodes.", ("partition",), _partition(lambda node: node.cpus_allocated)),
        Family("slurm_partition_cpus_idle", GAUGE, "CPUs of the partition's nodes that a job could get now.", ("partition",), _partition(lambda node: node.cpus_idle)),
        Family("slurm_partition_cpus_other", GAUGE, "CPUs of the partition's nodes that are neither allocated nor idle.", ("partition",), _partition(lambda node: node.cpus_other)),
        Family("slurm_partition_cpus_total", GAUGE, "CPUs of the partition's nodes.", ("partition",), _partition(lambda node: node.cpus)),
    ),
)  # fmt: skip

# --- jobs -----------------------------------------------------------------------------------------------------

_OWN_NAME = frozenset({RUNNING, SUSPENDED, "COMPLETING", "CONFIGURING"})


def _folded(state: str) -> str:
    """The state that a job is counted under. A job that waits again is pending, one that is being resized or
    signalled runs: squeue prints the lesser state in place of the one that counts."""
    if state in WAITING_STATES:
        return PENDING
    return RUNNING if state in HOLDING_STATES - _OWN_NAME else state


def _queued(state: str, reason: str | None = None) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        counts = (
            amount.jobs
            for group, amount in view.queue.groups
            if _folded(group.state) == state and (reason is None or group.reason == reason)
        )
        return [((), sum(counts))]

    return samples


def _pending(view: View) -> Iterable[Sample]:
    sums = dict.fromkeys(view.partitions, 0)
    for group, amount in view.queue.groups:
        if _folded(group.state) == PENDING:
            for name in group.partition.split(","):
                sums[name] = sums.get(name, 0) + amount.jobs
    return (((name,), count) for name, count in sums.items())


def _of(family: str, field: str, state: str, value: Callable[[Amount], int]) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        found = capped(view, family, field)
        sums = dict.fromkeys((who for who, _ in found), 0)
        for (who, seen), amount in found.items():
            if _folded(seen) == state:
                sums[who] += value(amount)
        return (((who,), count) for who, count in sums.items())

    return samples


def _whose(label: str) -> tuple[Family[View], ...]:
    """The four quantities of accounts and of users."""

    def family(what: str, told: str, state: str, value: Callable[[Amount], int]) -> Family[View]:
        named = f"slurm_{label}_{what}"
        return Family(named, GAUGE, told, (label,), _of(named, label, state, value))

    return (
        family("jobs_pending", f"Jobs of the {label} that wait.", PENDING, lambda one: one.jobs),
        family("jobs_running", f"Jobs of the {label} that run.", RUNNING, lambda one: one.jobs),
        family("cpus_running", f"CPUs of the {label}'s jobs that run.", RUNNING, lambda one: one.cpus),
        family("jobs_suspended", f"Jobs of the {label} that are suspended.", SUSPENDED, lambda one: one.jobs),
    )


QUEUE: Topic[View] = Topic(
    "vpenso queue",
    "jobs",
    frozenset({"partitions"}),
    (
        Family("slurm_queue_pending", GAUGE, "Jobs that wait.", (), _queued(PENDING)),
        Family("slurm_queue_pending_dependency", GAUGE, "Jobs that wait for another job.", (), _queued(PENDING, "Dependency")),
        Family("slurm_queue_running", GAUGE, "Jobs that run.", (), _queued(RUNNING)),
        Family("slurm_queue_suspended", GAUGE, "Jobs that are suspended.", (), _queued(SUSPENDED)),
        Family("slurm_queue_cancelled", GAUGE, "Jobs that were cancelled, for MinJobAge.", (), _queued("CANCELLED")),
        Family("slurm_queue_completing", GAUGE, "Jobs that are completing.", (), _queued("COMPLETING")),
        Family("slurm_queue_completed", GAUGE, "Jobs that completed, for MinJobAge.", (), _queued("COMPLETED")),
        Family("slurm_queue_configuring", GAUGE, "Jobs that wait for their nodes to be ready.", (), _queued("CONFIGURING")),
        Family("slurm_queue_failed", GAUGE, "Jobs that failed, for MinJobAge.", (), _queued("FAILED")),
        Family("slurm_queue_timeout", GAUGE, "Jobs that ran into their time limit, for MinJobAge.", (), _queued("TIMEOUT")),
        Family("slurm_queue_preempted", GAUGE, "Jobs that were preempted, for MinJobAge.", (), _queued("PREEMPTED")),
        Family("slurm_queue_node_fail", GAUGE, "Jobs that a node's failure ended, for MinJobAge.", (), _queued("NODE_FAIL")),
        Family("slurm_partition_jobs_pending", GAUGE, "Jobs that wait in a partition. A job that waits in two is counted in both.", ("partition",), _pending),
        *_whose("account"),
        *_whose("user"),
    ),
)  # fmt: skip

# --- sdiag and sshare -----------------------------------------------------------------------------------------

SCHEDULER: Topic[View] = Topic(
    "vpenso scheduler",
    "scheduler",
    frozenset(),
    (
        Family("slurm_scheduler_threads", GAUGE, "Threads of slurmctld that are busy with an RPC.", (), of_scheduler(lambda one: one.threads)),
        Family("slurm_scheduler_queue_size", GAUGE, "Messages to nodes that wait to be sent: the agents' queue, not the scheduler's.", (), of_scheduler(lambda one: one.agent_queue)),
        Family("slurm_scheduler_dbd_queue_size", GAUGE, "Messages that wait for slurmdbd.", (), of_scheduler(lambda one: one.dbd_queue)),
        Family("slurm_scheduler_last_cycle", GAUGE, "How long the main scheduler's last cycle took, in microseconds.", (), of_scheduler(lambda one: micros(one.main.last_seconds))),
        Family("slurm_scheduler_mean_cycle", GAUGE, "The main scheduler's mean cycle, in microseconds.", (), of_scheduler(lambda one: micros(one.main.mean_seconds))),
        Family("slurm_scheduler_cycle_per_minute", GAUGE, "Cycles of the main scheduler per minute.", (), of_scheduler(lambda one: one.main.per_minute)),
        Family("slurm_scheduler_backfill_last_cycle", GAUGE, "How long the backfill scheduler's last cycle took, in microseconds.", (), of_scheduler(lambda one: micros(one.backfill.last_seconds))),
        Family("slurm_scheduler_backfill_mean_cycle", GAUGE, "The backfill scheduler's mean cycle, in microseconds.", (), of_scheduler(lambda one: micros(one.backfill.mean_seconds))),
        Family("slurm_scheduler_backfill_depth_mean", GAUGE, "Jobs that a backfill cycle looked at, in the mean.", (), of_scheduler(lambda one: one.backfill.mean_depth)),
        Family("slurm_scheduler_backfilled_jobs_since_start_total", GAUGE, "Jobs started by backfill since slurmctld started.", (), of_scheduler(lambda one: one.backfill_more.jobs_since_start)),
        Family("slurm_scheduler_backfilled_jobs_since_cycle_total", GAUGE, "Jobs started by backfill since the statistics began.", (), of_scheduler(lambda one: one.backfill_more.jobs_since_cycle)),
        Family("slurm_scheduler_backfilled_heterogeneous_total", GAUGE, "Components of heterogeneous jobs started by backfill since slurmctld started.", (), of_scheduler(lambda one: one.backfill_more.het_components)),
    ),
)  # fmt: skip


def _fair_shares(view: View) -> Iterable[Sample]:
    return (((one.account,), one.fair_share) for one in view.snapshot.shares.value or () if one.user is None)


SHARES: Topic[View] = Topic(
    "vpenso shares",
    "shares",
    frozenset(),
    (
        Family("slurm_account_fairshare", GAUGE, "The fair-share factor of an account, where Slurm computes one.", ("account",), _fair_shares),
    ),
)  # fmt: skip

TOPICS: tuple[Topic[View], ...] = (NODES, PARTITIONS, QUEUE, SCHEDULER, SHARES)
