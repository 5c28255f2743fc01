# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The batch script of a job, asked for when somebody wants to read it.

slurmctld has it for as long as it knows the job, the accounting for as long as it keeps it, where it does. Nobody must
be shown the script of another job:

- Slurm uses numbers again. Each of them is first asked when its job of that number was submitted.
- To all components of heterogeneous jobs but the first slurmdbd gives one and the same script, that of the first such
  job that it saw, whoever's that was. So these get that of their first one; and as slurmdbd does not always tell which
  these are before they begin, of jobs that never began the accounting's is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from slurmscope.model import Job
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode
from slurmscope.slurm.values import epoch

Ask = Callable[[str, str], Awaitable[Any]]  # a part of the table, and a job; None where it cannot be told


class Known(msgspec.Struct, frozen=True):
    """What is known of the job of a number."""

    submit_time: int | None
    leader: str = ""  # of a component of a heterogeneous job, the number of its first one, which has the script


class Kept(msgspec.Struct, frozen=True):
    id: int
    submit_time: int | None
    script: str


_NONE = "NONE"  # what sacct prints of a job without one
_HEAD = re.compile(r"Batch Script for \S+\n-+\n")


async def by_commands(ask: Ask, job: Job, *, kept: bool) -> str | None:
    """`kept`: the accounting may have it."""
    number = str(job.id)
    queued: Known | None = (await ask("queued", number) or {}).get(job.id)
    if queued is not None and queued.submit_time == job.submit_time:
        found: str | None = await ask("script", queued.leader or number)
        if found:
            return found
    if not kept:
        return None
    if job.array_id is not None and job.array_tasks is not None and job.array_tasks.isdecimal():
        # the number of an array's last task is that of the whole array
        number = f"{job.array_id}_{job.array_tasks}"
    accounted: Known | None = (await ask("accounted", number) or {}).get(job.id)
    if accounted is None or accounted.submit_time != job.submit_time:
        return None
    return await ask("kept_script", accounted.leader or number) or None


async def by_rest(ask: Ask, job: Job, *, kept: bool) -> str | None:
    """slurmrestd asks the accounting alone."""
    told: tuple[Kept, ...] = (await ask("kept_script", str(job.id)) or ()) if kept else ()
    wanted = (one.script for one in told if (one.id, one.submit_time) == (job.id, job.submit_time))
    return next(filter(None, wanted), None)


def parse_queued(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[dict[int, Known]]:
    """`squeue -O JobID:|,SubmitTime:|,HetJobID:|`: of an array's number, all of its tasks."""
    found = {}
    for row in decode(data).split("\n"):
        cells = row.split("|")
        if len(cells) == 4 and cells[0].isdecimal():
            leader = cells[2] if cells[2].isdecimal() and cells[2] not in ("0", cells[0]) else ""
            found[int(cells[0])] = Known(epoch(cells[1]), leader)
    return Parsed(found)


def parse_accounted(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[dict[int, Known]]:
    """`sacct -o JobIDRaw,JobID,Submit,Start`: those that began; without --duplicates, the latest job of a number."""
    found = {}
    for row in decode(data).split("\n"):
        cells = row.split("|")
        if len(cells) == 4 and cells[0].isdecimal() and epoch(cells[3]) is not None:
            leader, _, offset = cells[1].partition("+")
            found[int(cells[0])] = Known(epoch(cells[2]), leader if offset not in ("", "0") else "")
    return Parsed(found)


def parse_script(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[str]:
    return Parsed(_ended(decode(data)))


def _ended(script: str) -> str:
    """By one newline: some versions add another."""
    return script.rstrip("\n") + "\n" if script.strip() else ""


def parse_kept(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[str]:
    """`sacct --batch-script`: a line that names the job, a rule, and the script."""
    found = decode(data)
    head = _HEAD.match(found)
    if head is None:
        raise Malformed(f"not a script of sacct's: {found[:200]!r}")
    script = found[head.end() :]
    return Parsed("" if script.strip() == _NONE else _ended(script))
