# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Against slurmctld's own OpenMetrics pages: every quantity that both have is equal in the same second.

`WITHOUT` lists the ones that have no counterpart here, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from lab.cluster import Lab
from lab.page import Page, at_one_moment, page_of

Labels = Mapping[str, str]
Counterpart = Callable[[Page, Labels], float]
MIB = 2**20
PAGES = ("nodes", "jobs", "partitions", "jobs-users-accts", "scheduler")

# What slurmctld calls a state of a job, and what squeue calls it.
JOB_STATES = {
    "bootfail": "boot_fail",
    "cancelled": "cancelled",
    "completed": "completed",
    "completing": "completing",
    "configuring": "configuring",
    "deadline": "deadline",
    "expediting": "expediting",
    "failed": "failed",
    "fed_requeued": "requeue_fed",
    "node_failed": "node_fail",
    "outofmemory": "out_of_memory",
    "pending": "pending",
    "powerup_node": "power_up_node",
    "preempted": "preempted",
    "requeued": "requeued",
    "resizing": "resizing",
    "revoked": "revoked",
    "running": "running",
    "signaling": "signaling",
    "stageout": "stage_out",
    "suspended": "suspended",
    "timeout": "timeout",
}
FINISHED = (
    "boot_fail",
    "cancelled",
    "completed",
    "deadline",
    "failed",
    "node_fail",
    "out_of_memory",
    "preempted",
    "timeout",
)
NODE_STATES = {
    "alloc": "allocated",
    "down": "down",
    "future": "future",
    "idle": "idle",
    "mixed": "mixed",
    "unknown": "unknown",
}
NODE_FLAGS = {
    "blocked": "blocked",
    "completing": "completing",
    "cg": "completing",
    "cloud": "cloud",
    "drain": "drain",
    "dyn_future": "dynamic_future",
    "dyn_normal": "dynamic_norm",
    "external": "external",
    "fail": "fail",
    "invalid_reg": "invalid_reg",
    "maint": "maint",
    "noresp": "not_responding",
    "no_resp": "not_responding",
    "planned": "planned",
    "power_down": "power_down",
    "power_up": "power_up",
    "powered_down": "powered_down",
    "powering_down": "powering_down",
    "powering_up": "powering_up",
    "reboot_issued": "reboot_issued",
    "reboot_req": "reboot_requested",
    "reboot_requested": "reboot_requested",
    "resv": "reserved",
}


def summed(name: str, scale: float = 1, **fixed: str) -> Counterpart:
    """The sum of our series `name` with these labels and those of the native series, in units of `scale`."""

    def value(page: Page, labels: Labels) -> float:
        return page.sum(name, **fixed, **{OUR_LABEL.get(key, key): one for key, one in labels.items()}) / scale

    return value


OUR_LABEL = {"username": "user"}


def plus(*parts: Counterpart) -> Counterpart:
    return lambda page, labels: sum(part(page, labels) for part in parts)


def job_counterparts(native: str, ours: str) -> dict[str, Counterpart]:
    found = {f"{native}_{word}": summed(f"{ours}_jobs", state=state) for word, state in JOB_STATES.items()}
    found[f"{native}_finished"] = plus(*(summed(f"{ours}_jobs", state=state) for state in FINISHED))
    # a suspended job keeps its allocation; of memory the name says bytes and the value is in MiB
    for quantity, family, unit in (("cpus", "cpus", 1), ("gpus", "gpus", 1), ("memory", "memory_bytes", MIB)):
        found[f"{native}_{quantity}_alloc"] = plus(
            *(summed(f"{ours}_{family}", unit, state=state) for state in ("running", "suspended"))
        )
    return found


def drain_with(*states: str) -> Counterpart:
    def value(page: Page, labels: Labels) -> float:
        counts = page.by("slurm_cluster_nodes", "state", "flags")
        return sum(count for (state, flags), count in counts.items() if state in states and "drain" in flags.split("+"))

    return value


def held(page: Page, labels: Labels) -> float:
    reasons = page.by("slurm_queue_pending_jobs", "reason", **labels)
    return sum(count for (reason,), count in reasons.items() if reason in ("JobHeldUser", "JobHeldAdmin"))


def kept(page: Page, labels: Labels) -> float:
    """Less what n3 keeps for the system (CoreSpecCount in the lab's slurm.conf), which is `other` here."""
    return -2.0 if labels.get("node") == "n3" or labels.get("partition") in ("main", "all") else 0.0


