# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes, partitions and reservations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import Node, Partition, Reservation
from slurmscope.slurm import values
from slurmscope.slurm.probe import NEW_API, OLD_API
from slurmscope.slurm.pyslurm.reader import (
    Answer,
    Number,
    Words,
    gpus,
    joined,
    licenses,
    mebibytes,
    names,
    number,
    opened,
    rows,
    scaled,
    time,
)
from slurmscope.slurm.text import Malformed, Marks, Parsed
from slurmscope.slurm.values import MINUTE


class _OldNode(msgspec.Struct):
    name: str
    state: str
    cpus: int
    alloc_cpus: int
    real_memory: int
    alloc_mem: int
    partitions: Words = None
    core_spec_cnt: int | None = None
    threads: int | None = None
    cpu_load: Number = None  # hundredths
    mem_spec_limit: Number = None
    free_mem: Number = None
    gres: Words = None
    gres_used: Words = None
    weight: Number = None
    version: str | None = None
    features_active: Words = None
    boot_time: Number = None
    reason: str | None = None
    reason_uid: int | None = None
    reason_time: Number = None
    sockets: Number = None
    cores_per_socket: Number = None


class _NewNode(msgspec.Struct):
    name: str
    state: str
    total_cpus: int
    allocated_cpus: int
    real_memory: int
    allocated_memory: int
    partitions: Words = None
    effective_cpus: int | None = None
    cpu_load: Number = None
    memory_reserved_for_system: Number = None
    free_memory: Number = None
    configured_gres: dict[str, Any] | None = None
    allocated_gres: dict[str, Any] | None = None
    weight: Number = None
    slurm_version: str | None = None
    active_features: Words = None
    boot_time: Number = None
    reason: str | None = None
    reason_user: str | None = None
    reason_time: Number = None
    sockets: Number = None
    cores_per_socket: Number = None
    threads_per_core: Number = None


def _old_node(key: str, one: _OldNode, answer: Answer) -> Node:
    state, flags = values.node_state(one.state)
    load = number(one.cpu_load)
    return Node(
        name=intern(one.name),
        state=state,
        flags=flags,
        partitions=names(one.partitions),
        cpus=one.cpus,
        cpus_effective=one.cpus - (one.core_spec_cnt or 0) * (one.threads or 1),
        cpus_allocated=one.alloc_cpus,
        load=None if load is None else load / 100,
        memory=one.real_memory << 20,
        memory_reserved=mebibytes(one.mem_spec_limit) or None,
        memory_allocated=one.alloc_mem << 20,
        memory_free=mebibytes(one.free_mem),
        gpus=values.gpus_of_gres(joined(one.gres) or ""),
        gpus_allocated=values.gpus_of_gres(joined(one.gres_used) or ""),
        weight=number(one.weight),
        version=one.version,
        features=names(one.features_active),
        boot_time=time(one.boot_time),
        reason=one.reason,
        reason_user=answer.user(one.reason_uid) if one.reason else None,
        reason_time=time(one.reason_time),
        threads_per_core=values.threads_per_core(
            one.cpus, number(one.sockets), number(one.cores_per_socket), one.threads
        ),
    )


def _new_node(key: str, one: _NewNode, answer: Answer) -> Node:
    state, flags = values.node_state(one.state)
    effective = one.total_cpus if one.effective_cpus is None else one.effective_cpus
    # before 23.2.3 and 23.11 the new API knows no MIXED: slurmctld leaves it to whoever asks to work that out
    if state == "ALLOCATED" and 0 < one.allocated_cpus < effective:
        state = "MIXED"
    return Node(
        name=intern(one.name),
        state=state,
        flags=flags,
        partitions=names(one.partitions),
        cpus=one.total_cpus,
        cpus_effective=effective,
        cpus_allocated=one.allocated_cpus,
        load=None if one.cpu_load is None else float(one.cpu_load),
        memory=one.real_memory << 20,
        memory_reserved=mebibytes(one.memory_reserved_for_system),
        memory_allocated=one.allocated_memory << 20,
        memory_free=mebibytes(one.free_memory),
        gpus=gpus(one.configured_gres),
        gpus_allocated=gpus(one.allocated_gres),
        weight=number(one.weight),
        version=one.slurm_version,
        features=names(one.active_features),
        boot_time=time(one.boot_time),
        reason=one.reason,
        reason_user=one.reason_user if one.reason else None,
        reason_time=time(one.reason_time),
        threads_per_core=values.threads_per_core(
            one.total_cpus, number(one.sockets), number(one.cores_per_socket), number(one.threads_per_core)
        ),
    )


_TELLS_TAKEN = (23, 2, 3)  # and 23.11.0, which is later than that in all respects


def parse_nodes(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Node, ...]]:
    parsed = rows(data, {OLD_API: _OldNode, NEW_API: _NewNode}, {OLD_API: _old_node, NEW_API: _new_node})
    answer = opened(data)
    release = tuple(map(int, re.findall(r"\d+", answer.pyslurm)[:3]))
    # all of them would seem to be free
    if answer.api == NEW_API and release < _TELLS_TAKEN and any(node.gpus for node in parsed.value):
        raise Malformed(f"the new API of PySlurm {answer.pyslurm} does not tell which GPUs are taken")
    return parsed


# --- partitions -----------------------------------------------------------------------------------------------


class _OldFlags(msgspec.Struct, frozen=True):
    default: int = msgspec.field(name="Default", default=0)
    hidden: int = msgspec.field(name="Hidden", default=0)


