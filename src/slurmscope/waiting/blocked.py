# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits for which limit: all jobs of a queue whose reason is one, by the limit that it is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from slurmscope.model import Job, Limit, Snapshot
from slurmscope.waiting.case import Case
from slurmscope.waiting.limits import behind, shown, told
from slurmscope.waiting.reason import ACCOUNT, QOS, QOS_LIMIT, Reason
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.words import Say, english

_UNNAMED = "AccountingPolicy"
"""What Slurm says where it does not say which limit it is."""


class Blocked(msgspec.Struct, frozen=True):
    """A limit, and who waits for it with how many tasks."""

    limit: Limit | None  # None: Slurm does not say which it is, or it is not among those that were read
    reason: str  # as the table of reasons has it
    waiting: dict[tuple[str, str], int]  # tasks by user and account

    @property
    def tasks(self) -> int:
        return sum(self.waiting.values())

    @property
    def users(self) -> dict[str, int]:
        return self._by(0)

    @property
    def accounts(self) -> dict[str, int]:
        return self._by(1)

    @property
    def words(self) -> str:
        return self.said(english)

    def said(self, say: Say) -> str:
        return self.reason if self.limit is None else told(self.limit, say)

    def _by(self, place: int) -> dict[str, int]:
        """The most first."""
        found: dict[str, int] = {}
        for key, tasks in self.waiting.items():
            found[key[place]] = found.get(key[place], 0) + tasks
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def short(limit: Limit) -> str:
    """`GrpTRES gres/gpu=64`, without whose it is."""
    what = f"{limit.name} {limit.tres}" if limit.tres else limit.name
    amount = shown(limit, limit.limit)
    return f"{what}={amount.partition(' ')[0] if limit.unit == 'count' else amount}"


def by_limit(reason: Reason) -> bool:
    return reason.limit is not None or reason.decides in (ACCOUNT, QOS) or reason.name == _UNNAMED


def blocked(snapshot: Snapshot, sees: Callable[[Job], bool] = lambda job: True) -> list[Blocked]:
    """By how many tasks wait for it, the most first. Only jobs are counted that the reader `sees`."""
    alike: dict[tuple[object, ...], list[Job]] = {}
    # of a hundred thousand jobs there are some dozens of reasons
    names: dict[str | None, str | None] = {}
    for job in snapshot.jobs.value or ():
        if not job.waiting:
            continue
        if job.reason not in names:
            names[job.reason] = _limiting(job.reason)
        name = names[job.reason]
        if name is not None and sees(job):
            # those that are alike wait for the same limit: it is looked for once
            key = name, job.user, job.account, job.qos, job.partition, *sorted(job.gpus)
            alike.setdefault(key, []).append(job)
    limits = _Limits(snapshot)
    found: dict[tuple[str, Limit | None], dict[tuple[str, str], int]] = {}
    for some in alike.values():
        first = some[0]
        name = parse(first.reason).name
        waiting = found.setdefault((name, limits.of(first)), {})
        who = first.user, first.account
        waiting[who] = waiting.get(who, 0) + sum(one.tasks for one in some)
    rows = [Blocked(limit, name, waiting) for (name, limit), waiting in found.items()]
    return sorted(rows, key=lambda one: (-one.tasks, one.words))


def _limiting(reason: str | None) -> str | None:
    """The reason's name; None where it is no limit."""
    found = parse(reason)
    return found.name if by_limit(reason_of(found)) else None


class _Limits:
    """Those that were read, by whose they are: a large site has ten thousands."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._case: Case | None = None
        self._found: dict[tuple[str, str, str | None, str | None], list[Limit]] = {}
        for one in snapshot.limits.value or ():
            self._found.setdefault((one.kind, one.name, one.account, one.user), []).append(one)

    def of(self, job: Job) -> Limit | None:
        """The fullest of those that keep it waiting."""
        reason = reason_of(parse(job.reason))
        wanted = reason.limit
        if wanted is None:
            return None
        if self._case is None:  # what it knows of accounts and partitions is the same for all
            self._case = Case(job, self._snapshot, parse(job.reason), reason, 0.0)
        accounts = (None, job.account) if wanted.kind == QOS_LIMIT else self._case.above(job.account)
        named = [
            one
            for account in accounts
            for user in (None, job.user)
            for one in self._found.get((wanted.kind, wanted.name, account, user), ())
        ]
        fitting = [one for one in named if wanted.fits(one.kind, one.name, one.tres)]
        return max(behind(self._case, wanted, fitting, job), key=full, default=None)


def full(limit: Limit) -> float:
    """How much of it is used, as a share; one that has no tally is 0."""
    if not limit.limit:
        return float("inf")
    return (limit.used or 0) / limit.limit
