# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How jobs of a partition fared lately: how good slurmctld's guesses of their starts were, and how long they waited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slurmscope.life import Life
from slurmscope.model import Job
from slurmscope.store.protocol import Lives, Store
from slurmscope.waiting.case import gpus
from slurmscope.words import amount

DAYS = 30
LEAST = 10
"""Of fewer jobs no figure is told."""
MOST = 5000
"""Lives that are read of one partition."""
# They are read from each of so many parts of the time: among the latest alone those would be missing that wait long.
_WINDOWS = 10
_DAY = 86400
# The upper ends of the classes of size; jobs of one class are alike.
_GPU_CLASSES = (1, 4, 8, 32, 128)
_CPU_CLASSES = (1, 4, 16, 64, 256, 1024, 4096)


class Spread(msgspec.Struct, frozen=True):
    """Seconds by which jobs started later than slurmctld first guessed; below zero: earlier."""

    jobs: int
    median: float
    low: float  # of ten jobs one was below, and one was above high
    high: float


class Waits(msgspec.Struct, frozen=True):
    """Seconds that similar jobs waited from when they could have started."""

    jobs: int
    median: float
    ninetieth: float
    alike: str  # what they have in common, for people


class StartRecord(msgspec.Struct, frozen=True):
    """For a job that waits."""

    partitions: tuple[str, ...]
    since: int
    read: int  # lives that it was made of
    kept: int  # lives of that time that there are
    guesses: Spread | None  # None: of too few jobs
    waits: Waits | None


class Starts(msgspec.Struct, frozen=True):
    """How jobs of some partitions fared, of whatever size."""

    partitions: tuple[str, ...]
    since: int
    read: int
    kept: int
    guesses: Spread | None
    waits: Mapping[str, Waits]  # by class of size

    def of(self, job: Job) -> StartRecord:
        waits = self.waits.get(size_class(job))
        return StartRecord(self.partitions, self.since, self.read, self.kept, self.guesses, waits)


def starts(store: Store, cluster: str, partitions: Sequence[str], now: float) -> Starts:
    """From what is kept of them."""
    since = int(now) - DAYS * _DAY
    lives: list[Life] = []
    kept = 0
    for partition in partitions:
        found = _sample(store, Lives(cluster=cluster, partition=partition, since=since, limit=MOST // _WINDOWS), now)
        lives += found
        kept += store.count(Lives(cluster=cluster, partition=partition, since=since, until=int(now) + 1))
    return starts_of(lives, partitions, since, kept)


def _sample(store: Store, asked: Lives, now: float) -> list[Life]:
    edges = [int(now) + 1 - DAYS * _DAY * at // _WINDOWS for at in range(_WINDOWS)]
    lives: list[Life] = []
    for edge in edges:
        window = msgspec.structs.replace(asked, since=edge - DAYS * _DAY // _WINDOWS, until=edge)
        lives += store.lives(window)
    return lives


def starts_of(lives: Sequence[Life], partitions: Sequence[str], since: int, kept: int) -> Starts:
    started = [life for life in lives if life.started and life.start_time is not None and life.start_time >= since]
    off = sorted(late for life in started if (late := _late(life)) is not None)
    waits: dict[str, list[int]] = {}
    for life in started:
        if (wait := _wait(life)) is not None:
            waits.setdefault(size_class(life), []).append(wait)
    told = {size: _waits(sorted(some), size) for size, some in waits.items() if len(some) >= LEAST}
    return Starts(tuple(partitions), since, len(lives), kept, _spread(off), told)


def _late(life: Life) -> int | None:
    """By how much it started later than was first guessed."""
    return None if life.guess is None or life.start_time is None else life.start_time - life.guess[1]


def _wait(life: Life) -> int | None:
    """From when it could have started: a time that it was held, or waited for another job, is no wait in the queue."""
    start, submit, eligible = life.start_time, life.submit_time, life.eligible_time
    since = eligible if eligible is not None and start is not None and eligible <= start else submit
    return None if start is None or since is None else max(0, start - since)


def _spread(off: Sequence[float]) -> Spread | None:
    if len(off) < LEAST:
        return None
    return Spread(len(off), quantile(off, 0.5), quantile(off, 0.1), quantile(off, 0.9))


def _waits(waits: Sequence[float], alike: str) -> Waits:
    return Waits(len(waits), quantile(waits, 0.5), quantile(waits, 0.9), alike)


def quantile(ranked: Sequence[float], share: float) -> float:
    """The value below which that share of them lies; they are in order, and at least one is there."""
    at = share * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)


def size_class(job: Job) -> str:
    """How large a job is, roughly: by its GPUs, or by its CPUs where it asks for none."""
    if count := gpus(job):
        return _class(count, _GPU_CLASSES, "GPU")
    return _class(job.cpus, _CPU_CLASSES, "CPU") + " and no GPU"


def _class(count: int, ends: Iterable[int], word: str) -> str:
    low = 1
    for end in ends:
        if count <= end:
            return amount(end, word) if low == end else f"{low:,} to {end:,} {word}s"
        low = end + 1
    return f"{low:,} {word}s or more"
