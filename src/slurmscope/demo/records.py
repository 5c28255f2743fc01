# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulation's jobs, nodes, partitions and reservations in the terms of the model."""

from __future__ import annotations

from slurmscope import model
from slurmscope.demo import jobs
from slurmscope.demo.cluster import LICENCES, PARTITIONS, Fault, Node, folded, reservations
from slurmscope.demo.jobs import Job
from slurmscope.demo.simulation import Simulation
from slurmscope.slurm.values import exit_code, hosts

VERSION = "24.11.5"
_MIB = 2**20
_PROLOG = 4  # seconds that the nodes of a larger job are made ready


def all_jobs(simulation: Simulation) -> tuple[model.Job, ...]:
    found = [*simulation.holding.values(), *simulation.queue, *simulation.finished]
    return tuple(job_record(job, simulation.now) for job in sorted(found, key=lambda one: one.id))


def job_record(job: Job, now: int) -> model.Job:
    ask = job.ask
    waits = job.state == jobs.PENDING
    state, start, end = job.state, job.start, job.end
    if waits and job.estimate is not None:
        start = max(job.estimate, now)
        end = start + ask.limit
    elif state == jobs.RUNNING:
        end = job.deadline
        if now < (start or 0) + _PROLOG and (ask.nodes > 1 or ask.gpus):
            state = "CONFIGURING"
    return model.Job(
        id=job.id,
        array_id=job.array_id,
        array_tasks=_tasks(job),
        tasks=job.tasks,
        name=job.name,
        user=job.user.name,
        account=job.user.account,
        partition=job.partition,
        qos=job.qos,
        state=state,
        reason=job.reason,
        priority=job.priority,
        submit_time=job.submit,
        eligible_time=job.eligible,
        start_time=start,
        end_time=end,
        time_limit=ask.limit,
        cpus=job.cpus,
        memory=ask.memory * ask.nodes * _MIB,
        gpus={job.nodes[0].kind.gpu if job.nodes else ask.gpu: job.gpus} if ask.gpus else {},
        nodes=ask.nodes,
        node_list=folded(job.nodes),
        reservation=ask.reservation,
        dependency=_dependency(job),
        features=ask.feature,
        licenses=None if ask.licence is None else f"{ask.licence[0]}:{ask.licence[1]}",
        login_node=job.user.login,
        restarts=job.restarts,
        exit_code=exit_code(str(job.exit_code)),
    )


def _tasks(job: Job) -> str | None:
    if job.array_id is None:
        return None
    span = str(job.first) if job.tasks == 1 else f"{job.first}-{job.last}"
    return f"{span}%{job.throttle}" if job.throttle and job.tasks > 1 else span


def _dependency(job: Job) -> str | None:
    if job.after is None:
        return None
    over = job.after.state not in (jobs.PENDING, jobs.RUNNING, jobs.COMPLETING)
    return f"afterok:{job.after.id}({'failed' if over else 'unfulfilled'})"


def all_nodes(simulation: Simulation) -> tuple[model.Node, ...]:
    return tuple(node_record(node, simulation.now) for node in simulation.machine.nodes)


def _state(node: Node) -> str:
    if node.fault is not None and node.fault.state in (Fault.DOWN, Fault.REBOOT_ISSUED):
        return "DOWN"
    if not node.free_cpus:
        return "ALLOCATED"
    return "MIXED" if node.jobs else "IDLE"


def _flags(node: Node) -> frozenset[str]:
    flags: set[str] = set()
    if node.fault is not None:
        flags.update(FAULT_FLAGS[node.fault.state])
        if node.fault.reason == "Not responding":
            flags.add("NOT_RESPONDING")
    if node.maintained:
        flags.add("MAINT")
    if node.reservation is not None:
        flags.add("RESERVED")
    if node.planned and node.open and node.free_cpus:
        flags.add("PLANNED")
    if any(job.state == jobs.COMPLETING for job in node.jobs):
        flags.add("COMPLETING")
    return frozenset(flags)


