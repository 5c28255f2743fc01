# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The one command that changes something: `scancel` of one running job.

It is apart from the table of questions, and nobody calls it but mail/cancelling.py, where a site has turned that on.
It names the job's user, state and partition besides its number, so that Slurm itself refuses what is not the job that
was meant: numbers are used again. scancel says nothing where nothing is as it was told: so squeue is asked before and
after.
"""

from __future__ import annotations

import asyncio

import msgspec

from slurmscope.life import Life
from slurmscope.settings import Slurm
from slurmscope.slurm import probe, process
from slurmscope.slurm.text import decode
from slurmscope.slurm.transport import Failed, error_of

_MOST_BYTES = 1 << 20
_LOOKS, _PAUSE = 5, 1.0  # seconds between looks whether it is being ended
_FIELDS = ("JobID", "UserName", "SubmitTime", "State", "Partition")
_RUNNING = "RUNNING"
_GONE = "Invalid job id"
_NAME = "ClusterName"


class Queued(msgspec.Struct, frozen=True):
    """A job as squeue tells of it."""

    id: int
    user: str
    submit_time: int | None
    state: str
    partition: str


def scancel(life: Life) -> tuple[str, ...]:
    """The command for this job. Raises Failed where it would mean more than this one."""
    user, partition = f"--user={life.user}", f"--partition={life.partition}"
    return ("scancel", f"--state={_RUNNING}", user, partition, _number(life))


def _number(life: Life) -> str:
    if life.array_id is None:
        return str(life.id)
    if life.array_tasks is None or not life.array_tasks.isdecimal():
        raise Failed(f"job {life.id} stands for several tasks of an array, and none of them is cancelled")
    # the number of an array's last task is that of the whole array
    return f"{life.array_id}_{life.array_tasks}"


async def cancel(life: Life, slurm: Slurm) -> str:
    """Cancels the job; the command as it was run. Raises TransportError, also where the job is not the one meant."""
    if slurm.ssh:
        raise Failed("jobs are cancelled by this machine's scancel only, and slurm.ssh is set")
    argv = scancel(life)
    if not slurm.cluster and (name := await _cluster(slurm)) != life.cluster:
        raise Failed(f"this machine's commands ask the cluster {name}, and the job is one of {life.cluster}")
    if (why := _other(await _look(life, slurm), life)) is not None:
        raise Failed(f"{why}: nothing was run")
    await _run(argv, slurm)
    for _ in range(_LOOKS):
        found = await _look(life, slurm)
        if found is None or found.state != _RUNNING:
            return " ".join(argv)
        await asyncio.sleep(_PAUSE)
    raise Failed("scancel said nothing, and the job still runs: is the user of slurmscope an operator in Slurm?")


def _other(found: Queued | None, life: Life) -> str | None:
    """Why this is not the job that was meant; None: it is."""
    if found is None:
        return "squeue knows no such job any more"
    for what, its, meant in (
        ("number", found.id, life.id),
        ("user", found.user, life.user),
        ("submit time", found.submit_time, life.submit_time),
        ("partition", found.partition, life.partition),
        ("state", found.state, _RUNNING),
    ):
        if its != meant:
            return f"squeue tells another {what} ({its}, not {meant})"
    return None


async def _look(life: Life, slurm: Slurm) -> Queued | None:
    fields = ",".join(f"{name}:|" for name in _FIELDS)
    number = f"--jobs={_number(life)}"
    argv = ("squeue", "--local", "--noheader", "--all", "--states=all", number, "--Format", fields)
    told = await _run(argv, slurm, gone=True)
    rows = [row.split("|") for row in told.splitlines() if row.count("|") == len(_FIELDS)]
    if len(rows) > 1:
        raise Failed(f"squeue tells of {len(rows)} jobs {_number(life)}, and none of them is cancelled")
    if not rows:
        return None
    id_, user, submitted, state, partition, _ = (value.strip() for value in rows[0])
    if not id_.isdecimal():
        raise Failed(f"squeue tells of no number of a job: {id_}")
    return Queued(int(id_), user, int(submitted) if submitted.isdecimal() else None, state, partition)


async def _cluster(slurm: Slurm) -> str:
    """What the cluster is called that this machine's commands ask."""
    for row in (await _run(("scontrol", "show", "config"), slurm)).splitlines():
        name, _, value = row.partition("=")
        if name.strip() == _NAME:
            return value.strip()
    raise Failed(f"no {_NAME} in the configuration")


async def _run(argv: tuple[str, ...], slurm: Slurm, *, gone: bool = False) -> str:
    """What it prints. With `gone`, nothing of a job that is not there any more."""
    done = await process.run(
        list(argv),
        probe.environment(slurm.conf, slurm.multi_cluster),
        slurm.timeout,
        _MOST_BYTES,
        stuck=process.Stuck(),
        key=argv[0],
        path=probe.bin_path(slurm.bin_dir),
    )
    if done.status and not (gone and _GONE in done.complaints):
        raise error_of("", f"{argv[0]} exited with {done.status}: {done.complaints or 'no message'}")
    return "" if done.status else decode(done.data)
