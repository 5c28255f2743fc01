# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The queue."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import Job
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
    number,
    rows,
    scaled,
    time,
)
from slurmscope.slurm.text import Marks, Parsed
from slurmscope.slurm.values import MINUTE


class _Job(msgspec.Struct, kw_only=True):
    """What both APIs have under one name."""

    user_id: int
    partition: str | None
    submit_time: Number
    name: str | None = None
    account: str | None = None
    qos: str | None = None
    state_reason: str | None = None
    priority: Number = None
    array_task_id: Number = None
    eligible_time: Number = None
    start_time: Number = None
    end_time: Number = None
    time_limit: Number = None  # minutes


class _OldJob(_Job, kw_only=True):
    job_id: int
    job_state: str
    num_cpus: int
    num_nodes: int
    array_job_id: int | None = None
    array_task_str: str | None = None
    tres_alloc_str: str | None = None
    tres_req_str: str | None = None
    nodes: str | None = None
    resv_name: str | None = None
    dependency: str | None = None
    features: Words = None
    licenses: dict[str, Number] | Words = None
    alloc_node: str | None = None
    restart_cnt: Number = None
    exit_code: str | None = None


class _Layout(msgspec.Struct):
    """What a job holds on one node."""

    memory: Number = None  # MiB
    gres: dict[str, Any] = {}  # {"gpu:a100": {"count": 2, "indexes": "0-1"}}, or the count alone


class _NewJob(_Job, kw_only=True):
    id: int
    state: str
    cpus: int
    num_nodes: Number
    user_name: str | None = None
    array_id: int | None = None
    array_tasks_waiting: str | None = None
    array_tasks_parallel: Number = None
    memory: Number = None  # MiB
    gres_per_node: dict[str, Any] | None = None
    layout: dict[str, _Layout] | None = msgspec.field(name="get_resource_layout_per_node", default=None)
    allocated_nodes: str | None = None
    reservation: str | None = None
    constraints: Words = None
    licenses: Words = None
    submit_host: str | None = None
    requeue_count: Number = None
    exit_code: Number = None
    exit_code_signal: Number = None


def _end_time(end: Number, limit: Number, answer: Answer) -> int | None:
    """What is without a limit has no end that is known, whatever slurmctld counts with."""
    found = time(end)
    return None if found and found > answer.time and number(limit) is None else found


def _old_job(key: str, one: _OldJob, answer: Answer) -> Job:
    amounts = values.tres(one.tres_alloc_str or one.tres_req_str or "")
    spec = one.array_task_str or (None if one.array_job_id is None else str(number(one.array_task_id)))
    return Job(
        id=one.job_id,
        array_id=one.array_job_id,
        array_tasks=spec,
        tasks=1 if spec is None else values.array_size(spec)[0],
        name=one.name or "",
        user=answer.user(one.user_id) or "",
        account=intern(one.account or ""),
        partition=intern(one.partition or ""),
        qos=intern(one.qos or ""),
        state=intern(one.job_state),
        reason=values.text(one.state_reason or ""),
        priority=number(one.priority),
        submit_time=time(one.submit_time),
        eligible_time=time(one.eligible_time),
        start_time=time(one.start_time),
        end_time=_end_time(one.end_time, one.time_limit, answer),
        time_limit=scaled(one.time_limit, MINUTE),
        cpus=one.num_cpus,
        memory=amounts.get("mem"),
        gpus=values.gpus_of_tres(amounts),
        nodes=one.num_nodes,
        node_list=intern(one.nodes or ""),
        reservation=one.resv_name,
        dependency=one.dependency,
        features=joined(one.features),
        licenses=licenses(one.licenses),
        login_node=one.alloc_node,
        restarts=number(one.restart_cnt),
        exit_code=one.exit_code,
    )


def _held(layout: dict[str, _Layout]) -> tuple[int | None, dict[str, int]]:
    """Memory and GPUs, summed over the nodes; no memory where no node tells any."""
    memory = [found for one in layout.values() if (found := mebibytes(one.memory)) is not None]
    total: dict[str, int] = {}
    for one in layout.values():
        counts = {name: n["count"] if isinstance(n, dict) else n for name, n in one.gres.items()}
        for kind, count in gpus(counts).items():
            total[kind] = total.get(kind, 0) + count
    return sum(memory) if memory else None, total


def _new_job(key: str, one: _NewJob, answer: Answer) -> Job:
    spec = one.array_tasks_waiting
    if spec and (parallel := number(one.array_tasks_parallel)):
        spec = f"{spec}%{parallel}"
    if one.array_id is not None and not spec:
        spec = str(number(one.array_task_id) or 0)  # the new API takes task 0 for none
    nodes = number(one.num_nodes) or 0
    if one.layout:
        memory, held = _held(one.layout)
    else:  # what it asked for, as far as that is told
        memory = mebibytes(one.memory)
        held = {kind: count * max(nodes, 1) for kind, count in gpus(one.gres_per_node).items()}
    status, signal = number(one.exit_code), number(one.exit_code_signal)
    return Job(
        id=one.id,
        array_id=one.array_id,
        array_tasks=spec,
        tasks=1 if spec is None else values.array_size(spec)[0],
        name=one.name or "",
        user=intern(one.user_name or answer.user(one.user_id) or ""),
        account=intern(one.account or ""),
        partition=intern(one.partition or ""),
        qos=intern(one.qos or ""),
        state=intern(one.state),
        reason=values.text(one.state_reason or ""),
        priority=number(one.priority),
        submit_time=time(one.submit_time),
        eligible_time=time(one.eligible_time),
        start_time=time(one.start_time),
        end_time=_end_time(one.end_time, one.time_limit, answer),
        time_limit=scaled(one.time_limit, MINUTE),
        cpus=one.cpus,
        memory=memory,
        gpus=held,
        nodes=nodes,
        node_list=intern(one.allocated_nodes or ""),
        reservation=one.reservation,
        dependency=None,
        features=joined(one.constraints),
        licenses=joined(one.licenses),
        login_node=one.submit_host,
        restarts=number(one.requeue_count),
        exit_code=None if status else f"0:{signal or 0}",
    )


def parse_jobs(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    return rows(data, {OLD_API: _OldJob, NEW_API: _NewJob}, {OLD_API: _old_job, NEW_API: _new_job})