class _OldPartition(msgspec.Struct):
    name: str
    total_nodes: int
    total_cpus: int
    state: str | None = None
    flags: _OldFlags = _OldFlags()
    nodes: str | None = None
    max_time: Number = None  # seconds
    default_time: Number = None  # seconds
    max_nodes: Number = None
    priority_tier: Number = None
    priority_job_factor: Number = None
    preempt_mode: str | None = None
    qos_char: str | None = None
    allow_accounts: Words = None


class _NewPartition(msgspec.Struct):
    name: str
    total_nodes: int
    total_cpus: int
    state: str
    is_default: bool = False
    is_hidden: bool = False
    nodes: str | None = None
    max_time: Number = None  # minutes
    default_time: Number = None  # minutes
    max_nodes: Number = None
    priority_tier: Number = None
    priority_job_factor: Number = None
    preempt_mode: str | None = None
    qos: str | None = None
    allowed_accounts: Words = None


def _old_partition(key: str, one: _OldPartition, answer: Answer) -> Partition:
    mode = one.preempt_mode
    return Partition(
        name=intern(one.name),
        state=one.state or "INACTIVE",  # whose number is 0, which the old API takes for no state
        default=bool(one.flags.default),
        hidden=bool(one.flags.hidden),
        node_list=one.nodes or "",
        nodes=one.total_nodes,
        cpus=one.total_cpus,
        max_time=number(one.max_time),
        default_time=number(one.default_time),
        max_nodes=number(one.max_nodes),
        priority_tier=number(one.priority_tier),
        priority_factor=number(one.priority_job_factor),
        preempt_mode=None if mode is None or "UNKNOWN" in mode else mode,
        qos=one.qos_char,
        allow_accounts=names(one.allow_accounts),
    )


def _new_partition(key: str, one: _NewPartition, answer: Answer) -> Partition:
    return Partition(
        name=intern(one.name),
        state=one.state,
        default=one.is_default,
        hidden=one.is_hidden,
        node_list=one.nodes or "",
        nodes=one.total_nodes,
        cpus=one.total_cpus,
        max_time=scaled(one.max_time, MINUTE),
        default_time=scaled(one.default_time, MINUTE),
        max_nodes=number(one.max_nodes),
        priority_tier=number(one.priority_tier),
        priority_factor=number(one.priority_job_factor),
        preempt_mode=one.preempt_mode,
        qos=one.qos,
        allow_accounts=names(one.allowed_accounts),
    )


def parse_partitions(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Partition, ...]]:
    kinds = {OLD_API: _OldPartition, NEW_API: _NewPartition}
    return rows(data, kinds, {OLD_API: _old_partition, NEW_API: _new_partition})


# --- reservations ---------------------------------------------------------------------------------------------


class _OldReservation(msgspec.Struct):
    start_time: int
    end_time: int
    node_cnt: Number
    node_list: str | None = None
    core_cnt: Number = None
    flags: Words = None
    partition: str | None = None
    users: Words = None
    accounts: Words = None
    licenses: dict[str, Number] | Words = None
    tres_str: Words = None


class _NewReservation(msgspec.Struct):
    name: str
    start_time: int
    end_time: int
    node_count: Number = None
    nodes: str | None = None
    cpus: Number = None
    flags: Words = None
    reoccurrence: str | None = None
    partition: str | None = None
    users: Words = None
    accounts: Words = None
    licenses: Words = None
    tres: dict[str, Number] | None = None


# What scontrol calls the flags that the new API has names of its own for.
_FLAGS = {
    "MAINTENANCE": "MAINT",
    "IGNORE_RUNNING_JOBS": "IGNORE_JOBS",
    "STATIC_NODES": "STATIC",
    "PARTITION_NODES_ONLY": "PART_NODES",
    "USER_DELETION": "USER_DELETE",
    "PURGE": "PURGE_COMP",
    "SPECIFIC_NODES": "SPEC_NODES",
    "NO_JOB_HOLD_AFTER_END": "NO_HOLD_JOBS_AFTER_END",
}


def _state(start: int, end: int, answer: Answer) -> str:
    """Slurm's commands work it out of the window and the clock, and so do we."""
    return "ACTIVE" if start <= answer.time <= end else "INACTIVE"


def _old_reservation(key: str, one: _OldReservation, answer: Answer) -> Reservation:
    return Reservation(
        name=key,
        state=_state(one.start_time, one.end_time, answer),
        start_time=one.start_time,
        end_time=one.end_time,
        node_list=one.node_list or "",
        nodes=number(one.node_cnt) or 0,
        cores=number(one.core_cnt),
        flags=names(one.flags),
        partition=one.partition,
        users=names(one.users),
        accounts=names(one.accounts),
        licenses=licenses(one.licenses),
        tres=values.tres(joined(one.tres_str) or ""),
    )


def _new_reservation(key: str, one: _NewReservation, answer: Answer) -> Reservation:
    flags = [_FLAGS.get(flag, flag) for flag in names(one.flags)]
    if one.reoccurrence not in (None, "NO"):
        flags.append(str(one.reoccurrence))
    return Reservation(
        name=one.name,
        state=_state(one.start_time, one.end_time, answer),
        start_time=one.start_time,
        end_time=one.end_time,
        node_list=one.nodes or "",
        nodes=number(one.node_count) or 0,
        cores=number(one.cpus),
        flags=tuple(flags),
        partition=one.partition,
        users=names(one.users),
        accounts=names(one.accounts),
        licenses=joined(one.licenses),
        tres=values.tres(",".join(f"{name}={count}" for name, count in (one.tres or {}).items())),
    )


def parse_reservations(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Reservation, ...]]:
    kinds = {OLD_API: _OldReservation, NEW_API: _NewReservation}
    return rows(data, kinds, {OLD_API: _old_reservation, NEW_API: _new_reservation})
