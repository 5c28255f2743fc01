# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Goes over what is kept, and tells people: of jobs that have ended, of their weeks, of GPUs that are not used.

What was told is not told again, however often a round is made or killed. At the first round nobody is told of the past.
One job or person that cannot be told of keeps no other from it.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median

from slurmscope.findings.case import Case, case
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.cost import Prices
from slurmscope.findings.ground import Ground
from slurmscope.findings.history import StorePast
from slurmscope.findings.judgement import judge
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import BAD, Finding
from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.mail.cancelling import RULE as ZERO_GPU
from slurmscope.mail.cancelling import Canceller
from slurmscope.mail.digest import Judged, digest, ratios, spared
from slurmscope.mail.etiquette import DAY, WEEKDAYS, Wanted, exemption, zone_of
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import DIGEST, JOB, Entry, plain
from slurmscope.mail.office import Made, Office, Point, Telling
from slurmscope.reports.document import Document
from slurmscope.reports.job import number_of
from slurmscope.settings import Settings
from slurmscope.store.protocol import Lives, Store, Unreachable
from slurmscope.summary import Moment, moments

log = logging.getLogger(__name__)

DocumentOf = Callable[[Life], Document | None]

_SETTLE = 600  # seconds after a job's end in which what it used comes to be known
_LATE = 3600  # … and within which an end may be told late
_BATCH = 500
_EVERY = 600  # seconds between two rounds over jobs
_NEVER = "never"
_WEEK = 7
_MADE_UP = 2  # days
_PART = 6 * 3600  # seconds of a week whose jobs are in memory at a time


class Stopped(Exception):
    """All is to end; what was not done yet is done the next time."""


