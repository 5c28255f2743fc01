# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs as the accounting knows them: `sacct`, one record for each life of a job."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

from slurmscope.model import Job
from slurmscope.slurm import probe, values
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode, read_rows
from slurmscope.slurm.values import MINUTE, epoch, number, text


def job_of(fields: Mapping[str, str], amounts: Mapping[str, int]) -> Job:
    """A record of sacct by its own names of fields; `amounts` are the TRES that the job holds, or asked for."""
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
        cpus=amounts["cpu"],
        memory=amounts.get("mem"),
        gpus=values.gpus_of_tres(dict(amounts)),
        nodes=amounts.get("node", 0),
        node_list=intern(text(fields["NodeList"]) or ""),
        reservation=text(fields["Reservation"]),
        dependency=None,
        features=text(fields["Constraints"]),
        licenses=None,
        login_node=None,
        restarts=None,
        exit_code=text(fields["ExitCode"]),
    )


def _job(row: str) -> Job:
    fields = dict(zip(probe.HISTORY_FIELDS, row.split("\0"), strict=True))
    return job_of(fields, values.tres(fields["AllocTRES"] or fields["ReqTRES"]))


def parse_history(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    """`sacct --parsable` with a mark as the delimiter: every field ends in it, so that the fields can be counted off
    whatever a job's name holds."""
    fields = data.split(marks.field.encode())
    if fields.pop().strip():  # what is behind the last mark is a newline
        raise Malformed(f"the output does not end with a whole row: {decode(data[-200:])!r}")
    width = len(probe.HISTORY_FIELDS)
    if len(fields) % width:
        raise Malformed(f"{len(fields)} fields do not make rows of {width}")
    rows = [b"\0".join(fields[at : at + width]).removeprefix(b"\n") for at in range(0, len(fields), width)]
    return read_rows(rows, _job, {})
