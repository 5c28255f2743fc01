# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The table of all reasons for which Slurm 22.05 to 26.05 lets a job wait, and how one is found in what squeue prints.

A row says what a reason means, who or what lets the job go on, what its owner can do, which limit it is, and which
facts are worth looking for. Those of limits are regular and are made in limit_reasons.py.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from slurmscope.waiting.limit_reasons import LIMITS, RETIRED_LIMITS
from slurmscope.waiting.reason import (
    ADMINISTRATOR,
    CLUSTER,
    DEPENDED,
    JOBS,
    QUEUE,
    SLURM,
    TIME,
    USER,
    Reason,
)

_CANCEL = "cancel it: `scancel {job}`"
_RELEASE = "release it: `scontrol release {job}`"
_ASK = "ask the administrator"
_PARTITION = "move it: `scontrol update JobId={job} Partition=NAME`"
_TIME = "shorten its time limit: `scontrol update JobId={job} TimeLimit=D-HH:MM:SS`"
_NODES = "let it run elsewhere: `scontrol update JobId={job} ReqNodeList=`"
_LESS = "ask for less, or for a shorter time: a smaller job fits into more gaps"
_ROOM = ("ahead", "room", "reserved", "nodes")
_ENDED = "It is a reason for which jobs end. One that waits with it was requeued and has not been looked at since."

