# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs as the accounting knows them: `sacct`, one record for each life of a job, with its steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

from slurmscope.life import Accounted, Step
from slurmscope.model import Job
from slurmscope.slurm import probe, values
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode
from slurmscope.slurm.values import MINUTE, epoch, number, text

_MOST_LINE = 4096  # characters of a submit line: with --wrap it may hold a whole script


class Held(NamedTuple):
    """What a job or a step holds, or asked for."""

    cpus: int
    memory: int | None
    nodes: int | None
    gpus: dict[str, int]


def held_of(amounts: Mapping[str, int]) -> Held:
    # of a job that was cancelled as it was submitted slurmdbd knows no amounts: it held nothing
    return Held(amounts.get("cpu", 0), amounts.get("mem"), amounts.get("node"), values.gpus_of_tres(dict(amounts)))


@lru_cache(8192)
def _held(tres: str) -> Held:
    """Most jobs ask for what others have asked for before."""
    return held_of(values.tres(tres))


def job_of(fields: Mapping[str, str], held: Held) -> Job:
    """A record of sacct by its own names of fields."""
    array, spec = values.job_id(fields["JobID"])
    limit = number(fields["TimelimitRaw"]) if fields["TimelimitRaw"] != "Partition_Limit" else None
    return Job(
        id=int(fields["JobIDRaw"]),
        array_id=None if spec is None else array,
        array_tasks=None if spec is None else spec.strip("[]"),
        tasks=1 if spec is None else values.array_size(spec)[0],
        name=fields["JobName"],
        user=intern(fields["User"]),
        account=intern(fields["Account"]),
        partition=intern(fields["Partition"]),
        qos=intern(fields["QOS"]),
        state=intern(fields["State"].partition(" ")[0]),  # CANCELLED by whom
        reason=None if fields["Reason"] in values.ABSENT else intern(fields["Reason"]),
        priority=number(fields["Priority"]),
        submit_time=epoch(fields["Submit"]),
        eligible_time=epoch(fields["Eligible"]),
        start_time=epoch(fields["Start"]),
        end_time=epoch(fields["End"]),
        time_limit=None if limit is None else limit * MINUTE,
        cpus=held.cpus,
        memory=held.memory,
        gpus=held.gpus,
        nodes=held.nodes or 0,
        node_list=intern(text(fields["NodeList"]) or ""),
        reservation=text(fields["Reservation"]),
        dependency=None,
        features=text(fields["Constraints"]),
        licenses=None,
        login_node=None,
        restarts=None,
        exit_code=text(fields["ExitCode"]),
    )


def accounted(
    job: Job,
    steps: tuple[Step, ...],
    suspended: int | None,
    cpu_seconds: float | None,
    derived_exit_code: str | None,
    cancelled_by: str | None,
    submit_line: str | None,
    work_dir: str | None,
) -> Accounted:
    """What both dialects tell, put together. slurmdbd has no sum of energy, and not always one of CPU time."""
    energy, used = 0, cpu_seconds or 0.0
    for step in steps:
        energy += step.energy or 0
        if cpu_seconds is None:
            used += step.cpu_seconds or 0.0
    return Accounted(
        job=job,
        steps=steps,
        suspended_seconds=suspended,
        cpu_seconds=round(used, 3) or None,  # 0 is what Slurm says of what it did not measure
        energy=energy or None,
        derived_exit_code=derived_exit_code,
        cancelled_by=cancelled_by,
        submit_line=None if submit_line is None else submit_line[:_MOST_LINE],
        work_dir=None if work_dir is None else intern(work_dir),
    )


def _seconds(value: str) -> float | None:
    """CPU time as sacct prints it: `01:02.345`, `1-02:03:04`; 0 is what it prints where nothing was measured."""
    days, _, clock = value.rpartition("-")
    hours, _, rest = clock.rpartition(":")
    first, _, minutes = hours.rpartition(":")
    whole = int(minutes) * 60 + (int(first) * 3600 if first else 0) + (int(days) * 86400 if days else 0)
    return round(whole + float(rest), 3) or None


# The places of what is told of a step.
_AT = {name: at for at, name in enumerate(probe.HISTORY_FIELDS)}
_STATE, _START, _END, _EXIT, _HELD = (_AT[name] for name in ("State", "Start", "End", "ExitCode", "AllocTRES"))
_TASKS, _CPU, _ENERGY, _NAME = (_AT[name] for name in ("NTasks", "TotalCPU", "ConsumedEnergyRaw", "JobName"))
_MOST, _IN, _OUT = (_AT[name] for name in ("TRESUsageInMax", "TRESUsageInTot", "TRESUsageOutTot"))


def _step(row: list[str], id_: str) -> Step:
    """Most of all rows are steps, and so this is in a hurry."""
    held = _held(row[_HELD]) if row[_HELD] else None
    used, read = values.used_bytes(row[_IN])
    most = used if row[_MOST] == row[_IN] else values.used_bytes(row[_MOST])[0]
    energy, tasks = row[_ENERGY], row[_TASKS]
    return Step(
        intern(id_),
        intern(row[_NAME]),
        intern(row[_STATE].partition(" ")[0]),
        intern(row[_EXIT]) or None,
        epoch(row[_START]),
        epoch(row[_END]),
        held and held.nodes,
        number(tasks),
        (held and held.cpus) or None,
        _seconds(row[_CPU]),
        most,
        used,
        None if energy in ("", "0") else number(energy),
        read,
        values.used_bytes(row[_OUT])[1],
    )


def _allocation(row: dict[str, str], steps: tuple[Step, ...]) -> Accounted:
    _, _, who = row["State"].partition(" by ")
    return accounted(
        job_of(row, _held(row["AllocTRES"] or row["ReqTRES"])),
        steps,
        values.duration(row["Suspended"]),
        _seconds(row["TotalCPU"]),
        intern(row["DerivedExitCode"]) or None,
        intern(who) or None,
        row["SubmitLine"] or None,
        row["WorkDir"] or None,
    )


def parse_history(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Accounted, ...]]:
    """`sacct --parsable` with a mark as the delimiter: every field ends in it, so that the fields can be counted off
    whatever a job's name holds. A job's steps follow it."""
    fields = decode(data).split(marks.field)
    if fields.pop().strip():  # what is behind the last mark is a newline
        raise Malformed(f"the output does not end with a whole row: {decode(data[-200:])!r}")
    width = len(probe.HISTORY_FIELDS)
    if len(fields) % width:
        raise Malformed(f"{len(fields)} fields do not make rows of {width}")
    found: list[Accounted] = []
    parsed: Parsed[tuple[Accounted, ...]] = Parsed((), samples=[])
    row: list[str] = []
    steps: list[Step] = []

    def end_job() -> None:
        if row:
            try:
                found.append(_allocation(dict(zip(probe.HISTORY_FIELDS, row, strict=True)), tuple(steps)))
            except (ValueError, LookupError, ArithmeticError) as error:
                parsed.skip(error, "|".join(row))
        steps.clear()

    for at in range(0, len(fields), width):
        one = fields[at : at + width]
        one[0] = one[0].removeprefix("\n")
        job, dot, step = one[0].partition(".")
        if not dot:
            end_job()
            row = one
        elif row and job == row[0]:
            try:
                steps.append(_step(one, step))
            except (ValueError, LookupError, ArithmeticError) as error:
                parsed.skip(error, "|".join(one))
        else:
            parsed.skip(ValueError("a step without its job"), "|".join(one))
    end_job()
    parsed.check(len(found))
    parsed.value = tuple(found)
    return parsed
