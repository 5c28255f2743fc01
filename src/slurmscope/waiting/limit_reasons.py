# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the reasons that are limits: whose limit, times its kind, times what is limited.

The names follow a rule; those that were there before it are spelled otherwise, and `_SPELLED` has them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from slurmscope.waiting.reason import ACCOUNT, ASSOCIATION_LIMIT, QOS, QOS_LIMIT, LimitOf, Reason

_WAIT = "wait until jobs that count against the limit end"
_RAISE = "ask the administrator for more"
_TIME = "shorten its time limit: `scontrol update JobId={job} TimeLimit=D-HH:MM:SS`"
_ANEW = "cancel it (`scancel {job}`) and submit it again with less"
_OTHER_QOS = "use another QOS: `scontrol update JobId={job} QOS=NAME`"
_MORE = "ask for more: cancel it (`scancel {job}`) and submit it again"


class _Thing(msgspec.Struct, frozen=True):
    """What is limited: in names, in `Limit.tres`, for people, and how to ask for less of it."""

    name: str
    tres: str
    words: str
    less: str


_THINGS = (
    _Thing("Cpu", "cpu", "CPUs", "ask for fewer CPUs: `scontrol update JobId={job} NumCPUs=N`"),
    _Thing("Mem", "mem", "memory", "ask for less memory: `scontrol update JobId={job} MinMemoryNode=MEGABYTES`"),
    _Thing("Node", "node", "nodes", "ask for fewer nodes: `scontrol update JobId={job} NumNodes=N`"),
    _Thing("GRES", "gres/", "GPUs or other generic resources", "ask for fewer GPUs: " + _ANEW),
    _Thing("License", "license/", "licences", "ask for fewer licences: `scontrol update JobId={job} Licenses=NAME:N`"),
    _Thing("Billing", "billing", "billing units", _ANEW),
    _Thing("BB", "bb/", "room in the burst buffer", _ANEW),
    _Thing("Energy", "energy", "energy", _ANEW),
    _Thing("Unknown", "", "of a resource that Slurm does not name", _ANEW),
)


class _Kind(msgspec.Struct, frozen=True):
    pattern: str  # of the name
    limit: str
    words: str
    help: tuple[str, ...]  # besides asking for less
    not_for: frozenset[str] = frozenset()
    never: bool = False


