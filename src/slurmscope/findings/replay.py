# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Judging all jobs of a time, without telling anybody: who would have been told what, and what it cost."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from slurmscope.findings.case import INTERACTIVE, Case, case
from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.ground import Ground
from slurmscope.findings.history import DAY, DAYS, StorePast, WindowPast
from slurmscope.findings.judgement import judge, weight
from slurmscope.findings.past import Past
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import BAD, Finding, Waste
from slurmscope.life import Life
from slurmscope.store.protocol import Lives, Progress, Store
from slurmscope.summary import Moment, Summary, moments

_BATCH = 500  # jobs whose summaries are read at once
_WORST = 3  # jobs of a person and a rule that are named

BEFORE = 7
"""Days before the time that is judged of which jobs are known as earlier runs."""


class Worst(msgspec.Struct, frozen=True):
    """One job of which somebody would have been told."""

    job: str  # 123, or 123_4 for a task of an array
    id: int
    submit_time: int
    name: str
    headline: str
    cost: Cost  # of what was wasted or lost


class Told(msgspec.Struct, frozen=True):
    """What one person would have been told by one rule."""

    cluster: str
    user: str
    rule: str
    severity: str  # the worst of them
    jobs: int
    cost: Cost  # of what was wasted
    worst: tuple[Worst, ...]  # the worst jobs, those that cost the most first
    lost: Cost = Cost()  # by nodes that failed: nobody's waste


class Replay(msgspec.Struct, frozen=True):
    since: int
    until: int
    judged: int  # jobs that ran
    measured: int  # … of which it is known what they used over time
    told: int  # … of which somebody would have been told
    people: int  # who would have been
    held: Cost  # by all that were judged
    wasted: Cost  # each job's once, whatever the number of rules that say so
    rows: tuple[Told, ...]  # the largest waste first
    lost: Cost = Cost()  # by nodes that failed


class _Sum:
    """Of one person and one rule."""

    def __init__(self) -> None:
        self.jobs = 0
        self.cost = self.lost = Cost()
        self.severity = ""
        self._worst: list[tuple[float, int, Worst]] = []

    def add(self, life: Life, finding: Finding, wasted: Cost, lost: Cost) -> None:
        self.jobs += 1
        self.cost += wasted
        self.lost += lost
        cost = wasted + lost
        self.severity = BAD if BAD in (self.severity, finding.severity) else finding.severity
        found = Worst(_number(life), life.id, life.submit_time or 0, life.name, finding.headline, cost)
        # the count keeps heaps from comparing what cannot be compared, and those that come first before the others
        entry = weight(cost) or cost.memory_byte_seconds / (1 << 40), -self.jobs, found
        (heapq.heappush if len(self._worst) < _WORST else heapq.heappushpop)(self._worst, entry)

    def told(self, cluster: str, user: str, rule: str) -> Told:
        worst = tuple(one for _, _, one in sorted(self._worst, key=lambda one: one[:2], reverse=True))
        return Told(cluster, user, rule, self.severity, self.jobs, self.cost, worst, self.lost)


class _Sums:
    def __init__(self, policy: Policy, prices: Prices, rules: Collection[str]) -> None:
        self._policy = policy
        self._prices = prices
        self._rules = rules
        self._by: dict[tuple[str, str, str], _Sum] = {}
        self._judged = self._measured = self._told = 0
        self._held = self._wasted = self._lost = Cost()

    def add(self, one: Case) -> None:
        life, summary, now = one.life, one.summary, one.now
        self._judged += 1
        self._measured += summary is not None
        self._held += self._prices.job(life, summary, now)
        findings = [
            found for found in judge(one, self._policy).findings if not self._rules or found.rule in self._rules
        ]
        if not findings:
            return
        self._told += 1
        self._wasted += self._prices.waste(life, summary, now, _largest([found.waste for found in findings]))
        self._lost += self._prices.waste(life, summary, now, _largest([found.lost for found in findings]))
        for found in findings:
            costs = (self._prices.waste(life, summary, now, one) for one in (found.waste, found.lost))
            self._by.setdefault((life.cluster, life.user, found.rule), _Sum()).add(life, found, *costs)

    def replay(self, since: int, until: int) -> Replay:
        rows = [found.told(*key) for key, found in self._by.items()]
        rows.sort(key=lambda row: (-weight(row.cost), -row.jobs, row.cluster, row.user, row.rule))
        people = len({(row.cluster, row.user) for row in rows})
        counts = self._judged, self._measured, self._told, people
        return Replay(since, until, *counts, self._held, self._wasted, tuple(rows), self._lost)


