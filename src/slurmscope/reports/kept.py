# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From what is kept to documents: the one door for the command line, the mail and the pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from slurmscope.findings.case import Case, case
from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.ground import Ground
from slurmscope.findings.history import StorePast, WindowPast
from slurmscope.findings.judgement import Judgement, judge
from slurmscope.findings.past import Past
from slurmscope.findings.policy import Policy
from slurmscope.findings.queue_waits import DAYS, Waits
from slurmscope.findings.request import Request, Runs, next_request
from slurmscope.findings.runs import last_runs
from slurmscope.life import Life
from slurmscope.model import Part, Snapshot
from slurmscope.reports.array import ArrayFacts, Waiting, array_document
from slurmscope.reports.cluster import (
    MONTH_SPLITS,
    SPLITS,
    ClusterFacts,
    cluster_document,
    cluster_facts,
    known,
    month_document,
)
from slurmscope.reports.document import Document
from slurmscope.reports.holder import PAPER, Holder, Looked, holder_document
from slurmscope.reports.job import JobFacts, job_document
from slurmscope.reports.period import Period
from slurmscope.settings import Settings
from slurmscope.store.protocol import JobKey, Lives, Sight, Store, UsageAsked
from slurmscope.summary import Moment, Summary, moments, node_lines
from slurmscope.usage import DAY
from slurmscope.waiting.explanation import Explanation, explain
from slurmscope.waiting.record import Starts, starts
from slurmscope.words import listed

T = TypeVar("T")

_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?")
_MOST_TASKS = 2000  # of an array that are looked at
_MOST_REASONS = 4  # for which tasks of an array wait that are explained
_SAME_ARRAY = 90 * DAY  # within which tasks of one number are of one array

NOT_TOLD = (
    "nobody told of it: it was shorter than agent.interval, or the agent's cluster is another; "
    "`slurmscope agent --check` on its node says"
)
NOT_TAKEN = (
    "by the settings nothing is taken that would tell: none of agents.enabled, trace.enabled and prometheus.url is set"
)


class Remember(Protocol):
    """Gives what was made for that key, or makes it."""

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T: ...


class _Notes:
    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found


class NoSuchJobError(Exception):
    """There is none by that number, or none is kept; the message helps."""


