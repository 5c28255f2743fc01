# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Asks Prometheus of jobs that have ended and of which no agent told enough; one job at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

import msgspec

from slurmscope.keeper import Archive
from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.measured.courses import Courses
from slurmscope.measured.prometheus import Prometheus, PrometheusError, QueryRefused
from slurmscope.measured.tally import PrometheusTally
from slurmscope.store import recorder
from slurmscope.store.protocol import JobKey, Lives, Measured, Store, StoreError, Unreachable
from slurmscope.summary import Summary, summary

log = logging.getLogger(__name__)

ENOUGH = 0.5
"""Coverage with which nobody else is asked."""
_DAY = 86400
_RECENT, _LOOK_THROUGH = 1000, 20_000  # jobs that are asked for at a start, and among how many they are looked for
_AFTER_END = 150.0  # seconds: what agents told is written by then, and Prometheus has scraped the last of it
_AGAIN = 60.0  # seconds until it is looked again whether the store knows the end
_TRIES = 30
_PAUSE = 0.2  # seconds between two questions
_LOOK_EVERY = 5.0
_LONGEST_REST = 300.0
_MOST_WAITING = 10_000


class _Ended(msgspec.Struct):
    key: JobKey
    due: float
    tries: int = 0


class Backfill:
    def __init__(self, url: str, archive: Archive, clock: Callable[[], float] = time.time) -> None:
        self.tally = PrometheusTally()
        self._prometheus = Prometheus(url)
        self._archive = archive
        self._clock = clock
        self._asking = asyncio.Lock()  # one job at a time, however many clusters there are
        self._complaint = ""

    async def run(self, courses: Courses) -> None:
        """For one cluster, until it is cancelled."""
        waiting: deque[_Ended] = deque(maxlen=_MOST_WAITING)
        waiting.extend(_Ended(key, 0.0) for key in await self._recent(courses.cluster))
        failures = 0
        while True:
            while courses.ended:
                waiting.append(_Ended(courses.ended.popleft(), self._clock() + _AFTER_END))
            rest = _LOOK_EVERY
            if waiting and waiting[0].due <= self._clock():
                ended = waiting.popleft()
                try:
                    if not await self._fill(courses.cluster, ended.key) and ended.tries < _TRIES:
                        waiting.append(_Ended(ended.key, self._clock() + _AGAIN, ended.tries + 1))
                    failures, rest = 0, _PAUSE
                except (StoreError, PrometheusError) as error:
                    failures += 1
                    if isinstance(error, Unreachable | PrometheusError):  # else it would be refused for ever
                        waiting.appendleft(ended)
                    rest = min(_LONGEST_REST, _LOOK_EVERY * 2 ** min(failures - 1, 10))
                except Exception:  # a fault of ours must not end the service
                    log.exception("what Prometheus told could not be kept", extra=fields(job=ended.key[0]))
            await asyncio.sleep(rest)

    async def close(self) -> None:
        await self._prometheus.close()

    async def _recent(self, cluster: str) -> list[JobKey]:
        """Those that ended in the last day, the latest submitted ones first."""
        since = int(self._clock()) - _DAY
        while True:
            try:
                return await self._archive.call(lambda store: _wanting(store, cluster, since))
            except StoreError:  # which is told already
                await asyncio.sleep(_AGAIN)

    async def _fill(self, cluster: str, key: JobKey) -> bool:
        """Whether there is nothing more to do. Raises StoreError, PrometheusError."""
        life, known = await self._archive.call(
            lambda store: (store.life(cluster, *key), store.summary(cluster, *key)),
        )
        if life is None or not life.ended:
            return False
        if not _wants(life, known):
            return True
        async with self._asking:
            try:
                course = await self._prometheus.course(cluster, life)
            except PrometheusError as error:
                self._failed(error)
                if isinstance(error, QueryRefused):
                    return True
                raise
        self._answered()
        if course is not None:
            found = summary(course, life.nodes or None, life.start_time, life.end_time)
            if known is None or (found.coverage or 0.0) > (known.coverage or 0.0):
                measured = Measured(*key, found, course)
                now = int(self._clock())
                await self._archive.call(lambda store: _put(store, cluster, measured, now))
                self.tally.found += 1
        return True

    def _failed(self, error: PrometheusError) -> None:
        self.tally.failures += 1
        self.tally.up = isinstance(error, QueryRefused)
        if str(error) != self._complaint:
            log.warning("Prometheus cannot be asked what jobs used", extra=fields(error=str(error)))
        self._complaint = str(error)

    def _answered(self) -> None:
        self.tally.asked += 1
        self.tally.up = True
        if self._complaint:
            log.info("Prometheus answers again")
            self._complaint = ""


def _wants(life: Life, known: Summary | None) -> bool:
    ran = life.start_time is not None and life.end_time is not None and life.end_time > life.start_time
    return ran and life.started and (known is None or known.coverage is None or known.coverage < ENOUGH)


def _wanting(store: Store, cluster: str, since: int) -> list[JobKey]:
    lives = store.lives(Lives(cluster=cluster, ended_since=since, limit=_LOOK_THROUGH))
    recent = {life.key: life for life in lives}
    known = store.summaries(cluster, recent.keys())
    return [key for key, life in recent.items() if _wants(life, known.get(key))][:_RECENT]


def _put(store: Store, cluster: str, measured: Measured, at: int) -> None:
    with store.writing(cluster) as writer:
        recorder.put_measured(writer, [measured], at)