_QUEUE_ROWS = (
    Reason("None", "The scheduler has not yet said why the job waits.", QUEUE, ("wait a minute",), facts=("ahead",)),
    Reason(
        "Priority",
        "Other jobs with a higher priority wait for the same partition and come first.",
        QUEUE,
        ("wait; `sprio -j {job}` shows what its priority is made of", _LESS),
        facts=_ROOM,
    ),
    Reason(
        "Resources",
        "It is this job's turn, but what it asks for is not free yet.",
        QUEUE,
        ("wait until jobs end", _LESS),
        facts=("room", "ahead", "reserved", "nodes"),
    ),
    Reason(
        "SchedDefer",
        "Jobs are not started as they are submitted here; the next cycle of the scheduler looks at it.",
        QUEUE,
        ("wait a minute",),
        facts=("ahead",),
    ),
    Reason(
        "Cleaning",
        "The job was requeued, and what it left on its nodes is still being cleaned up.",
        SLURM,
        ("wait some minutes, then " + _ASK,),
        facts=("restarts",),
    ),
    Reason("Prolog", "The job has its nodes, and their prolog is still running.", SLURM, ("wait some minutes",)),
)
_USER_ROWS = (
    Reason("JobHeldUser", "The job is held by its owner.", USER, (_RELEASE,), facts=("restarts",)),
    Reason(
        "BeginTime",
        "The job is not to start before a time: the one asked for (--begin), or, after a requeue, a short rest.",
        TIME,
        ("start it earlier: `scontrol update JobId={job} StartTime=now`",),
        facts=("begin", "restarts"),
    ),
    Reason(
        "Dependency",
        "The job waits for other jobs, as was asked for (--dependency).",
        DEPENDED,
        ("wait for them, or drop it: `scontrol update JobId={job} Dependency=`",),
        facts=("dependency",),
    ),
    Reason(
        "DependencyNeverSatisfied",
        "A job that it waits for ended otherwise than was asked for, so that this one can never start.",
        USER,
        (_CANCEL, "or drop it: `scontrol update JobId={job} Dependency=`"),
        facts=("dependency",),
        never=True,
    ),
    Reason(
        "JobArrayTaskLimit",
        "As many tasks of the array run as it allows itself (the number behind % in --array).",
        USER,
        ("allow more: `scontrol update JobId={job} ArrayTaskThrottle=N`",),
        facts=("array",),
    ),
    Reason(
        "DeadLine",
        "The job cannot end before its deadline (--deadline) any more.",
        USER,
        ("submit it again with a later deadline",),
        never=True,
    ),
    Reason(
        "BadConstraints",
        "No set of nodes can give what the job asks for.",
        USER,
        (_CANCEL, "and submit it again with other --constraint, --nodes or --gres"),
        facts=("room",),
        never=True,
    ),
    Reason(
        "Constraints",
        "No nodes that are there now have all that the job asks for.",
        USER,
        ("ask for other features: `scontrol update JobId={job} Features=`",),
        facts=("room", "nodes"),
    ),
)
_ADMIN_ROWS = (
    Reason(
        "JobHeldAdmin",
        "The job is held: by an administrator, or by Slurm after it could not be started.",
        ADMINISTRATOR,
        (_ASK + " to release it: `scontrol release {job}` is for them alone",),
        facts=("restarts",),
    ),
    Reason(
        "JobHoldMaxRequeue",
        "The job was requeued too often (MaxBatchRequeue) and is held.",
        ADMINISTRATOR,
        (_ASK + " why it does not start; then " + _RELEASE,),
        facts=("restarts",),
    ),
    Reason(
        "JobLaunchFailure",
        "The job could not be launched: a bad node, a full or missing file system, or a folder that is not there.",
        ADMINISTRATOR,
        ("look at its folder and its files", _ASK, _RELEASE),
        facts=("restarts",),
    ),
    Reason("SystemFailure", "Slurm, a file system or the network failed.", ADMINISTRATOR, (_ASK,)),
    Reason(
        "InvalidAccount",
        "The job's account does not exist, or its owner may not use it.",
        ADMINISTRATOR,
        (
            "name another: `scontrol update JobId={job} Account=NAME`; `sacctmgr show assoc user={user}` lists them",
            _ASK,
        ),
    ),
    Reason(
        "InvalidQOS",
        "The job's QOS does not exist, or its owner may not use it.",
        ADMINISTRATOR,
        ("name another: `scontrol update JobId={job} QOS=NAME`; `sacctmgr show assoc user={user} format=qos`", _ASK),
    ),
    Reason(
        "AccountNotAllowed",
        "The job's account may not use the partition.",
        ADMINISTRATOR,
        (_PARTITION, "name another account: `scontrol update JobId={job} Account=NAME`"),
        facts=("partition",),
    ),
    Reason(
        "QOSNotAllowed",
        "The job's QOS may not be used in the partition, or by its account.",
        ADMINISTRATOR,
        (_PARTITION, "name another QOS: `scontrol update JobId={job} QOS=NAME`"),
        facts=("partition",),
    ),
    Reason(
        "AccountingPolicy",
        "A limit of the accounting holds the job back; this version of Slurm does not say which.",
        ADMINISTRATOR,
        ("`scontrol show assoc_mgr` lists the limits", _ASK),
        facts=("limits",),
    ),
    Reason(
        "MaxMemPerLimit",
        "The job asks for more memory a CPU or a node than may be (MaxMemPerCPU, MaxMemPerNode).",
        ADMINISTRATOR,
        ("ask for less: `scontrol update JobId={job} MinMemoryNode=MEGABYTES`", _PARTITION),
        facts=("partition", "room"),
        never=True,
    ),
)
_PARTITION_ROWS = (
    Reason(
        "PartitionDown",
        "The partition takes jobs but starts none (State=DOWN).",
        ADMINISTRATOR,
        ("wait until it is up", _PARTITION),
        facts=("partition",),
    ),
    Reason(
        "PartitionInactive",
        "The partition neither takes nor starts jobs (State=INACTIVE).",
        ADMINISTRATOR,
        ("wait until it is up", _PARTITION),
        facts=("partition",),
    ),
    Reason(
        "PartitionNodeLimit",
        "The job asks for more or fewer nodes than jobs of the partition may have, or more than it has.",
        USER,
        ("ask for another number: `scontrol update JobId={job} NumNodes=N`", _PARTITION),
        facts=("partition", "nodes"),
        never=True,
    ),
    Reason(
        "PartitionTimeLimit",
        "The job asks for a longer time than jobs of the partition may have.",
        USER,
        (_TIME, _PARTITION),
        facts=("partition",),
        never=True,
    ),
    Reason(
        "PartitionConfig",
        "What the job asks for is not allowed by the partition's settings.",
        USER,
        ("`scontrol show partition` says what is", _PARTITION),
        facts=("partition", "room"),
    ),
)
_CLUSTER_ROWS = (
    Reason(
        "ReqNodeNotAvail",
        "Nodes that the job needs are down, drained, or reserved.",
        CLUSTER,
        ("wait until they are back", _NODES, _TIME + ", if a reservation is near"),
        facts=("nodes", "reserved"),
    ),
    Reason(
        "NodeDown",
        "A node that the job needs is down.",
        CLUSTER,
        ("wait until it is back", _NODES),
        facts=("nodes", "reserved"),
    ),
    Reason("FrontEndDown", "No front-end node is up to start the job on.", CLUSTER, (_ASK,)),
    Reason(
        "Reservation",
        "The job waits for its reservation: it has not begun, or has no room.",
        TIME,
        ("wait until it begins", "leave it: `scontrol update JobId={job} ReservationName=`"),
        facts=("reservation",),
    ),
    Reason(
        "ReservationDeleted",
        "The reservation that the job was submitted to is gone.",
        USER,
        ("leave it: `scontrol update JobId={job} ReservationName=`, then `scontrol release {job}`",),
        facts=("reservation",),
        never=True,
    ),
    Reason(
        "ReservationInvalid",
        "The reservation that the job asks for cannot be used by it.",
        USER,
        ("leave it: `scontrol update JobId={job} ReservationName=`",),
        facts=("reservation",),
        never=True,
    ),
    Reason(
        "Licenses",
        "Too few licences are free.",
        JOBS,
        ("wait until jobs give some back", "ask for fewer: `scontrol update JobId={job} Licenses=NAME:N`"),
        facts=("licenses",),
    ),
    Reason(
        "BurstBufferResources",
        "Too little room is free in the burst buffer.",
        JOBS,
        ("wait; `scontrol show burstbuffer` shows what is in it",),
    ),
    Reason(
        "BurstBufferStageIn",
        "The job's files are being brought into the burst buffer.",
        SLURM,
        ("wait until they are",),
    ),
    Reason(
        "BurstBufferOperation",
        "Something failed in the burst buffer.",
        ADMINISTRATOR,
        ("`scontrol show job {job}` says what", _ASK),
    ),
    Reason("FedJobLock", "Another cluster of the federation is about to start the job.", SLURM, ("wait a minute",)),
    Reason(
        "MaxPoweredUpNodes",
        "As many nodes are powered up as may be; the job would need more.",
        CLUSTER,
        ("wait until jobs end",),
        facts=("ahead", "nodes"),
    ),
    Reason("MpiPortsBusy", "No ports are free for its MPI on the nodes.", CLUSTER, ("wait until jobs end there",)),
    Reason("NvidiaImexChannels", "No IMEX channel is free for its GPUs.", CLUSTER, ("wait until jobs end",)),
    Reason("PowerNotAvail", "Too little power is available to run the job.", CLUSTER, ("wait until jobs end",)),
    Reason("PowerReserved", "The power that the job needs is reserved.", CLUSTER, ("wait until it is not",)),
    Reason("BlockMaxError", "A block of nodes has an error (Blue Gene).", CLUSTER, (_ASK,)),
    Reason("BlockFreeAction", "A block of nodes is being freed (Blue Gene).", CLUSTER, ("wait some minutes",)),
)
_ENDED_ROWS = tuple(
    Reason(
        name, f"{words} {_ENDED}", USER, ("`slurmscope job {job}` says what is known of it", _RELEASE), ("restarts",)
    )
    for name, words in (
        ("NonZeroExitCode", "The job ended with an exit code other than zero."),
        ("RaisedSignal", "The job was ended by a signal."),
        ("TimeLimit", "The job came to the end of its time limit."),
        ("InactiveLimit", "The job was idle for longer than it may be."),
        ("OutOfMemory", "The job used more memory than it had."),
    )
)

