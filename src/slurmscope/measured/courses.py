# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The courses of a cluster's jobs, from what is measured to the store.

In memory is only what the store has not taken yet; it is added there to what is kept already, so that a restart goes on
where it was. A job is known by what polls see and not by what a report says. All of this is done by the event loop,
but for what the store's thread is handed over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

import msgspec
from msgspec.structs import replace

from slurmscope import course as courses
from slurmscope.course import Course, Sample
from slurmscope.keeper import Archive
from slurmscope.logs import fields
from slurmscope.measure import Measure, Report
from slurmscope.measured.merging import emptied, merged
from slurmscope.measured.plausible import node_of, plausible
from slurmscope.measured.putting import Part, kept, put
from slurmscope.measured.tally import HOST, NUMBER, Tally
from slurmscope.model import Job, Snapshot
from slurmscope.store.protocol import JobKey, StoreError, Unreachable
from slurmscope.worker import compute

log = logging.getLogger(__name__)

MOST_JOBS = 50_000
_MOST_BUCKETS = 2_000_000  # of all courses, and nodes and processes: what waits for a store that is away
_MOST_LOOKS = 50_000  # of jobs that no poll has seen
_BEAT = 5.0  # seconds between looks for what is to be done
_EVERY = 60.0  # seconds between two writings of a course; longer ones are written less often:
_SHARE, _SELDOM = 20, 1800.0  # … each time a twentieth is new, or after half an hour
_AFTER_END = 60.0  # seconds in which a report may come late
_UNSEEN = 60.0  # seconds until a job that no poll has seen is looked for in the store,
_AGAIN = 300.0  # … and is again
_GIVE_UP = 900.0  # … and until nobody can say which one it was
_HOLE = 300.0  # seconds between two looks, or five times as long as usual, of which nobody knows what was between
_EARLY = 60  # seconds that a node's clock may be behind the controller's
_AT_ONCE = 100  # courses in a transaction: others can write between two
_SLICE = 100  # jobs of a report that are added before others have their turn
_MOST_UNSURE = 8


_Told = tuple[str, float, Measure] | Sample
"""What a node's agent told of a job, and when; or what somebody else made of what was told."""


class _Look(msgspec.Struct, frozen=True, gc=False):
    """What was last told of a job on a node."""

    time: float
    measure: Measure
    distance: float  # from the one before


class _Tracked(msgspec.Struct):
    """A job that is measured."""

    job: Job
    course: Course
    looks: dict[str, _Look] = {}
    changed: bool = False
    unsure: list[Course] = []  # pieces that the store was given, and may have taken or not
    written: float | None = None
    gone: float | None = None  # when it was seen to have ended
    end: int | None = None


class _Unknown(msgspec.Struct):
    """A job of which it is not known yet which one it is, or what the store has of it."""

    since: float
    sought: float  # when it is looked for in the store next
    told: list[_Told] = []