_TIMED = (_TIME, _WAIT)
_ASSOCIATION_KINDS = (
    _Kind(
        "AssocGrp{}",
        "GrpTRES",
        "All running jobs of the account together hold so much ({}) that this one would go beyond its limit.",
        (_WAIT, _RAISE),
    ),
    _Kind(
        "AssocGrp{}Minutes",
        "GrpTRESMins",
        "The account has used up what it may use over time ({}, times minutes).",
        ("wait until its past use has decayed or is reset, if that is done here", _RAISE),
    ),
    _Kind(
        "AssocGrp{}RunMinutes",
        "GrpTRESRunMins",
        "What the account's running jobs may still use until their time limits ({}, times minutes) is at its limit.",
        (*_TIMED, _RAISE),
    ),
    _Kind(
        "AssocMax{}PerJob",
        "MaxTRESPJ",
        "The job asks for more than one job of the account may have ({}).",
        (_RAISE,),
        never=True,
    ),
    _Kind(
        "AssocMax{}PerNode",
        "MaxTRESPN",
        "The job asks for more on one node than a job of the account may have ({}).",
        (_RAISE,),
        frozenset({"Node", "License"}),
        never=True,
    ),
    _Kind(
        "AssocMax{}MinutesPerJob",
        "MaxTRESMinsPJ",
        "The job asks for more, times its time limit, than one job of the account may have ({}, times minutes).",
        (_TIME, _RAISE),
        never=True,
    ),
)
_QOS_KINDS = (
    _Kind(
        "QOSGrp{}",
        "GrpTRES",
        "All running jobs of the QOS together hold so much ({}) that this one would go beyond its limit.",
        (_WAIT, _OTHER_QOS),
    ),
    _Kind(
        "QOSGrp{}Minutes",
        "GrpTRESMins",
        "What all jobs of the QOS may use over time is used up ({}, times minutes).",
        ("wait until the past use has decayed or is reset, if that is done here", _OTHER_QOS),
    ),
    _Kind(
        "QOSGrp{}RunMinutes",
        "GrpTRESRunMins",
        "What the running jobs of the QOS may still use until their time limits ({}, times minutes) is at its limit.",
        (*_TIMED, _OTHER_QOS),
    ),
    _Kind(
        "QOSMax{}PerJob",
        "MaxTRESPJ",
        "The job asks for more than one job of the QOS may have ({}).",
        (_OTHER_QOS,),
        never=True,
    ),
    _Kind(
        "QOSMax{}PerNode",
        "MaxTRESPN",
        "The job asks for more on one node than a job of the QOS may have ({}).",
        (_OTHER_QOS,),
        frozenset({"Node", "License"}),
        never=True,
    ),
    _Kind(
        "QOSMax{}PerUser",
        "MaxTRESPU",
        "The user's running jobs hold as much as one user may have in the QOS ({}).",
        (_WAIT, _OTHER_QOS),
    ),
    _Kind(
        "QOSMax{}MinutesPerJob",
        "MaxTRESMinsPJ",
        "The job asks for more, times its time limit, than one job of the QOS may have ({}, times minutes).",
        (_TIME, _OTHER_QOS),
        # Slurm prints AssocMaxBBMinutesPerJob for both
        frozenset({"BB"}),
        never=True,
    ),
    _Kind("QOSMin{}", "MinTRESPJ", "The job asks for less than a job of the QOS must ({}).", (_OTHER_QOS,), never=True),
    _Kind(
        "Max{}PerAccount",
        "MaxTRESPA",
        "The account's running jobs hold as much as one account may have in the QOS ({}).",
        (_WAIT, _OTHER_QOS),
    ),
    _Kind(
        "Max{}RunMinsPerAccount",
        "MaxTRESRunMinsPA",
        "What the account may still use in the QOS until its jobs' time limits ({}, times minutes) is at its limit.",
        (*_TIMED, _OTHER_QOS),
    ),
    _Kind(
        "Max{}RunMinsPerUser",
        "MaxTRESRunMinsPU",
        "What the user may still use in the QOS until the jobs' time limits ({}, times minutes) is at its limit.",
        (*_TIMED, _OTHER_QOS),
    ),
)
_SPELLED = {
    "AssocGrpCpuMinutes": "AssocGrpCPUMinutesLimit",
    "AssocGrpCpuRunMinutes": "AssocGrpCPURunMinutesLimit",
    "QOSGrpCpuMinutes": "QOSGrpCPUMinutesLimit",
    "QOSGrpCpuRunMinutes": "QOSGrpCPURunMinutesLimit",
    "QOSMinCpu": "QOSMinCpuNotSatisfied",
    "QOSGrpMemory": "QOSGrpMemLimit",
} | {
    name: name + "Limit"
    for name in (
        "AssocGrpCpu",
        "AssocGrpMem",
        "AssocGrpNode",
        "AssocMaxCpuPerJob",
        "AssocMaxCpuMinutesPerJob",
        "AssocMaxNodePerJob",
        "QOSGrpCpu",
        "QOSGrpNode",
        "QOSMaxCpuPerJob",
        "QOSMaxCpuMinutesPerJob",
        "QOSMaxNodePerJob",
        "QOSMaxCpuPerUser",
        "QOSMaxNodePerUser",
    )
}


def _regular(kinds: tuple[_Kind, ...], decides: str, of: str) -> Iterator[Reason]:
    for kind in kinds:
        for thing in _THINGS:
            if thing.name in kind.not_for:
                continue
            memory = thing.name == "Mem" and of == QOS_LIMIT
            name = kind.pattern.format("Memory" if memory else thing.name)
            less = _MORE if kind.limit.startswith("Min") else thing.less
            actions = (*kind.help, less) if kind.limit.startswith("Grp") else (less, *kind.help)
            limit = LimitOf(of, kind.limit, thing.tres)
            words = kind.words.format(thing.words)
            yield Reason(_SPELLED.get(name, name), words, decides, actions, ("limit", "ahead"), limit, kind.never)


def _single(
    name: str, words: str, decides: str, limit: LimitOf, actions: tuple[str, ...], *, never: bool = False
) -> Reason:
    return Reason(name, words, decides, actions, ("limit",), limit, never)