def replay(
    store: Store,
    clusters: Sequence[str],
    since: int,
    until: int,
    policy: Policy,
    prices: Prices,
    *,
    user: str | None = None,
    rules: Collection[str] = (),
    interactive: Sequence[str] = INTERACTIVE,
    progress: Progress = lambda done, of: None,
) -> Replay:
    """All jobs that ended from `since` to before `until`, and those that run at that time.

    With `user` only theirs, and with `rules` only what these say where no other rule says more. Rules know of a
    week before. `interactive` is as for a case.
    """
    sums = _Sums(policy, prices, rules)
    asked = {cluster: _asked(cluster, since, until, user) for cluster in clusters}
    of = sum(store.count(one) for both in asked.values() for one in both)
    done = 0
    for cluster, both in asked.items():
        lives = [life for one in both for life in store.lives(one)]
        ran = [life for life in lives if life.started and (life.start_time or 0) < until]
        done += len(lives) - len(ran)
        nodes = [kept.node for kept in store.nodes(cluster)]
        ground = Ground(nodes)
        past = (
            StorePast(store, cluster) if user is not None else window(store, cluster, since, until, lives, len(nodes))
        )
        for batch in _batches(ran):
            summaries = store.summaries(cluster, [life.key for life in batch])
            for life in batch:
                summary = summaries.get(life.key)
                sums.add(case(life, summary, ground, past, until, _line(store, life, summary), interactive))
            done += len(batch)
            progress(done, of)
    return sums.replay(since, until)


def window(store: Store, cluster: str, since: int, until: int, lives: Sequence[Life], nodes: int) -> Past:
    """In memory: asking a store for each job would take many times as long."""
    known, first = since - BEFORE * DAY, since - DAYS * DAY
    earlier = store.lives(Lives(cluster=cluster, ended_since=known, ended_before=since, limit=None))
    # of nodes more days are told than of jobs
    asked = Lives(cluster=cluster, states=("NODE_FAIL",), ended_since=first, ended_before=known, limit=None)
    return WindowPast([*store.lives(asked), *earlier, *lives], store.node_changes(cluster, first, until), nodes)


def _asked(cluster: str, since: int, until: int, user: str | None) -> tuple[Lives, Lives]:
    ended = Lives(cluster=cluster, user=user, ended_since=since, ended_before=until, limit=None)
    return ended, Lives(cluster=cluster, user=user, open=True, until=until, limit=None)


def _batches(lives: Sequence[Life]) -> Iterator[Sequence[Life]]:
    for at in range(0, len(lives), _BATCH):
        yield lives[at : at + _BATCH]


def _line(store: Store, life: Life, summary: Summary | None) -> Callable[[], Sequence[Moment]]:
    """Read only for a rule that looks at it: that costs more than all the rest."""

    def read() -> Sequence[Moment]:
        course = None if summary is None else store.course(life.cluster, *life.key)
        return () if course is None else moments(course)

    return read


def _largest(wastes: Sequence[Waste]) -> Waste:
    """Rules that fire together may speak of the same hours."""
    return Waste(
        max(one.cpu_seconds for one in wastes),
        max(one.gpu_seconds for one in wastes),
        max(one.memory_byte_seconds for one in wastes),
    )


def _number(life: Life) -> str:
    return f"{life.array_id}_{life.array_tasks}" if life.array_id and life.array_tasks else str(life.id)
