# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster is made of: nodes, partitions, reservations, licences."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import License, Node, Partition, Reservation
from slurmscope.slurm import values
from slurmscope.slurm.openapi.reader import (
    Number,
    Words,
    count,
    megabytes,
    minutes,
    names,
    records,
    time,
    whole,
    words,
)
from slurmscope.slurm.text import Marks, Parsed
from slurmscope.slurm.values import text


class _Node(msgspec.Struct):
    name: str
    state: Words
    cpus: Number
    real_memory: Number
    state_flags: Words = None
    partitions: Words = None
    effective_cpus: Number = None
    alloc_cpus: Number = None
    cpu_load: Number = None
    specialized_memory: Number = None
    alloc_memory: Number = None
    free_memory: Number = None  # before data_parser
    free_mem: Number = None
    tres: str | None = None
    gres: str | None = None
    gres_used: str | None = None
    weight: Number = None
    slurmd_version: str | None = None  # before data_parser
    version: str | None = None
    active_features: Words = None
    boot_time: Number = None
    reason: str | None = None
    reason_set_by_user: str | None = None
    reason_changed_at: Number = None
    sockets: Number = None
    cores: Number = None  # of a socket
    threads: Number = None


def _node(found: _Node) -> Node:
    state, flags = values.node_state("+".join([*words(found.state), *words(found.state_flags)]))
    load = whole(found.cpu_load)
    cpus, effective = count(found.cpus), whole(found.effective_cpus)
    reason = found.reason or None
    return Node(
        name=intern(found.name),
        state=state,
        flags=flags,
        partitions=tuple(words(found.partitions)),
        cpus=cpus,
        # what is kept for the system is not among the TRES
        cpus_effective=values.tres(found.tres or "").get("cpu", cpus) if effective is None else effective,
        cpus_allocated=count(found.alloc_cpus),
        load=None if load is None else load / 100,
        memory=count(found.real_memory) << 20,
        memory_reserved=megabytes(found.specialized_memory) or None,
        memory_allocated=count(found.alloc_memory) << 20,
        memory_free=megabytes(found.free_memory if found.free_mem is None else found.free_mem),
        gpus=values.gpus_of_gres(found.gres or ""),
        gpus_allocated=values.gpus_of_gres(found.gres_used or ""),
        weight=whole(found.weight),
        version=text(found.version or found.slurmd_version or ""),
        features=tuple(words(found.active_features)),
        boot_time=time(found.boot_time),
        reason=reason,
        reason_user=(found.reason_set_by_user or None) if reason else None,
        reason_time=time(found.reason_changed_at) if reason else None,
        threads_per_core=values.threads_per_core(cpus, whole(found.sockets), whole(found.cores), whole(found.threads)),
    )


def parse_nodes(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Node, ...]]:
    return records(data, "nodes", _Node, _node)


class _Nodes(msgspec.Struct, frozen=True):
    configured: str | None = None
    total: Number = None


class _Total(msgspec.Struct, frozen=True):
    total: Number = None


class _Allowed(msgspec.Struct, frozen=True):
    allowed: Words = None
    assigned: str | None = None


class _Times(msgspec.Struct, frozen=True):
    time: Number = None
    nodes: Number = None


class _Priority(msgspec.Struct, frozen=True):
    job_factor: Number = None
    tier: Number = None


class _State(msgspec.Struct, frozen=True):
    state: Words = None


class _Partition(msgspec.Struct):
    """First what is called the same in all versions, then the names before data_parser, then those since."""

    name: str
    flags: Words = None
    nodes: _Nodes | str | None = None
    qos: _Allowed | str | None = None

    allowed_accounts: str | None = None
    preemption_mode: Words = None
    default_time_limit: Number = None
    max_time_limit: Number = None
    maximum_nodes_per_job: Number = None
    priority_job_factor: Number = None
    priority_tier: Number = None
    state: Words = None
    total_cpus: Number = None
    total_nodes: Number = None

    accounts: _Allowed = _Allowed()
    cpus: _Total = _Total()
    defaults: _Times = _Times()
    maximums: _Times = _Times()
    priority: _Priority = _Priority()
    partition: _State = _State()
    preempt_mode: Words = None


