# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs: `squeue --json`, and `/jobs` of slurmrestd."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import HOLDING_STATES, WAITING_STATES, Job
from slurmscope.slurm import values
from slurmscope.slurm.openapi.reader import Number, Words, count, minutes, records, time, whole, words
from slurmscope.slurm.text import Marks, Parsed
from slurmscope.slurm.values import text

# Flags that squeue prints in place of the base state, in the order in which it looks for them. Others, such as
# UPDATE_DB, are Slurm's own affair.
_FLAGS = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "REQUEUE_FED",
    "REQUEUED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "POWER_UP_NODE",
    "EXPEDITING",
)
_NO_GPUS: dict[str, int] = {}  # one for the many jobs without


class _Record(msgspec.Struct):
    job_id: Number
    job_state: Words
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: str | None = None
    name: str | None = None
    user_name: str | None = None
    user_id: Number = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    state_reason: str | None = None
    state_description: str | None = None
    priority: Number = None
    submit_time: Number = None
    eligible_time: Number = None
    start_time: Number = None
    end_time: Number = None
    time_limit: Number = None
    cpus: Number = None
    node_count: Number = None
    nodes: str | None = None
    tres_alloc_str: str | None = None
    tres_req_str: str | None = None
    resv_name: str | None = None
    dependency: str | None = None
    features: str | None = None
    licenses: str | None = None
    allocating_node: str | None = None
    restart_cnt: Number = None
    exit_code: Any = None


def _state(found: Words) -> str:
    known = [word.upper() for word in words(found)]
    if not known:
        raise ValueError("a job without a state")
    return intern(next((flag for flag in _FLAGS if flag in known), known[0]))


def _number(value: Any) -> int | None:
    return whole(msgspec.convert(value, Number))


def exit_code(value: Any) -> str | None:
    """Status and signal; in older versions what wait() gave."""
    if not isinstance(value, Mapping):
        found = _number(value)
        return None if found is None else values.exit_code(str(found))
    signal = value.get("signal")
    id_ = signal.get("id", signal.get("signal_id")) if isinstance(signal, Mapping) else None
    return f"{_number(value.get('return_code')) or 0}:{_number(id_) or 0}"


def _tasks(found: _Record) -> tuple[int | None, str | None]:
    """The array that the record belongs to, and which of its tasks it is."""
    array = whole(found.array_job_id)
    if not array:
        return None, None
    task = whole(found.array_task_id)
    spec = found.array_task_string or (None if task is None else str(task))
    return (array, spec) if spec else (None, None)


def _job(found: _Record) -> Job:
    state = _state(found.job_state)
    array, spec = _tasks(found)
    tres = found.tres_alloc_str or found.tres_req_str or ""
    amounts = values.tres(tres)
    start = time(found.start_time)
    limit = minutes(found.time_limit)
    return Job(
        id=count(found.job_id),
        array_id=array,
        array_tasks=spec,
        tasks=1 if spec is None else values.array_size(spec)[0],
        name=found.name or "",
        user=intern(found.user_name or str(count(found.user_id))),
        account=intern(found.account or ""),
        partition=intern(found.partition or ""),
        qos=intern(found.qos or ""),
        state=state,
        reason=_reason(found),
        priority=whole(found.priority),
        submit_time=time(found.submit_time),
        eligible_time=time(found.eligible_time),
        start_time=start,
        end_time=_end(found, state, start, limit),
        time_limit=limit,
        cpus=count(found.cpus if found.cpus is not None else amounts.get("cpu")),
        memory=amounts.get("mem"),
        gpus=values.gpus_of_tres(amounts) if "gpu" in tres else _NO_GPUS,
        nodes=count(found.node_count),
        node_list=intern(found.nodes or ""),
        reservation=text(found.resv_name or ""),
        dependency=text(found.dependency or ""),
        features=text(found.features or ""),
        licenses=text(found.licenses or ""),
        login_node=intern(found.allocating_node) if found.allocating_node else None,
        restarts=whole(found.restart_cnt),
        exit_code=exit_code(found.exit_code),
    )


def _end(found: _Record, state: str, start: int | None, limit: int | None) -> int | None:
    """As squeue shows it: none where the job has no limit, or no start was planned yet."""
    open_end = limit is None and state in WAITING_STATES | HOLDING_STATES
    return None if open_end or (start is None and state in WAITING_STATES) else time(found.end_time)


def _reason(found: _Record) -> str | None:
    """The words that slurmctld has for this very job, else the reason's own."""
    said = found.state_description or found.state_reason or ""
    return None if said in values.ABSENT else intern(said)


def parse_jobs(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    parsed = records(data, "jobs", _Record, _job)
    if any(job.array_tasks and not values.array_size(job.array_tasks)[1] for job in parsed.value):
        parsed.note = (
            "an array's list of tasks is cut, and its number only a floor: "
            "set SLURM_BITSTR_LEN=0 in the environment of slurmrestd"
        )
    return parsed