class Courses:
    def __init__(self, cluster: str, archive: Archive, tally: Tally, clock: Callable[[], float] = time.time) -> None:
        self.cluster = cluster
        self.ended: deque[JobKey] = deque(maxlen=10_000)  # jobs that polls saw ending
        self._archive = archive
        self._tally = tally
        self._clock = clock
        self._started = clock()
        self._jobs: dict[int, Job] = {}  # that have, or had, an allocation, as the last poll saw them
        self._seen = 0  # when that was
        self._tracked: dict[JobKey, _Tracked] = {}
        self._gone: dict[JobKey, None] = {}  # those of them that have ended, the first of them first
        self._unknown: dict[int, _Unknown] = {}
        self._looks = 0  # of those
        self._writing: asyncio.Task[None] | None = None
        self.failing = False  # the store did not take all that it was last given

    def __len__(self) -> int:
        return len(self._tracked)

    # --- what polls see -----------------------------------------------------------------------------------------------

    async def see(self, snapshot: Snapshot) -> None:
        jobs = await compute(_allocated, snapshot.jobs.value or ())
        before, self._jobs, last = self._jobs, jobs, self._seen
        self._seen = int(snapshot.jobs.time or 0)
        self.ended.extend(
            job.key for job in before.values() if job.holding and not _goes_on(job.key, jobs) and job.submit_time
        )
        for key, tracked in self._tracked.items():
            if _goes_on(key, jobs):
                tracked.job, tracked.gone = jobs[key[0]], None
                self._gone.pop(key, None)
            elif tracked.gone is None:
                found = jobs.get(key[0])
                self._end(tracked, found.end_time if found is not None and found.key == key else last or None)
        for id_ in [id_ for id_ in self._unknown if id_ in jobs]:
            if self._is_new(jobs[id_]):
                self._tell_again(id_, jobs[id_], None)

    def _is_new(self, job: Job) -> bool:
        """The store has nothing of it."""
        return job.holding and job.start_time is not None and job.start_time >= self._started

    # --- what is measured ---------------------------------------------------------------------------------------------

    async def take(self, report: Report) -> None:
        for at in range(0, len(report.jobs), _SLICE):
            if at:
                await asyncio.sleep(0)
            for measure in report.jobs[at : at + _SLICE]:
                self._tell(measure.job, (report.node, report.time, measure))

    def add(self, id_: int, sample: Sample) -> None:
        """What somebody else measured of a job."""
        self._tell(id_, sample)

    def _tell(self, id_: int, told: _Told) -> None:
        job = self._jobs.get(id_)
        if job is not None and _was_there(job, told) and id_ not in self._unknown:
            tracked = self._tracked.get(job.key)
            if tracked is None and self._is_new(job):
                tracked = self._track(job, None)
            if tracked is not None:
                self._add(tracked, told)
                return
        self._wait(id_, told)

    def _wait(self, id_: int, told: _Told) -> None:
        unknown = self._unknown.get(id_)
        if unknown is None:
            now = self._clock()
            unknown = self._unknown[id_] = _Unknown(now, now + _UNSEEN, [])
        unknown.told.append(told)
        self._looks += 1
        while self._looks > _MOST_LOOKS:
            self._give_up(next(iter(self._unknown)))

    def _give_up(self, id_: int) -> None:
        self._looks -= len(self._unknown.pop(id_).told)
        self._tally.dropped += 1

    def _tell_again(self, id_: int, job: Job, kept: Course | None) -> None:
        """All that waited for it to be known which job it is."""
        unknown = self._unknown.pop(id_, None)
        if unknown is None:
            return
        self._looks -= len(unknown.told)
        tracked = self._tracked.get(job.key) or self._track(job, kept)
        now = self._jobs.get(id_)
        for told in unknown.told:
            if _was_there(job, told):
                if tracked is not None:
                    self._add(tracked, told)
            elif now is not None and _was_there(now, told):
                self._tell(id_, told)  # it has been submitted again since

    def _track(self, job: Job, kept: Course | None) -> _Tracked | None:
        if len(self._tracked) >= MOST_JOBS and not self._drop_one():
            self._tally.dropped += 1
            return None
        course = Course.at(self._clock()) if kept is None else emptied(kept)
        found = self._tracked[job.key] = _Tracked(job, course, looks={})
        if not _goes_on(job.key, self._jobs):
            self._end(found, job.end_time)
        return found

    def _end(self, tracked: _Tracked, end: int | None) -> None:
        tracked.gone, tracked.end = self._clock(), end
        self._gone[tracked.job.key] = None

    def _forget(self, key: JobKey) -> None:
        del self._tracked[key]
        self._gone.pop(key, None)

    def _drop_one(self) -> bool:
        """The one that ended first, to have room."""
        first = next(iter(self._gone), None)
        if first is not None:
            self._forget(first)
            self._tally.dropped += 1
        return first is not None

    def _add(self, tracked: _Tracked, told: _Told) -> None:
        node = node_of(tracked.job, told.node if isinstance(told, Sample) else told[0])
        if node is None:
            self._tally.ignore(HOST)
            return
        sample = replace(told, node=node) if isinstance(told, Sample) else _sample(tracked, node, *told[1:])
        if sample is None:
            return
        if not plausible(sample):
            self._tally.ignore(NUMBER)
            return
        if not tracked.course.length:
            # it may be the first one in a long time: the buckets between would be for nothing
            tracked.course.start = Course.at(sample.start).start
        courses.add(tracked.course, sample)
        tracked.changed = True

    # --- what the store gets ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            for step in (self._resolve, lambda: self._write(self._due())):
                try:
                    await step()
                except Unreachable:
                    break  # which is told already
                except StoreError:
                    pass
                except Exception:  # a fault of ours must not end the service
                    log.exception("what was measured could not be written", extra=fields(cluster=self.cluster))
            self._bound()
            await asyncio.sleep(_BEAT)

    async def flush(self) -> None:
        """All that is not written yet, those first of which that is most: there may be no time for all."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        try:
            await self._resolve()
        except Unreachable:
            raise
        except StoreError:
            pass  # which is told already; what is known can be written all the same
        changed = [one for one in self._tracked.values() if one.changed]
        await self._write(sorted(changed, key=lambda one: -one.course.length))

    @property
    def waiting(self) -> int:
        """Jobs of which the store has yet to take something."""
        return sum(one.changed for one in self._tracked.values())

    async def _resolve(self) -> None:
        """Finds out which jobs those are of which it is not known, and what the store has of them."""
        now = self._clock()
        known: dict[int, Job] = {}
        sought: dict[int, _Told] = {}
        for id_, unknown in self._unknown.items():
            job = self._jobs.get(id_)
            if job is not None and _was_there(job, unknown.told[0]):
                known[id_] = job
            elif now >= unknown.sought and len(sought) < _AT_ONCE:
                sought[id_] = unknown.told[0]  # one that polls did not see, or that ended long ago
        if known or sought:
            can_be = {id_: partial(_was_there, told=told) for id_, told in sought.items()}
            found = await self._archive.call(lambda store: kept(store, self.cluster, known, can_be))
            for id_, (job, course) in found.items():
                self._tell_again(id_, job, course)
            for id_ in sought.keys() - found.keys():
                self._seek_later(id_)
        for id_ in [id_ for id_, one in self._unknown.items() if now - one.since > _GIVE_UP]:
            self._give_up(id_)

    def _seek_later(self, id_: int) -> None:
        """The store does not know it either; the accounting may tell it later."""
        unknown, job = self._unknown.get(id_), self._jobs.get(id_)
        if unknown is None:
            return
        unknown.sought = self._clock() + _AGAIN
        if job is not None:
            # what was told before the job began was told by a wrong clock
            self._looks -= len(unknown.told)
            unknown.told = [told for told in unknown.told if _was_there(job, told)]
            self._looks += len(unknown.told)
            if not unknown.told:
                self._give_up(id_)

    def _due(self) -> list[_Tracked]:
        now = self._clock()
        found = []
        for tracked in list(self._tracked.values()):
            if tracked.gone is not None and now - tracked.gone > _AFTER_END:
                if tracked.changed or tracked.written is not None:
                    found.append(tracked)  # once more, for now its end is known
                else:
                    self._forget(tracked.job.key)
            elif tracked.changed and (tracked.written is None or now - tracked.written >= _pace(tracked, now)):
                found.append(tracked)
        return found

    async def _write(self, due: Sequence[_Tracked]) -> None:
        failed: StoreError | None = None
        for at in range(0, len(due), _AT_ONCE):
            try:
                await self._write_some(due[at : at + _AT_ONCE])
            except StoreError as error:
                failed = error
                if isinstance(error, Unreachable):
                    break  # nor would it take the others
        if due:
            self.failing = failed is not None
        if failed is not None:
            raise failed

    async def _write_some(self, some: Sequence[_Tracked]) -> None:
        # who is cancelled meanwhile leaves it to its end: what was written twice would count twice
        self._writing = asyncio.create_task(self._hand_over(some))
        await asyncio.shield(self._writing)

    async def _hand_over(self, some: Sequence[_Tracked]) -> None:
        now = self._clock()
        parts = []
        for one in some:
            end = one.end or int(now) if one.gone else int(now)
            parts.append(Part(one.job, [*one.unsure, one.course], end, bool(one.gone)))
            one.course, one.changed = emptied(one.course), False
        try:
            unfit = await self._archive.call(lambda store: put(store, self.cluster, parts))
        except StoreError:
            for one, part in zip(some, parts, strict=True):
                _take_back(one, part)
            raise
        for one in some:
            one.written, one.unsure = now, []
            if one.gone is not None and now - one.gone > _AFTER_END and not one.changed:
                self._forget(one.job.key)
        self._tally.written += len(some) - len(unfit)
        self._tally.dropped += len(unfit)
        if unfit:
            told = fields(cluster=self.cluster, jobs=",".join(map(str, unfit[:10])))
            log.warning("what was measured of these jobs cannot be: the numbers are too large", extra=told)

    def _bound(self) -> None:
        """While the store is away for long, those that ended first are given up, then those that take most."""
        sizes = {key: _size(one) for key, one in self._tracked.items()}
        size = sum(sizes.values())
        if size <= _MOST_BUCKETS:
            return
        for key in sorted(sizes, key=lambda key: (self._tracked[key].gone or inf, -sizes[key])):
            size -= sizes[key]
            self._forget(key)
            self._tally.dropped += 1
            if size <= _MOST_BUCKETS:
                break


def _allocated(jobs: Iterable[Job]) -> dict[int, Job]:
    """By id. The rest of an array waits under the id of one of its tasks, and must not hide it."""
    return {job.id: job for job in jobs if job.holding or (not job.waiting and job.node_list)}


def _goes_on(key: JobKey, jobs: Mapping[int, Job]) -> bool:
    found = jobs.get(key[0])
    return found is not None and found.key == key and found.holding


def _was_there(job: Job, told: _Told) -> bool:
    """Whether it can be this job that was measured then, and no other one of the same id."""
    at = told.end if isinstance(told, Sample) else told[1]
    if job.start_time is None or at < job.start_time - _EARLY:
        return False
    return job.holding or job.end_time is None or at <= job.end_time + _EARLY


def _size(tracked: _Tracked) -> int:
    """In buckets, as far as these take more memory than what is beside them."""
    found = len(tracked.looks)
    for course in (tracked.course, *tracked.unsure):
        found += course.length
        for node in course.nodes.values():
            found += 1 + len(node.parts) + len(node.spans) + len(node.gpus) + len(node.cores or ())
            found += 0 if node.lane is None else node.lane.length
    return found


def _take_back(tracked: _Tracked, part: Part) -> None:
    """What the store did not take, or did not say whether it did."""
    *unsure, latest = part.pieces
    if part.given:
        unsure.append(latest)
        while len(unsure) > _MOST_UNSURE:
            unsure[:2] = [merged(unsure[0], unsure[1])]
    else:
        tracked.course = merged(latest, tracked.course)
    tracked.unsure, tracked.changed = unsure, True


def _sample(tracked: _Tracked, node: str, at: float, measure: Measure) -> Sample | None:
    before = tracked.looks.get(node)
    if before is not None and at <= before.time:
        return None  # it was told before
    distance = at - before.time if before is not None else 0.0
    tracked.looks[node] = _Look(at, measure, distance)
    if before is None:
        # when it started is not told to the processes of every Slurm; the queue knows it
        begun = measure if measure.start_time else replace(measure, start_time=tracked.job.start_time)
        return courses.between(None, begun, node, at, at, courses.AGENT)
    if distance > max(_HOLE, 5 * before.distance):
        return None
    return courses.between(before.measure, measure, node, before.time, at, courses.AGENT)


def _pace(tracked: _Tracked, now: float) -> float:
    """Seconds between two writings: each costs by how much is kept of it, and not by how much is new."""
    return min(_SELDOM, max(_EVERY, (now - (tracked.job.start_time or now)) / _SHARE))
