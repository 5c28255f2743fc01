# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was measured of jobs, to the store and from it. All of this is done in the store's thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import msgspec
from msgspec.structs import replace

from slurmscope.course import Course
from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.measured.merging import merged
from slurmscope.model import Job
from slurmscope.store import recorder
from slurmscope.store.measured import storable
from slurmscope.store.protocol import Lives, Measured, Store, StoreError, Unreachable
from slurmscope.summary import Summary, summary

log = logging.getLogger(__name__)

_MOST_SUM = 1 << 62  # beyond which no store can hold it
_PAGE = 1000


class Part(msgspec.Struct):
    """What the store is to take of a job."""

    job: Job
    pieces: list[Course]
    end: int
    over: bool
    given: bool = False  # all is said and done but for the store's word that it is written


def kept(
    store: Store, cluster: str, known: Mapping[int, Job], sought: Mapping[int, Callable[[Job], bool]]
) -> dict[int, tuple[Job, Course | None]]:
    """Which jobs these are, and what was measured of them before. Of those that are sought, whether it can be them."""
    found = dict(known)
    for id_, can_be in sought.items():
        life = next((life for life in _lives(store, cluster, id_) if life.id == id_ and can_be(life)), None)
        if life is not None:
            found[id_] = life
    return {id_: (job, store.course(cluster, *job.key)) for id_, job in found.items()}


def _lives(store: Store, cluster: str, id_: int) -> Iterator[Life]:
    """An array's number is that of one of its tasks, and whoever asks for it is told of all of them."""
    at = 0
    while found := store.lives(Lives(cluster=cluster, id=id_, limit=_PAGE, offset=at)):
        yield from found
        at += len(found)


def put(store: Store, cluster: str, parts: Sequence[Part]) -> list[int]:
    """Adds to what the store has. Says of which jobs it could not: those that it does not take, though it takes others.

    Raises StoreError where it takes none.
    """
    try:
        return _put(store, cluster, parts)
    except Unreachable:
        raise
    except StoreError as error:
        if len(parts) == 1:
            raise
        refused = error
    unfit: list[int] = []
    taken = 0
    for part in parts:
        try:
            unfit += _put(store, cluster, [part])
            taken += 1
        except Unreachable:
            raise
        except StoreError as error:
            unfit.append(part.job.id)
            log.warning("the store does not take what a job used", extra=fields(job=part.job.id, error=str(error)))
    if not taken:
        raise refused
    return unfit


def _put(store: Store, cluster: str, parts: Sequence[Part]) -> list[int]:
    with store.writing(cluster) as writer:
        lives = writer.lives([part.job.key for part in parts if part.over])
        known = store.summaries(cluster, [part.job.key for part in parts])
        done, unfit = [], []
        for part in parts:
            try:
                measured = _measured(store, cluster, part, lives.get(part.job.key), known.get(part.job.key))
            except StoreError:
                raise
            except Exception:  # whatever it is, it is in what was told of this job, and must cost no other
                log.exception("what a job used could not be put together", extra=fields(job=part.job.id))
                unfit.append(part.job.id)
                continue
            if measured is not None and _fits(measured):
                done.append(measured)
            elif measured is not None:
                unfit.append(part.job.id)
        recorder.put_measured(writer, done, int(time.time()))
        for part in parts:
            part.given = True
    return unfit


def _measured(store: Store, cluster: str, part: Part, life: Life | None, known: Summary | None) -> Measured | None:
    """What to keep of a job; None: there is nothing to say of it."""
    job, end = part.job, part.end
    if life is not None and life.ended and life.end_time is not None:
        end = life.end_time
    course = reduce(merged, part.pieces, store.course(cluster, *job.key))
    assert course is not None  # there is a piece at least
    if not course.length:
        return None
    found = summary(course, job.nodes or None, job.start_time, end)
    if known is not None and known.seconds > found.seconds:
        # the course was forgotten while the job ran: what it began anew tells less than what was known
        share = None if found.coverage is None else min(1.0, known.seconds * found.coverage / found.seconds)
        found = replace(known, last=max(known.last, found.last), coverage=share)
    return Measured(*job.key, found, course)


def _fits(measured: Measured) -> bool:
    assert measured.course is not None
    return max(map(sum, measured.course.amounts.values())) <= _MOST_SUM and storable(measured.summary, measured.course)
