# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Judges jobs that have ended, and keeps with each what was found: by that they are looked for.

What has just ended comes first. What ended before `serve` was there to judge it, in the last 30 days, is gone through
from the latest backwards, some at a time and with rests between. What was judged is not judged again, whatever becomes
of the rules: a finding is what was thought of a job when it ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slurmscope.chore import Chore
from slurmscope.findings.case import case
from slurmscope.findings.ground import Ground
from slurmscope.findings.history import DAY, StorePast
from slurmscope.findings.judgement import judge
from slurmscope.findings.policy import Policy
from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.settings import Settings
from slurmscope.store import place
from slurmscope.store.protocol import JobKey, Lives, Span, Store, StoreError
from slurmscope.summary import Moment, Summary, moments

log = logging.getLogger(__name__)

REACH = 30 * DAY
"""Seconds back from now that jobs are judged."""

_EVERY = 120.0
_SETTLE = 600  # seconds after a job's end in which what it used comes to be known
_LATE = 3600  # … and within which the accounting may tell of it
_AT_ONCE = 1000  # jobs that are read, and judged, before anything else may come first
_REST = 2.0  # times as long as it worked, while there is more to do


class _Progress(msgspec.Struct):
    """Of one cluster, since the start."""

    mark: int  # as the store had it last: ends before it were judged
    reached: int  # ends before it are judged, or are in what is left
    left: list[Span]


class Judge:
    """Goes over a store, again and again. Raises PolicyError where the rules of the settings are wrong."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._policy = Policy(settings.rules)
        self._clock = clock
        self._progress: dict[str, _Progress] = {}

    def round(self, store: Store, stop: Callable[[], bool] = lambda: False) -> bool:
        """Judges what is new, and some of what is left from before; says whether more of that is left.

        Raises StoreError.
        """
        now = int(self._clock())
        for cluster in store.clusters():
            progress = self._seen(store, cluster, now)
            new: Span | None = Span(progress.reached - _LATE, now - _SETTLE)
            while new is not None and new.end > new.start and not stop():
                new = self._some(store, cluster, new, now)
            if not stop():
                progress.reached = max(progress.reached, now - _SETTLE)
        for cluster, progress in self._progress.items():
            if progress.left and not stop():
                rest = self._some(store, cluster, progress.left.pop(), now)
                progress.left += [] if rest is None else [rest]
            if not progress.left and not stop():
                self._tell(store, cluster, progress)
        return any(progress.left for progress in self._progress.values())

    def _seen(self, store: Store, cluster: str, now: int) -> _Progress:
        """A mark that lies ahead was made by a clock that was wrong; one that went back is an import's."""
        mark = min(store.judged(cluster), now)
        since = max(mark - _LATE, now - REACH)
        found = self._progress.get(cluster)
        if found is None:
            until = now - _SETTLE
            found = self._progress[cluster] = _Progress(mark, until, [Span(since, until)] if since < until else [])
        elif mark < found.mark:
            found.left.append(Span(since, found.reached))
        found.mark = mark
        return found

    def _tell(self, store: Store, cluster: str, progress: _Progress) -> None:
        """What the accounting has not told yet, after a stop, is still to come."""
        spans = store.spans(cluster) if self._settings.accounting.enabled else []
        mark = min([progress.reached, *[max(one.end for one in spans)]]) if spans else progress.reached
        if mark <= progress.mark:
            return
        with store.writing(cluster) as writer:
            if store.judged(cluster) == progress.mark:  # and nobody has set it back
                writer.put_judged(mark)
                progress.mark = mark

    def _some(self, store: Store, cluster: str, span: Span, now: int) -> Span | None:
        """Judges the latest that ended then; what is left of it, None: nothing."""
        asked = Lives(cluster=cluster, ended_since=span.start, ended_before=span.end, order="ended", limit=_AT_ONCE)
        lives = store.lives(asked)
        end = span.start
        if len(lives) == _AT_ONCE:
            end = (lives[-1].end_time or 0) + 1  # of that second there may be more
        if end == span.end:  # more of one second than are read at once
            end -= 1
            lives = store.lives(Lives(cluster=cluster, ended_since=end, ended_before=span.end, limit=None))
        known = store.findings(cluster, [life.key for life in lives])
        new = [life for life in lives if life.key not in known and self._ripe(life, now)]
        for at in range(0, len(new), _AT_ONCE):
            found = self._judged(store, cluster, new[at : at + _AT_ONCE], now)
            with store.writing(cluster) as writer:
                writer.put_findings(found)
        return Span(span.start, end) if end > span.start else None

    def _ripe(self, life: Life, now: int) -> bool:
        """What it used is told by the accounting, as long as that may still come."""
        return life.accounted or not self._settings.accounting.enabled or now - (life.end_time or 0) > _LATE

    def _judged(self, store: Store, cluster: str, lives: Sequence[Life], now: int) -> Mapping[JobKey, tuple[str, ...]]:
        ground, past = Ground(kept.node for kept in store.nodes(cluster)), StorePast(store, cluster)
        summaries = store.summaries(cluster, [life.key for life in lives if life.started])
        names = self._settings.findings.interactive
        found: dict[JobKey, tuple[str, ...]] = {}
        for life in lives:
            rules: tuple[str, ...] = ()
            if life.started:
                summary = summaries.get(life.key)
                one = case(life, summary, ground, past, now, _line(store, life, summary), names)
                rules = tuple(finding.rule for finding in judge(one, self._policy).findings)
            found[life.key] = rules
        return found


def _line(store: Store, life: Life, summary: Summary | None) -> Callable[[], Sequence[Moment]]:
    """Read only for a rule that looks at it: that costs more than all the rest."""

    def read() -> Sequence[Moment]:
        course = None if summary is None else store.course(life.cluster, *life.key)
        return () if course is None else moments(course)

    return read


class Judging:
    """What `serve` does: rounds in a thread of its own, which reads and writes the store beside the archive.

    Raises PolicyError.
    """

    def __init__(self, settings: Settings, url: str) -> None:
        self._judge = Judge(settings)
        self._url = url
        self._store: Store | None = None
        self._complaint = ""
        self._chore = Chore("judging", self._work)

    async def run(self) -> None:
        """Until it is cancelled; what goes wrong is logged, and tried again."""
        await self._chore.run()

    async def close(self) -> None:
        if await self._chore.end():
            self._put_down()

    def _put_down(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _work(self) -> None:
        while not self._chore.stop.is_set():
            began = time.monotonic()
            more = False
            try:
                more = self._round()
            except StoreError as error:
                if str(error) != self._complaint:
                    log.warning("jobs are not judged for now", extra=fields(error=str(error)))
                self._complaint = str(error)
                self._put_down()
            except Exception:
                # of all that serve does this is the least, and must not end it
                log.exception("jobs could not be judged")
                self._put_down()
            self._chore.stop.wait(_REST * (time.monotonic() - began) if more else _EVERY)

    def _round(self) -> bool:
        if self._store is None:
            self._store = place.open_store(self._url, must_exist=True)
        more = self._judge.round(self._store, self._chore.stop.is_set)
        self._complaint = ""
        return more
