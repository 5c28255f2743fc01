# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a cluster's accounts as somebody may see it: shares, what runs and waits in each, what blocks it.

The staff sees all of it. Others see the accounts that they coordinate, with everybody in them, and those that they
belong to, with their own row only; what runs and waits is counted of the jobs that they see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from slurmscope.model import HOLDING_STATES, WAITING_STATES, Job, Limit, Share, Snapshot
from slurmscope.waiting.blocked import Blocked, blocked, full
from slurmscope.waiting.reason import ASSOCIATION_LIMIT
from slurmscope.web.memory import Same
from slurmscope.web.people.viewer import Viewer
from slurmscope.web.site import Site

Key = tuple[str, str | None]
"""An account, and who in it; None: the account itself."""
Counts = Counter[Key]


class Branch(msgspec.Struct, frozen=True):
    """A row: an account, or somebody in it. Counts are of tasks, of an account with those of all below it."""

    cluster: str
    share: Share
    indent: int  # how many of those above it are shown
    people: int  # that belong to the account
    running: int
    waiting: int
    blocked: int  # of those that wait: by a limit
    limit: Limit | None  # the fullest of its own


class Shape(msgspec.Struct, frozen=True):
    """The tree as it is, whoever looks."""

    accounts: dict[str, Share]
    children: dict[str | None, list[Share]]
    """Of each account, those just below it and who belongs to it; of None, what has nothing above it."""
    of_user: dict[str, list[Share]]
    """Those of each, in whatever account."""
    limits: dict[Key, Limit]
    """Of each account, and of each who has one there, the fullest."""


def _shape(snapshot: Snapshot) -> Shape:
    shares = snapshot.shares.value or ()
    accounts = {one.account: one for one in shares if one.user is None}
    children: dict[str | None, list[Share]] = {}
    of_user: dict[str, list[Share]] = {}
    for one in shares:
        above = one.account if one.user is not None else one.parent
        children.setdefault(above if above in accounts else None, []).append(one)
        if one.user:
            of_user.setdefault(one.user, []).append(one)
    limits: dict[Key, Limit] = {}
    for limit in snapshot.limits.value or ():
        if limit.kind != ASSOCIATION_LIMIT or limit.used is None or limit.account is None:
            continue
        key = limit.account, limit.user
        if key not in limits or full(limit) > full(limits[key]):
            limits[key] = limit
    return Shape(accounts, children, of_user, limits)


def shape(site: Site, snapshot: Snapshot) -> Shape:
    """It changes with a poll, and not with each that looks; there may be many thousand accounts."""
    parts = (snapshot.part(name).value for name in ("limits", "shares"))
    return site.remembered(("shape", snapshot.cluster), Same(*parts), lambda: _shape(snapshot))


class Facts(msgspec.Struct, frozen=True):
    """What runs and waits, whoever looks."""

    blocked: list[Blocked]
    running: Counts  # tasks by account and user
    waiting: Counts
    jobs: dict[str, list[Job]]  # by user


def facts(site: Site, snapshot: Snapshot) -> Facts:
    """They change with a poll, too."""
    parts = (snapshot.part(name).value for name in ("jobs", "limits", "shares", "partitions"))
    return site.remembered(("facts", snapshot.cluster), Same(*parts), lambda: _facts(snapshot))


def _facts(snapshot: Snapshot) -> Facts:
    running: Counts = Counter()
    waiting: Counts = Counter()
    jobs: dict[str, list[Job]] = {}
    for job in snapshot.jobs.value or ():
        jobs.setdefault(job.user, []).append(job)
    for user, some in jobs.items():
        for job in some:
            if job.state in HOLDING_STATES:
                running[job.account, user] += job.tasks
            elif job.state in WAITING_STATES:
                waiting[job.account, user] += job.tasks
    return Facts(blocked(snapshot), running, waiting, jobs)