def _of_account(name: str, limit: str, words: str, *actions: str, never: bool = False) -> Reason:
    return _single(name, words, ACCOUNT, LimitOf(ASSOCIATION_LIMIT, limit), actions, never=never)


def _of_qos(name: str, limit: str, words: str, *actions: str, never: bool = False) -> Reason:
    return _single(name, words, QOS, LimitOf(QOS_LIMIT, limit), actions, never=never)


_FEWER = "have fewer jobs in the queue: `scancel` those that are not needed"
_SINGLE = (
    _of_account("AssocGrpJobsLimit", "GrpJobs", "As many jobs of the account run as may at once.", _WAIT, _RAISE),
    _of_account(
        "AssocGrpSubmitJobsLimit", "GrpSubmitJobs", "As many jobs of the account are in the queue as may be.", _FEWER
    ),
    _of_account(
        "AssocGrpWallLimit", "GrpWall", "The account's jobs have run for as long, together, as they may.", _TIME, _RAISE
    ),
    _of_account("AssocMaxJobsLimit", "MaxJobs", "As many jobs of the user run in this account as may.", _WAIT, _RAISE),
    _of_account(
        "AssocMaxSubmitJobLimit", "MaxSubmitJobs", "As many jobs of the user are in the queue as may be.", _FEWER
    ),
    _of_account(
        "AssocMaxWallDurationPerJobLimit",
        "MaxWallPJ",
        "The job asks for a longer time than a job of the account may have.",
        _TIME,
        never=True,
    ),
    _of_qos("QOSGrpJobsLimit", "GrpJobs", "As many jobs of the QOS run as may at once.", _WAIT, _OTHER_QOS),
    _of_qos("QOSGrpSubmitJobsLimit", "GrpSubmitJobs", "As many jobs of the QOS are in the queue as may be.", _FEWER),
    _of_qos(
        "QOSGrpWallLimit", "GrpWall", "The QOS's jobs have run for as long, together, as they may.", _TIME, _OTHER_QOS
    ),
    _of_qos(
        "QOSMaxJobsPerUserLimit", "MaxJobsPU", "As many jobs of the user run in the QOS as may.", _WAIT, _OTHER_QOS
    ),
    _of_qos(
        "QOSMaxSubmitJobPerUserLimit",
        "MaxSubmitJobsPU",
        "As many jobs of the user are in the queue with this QOS as may be.",
        _FEWER,
    ),
    _of_qos(
        "QOSMaxWallDurationPerJobLimit",
        "MaxWallPJ",
        "The job asks for a longer time than a job of the QOS may have.",
        _TIME,
        _OTHER_QOS,
        never=True,
    ),
    _of_qos("MaxJobsPerAccount", "MaxJobsPA", "As many jobs of the account run in the QOS as may.", _WAIT, _OTHER_QOS),
    _of_qos(
        "MaxSubmitJobsPerAccount",
        "MaxSubmitJobsPA",
        "As many jobs of the account are in the queue with this QOS as may be.",
        _FEWER,
    ),
    Reason(
        "QOSUsageThreshold",
        "The account's fair share has fallen below what the QOS asks for (UsageThreshold).",
        QOS,
        ("wait until its past use has decayed", _OTHER_QOS),
        ("share",),
    ),
)
LIMITS: tuple[Reason, ...] = (
    *_regular(_ASSOCIATION_KINDS, ACCOUNT, ASSOCIATION_LIMIT),
    *_regular(_QOS_KINDS, QOS, QOS_LIMIT),
    *_SINGLE,
)
# Names from before limits were told apart; Slurm still knows them.
RETIRED_LIMITS: tuple[Reason, ...] = tuple(
    Reason(name, f"A limit of the {of} on {what} holds the job back.", decides, (_WAIT, _RAISE), ("limits", "ahead"))
    for of, decides, names in (
        ("account", ACCOUNT, ("AssociationJobLimit", "AssociationResourceLimit", "AssociationTimeLimit")),
        ("QOS", QOS, ("QOSJobLimit", "QOSResourceLimit", "QOSTimeLimit")),
    )
    for name, what in zip(names, ("jobs", "resources", "time"), strict=True)
)