class Rounds:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        ledger: Ledger,
        office: Office,
        document_of: DocumentOf,
        clock: Callable[[], float] = time.time,
        seen: dict[str, set[str]] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`seen` are the lives that the round before has judged, by cluster; it is changed. Raises PolicyError.

        Once `stop` is true, whatever is being done ends between two jobs, and raises Stopped.
        """
        self._settings = settings
        self._store = store
        self._ledger = ledger
        self._office = office
        self._document_of = document_of
        self._clock = clock
        self._policy = Policy(settings.rules)
        self._seen = {} if seen is None else seen
        self._stop = stop

    # --- jobs

    def jobs(self) -> Counter[str]:
        """Of jobs that have ended since the last round: how many came to what."""
        done: Counter[str] = Counter()
        for cluster in self._store.clusters():
            self._jobs_of(cluster, int(self._clock()), done)
        return done

    def _jobs_of(self, cluster: str, now: int, done: Counter[str]) -> None:
        name = f"jobs {cluster}"
        first, last = f"{name} since", f"{name} round"
        until = now - _SETTLE
        before, begun, lately = self._mark(name, now), self._mark(first, now), self._mark(last, now)
        if before is None:
            self._ledger.put_mark(first, until)
        elif lately is not None and now - lately < _EVERY:
            return
        elif self._settings.mail.jobs:
            oldest = now - self._settings.mail.keep_days * DAY  # after a long stop nobody is told of what is stale
            since = max(before - _LATE, begun or 0, oldest)
            lives = self._store.lives(Lives(cluster=cluster, ended_since=since, ended_before=until, limit=None))
            seen = self._seen.get(cluster, set())
            new = [life for life in lives if life.document_id not in seen]
            for found, findings in self._judged(cluster, new, now):
                bad = [one for one in findings if one.severity == BAD]
                if bad:
                    with self._apart(found.life.document_id):
                        done[self._office.tell(self._telling(found.life, bad))] += 1
            # only now: a round that ends half-way begins anew
            self._seen[cluster] = {life.document_id for life in lives}
        else:
            self._ledger.put_mark(first, until)  # once it is turned on again, nobody is told of the past
        self._ledger.put_mark(name, max(before or 0, self._told_until(cluster, until)))
        self._ledger.put_mark(last, now)

    def _told_until(self, cluster: str, until: int) -> int:
        """Up to when all ends are known: what the accounting has not told yet, after a stop, is still to come."""
        spans = self._store.spans(cluster) if self._settings.accounting.enabled else []
        return min([until, *[max(one.end for one in spans)]]) if spans else until

    def _mark(self, name: str, now: int) -> int | None:
        """One that lies ahead was made by a clock that was wrong."""
        found = self._ledger.mark(name)
        if found is not None and found > now:
            self._ledger.put_mark(name, now)
        return None if found is None else min(found, now)

    def _telling(self, life: Life, findings: Sequence[Finding]) -> Telling:
        return job_telling(life, findings, lambda accounts: self._document_of(life))

    # --- weeks

    def digests(self) -> Counter[str]:
        """On the day for it, of the week before: how many came to what."""
        done: Counter[str] = Counter()
        now = int(self._clock())
        day = self._digest_day(now)
        if day is None:
            return done
        since, until = int((day - timedelta(days=_WEEK)).timestamp()), int(day.timestamp())
        for person, jobs in self.weeks(since, until):
            with self._apart(person):
                done[self._digest(person, jobs, since, until)] += 1
        self._ledger.put_mark(DIGEST, day.toordinal())
        return done

    def _digest_day(self, now: int) -> datetime | None:
        """Whose midnight ends the week to be told of; None: it is not the day, or it has been done.

        A day on which nobody was there to do it is made up for, within two.
        """
        mail = self._settings.mail
        if mail.digest_day == _NEVER:
            return None
        today = datetime.fromtimestamp(now, zone_of(mail)).replace(hour=0, minute=0, second=0, microsecond=0)
        late = (today.weekday() - WEEKDAYS.index(mail.digest_day)) % _WEEK
        day, done = today - timedelta(days=late), self._ledger.mark(DIGEST)
        if done is not None and done > today.toordinal():
            done = None  # a clock was wrong
        if late > (_MADE_UP if done is not None else 0) or (done is not None and done >= day.toordinal()):
            return None
        return day

    def weeks(self, since: int, until: int) -> Iterator[tuple[str, list[Judged]]]:
        """What everybody's jobs were judged, one person after the other: there may be very many jobs."""
        ground = {name: self._ground(name) for name in self._store.clusters()}
        for person, keys in self._people(since, until).items():
            found: list[Judged] = []
            for cluster, pairs in keys.items():
                lives = (self._store.life(cluster, *pairs[at : at + 2]) for at in range(0, len(pairs), 2))
                there = [life for life in lives if life is not None]
                found += self._week(person, cluster, there, until, ground[cluster])
            if found:
                yield person, found

    def week(self, since: int, until: int, person: str) -> list[Judged]:
        """What a person's jobs were judged, without those that nobody is to be told of."""
        found: list[Judged] = []
        for cluster in self._store.clusters():
            asked = Lives(cluster=cluster, user=person, ended_since=since, ended_before=until, limit=None)
            found += self._week(plain(person), cluster, self._store.lives(asked), until, self._ground(cluster))
        return found

    def _week(self, person: str, cluster: str, lives: Sequence[Life], until: int, ground: Ground) -> Iterator[Judged]:
        fine = self._ledger.fines(person)
        told_of = [life for life in lives if exemption(_wanted(life), self._settings.mail) is None]
        for one, findings in self._judged(cluster, told_of, until, ground):
            told = tuple(bad for bad in findings if (bad.rule, plain(one.life.name)) not in fine)
            yield Judged(one.life, told, one.summary)

    def _people(self, since: int, until: int) -> dict[str, dict[str, array[int]]]:
        """Whose jobs ended then: numbers and submit times, one after the other, by person and cluster."""
        found: dict[str, dict[str, array[int]]] = {}
        for cluster in self._store.clusters():
            for start in range(since, until, _PART):
                end = min(until, start + _PART)
                asked = Lives(cluster=cluster, ended_since=start, ended_before=end, limit=None)
                for life in self._store.lives(asked):
                    found.setdefault(plain(life.user), {}).setdefault(cluster, array("q")).extend(life.key)
        return found

    def digest_telling(self, person: str, jobs: Sequence[Judged], since: int, until: int) -> Telling:
        accounts = tuple(dict.fromkeys(one.life.account for one in jobs if one.findings))
        titles = {rule.name: rule.title for rule in catalogue().values()}

        def made(only: Sequence[str]) -> Document:
            """Who answers for an account is told of that account's jobs alone."""
            told = [one for one in jobs if not only or one.life.account in only]
            return digest(
                person,
                told,
                Prices(self._settings.cost),
                titles,
                since=since,
                until=until,
                node_cpus=self._node_cpus(one.life.cluster for one in told),
            )

        week = datetime.fromtimestamp(since, UTC).date().isoformat()
        return Telling(kind=DIGEST, person=person, key=f"week {week}", accounts=accounts, document=made)

    def _digest(self, person: str, jobs: Sequence[Judged], since: int, until: int) -> str:
        if (why := spared(ratios(jobs, until), self._settings.mail)) is not None:
            if any(one.findings for one in jobs):
                now = int(self._clock())
                self._ledger.write_once(
                    Entry(time=now, event="not sent", person=person, kind=DIGEST, job=f"week of {since}", why=why)
                )
            return why.partition(" (")[0]
        return self._office.tell(self.digest_telling(person, jobs, since, until))

    def _node_cpus(self, clusters: Iterable[str]) -> int | None:
        cpus = [one.node.cpus for name in sorted(set(clusters)) for one in self._store.nodes(name)]
        return int(median(cpus)) if cpus else None

    # --- jobs that run

    async def cancels(self, canceller: Canceller) -> Counter[str]:
        """Of jobs that run and have never used their GPUs: what was done."""
        done: Counter[str] = Counter()
        if not self._settings.mail.cancel_zero_gpu:
            return done
        now = int(self._clock())
        for cluster in self._store.clusters():
            running = [life for life in self._store.lives(Lives(cluster=cluster, open=True, limit=None)) if life.gpus]
            for found, findings in self._judged(cluster, running, now):
                for one in findings:
                    if one.rule == ZERO_GPU and found.life.state == "RUNNING":
                        with self._apart(found.life.document_id):
                            telling = self._telling(found.life, [one])
                            done[await canceller.consider(found, one, telling.document)] += 1
        return done

    # --- judging

    def _judged(
        self, cluster: str, lives: Sequence[Life], now: int, ground: Ground | None = None
    ) -> Iterator[tuple[Case, tuple[Finding, ...]]]:
        """Those that ran. Raises Stopped."""
        ground, past = ground or self._ground(cluster), StorePast(self._store, cluster)
        ran = [life for life in lives if life.started]
        for at in range(0, len(ran), _BATCH):
            batch = ran[at : at + _BATCH]
            summaries = self._store.summaries(cluster, [life.key for life in batch])
            for life in batch:
                if self._stop():
                    raise Stopped
                judged: list[tuple[Case, tuple[Finding, ...]]] = []
                with self._apart(life.document_id):
                    names = self._settings.findings.interactive
                    found = case(life, summaries.get(life.key), ground, past, now, self._line(life), names)
                    judged.append((found, judge(found, self._policy).findings))
                yield from judged

    def _ground(self, cluster: str) -> Ground:
        return Ground(kept.node for kept in self._store.nodes(cluster))

    @contextmanager
    def _apart(self, what: str) -> Iterator[None]:
        """A store that is away is so for all of them; what else goes wrong is this one's fault alone."""
        try:
            yield
        except Unreachable:
            raise
        except Exception:
            log.exception("nobody is told of it: it cannot be judged or told of", extra=fields(what=plain(what)))

    def _line(self, life: Life) -> Callable[[], Sequence[Moment]]:
        def read() -> Sequence[Moment]:
            course = self._store.course(life.cluster, *life.key)
            return () if course is None else moments(course)

        return read


def job_telling(life: Life, findings: Sequence[Finding], document: Made) -> Telling:
    rules = catalogue()
    return Telling(
        kind=JOB,
        person=life.user,
        key=life.document_id,
        cluster=life.cluster,
        number=number_of(life),
        work=life.name,
        accounts=(life.account,),
        partitions=tuple(life.partition.split(",")),
        points=tuple(Point(one.rule, rules[one.rule].title if one.rule in rules else one.rule) for one in findings),
        document=document,
    )


def _wanted(life: Life) -> Wanted:
    return Wanted(
        kind=JOB, person=plain(life.user), accounts=(life.account,), partitions=tuple(life.partition.split(","))
    )
