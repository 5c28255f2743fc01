# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs as the accounting knows them: `sacct --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from slurmscope.life import Accounted, Step
from slurmscope.slurm import history, values
from slurmscope.slurm.openapi.jobs import exit_code
from slurmscope.slurm.openapi.reader import Number, Words, count, records, whole, words
from slurmscope.slurm.scripts import Kept
from slurmscope.slurm.text import Marks, Parsed
from slurmscope.slurm.values import epoch


class _Array(msgspec.Struct, frozen=True):
    job_id: Number = None
    task_id: Number = None
    task: str | None = None


class _State(msgspec.Struct, frozen=True):
    current: Words = None
    reason: str | None = None


class _CpuTime(msgspec.Struct, frozen=True):
    seconds: Number = None
    microseconds: Number = None


class _Times(msgspec.Struct, frozen=True):
    submission: Number = None
    eligible: Number = None
    start: Number = None
    end: Number = None
    limit: Number = None
    suspended: Number = None
    total: _CpuTime = _CpuTime()


class _Reservation(msgspec.Struct, frozen=True):
    name: str | int | None = None


class _Tres(msgspec.Struct):
    type: str
    count: Number
    name: str | None = None


class _AllTres(msgspec.Struct, frozen=True):
    allocated: list[_Tres] = []
    requested: list[_Tres] = []


class _UsedTres(msgspec.Struct, frozen=True):
    max: list[_Tres] = []
    total: list[_Tres] = []


class _StepTres(msgspec.Struct, frozen=True):
    allocated: list[_Tres] = []
    requested: _UsedTres = _UsedTres()
    consumed: _UsedTres = _UsedTres()


class _StepName(msgspec.Struct, frozen=True):
    id: str | int | None = None
    name: str | None = None


class _Tasks(msgspec.Struct, frozen=True):
    count: Number = None


class _Energy(msgspec.Struct, frozen=True):
    consumed: Number = None


class _Statistics(msgspec.Struct, frozen=True):
    energy: _Energy = _Energy()


class _Step(msgspec.Struct):
    step: _StepName
    state: Words = None
    time: _Times = _Times()
    exit_code: Any = None
    tasks: _Tasks = _Tasks()
    tres: _StepTres = _StepTres()
    statistics: _Statistics = _Statistics()


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
    derived_exit_code: Any = None
    submit_line: str | None = None
    working_directory: str | None = None
    steps: list[_Step] = []


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
        tasks, percent, most = found.array.task.partition("%")
        # as slurmdbd keeps it: a bit for each task
        return f"{array}_[{values.tasks_of_bits(tasks) if tasks.startswith('0x') else tasks}{percent}{most}]"
    return f"{array}_{task}" if array and task is not None else str(count(found.job_id))


def _exit_code(value: Any) -> str | None:
    """Before data_parser it is a success whatever became of the job, which is worth nothing."""
    old = isinstance(value, Mapping) and isinstance(value.get("status"), str)
    return None if old else exit_code(value)


def _text(value: Number) -> str:
    found = whole(value)
    return "" if found is None else str(found)


def _state(found: Words) -> str:
    """A life that ended by a requeue is told as a flag beside a base state, as which the text does not show it."""
    told = words(found)
    return "REQUEUED" if "REQUEUED" in told else told[0]


def _used(found: list[_Tres]) -> dict[str, int]:
    """Amounts of what was used: memory is in bytes here."""
    amounts = {f"{one.type}/{one.name}" if one.name else one.type: whole(one.count) for one in found}
    return {name: amount for name, amount in amounts.items() if amount is not None and amount >= 0}


def _seconds(found: _CpuTime) -> float | None:
    """To the millisecond, as the text has it."""
    micros = (whole(found.seconds) or 0) * 10**6 + (whole(found.microseconds) or 0)
    return micros // 1000 / 1000 or None


def _step(found: _Step) -> Step:
    held, most = _amounts(found.tres.allocated), _used(found.tres.requested.max)
    used, written = _used(found.tres.requested.total), _used(found.tres.consumed.total)
    return Step(
        id=str(found.step.id).rpartition(".")[2],  # with the job's number, from data_parser on
        name=found.step.name or "",
        state=words(found.state)[0],
        exit_code=_exit_code(found.exit_code),
        start_time=epoch(_text(found.time.start)),
        end_time=epoch(_text(found.time.end)),
        nodes=held.get("node"),
        tasks=whole(found.tasks.count),
        cpus=held.get("cpu"),
        cpu_seconds=_seconds(found.time.total),
        max_rss=most.get("mem"),
        memory_used=used.get("mem"),
        energy=whole(found.statistics.energy.consumed) or None,
        read_bytes=used.get("fs/disk"),
        written_bytes=written.get("fs/disk"),
    )


def _accounted(found: _Record) -> Accounted:
    fields = {
        "JobIDRaw": str(count(found.job_id)),
        "JobID": _job_id(found),
        "JobName": found.name or "",
        "User": found.user or "",
        "Account": found.account or "",
        "Partition": found.partition or "",
        "QOS": found.qos or "",
        "State": _state(found.state.current),
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
    return history.accounted(
        history.job_of(fields, history.held_of(_amounts(found.tres.allocated) or _amounts(found.tres.requested))),
        tuple(_step(one) for one in found.steps),
        whole(found.time.suspended),
        _seconds(found.time.total),
        _exit_code(found.derived_exit_code),
        None,
        found.submit_line or None,
        found.working_directory or None,
    )


class _Het(msgspec.Struct, frozen=True):
    job_offset: Number = None


class _Scripted(msgspec.Struct):
    job_id: Number
    het: _Het = _Het()
    time: _Times = _Times()
    script: str | None = None


def _kept(found: _Scripted) -> Kept:
    # of a component that is not the first, and of what may be one, it may be another job's
    its = not whole(found.het.job_offset) and epoch(_text(found.time.start)) is not None
    return Kept(count(found.job_id), epoch(_text(found.time.submission)), (its and found.script) or "")


def parse_scripts(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Kept, ...]]:
    return records(data, "jobs", _Scripted, _kept)


def parse_history(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Accounted, ...]]:
    return records(data, "jobs", _Record, _accounted)