def node_counterparts() -> dict[str, Counterpart]:
    found = {
        "slurm_node_cpus": summed("slurm_node_cpus_by_use"),
        "slurm_node_cpus_alloc": summed("slurm_node_cpus_by_use", use="allocated"),
        # what is idle on a drained node is idle there and `other` here
        "slurm_node_cpus_idle": plus(
            summed("slurm_node_cpus_by_use", use="idle"), summed("slurm_node_cpus_by_use", use="other"), kept
        ),
        "slurm_node_gpus": summed("slurm_node_gpus_by_use"),
        "slurm_node_gpus_alloc": summed("slurm_node_gpus_by_use", use="allocated"),
        "slurm_node_memory_bytes": summed("slurm_node_memory_by_use_bytes", MIB),
        "slurm_node_memory_alloc_bytes": summed("slurm_node_memory_by_use_bytes", MIB, use="allocated"),
        "slurm_node_memory_free_bytes": summed("slurm_node_memory_os_free_bytes", MIB),
        "slurm_nodes": summed("slurm_cluster_nodes"),
        # a node that has not registered again after a restart is of an unknown state
        "slurm_nodes_drained": drain_with("idle", "down", "unknown"),
        "slurm_nodes_draining": drain_with("allocated", "mixed"),
    }
    for word, state in NODE_STATES.items():
        found[f"slurm_nodes_{word}"] = summed("slurm_cluster_nodes", state=state)
    for word, flag in NODE_FLAGS.items():
        found[f"slurm_nodes_{word}"] = summed("slurm_cluster_nodes_flagged", flag=flag)
    return found


def partition_counterparts() -> dict[str, Counterpart]:
    found = job_counterparts("slurm_partition_jobs", "slurm_partition_queue")
    found |= {
        "slurm_partitions": summed("slurm_partition_state"),
        "slurm_partition_jobs_hold": held,
        "slurm_partition_cpus": summed("slurm_partition_cpus_by_use"),
        "slurm_partition_gpus": summed("slurm_partition_gpus_by_use"),
        "slurm_partition_nodes": summed("slurm_partition_nodes_by_state"),
        "slurm_partition_nodes_cpus_alloc": summed("slurm_partition_cpus_by_use", use="allocated"),
        "slurm_partition_nodes_cpus_idle": plus(
            summed("slurm_partition_cpus_by_use", use="idle"), summed("slurm_partition_cpus_by_use", use="other"), kept
        ),
        "slurm_partition_nodes_mem_alloc": summed("slurm_partition_memory_by_use_bytes", MIB, use="allocated"),
        "slurm_partition_nodes_mem_tot": summed("slurm_partition_memory_by_use_bytes", MIB),
    }
    for word, state in NODE_STATES.items():
        found[f"slurm_partition_nodes_{word}"] = summed("slurm_partition_nodes_by_state", state=state)
    for word, flag in NODE_FLAGS.items():
        found[f"slurm_partition_nodes_{word}"] = summed("slurm_partition_nodes_flagged", flag=flag)
    return found


MICRO = 1e-6