class Tree:
    def __init__(self, site: Site, cluster: str, viewer: Viewer) -> None:
        self.cluster = cluster
        self.viewer = viewer
        self.snapshot = site.snapshot(cluster)
        self._site = site
        self._shape = shape(site, self.snapshot)
        self.accounts = self._shape.accounts
        self.children = self._shape.children

    @cached_property
    def _facts(self) -> Facts:
        return facts(self._site, self.snapshot)

    @cached_property
    def own(self) -> frozenset[str]:
        """The accounts that the viewer belongs to."""
        return frozenset(one.account for one in self.shares_of(self.viewer.name))

    def shares_of(self, user: str) -> Sequence[Share]:
        """In whatever account, whoever looks."""
        return self._shape.of_user.get(user, ())

    @cached_property
    def blocked(self) -> list[Blocked]:
        """By which limit, with the jobs that the viewer sees."""
        return self._facts.blocked if self.viewer.staff else self.blocked_of(lambda user, account: True)

    def blocked_of(self, wanted: Callable[[str, str], bool]) -> list[Blocked]:
        """Only with those of some users and accounts; the most first."""
        found = []
        for one in self._facts.blocked:
            waiting = {key: tasks for key, tasks in one.waiting.items() if wanted(*key) and self._sees_job(*key)}
            if waiting:
                found.append(replace(one, waiting=waiting))
        return sorted(found, key=lambda one: -one.tasks)

    def _sees_job(self, user: str, account: str) -> bool:
        return self.viewer.sees_job(self.cluster, user, account)

    def sees_account(self, account: str) -> bool:
        """Its row, which is less than its page."""
        return self.viewer.sees_account(self.cluster, account) or account in self.own

    def sees(self, share: Share) -> bool:
        if share.user is None:
            return self.sees_account(share.account)
        return self.viewer.sees_account(self.cluster, share.account) or self.viewer.sees_user(share.user)

    def above(self, account: str) -> list[str]:
        """The account and those above it, as far as they are known."""
        found = [account]
        while (one := self.accounts.get(found[-1])) and one.parent and one.parent not in found:
            found.append(one.parent)
        return found

    def below(self, account: str) -> list[str]:
        """All accounts below it."""
        found: dict[str, None] = {}
        todo = [account]
        while todo:
            new = [one.account for one in self.children.get(todo.pop(), ()) if one.user is None]
            new = [one for one in new if one not in found and one != account]
            found.update(dict.fromkeys(new))
            todo += new
        return list(found)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def walk(self, under: str = "", depth: int = 0, *, people: bool = True) -> Iterator[tuple[Share, int]]:
        """In the order of the tree, each with how many of those above it are shown; down to so many levels of accounts,
        where `depth` is not 0. Who is not of the staff sees their own rows in any case."""
        first = [self.accounts[under]] if under in self.accounts else [] if under else self.children.get(None, [])
        todo = [(one, 0) for one in reversed(first)]
        walked = set()
        while todo:
            share, indent = todo.pop()
            if share.user is not None:
                if self.sees(share) and (people or (share.user == self.viewer.name and not self.viewer.staff)):
                    yield share, indent
                continue
            if share.account in walked:
                continue
            walked.add(share.account)
            seen = self.sees(share)
            if seen and depth and indent >= depth:
                continue
            if seen:
                yield share, indent
            todo += [(one, indent + seen) for one in reversed(self.children.get(share.account, []))]

    def counts(self, account: str, user: str | None = None) -> tuple[int, int, int]:
        """Tasks that run, that wait, and that a limit blocks, as far as the viewer sees them."""
        return self._counts.get((account, user), (0, 0, 0))

    def branch(self, share: Share, indent: int = 0) -> Branch:
        key = share.account, share.user
        # of a person's row there is nobody to count, and an account may have thousands of them
        members = self.children.get(share.account, ()) if share.user is None else ()
        people = {one.user for one in members if one.user is not None and self.sees(one)}
        return Branch(
            self.cluster,
            share,
            indent,
            len(people),
            *self.counts(*key),
            self._shape.limits.get(key),
        )

    @cached_property
    def _counts(self) -> dict[Key, tuple[int, int, int]]:
        """Of each account, and of each in it."""
        told = self._facts
        stopped: Counts = Counter()
        for one in told.blocked:
            for (user, account), tasks in one.waiting.items():
                stopped[account, user] += tasks
        running, waiting, held = map(self._summed, (told.running, told.waiting, stopped))
        return {key: (running[key], waiting[key], held[key]) for key in {*running, *waiting}}

    def _summed(self, counts: Counts) -> Counts:
        """What the viewer sees of them, with the sums of accounts and of those above them."""
        found: Counts = Counter()
        own: Counter[str] = Counter()
        for (account, user), tasks in counts.items():
            if user is not None and self._sees_job(user, account):
                found[account, user] += tasks
                own[account] += tasks
        for account, tasks in own.items():
            for one in self.above(account):
                found[one, None] += tasks
        return found

    def jobs_of(self, user: str) -> list[Job]:
        """What of somebody's is in the queue now, whoever looks."""
        return self._facts.jobs.get(user, [])

    def jobs_seen(self) -> list[Job]:
        """What is in the queue now that the viewer sees."""
        if self.viewer.staff or self.viewer.leads:
            return [job for job in self.snapshot.jobs.value or () if self._sees_job(job.user, job.account)]
        return self.jobs_of(self.viewer.name) if self.viewer.name else []

    # --- limits -------------------------------------------------------------------------------------------------------

    def limits(self) -> list[Limit]:
        """Those that the viewer may see, the fullest first. What holds for a whole QOS is nobody's."""
        found = [one for one in self.snapshot.limits.value or () if self._sees_limit(one)]
        return sorted(found, key=lambda one: -full(one))

    def _sees_limit(self, limit: Limit) -> bool:
        if self.viewer.staff or (limit.user is not None and limit.user == self.viewer.name):
            return True
        if limit.account is not None and self.viewer.sees_account(self.cluster, limit.account):
            return True
        return limit.user is None and (limit.account is None or limit.account in self.own)

    def limits_of_account(self, account: str) -> list[Limit]:
        """Those that all jobs of an account count against, and those of its members in it."""
        above = self.above(account)
        found = [one for one in self.snapshot.limits.value or () if one.account == account or self._group(one, above)]
        return sorted(found, key=lambda one: -full(one))

    def limits_of_user(self, user: str, accounts: Collection[str]) -> list[Limit]:
        """Those that hold for somebody's jobs in these accounts, by the QOS of what they have in the queue."""
        above = {one for account in accounts for one in self.above(account)}
        own = [job for job in self.jobs_of(user) if job.account in accounts]
        given = {one.name: one.qos for one in self.snapshot.partitions.value or ()}
        classes = {job.qos for job in own} | {given.get(name) for job in own for name in job.partitions}

        def holds(limit: Limit) -> bool:
            if limit.kind == ASSOCIATION_LIMIT:
                return self._group(limit, above) or (limit.account in accounts and limit.user in (None, user))
            whole = limit.user is None and (limit.account is None or limit.account in accounts)
            return limit.user == user or (whole and limit.qos in classes)

        return sorted(filter(holds, self.snapshot.limits.value or ()), key=lambda one: -full(one))

    @staticmethod
    def _group(limit: Limit, accounts: Collection[str]) -> bool:
        """It holds for all jobs of one of these accounts together."""
        shared = limit.kind == ASSOCIATION_LIMIT and limit.user is None and limit.name.startswith("Grp")
        return shared and limit.account in accounts