def _partition(found: _Partition) -> Partition:
    flags = None if found.flags is None else {flag.upper() for flag in words(found.flags)}
    if isinstance(found.nodes, _Nodes):
        node_list, nodes, cpus = found.nodes.configured, found.nodes.total, found.cpus.total
    else:
        node_list, nodes, cpus = found.nodes, found.total_nodes, found.total_cpus
    new = isinstance(found.nodes, _Nodes)
    state = words(found.partition.state if new else found.state)
    return Partition(
        name=intern(found.name),
        state=state[0].upper() if state else "",
        default=None if flags is None else "DEFAULT" in flags,
        hidden=None if flags is None else "HIDDEN" in flags,
        node_list=text(node_list or "") or "",
        nodes=count(nodes),
        cpus=count(cpus),
        max_time=minutes(found.maximums.time if new else found.max_time_limit),
        default_time=minutes(found.defaults.time if new else found.default_time_limit) or None,
        max_nodes=whole(found.maximums.nodes if new else found.maximum_nodes_per_job),
        priority_tier=whole(found.priority.tier if new else found.priority_tier),
        priority_factor=whole(found.priority.job_factor if new else found.priority_job_factor),
        preempt_mode=_preemption(found),
        qos=text((found.qos.assigned if isinstance(found.qos, _Allowed) else found.qos) or ""),
        allow_accounts=names(found.accounts.allowed if new else found.allowed_accounts),
    )


def _preemption(found: _Partition) -> str | None:
    """As scontrol writes it: OFF, REQUEUE, `GANG,SUSPEND`. One that is the cluster's own is not told."""
    said = [_PREEMPTION.get(word.upper(), word.upper()) for word in words(found.preempt_mode or found.preemption_mode)]
    # both at once is how v0.0.37 writes one that is not set
    unset = not found.preempt_mode and set(said) == {"REQUEUE", "GANG"}
    if not said or "CLUSTER_GLOBAL" in said or unset:
        return None
    return ",".join(sorted(said, key=lambda word: word != "GANG"))


_PREEMPTION = {"DISABLED": "OFF", "GANG_SCHEDULE": "GANG"}


def parse_partitions(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Partition, ...]]:
    return records(data, "partitions", _Partition, _partition)


class _Reservation(msgspec.Struct):
    name: str
    start_time: Number
    end_time: Number
    node_count: Number
    node_list: str | None = None
    core_count: Number = None
    flags: Words = None
    partition: str | None = None
    users: Words = None
    accounts: Words = None
    licenses: str | None = None
    tres: str | None = None


def _reservation(found: _Reservation) -> Reservation:
    node_list = text(found.node_list or "") or ""
    values.hosts(node_list)  # one that cannot be taken apart later is none
    return Reservation(
        name=found.name,
        state=None,
        start_time=count(found.start_time),
        end_time=count(found.end_time),
        node_list=node_list,
        nodes=count(found.node_count),
        cores=whole(found.core_count),
        flags=names(found.flags),
        partition=text(found.partition or ""),
        users=names(found.users),
        accounts=names(found.accounts),
        licenses=text(found.licenses or ""),
        tres=values.tres(found.tres or ""),
    )


def parse_reservations(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Reservation, ...]]:
    return records(data, "reservations", _Reservation, _reservation)


class _License(msgspec.Struct, rename="pascal"):
    license_name: str
    total: Number
    used: Number
    free: Number
    reserved: Number = 0
    remote: bool = False
    nodes: str | None = None


def _license(found: _License) -> License:
    return License(
        name=found.license_name,
        total=count(found.total),
        used=count(found.used),
        free=count(found.free),
        reserved=count(found.reserved),
        remote=found.remote,
        nodes=text(found.nodes or ""),
    )


def parse_licenses(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[License, ...]]:
    return records(data, "licenses", _License, _license)