def scheduler_counterparts() -> dict[str, Counterpart]:
    found: dict[str, Counterpart] = {
        "slurm_agent_cnt": summed("slurm_scheduler_agents"),
        "slurm_agent_queue_size": summed("slurm_scheduler_agent_queue_length"),
        "slurm_agent_thread_cnt": summed("slurm_scheduler_agent_threads"),
        "slurm_slurmdbd_queue_size": summed("slurm_scheduler_dbd_queue_length"),
        "slurm_backfilled_jobs": summed("slurm_scheduler_backfilled_jobs_total"),
        "slurm_backfilled_het_jobs": summed("slurm_scheduler_backfilled_het_components_total"),
        "slurm_last_backfilled_jobs": summed("slurm_scheduler_backfilled_jobs_since_reset"),
        "slurm_bf_when_last_cycle": summed("slurm_scheduler_backfill_last_timestamp_seconds"),
        "slurm_bf_last_depth": summed("slurm_scheduler_backfill_last_depth"),
        "slurm_bf_last_depth_try": summed("slurm_scheduler_backfill_last_depth_tried"),
        "slurm_bf_try_depth_mean": summed("slurm_scheduler_backfill_depth_tried_mean"),
        "slurm_bf_queue_len_mean": summed("slurm_scheduler_backfill_queue_length_mean"),
        "slurm_bf_table_size": summed("slurm_scheduler_backfill_table_size"),
        "slurm_bf_mean_table_sz": summed("slurm_scheduler_backfill_table_size_mean"),
        "slurm_sdiag_job_states_ts": summed("slurm_scheduler_counted_timestamp_seconds"),
        "slurm_last_proc_req_start": summed("slurm_scheduler_statistics_timestamp_seconds"),
    }
    for event in ("canceled", "completed", "failed", "started", "submitted"):
        found[f"slurm_sdiag_jobs_{event}"] = summed("slurm_scheduler_job_events_total", event=event)
    for state in ("pending", "running"):
        found[f"slurm_sdiag_jobs_{state}"] = summed("slurm_scheduler_counted_jobs", state=state)
    for word, which in (("schedule", "main"), ("bf", "backfill")):
        found[f"slurm_{word}_cycle_cnt"] = summed("slurm_scheduler_cycles_total", scheduler=which)
        found[f"slurm_{word}_cycle_last"] = summed("slurm_scheduler_cycle_last_seconds", MICRO, scheduler=which)
        found[f"slurm_{word}_cycle_max"] = summed("slurm_scheduler_cycle_max_seconds", MICRO, scheduler=which)
        found[f"slurm_{word}_queue_len"] = summed("slurm_scheduler_queue_length", scheduler=which)
    found["slurm_sched_mean_cycle"] = summed("slurm_scheduler_cycle_mean_seconds", MICRO, scheduler="main")
    found["slurm_bf_mean_cycle"] = summed("slurm_scheduler_cycle_mean_seconds", MICRO, scheduler="backfill")
    found["slurm_sched_mean_depth_cycle"] = summed("slurm_scheduler_cycle_depth_mean", scheduler="main")
    found["slurm_bf_depth_mean"] = summed("slurm_scheduler_cycle_depth_mean", scheduler="backfill")
    exits = {
        "sched": (
            "main",
            {
                "end": "End of job queue",
                "max_depth": "Hit default_queue_depth",
                "max_job_start": "Hit sched_max_job_start",
                "lic": "Blocked on licenses",
                "rpc_cnt": "Hit max_rpc_cnt",
                "timeout": "Timeout (max_sched_time)",
            },
        ),
        "bf": (
            "backfill",
            {
                "end": "End of job queue",
                "max_job_start": "Hit bf_max_job_start",
                "max_job_test": "Hit bf_max_job_test",
                "state_changed": "System state changed",
                "table_limit": "Hit table size limit (bf_node_space_size)",
                "timeout": "Timeout (bf_max_time)",
            },
        ),
    }
    for word, (which, reasons) in exits.items():
        for native, reason in reasons.items():
            found[f"slurm_{word}_exit_{native}"] = summed("slurm_scheduler_exits_total", scheduler=which, reason=reason)
    return found


COUNTERPARTS: dict[str, Counterpart] = {
    **node_counterparts(),
    **job_counterparts("slurm_jobs", "slurm_queue"),
    "slurm_jobs": summed("slurm_queue_jobs"),
    # nodes, however many jobs share them
    "slurm_jobs_nodes_alloc": plus(*(summed("slurm_cluster_nodes", state=one) for one in ("allocated", "mixed"))),
    **partition_counterparts(),
    **job_counterparts("slurm_user_jobs", "slurm_user_queue"),
    **job_counterparts("slurm_account_jobs", "slurm_account_queue"),
    **scheduler_counterparts(),
}

