# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs as the accounting knows them: `sacct --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from slurmscope.model import Job
from slurmscope.slurm import history, values
from slurmscope.slurm.openapi.jobs import exit_code
from slurmscope.slurm.openapi.reader import Number, Words, count, records, whole, words
from slurmscope.slurm.text import Marks, Parsed


class _Array(msgspec.Struct, frozen=True):
    job_id: Number = None
    task_id: Number = None
    task: str | None = None


class _State(msgspec.Struct, frozen=True):
    current: Words = None
    reason: str | None = None


class _Times(msgspec.Struct, frozen=True):
    submission: Number = None
    eligible: Number = None
    start: Number = None
    end: Number = None
    limit: Number = None


class _Reservation(msgspec.Struct, frozen=True):
    name: str | int | None = None


class _Tres(msgspec.Struct):
    type: str
    count: Number
    name: str | None = None


class _AllTres(msgspec.Struct, frozen=True):
    allocated: list[_Tres] = []
    requested: list[_Tres] = []


class _Record(msgspec.Struct):
    job_id: Number
    state: _State
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    priority: Number = None
    nodes: str | None = None
    constraints: str | None = None
    array: _Array = _Array()
    time: _Times = _Times()
    reservation: _Reservation = _Reservation()
    tres: _AllTres = _AllTres()
    exit_code: Any = None


def _amounts(found: list[_Tres]) -> dict[str, int]:
    """As the text writes them: counts, memory in bytes; what is not set has no amount."""
    amounts = {}
    for one in found:
        number = whole(one.count)
        if number is not None and number >= 0:
            name = f"{one.type}/{one.name}" if one.name else one.type
            amounts[name] = values.size(f"{number}M") if name == "mem" else number
    return amounts


def _job_id(found: _Record) -> str:
    """As sacct prints it: 4, 4_2, 4_[2-6%2]."""
    array, task = whole(found.array.job_id), whole(found.array.task_id)
    if array and found.array.task:
        return f"{array}_[{found.array.task}]"
    return f"{array}_{task}" if array and task is not None else str(count(found.job_id))


def _exit_code(value: Any) -> str | None:
    """Before data_parser it is a success whatever became of the job, which is worth nothing."""
    old = isinstance(value, Mapping) and isinstance(value.get("status"), str)
    return None if old else exit_code(value)


def _text(value: Number) -> str:
    found = whole(value)
    return "" if found is None else str(found)


def _job(found: _Record) -> Job:
    fields = {
        "JobIDRaw": str(count(found.job_id)),
        "JobID": _job_id(found),
        "JobName": found.name or "",
        "User": found.user or "",
        "Account": found.account or "",
        "Partition": found.partition or "",
        "QOS": found.qos or "",
        "State": words(found.state.current)[0],
        "Reason": found.state.reason or "",
        "Priority": _text(found.priority),
        "Submit": _text(found.time.submission),
        "Eligible": _text(found.time.eligible),
        "Start": _text(found.time.start),
        "End": _text(found.time.end),
        "TimelimitRaw": _text(found.time.limit),
        "NodeList": found.nodes or "",
        # 22.05 writes a number here that is none of the reservation's
        "Reservation": found.reservation.name if isinstance(found.reservation.name, str) else "",
        "Constraints": found.constraints or "",
        "ExitCode": _exit_code(found.exit_code) or "",
    }
    return history.job_of(fields, _amounts(found.tres.allocated) or _amounts(found.tres.requested))


def parse_history(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    return records(data, "jobs", _Record, _job)