class Reports:
    """Documents of what a store keeps, by the site's settings. Raises PolicyError where its rules are wrong."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        now: int,
        live: Callable[[str], Snapshot | None] = lambda cluster: None,
        *,
        discreet: bool = False,
        remember: Remember | None = None,
    ) -> None:
        """`live` has a cluster as it was last seen, where it is being read: it knows more of why jobs wait. `discreet`:
        why a job waits is told without the names of those before it. `remember`: for how jobs of a partition waited in
        the last weeks, which is not read anew for each report."""
        self._store = store
        self._live = live
        self._discreet = discreet
        self._settings = settings
        self._now = now
        self._prices = Prices(settings.cost)
        self._policy = Policy(settings.rules)
        self._grounds: dict[str, Ground] = {}
        self._pasts: dict[str, Past] = {}
        self._remember: Remember = remember or _Notes()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def job(self, text: str, cluster: str | None = None) -> Document:
        """Of `123`, `123_4`, or of all tasks of an array. Raises NoSuchJobError."""
        return self.lives(self.meant(text, cluster))

    def lives(self, lives: Sequence[Life]) -> Document:
        """Of one life, or of those of an array."""
        return self.life(lives[0]) if len(lives) == 1 else array_document(self._array_facts(lives))

    def meant(self, text: str, cluster: str | None = None, sight: Sight | None = None) -> Sequence[Life]:
        """One life, or all of an array, of `123` or `123_4`: the latest that had that number, among what may be seen.
        Raises NoSuchJobError."""
        wanted = _ID.fullmatch(text)
        if wanted is None:
            raise NoSuchJobError(f"{text!r} is no job: a number is, and 123_4 for the task of an array")
        id_, task = int(wanted[1]), wanted[2]
        lives = self._store.lives(Lives(cluster=cluster, id=id_, sight=sight, limit=_MOST_TASKS))
        if task is not None:
            lives = [life for life in lives if life.array_id == id_ and life.array_tasks == task]
            if not lives:
                lives = self._task(id_, task, cluster, sight)
        if not lives:
            where = f" of {cluster}" if cluster else ""
            raise NoSuchJobError(
                f"no job {text}{where} is kept: `slurmscope store stats` says since when jobs are, "
                "`slurmscope import` reads more"
            )
        latest = lives[0]
        if cluster is None and len(there := sorted({life.cluster for life in lives})) > 1:
            raise NoSuchJobError(f"{text} is a job of {listed(there)}: --cluster says which is meant")
        if task is not None or latest.array_id != id_:
            return [latest]
        # numbers come round again: one that another had before is no task of this array
        tasks = [one for one in lives if (one.array_id, one.cluster, one.user) == (id_, latest.cluster, latest.user)]
        if len({life.array_tasks for life in tasks}) > 1:
            return _latest(tasks)
        return [next((life for life in tasks if life.id == id_), latest)]

    def _task(self, id_: int, task: str, cluster: str | None, sight: Sight | None) -> list[Life]:
        """A task of an array that has more than are looked at."""
        found = self._store.lives(Lives(cluster=cluster, id=id_, sight=sight, limit=None))
        return [life for life in found if life.array_id == id_ and life.array_tasks == task]

    def life(self, life: Life) -> Document:
        """Of one life."""
        return job_document(self.job_facts(life))

    def job_facts(self, life: Life) -> JobFacts:
        summary = self._store.summary(life.cluster, *life.key)
        course = None if summary is None else self._store.course(life.cluster, *life.key)
        found = self._case(life, summary, line=() if course is None else moments(course))
        past = self._past(life.cluster)
        runs = last_runs(self._store, life) if life.started else []
        return JobFacts(
            case=found,
            judgement=judge(found, self._policy),
            cost=self._prices.job(life, found.summary, self._now),
            attempts=past.attempts(life),
            request=self._request(found, runs) if life.started else None,
            waiting=self._explained(life) if not life.started and not life.ended else None,
            same_work=max(0, len(runs) - 1),
            not_measured=self._not_measured(life),
            by_node=None if course is None else node_lines(course),
        )

    def request(self, runs: Sequence[Life], looked: Looked = PAPER) -> Request | None:
        """What to ask for at the next run of some work, of which these are the last runs, the latest first."""
        summaries = self._summaries(runs[0].cluster, [life.key for life in runs])
        latest = self._case(runs[0], summaries.get(runs[0].key))
        return self._request(latest, [(life, summaries.get(life.key)) for life in runs], looked)

    def _case(
        self, life: Life, summary: Summary | None, *, line: Sequence[Moment] = (), past: Past | None = None
    ) -> Case:
        before = past or self._past(life.cluster)
        interactive = self._settings.findings.interactive
        return case(life, summary, self._ground(life.cluster), before, self._now, line, interactive)

    def _request(self, of: Case, runs: Runs, looked: Looked = PAPER) -> Request | None:
        waits, seen = self._waited(of.life.cluster, of.life.partition, looked.waits)
        return next_request(of, runs, self._prices, waits, seen)

    def _waited(self, cluster: str, partition: str, most: int) -> tuple[Waits, Sequence[Life]]:
        """How long jobs of a partition waited, and those of them with the longest limits."""

        def read() -> tuple[Waits, Sequence[Life]]:
            since = self._now - DAYS * DAY
            seen = self._store.lives(Lives(cluster=cluster, partition=partition, since=since, limit=most))
            return Waits(seen), _longest(seen)

        return self._remember(("waits", cluster, partition, most), read)

    def _explained(self, life: Life) -> Explanation:
        """From what is kept, where the cluster is not being read: of limits and partitions only slurmctld knows."""
        record = self.starts(life.cluster, tuple(life.partitions)).of(life)
        live = self._live(life.cluster)
        if live is not None and live.jobs.value is not None:
            return explain(life, live, record, self._now, discreet=self._discreet)
        jobs = self._store.lives(Lives(cluster=life.cluster, open=True, limit=None))
        nodes = tuple(one.node for one in self._store.nodes(life.cluster))
        at = float(life.changed_time)
        snapshot = Snapshot(cluster=life.cluster, jobs=Part(tuple(jobs), at, "store"), nodes=Part(nodes, at, "store"))
        return explain(life, snapshot, record, self._now, discreet=self._discreet)

    def starts(self, cluster: str, partitions: tuple[str, ...]) -> Starts:
        """How jobs of these partitions started lately, which those who wait are told."""
        return self._remember(
            ("starts", cluster, partitions), lambda: starts(self._store, cluster, partitions, self._now)
        )

    def _array_facts(self, lives: Sequence[Life]) -> ArrayFacts:
        kept = lives[:_MOST_TASKS]
        cluster = kept[0].cluster
        summaries = self._summaries(cluster, [life.key for life in kept])
        cases = [self._case(life, summaries.get(life.key)) for life in kept]
        ran = [one for one in cases if one.life.ended and one.life.started]
        runs = [(one.life, one.summary) for one in ran]
        count = self._store.count(Lives(cluster=cluster, id=kept[0].array_id))
        costs = [self._prices.job(one.life, one.summary, self._now) for one in cases]
        waiting = _waiting(kept)
        return ArrayFacts(
            cases=cases,
            judgements=[judge(one, self._policy) for one in cases],
            cost=sum(costs, Cost()),
            request=self._request(ran[0], runs) if ran else None,
            waiting=[Waiting(count, self._explained(first)) for count, first in waiting[:_MOST_REASONS]],
            waiting_else={first.reason or "None": count for count, first in waiting[_MOST_REASONS:]},
            left_out=max(0, count - _MOST_TASKS),
            now=self._now,
        )

    def _summaries(self, cluster: str, keys: Sequence[JobKey]) -> dict[JobKey, Summary]:
        found: dict[JobKey, Summary] = {}
        for at in range(0, len(keys), 500):
            found |= self._store.summaries(cluster, keys[at : at + 500])
        return found

    def _ground(self, cluster: str) -> Ground:
        if cluster not in self._grounds:
            live = self._live(cluster)
            now = None if live is None else live.nodes.value
            self._grounds[cluster] = Ground([one.node for one in self._store.nodes(cluster)] if now is None else now)
        return self._grounds[cluster]

    def _past(self, cluster: str) -> Past:
        if cluster not in self._pasts:
            self._pasts[cluster] = StorePast(self._store, cluster)
        return self._pasts[cluster]

    def _not_measured(self, life: Life) -> str:
        if not life.started:
            return ""
        settings = self._settings
        taken = settings.agents.enabled or settings.trace.enabled or bool(settings.prometheus.url)
        return NOT_TOLD if taken else NOT_TAKEN

    # --- periods ------------------------------------------------------------------------------------------------------

    def user(
        self,
        name: str,
        period: Period,
        cluster: str | None = None,
        *,
        within: str | None = None,
        looked: Looked = PAPER,
        told: bool = True,
    ) -> Document | None:
        """Of what they did, or did `within` an account. None: nothing is kept of them then. `told`: with what is for
        scripts, which takes as long again."""
        return self._holder(Holder("user", name, cluster, within), period, looked, told=told)

    def account(
        self, name: str, period: Period, cluster: str | None = None, *, looked: Looked = PAPER, told: bool = True
    ) -> Document | None:
        return self._holder(Holder("account", name, cluster), period, looked, told=told)

    def _holder(self, holder: Holder, period: Period, looked: Looked, *, told: bool) -> Document | None:
        store, promised = self._store, self._settings.allocations
        return holder_document(
            store, holder, period, self._prices, promised, self._now, self._judged, looked, told=told
        )

    def _judged(self, lives: Sequence[Life], among: Sequence[Life]) -> tuple[Sequence[Case], Sequence[Judgement]]:
        """What was before them is looked for among those that were read: to ask for each would take too long."""
        names, ids = {(one.user, one.name) for one in lives}, {one.id for one in lives}
        past = WindowPast(one for one in among if one.id in ids or (one.user, one.name) in names)
        cases = []
        for cluster in sorted({life.cluster for life in lives}):
            own = [life for life in lives if life.cluster == cluster]
            summaries = self._summaries(cluster, [life.key for life in own])
            cases += [self._case(life, summaries.get(life.key), past=past) for life in own]
        return cases, [judge(one, self._policy) for one in cases]

    def names(self, kind: str) -> list[str]:
        """Of users, or of accounts, that used anything in the last year."""
        today = self._now // DAY
        asked = UsageAsked(since=today - 365, until=today + 1, by=(kind,))
        return [str(one.key[0]) for one in self._store.usage(asked)]

    def cluster(self, name: str, period: Period, *, told: bool = True) -> Document | None:
        facts = self._cluster_facts(name, period, SPLITS, told=told)
        return cluster_document(facts) if known(facts) else None

    def month(self, name: str, period: Period, *, told: bool = True) -> Document | None:
        """The two pages for those who pay for it."""
        facts = self._cluster_facts(name, period, MONTH_SPLITS, told=told)
        return month_document(facts) if known(facts) else None

    def _cluster_facts(self, name: str, period: Period, splits: Sequence[str], *, told: bool) -> ClusterFacts:
        promised = self._settings.allocations
        return cluster_facts(self._store, name, period, self._prices, promised, self._now, splits, told=told)


def _longest(lives: Sequence[Life]) -> list[Life]:
    """Of each partition, or several that jobs wait in, the one with the longest limit: thousands would be kept else."""
    found: dict[str, Life] = {}
    for life in lives:
        before = found.get(life.partition)
        if before is None or (life.time_limit or 0) > (before.time_limit or 0):
            found[life.partition] = life
    return list(found.values())


def _latest(tasks: Sequence[Life]) -> list[Life]:
    """Of each task its latest life, by number. A number that was used before, long ago, was another array."""
    newest = max(life.submit_time or 0 for life in tasks)
    found: dict[str, Life] = {}
    for life in sorted(tasks, key=lambda one: one.submit_time or 0):
        if newest - (life.submit_time or 0) < _SAME_ARRAY:
            found[life.array_tasks or ""] = life
    return sorted(found.values(), key=lambda life: _number(life.array_tasks))


def _number(task: str | None) -> tuple[int, str]:
    return (int(task), "") if task is not None and task.isdecimal() else (1 << 31, task or "")


def _waiting(lives: Sequence[Life]) -> list[tuple[int, Life]]:
    """How many tasks wait for each reason, the most first, and the first that does."""
    first: dict[str | None, Life] = {}
    tasks: Counter[str | None] = Counter()
    for one in lives:
        if not one.started and not one.ended:
            first.setdefault(one.reason, one)
            tasks[one.reason] += one.tasks
    return [(count, first[reason]) for reason, count in tasks.most_common()]