_NO_SUMS = "sdiag's text, which is what is read, has the mean and the count but no sum"
_RECORDS = "it counts an array's waiting rest as one job here and as its tasks in the states beside it"
_SHARED_NODES = "a node that two of a user's jobs share counts once there and for each of them here"
_STARTED = "jobs that have a start time in whatever state; here the states are told apart"
_SIZES = "the largest node count that a waiting job asks for; no question that Prometheus is asked"
_EFFECTIVE = "total less what the system keeps; here that is in `other`, and allocated + idle on a usable node"
_ITSELF = "it is of the moment of the question, and asking changes it"
_CROSSED = "states and flags are crossed for the whole cluster only; a partition tells each by itself"
WITHOUT = {
    "slurm_node_cpus_effective": _EFFECTIVE,
    "slurm_node_memory_effective_bytes": _EFFECTIVE,
    "slurm_partition_nodes_cpus_efctv": _EFFECTIVE,
    "slurm_partition_nodes_mem_avail": _EFFECTIVE,
    "slurm_partition_nodes_mem_free": "the kernels' free memory summed up; it is told for each node",
    "slurm_partition_nodes_drained": _CROSSED,
    "slurm_partition_nodes_draining": _CROSSED,
    "slurm_partition_jobs": _RECORDS,
    "slurm_user_jobs": _RECORDS,
    "slurm_account_jobs": _RECORDS,
    "slurm_user_jobs_nodes_alloc": _SHARED_NODES,
    "slurm_account_jobs_nodes_alloc": _SHARED_NODES,
    "slurm_jobs_started": _STARTED,
    "slurm_partition_jobs_started": _STARTED,
    "slurm_user_jobs_started": _STARTED,
    "slurm_account_jobs_started": _STARTED,
    "slurm_jobs_hold": "held jobs are told by partition and reason, where one that waits in two counts in both",
    "slurm_user_jobs_hold": "reasons are told by partition, not by user",
    "slurm_account_jobs_hold": "reasons are told by partition, not by account",
    "slurm_partition_jobs_max_job_nodes": _SIZES,
    "slurm_partition_jobs_max_job_nodes_nohold": _SIZES,
    "slurm_partition_jobs_min_job_nodes": _SIZES,
    "slurm_partition_jobs_min_job_nodes_nohold": _SIZES,
    "slurm_partition_jobs_wait_part_node_limit": 'slurm_queue_pending_jobs{reason="PartitionNodeLimit"} has it',
    "slurm_schedule_cycle_depth": _NO_SUMS,
    "slurm_schedule_cycle_tot": _NO_SUMS,
    "slurm_bf_cycle_tot": _NO_SUMS,
    "slurm_bf_depth_tot": _NO_SUMS,
    "slurm_bf_depth_try_tot": _NO_SUMS,
    "slurm_bf_queue_len_tot": _NO_SUMS,
    "slurm_bf_table_size_tot": _NO_SUMS,
    "slurm_bf_active": "sdiag's text has it only as a remark in a heading",
    "slurm_server_thread_cnt": _ITSELF,
    "slurm_sched_stats_timestamp": _ITSELF,
    "slurm_sdiag_latency": "it is measured anew for each question",
}


def native_samples(lab: Lab, pages: tuple[str, ...]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for name in pages:
        for metric, samples in Page(lab.native(name)).samples.items():
            for labels, value in samples:
                if metric not in WITHOUT:
                    found[metric, tuple(sorted(labels.items()))] = value
    return found


@pytest.fixture
def native(lab: Lab) -> Lab:
    if lab.generation != "26.05":
        pytest.skip(f"Slurm {lab.generation} has no pages of its own")
    return lab


def test_every_native_quantity_has_a_counterpart_or_a_reason(native: Lab) -> None:
    there = {name for page in PAGES for name in Page(native.native(page)).samples}
    known = set(COUNTERPARTS) | set(WITHOUT)
    assert there - known == set()
    assert set(WITHOUT) - there == set(), "nothing is excused that is not there"
    assert set(COUNTERPARTS).isdisjoint(WITHOUT)


@pytest.mark.parametrize("page", PAGES)
def test_equal_in_the_same_second(native: Lab, page: str) -> None:
    ask = lambda: native_samples(native, (page,))  # noqa: E731
    theirs, ours = at_one_moment(ask, lambda: page_of(native.bin))
    different = {}
    for (name, labels), value in theirs.items():
        here = COUNTERPARTS[name](ours, dict(labels))
        # slurmctld counts a job that waits in several partitions in one of them, we in each
        if name == "slurm_partition_jobs_pending" and here - waiting_elsewhere(native, dict(labels)) == value:
            continue
        # … and an array that was cancelled while it waited once, where we count its tasks, as squeue -r shows them
        if name.endswith(("_cancelled", "_finished")) and here - cancelled_tasks(native, dict(labels)) == value:
            continue
        if round(here, 6) != value:
            different[name, labels] = f"slurmctld says {value:g}, we say {here:g}"
    assert different == {}
    assert len(theirs) > 20


def cancelled_tasks(lab: Lab, labels: Labels) -> int:
    """Tasks of arrays that were cancelled while they waited, less one for each of these."""
    columns = {"partition": "%P", "username": "%u", "account": "%a"}
    which = [(columns[name], value) for name, value in labels.items()]
    counts = []
    for expanded in (("-r",), ()):
        argv = ("squeue", "-h", "-a", *expanded, "-t", "CA", "-o", "|".join(["%i", *(column for column, _ in which)]))
        rows = [line.split("|")[1:] for line in lab.run(*argv).stdout.decode().splitlines()]
        counts.append(sum(row == [value for _, value in which] for row in rows))
    return counts[0] - counts[1]


def waiting_elsewhere(lab: Lab, labels: Labels) -> int:
    """Jobs that wait in this partition and in others too."""
    lists = lab.run("squeue", "-h", "-r", "-t", "PD", "-a", "-o", "%P").stdout.decode().split()
    return sum("," in partitions and labels["partition"] in partitions.split(",") for partitions in lists)