ROWS: tuple[Reason, ...] = (
    *_QUEUE_ROWS,
    *_USER_ROWS,
    *_ADMIN_ROWS,
    *_PARTITION_ROWS,
    *_CLUSTER_ROWS,
    *RETIRED_LIMITS,
    *LIMITS,
    *_ENDED_ROWS,
)
REASONS = {row.name: row for row in ROWS}
_BY_FOLDED = {name.casefold(): name for name in REASONS}

# squeue prints a description in place of the reason where slurmctld has one; these are those that begin otherwise.
_DESCRIPTIONS = (
    ("nodes required for job are", "Resources"),
    ("reserved for maintenance", "ReqNodeNotAvail"),
    ("launch fail", "JobHeldAdmin"),
    ("user env retrieval failed", "JobHeldAdmin"),
    ("job requeued in held state", "JobHeldUser"),
    ("job requeued in special exit state", "JobHeldUser"),
    ("job's account not permitted", "AccountNotAllowed"),
    ("job's qos not permitted", "QOSNotAllowed"),
    ("burst_buffer/", "BurstBufferOperation"),
)
_WORD = re.compile(r"[A-Za-z]+")
_LONGEST = 2000  # of what is looked at; nodes may be listed


class Told(msgspec.Struct, frozen=True):
    """A reason as it was found: its name in the table, or else all of it, and what is said besides."""

    name: str
    text: str = ""

    @property
    def known(self) -> bool:
        return self.name in REASONS


@lru_cache(4096)
def parse(reason: str | None) -> Told:
    """What squeue, scontrol or slurmrestd print, in whatever brackets and case, with or without more words."""
    said = (reason or "")[:_LONGEST].strip()
    while len(said) > 1 and said[0] == "(" and said[-1] == ")":
        said = said[1:-1].strip()
    if not said:
        return Told("None")
    word = _WORD.match(said)
    if word and (name := _BY_FOLDED.get(word[0].casefold())):
        rest = said[word.end() :]
        if not rest or not (rest[0].isalnum() or rest[0] in "_-/"):
            text = rest.strip(" ,:;_")
            return Told(name, text[1:-1] if text.startswith("(") and text.endswith(")") else text)
        if rest[0] == "_" and rest.startswith("_("):  # as scontrol writes blanks
            return Told(name, rest.strip("_()"))
    spaced = said.replace("_", " ").casefold() if " " not in said else said.casefold()
    for beginning, name in _DESCRIPTIONS:
        if spaced.startswith(beginning) or said.casefold().startswith(beginning):
            return Told(name, said)
    return Told(said)


def reason_of(told: Told) -> Reason:
    """The row, or an honest one for what is not in the table."""
    return REASONS.get(told.name) or Reason(
        told.name,
        "Slurm gives a reason that slurmscope does not know; it is shown as Slurm printed it.",
        SLURM,
        ("`scontrol show job {job}` may say more", _ASK),
        facts=("ahead",),
    )