FAULT_FLAGS = {
    Fault.DRAIN: ("DRAIN",),
    Fault.DOWN: (),
    Fault.REBOOT_REQUESTED: ("DRAIN", "REBOOT_REQUESTED"),  # asked for "as soon as possible"
    Fault.REBOOT_ISSUED: ("DRAIN", "REBOOT_ISSUED"),
}


def _noise(node: Node, now: int) -> float:
    """Something between 0 and 1 that changes from time to time, on each node at another moment."""
    return ((now + 7 * node.index) // 30 * 104_729 + node.index * 7919) % 1009 / 1009


def node_record(node: Node, now: int) -> model.Node:
    kind, fault, state, noise = node.kind, node.fault, _state(node), _noise(node, now)
    busy = sum(job.ask.cpus * job.efficiency for job in node.jobs)
    touched = sum(job.ask.memory * job.touched for job in node.jobs)
    alive = state != "DOWN"
    return model.Node(
        name=node.name,
        state=state,
        flags=_flags(node),
        partitions=node.partitions,
        cpus=kind.cpus,
        cpus_effective=node.cpus,
        cpus_allocated=node.cpus - node.free_cpus,
        load=round(busy * (0.96 + 0.06 * noise) + 0.3 * noise, 2) if alive else None,
        memory=kind.memory * _MIB,
        memory_reserved=kind.system_memory * _MIB,
        memory_allocated=(node.memory - node.free_memory) * _MIB,
        memory_free=int((kind.memory - 0.6 * kind.system_memory - touched) * (0.9 + 0.05 * noise)) * _MIB
        if alive
        else None,
        gpus={kind.gpu: kind.gpus} if kind.gpus else {},
        gpus_allocated={kind.gpu: kind.gpus - node.free_gpus} if node.free_gpus < kind.gpus else {},
        weight=kind.weight,
        version=VERSION,
        features=kind.features,
        boot_time=node.boot_time,
        reason=fault.reason if fault else None,
        reason_user=fault.user if fault else None,
        reason_time=fault.since if fault else None,
        threads_per_core=1,
    )


def all_partitions(simulation: Simulation) -> tuple[model.Partition, ...]:
    by_name = simulation.machine.by_name
    found = []
    for one in PARTITIONS:
        members = [by_name[name] for name in hosts(one.node_list)]
        found.append(
            model.Partition(
                name=one.name,
                state="UP",
                default=one.default,
                hidden=False,
                node_list=one.node_list,
                nodes=len(members),
                cpus=sum(node.kind.cpus for node in members),
                max_time=one.max_time,
                default_time=one.default_time,
                max_nodes=None,
                priority_tier=one.tier,
                priority_factor=one.factor,
                preempt_mode="OFF",
                qos=one.qos,
                allow_accounts=(),
            )
        )
    return tuple(found)


def all_reservations(simulation: Simulation) -> tuple[model.Reservation, ...]:
    by_name, now = simulation.machine.by_name, simulation.now
    found = []
    for one in reservations(now):
        members = [by_name[name] for name in hosts(one.node_list)]
        cores = sum(node.kind.cpus for node in members)
        found.append(
            model.Reservation(
                name=one.name,
                state="ACTIVE" if one.start <= now else "INACTIVE",
                start_time=one.start,
                end_time=one.end,
                node_list=one.node_list,
                nodes=len(members),
                cores=cores,
                flags=one.flags,
                partition=None,
                users=one.users,
                accounts=one.accounts,
                licenses=None,
                tres={"cpu": cores},
            )
        )
    return tuple(found)


def all_licenses(simulation: Simulation) -> tuple[model.License, ...]:
    used = simulation.limits.licences()
    return tuple(
        model.License(one.name, one.total, used[one.name], one.total - used[one.name], 0, one.remote)
        for one in LICENCES
    )
