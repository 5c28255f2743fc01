# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a cluster's accounting into the store, a window after the other.

Which times have been read is kept with the rest, so that an import goes on where it stopped and `serve` knows since
when it was away. What is read twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from slurmscope.life import Accounted
from slurmscope.logs import fields
from slurmscope.slurm.source import Reading, Source
from slurmscope.slurm.transport import TimedOut, TooLong
from slurmscope.store import recorder
from slurmscope.store.protocol import Lives, Span, Store

log = logging.getLogger(__name__)

T = TypeVar("T")


class Call(Protocol):
    """Does something with the store, in its thread."""

    async def __call__(self, work: Callable[[Store], T]) -> T: ...


DAY = 86400
_WINDOW, _LONGEST = DAY, 30 * DAY  # to begin with, and where there is little
_SHORTEST = 60
_RECORDS = 30_000  # at a time, or so
_LAG = 900  # seconds by which slurmdbd may be behind slurmctld without anything being wrong
_FARTHEST = 60 * DAY  # back to which a job is looked for that nobody saw end
_LOOK_AGAIN = 3 * DAY  # each day, all of this is read again: slurmdbd may have been away, and have got news of it late


class Progress(msgspec.Struct):
    """How far an import has come."""

    seconds: int = 0  # of time that has been read
    of: int = 0
    jobs: int = 0  # records
    changed: int = 0
    skipped: int = 0  # rows that could not be read


class Accountant:
    def __init__(
        self,
        source: Source,
        cluster: str,
        call: Call,
        hand_on: recorder.HandOn = recorder.nobody,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._cluster = cluster
        self._call = call
        self._hand_on = hand_on
        self._clock = clock
        self._window = _WINDOW
        self._looked_again = 0.0

    async def catch_up(self, reach: int) -> Progress:
        """The regular pass: what is new since the last one, and what was never read, at most `reach` seconds back."""
        now = int(self._clock())
        spans = await self._call(lambda store: store.spans(self._cluster))
        again = now - self._looked_again >= DAY
        since = max(now - reach, spans[-1].end - _LAG if spans else 0)
        if again:
            since = max(now - reach, min(since, now - _LOOK_AGAIN))
        since = min([since, *await self._call(lambda store: self._lost_since(store, now, far=again))])
        # a pass that was broken off has left gaps: it began with what is newest
        progress = await self._read([*gaps(Span(now - reach, now), spans), Span(since, now)])
        if again:
            self._looked_again = now
        return progress

    def _lost_since(self, store: Store, now: int, *, far: bool) -> list[int]:
        """Since when jobs are missing of which nobody told how they ended: their end is in that time.

        What has been missing for more than a day is looked for once a day.
        """
        there = store.lives(Lives(cluster=self._cluster, open=True, limit=None))
        oldest = now - (_FARTHEST if far else DAY)
        gone = [life.gone_time for life in there if life.gone_time is not None and life.gone_time >= oldest]
        return [min(gone) - _LAG] if gone else []

    async def read(
        self, since: int, until: int, *, again: bool = False, progress: Callable[[Progress], None] = lambda _: None
    ) -> Progress:
        """Reads what has not been read of a time, the newest first; `again`: all of it."""
        spans = await self._call(lambda store: store.spans(self._cluster))
        return await self._read([Span(since, until)] if again else gaps(Span(since, until), spans), progress)

    async def _read(self, spans: list[Span], progress: Callable[[Progress], None] = lambda _: None) -> Progress:
        done = Progress()
        left = joined(spans)
        done.of = sum(span.end - span.start for span in left)
        progress(done)
        ahead: tuple[Span, asyncio.Task[Reading | None]] | None = None
        try:
            while left or ahead:
                window, task = ahead or self._ask(left)
                ahead = None
                reading = await task
                if reading is None:
                    left.append(window)
                    continue
                if left:
                    ahead = self._ask(left)  # slurmdbd looks for the next while this is written
                await self._write(reading, window, done)
                progress(done)
        finally:
            if ahead:
                ahead[1].cancel()
                await asyncio.gather(ahead[1], return_exceptions=True)
        return done

    def _ask(self, left: list[Span]) -> tuple[Span, asyncio.Task[Reading | None]]:
        """The last piece of what is left is asked for."""
        span = left.pop()
        window = Span(max(span.start, span.end - self._window), span.end)
        if window.start > span.start:
            left.append(Span(span.start, window.start))
        return window, asyncio.create_task(self._reading(window))

    async def _reading(self, window: Span) -> Reading | None:
        """What the accounting tells of a window; None: it is to be asked for less."""
        length = window.end - window.start
        try:
            reading = await self._source.read("history", (window.start, window.end))
        except (TimedOut, TooLong) as error:
            if length <= _SHORTEST:
                raise
            self._window = max(_SHORTEST, length // 4)
            log.info("the accounting is asked for less at a time", extra=fields(seconds=self._window, error=str(error)))
            return None
        # so many at a time that they do not take much memory; but not all at once, for the next may be a busy day
        fit = length * _RECORDS // max(1, len(reading.value))
        self._window = max(_SHORTEST, min(_LONGEST, 2 * self._window, fit))
        return reading

    async def _write(self, reading: Reading, window: Span, done: Progress) -> None:
        told: tuple[Accounted, ...] = reading.value
        at = int(self._clock())
        # what has ended a moment ago may not have come to slurmdbd
        settled = Span(window.start, min(window.end, at - _LAG))

        def write(store: Store) -> int:
            changed = recorder.tell(store, self._cluster, told, at, self._hand_on)
            unjudged = changed > 0 and store.judged(self._cluster) > window.start
            if unjudged or settled.end > settled.start:
                with store.writing(self._cluster) as writer:
                    if settled.end > settled.start:
                        writer.put_spans(joined([*store.spans(self._cluster), settled]))
                    if unjudged:
                        writer.put_judged(window.start)
            return changed

        changed = await self._call(write)
        done.seconds += window.end - window.start
        done.jobs += len(told)
        done.changed += changed
        done.skipped += reading.rows_skipped


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same times in as few spans as there can be."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def gaps(of: Span, spans: Iterable[Span]) -> list[Span]:
    """What of a time is in none of the spans."""
    found, at = [], of.start
    for span in joined(spans):
        if span.start > at:
            found.append(Span(at, min(span.start, of.end)))
        at = max(at, span.end)
        if at >= of.end:
            break
    if at < of.end:
        found.append(Span(at, of.end))
    return [span for span in found if span.end > span.start]
