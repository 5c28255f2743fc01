# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How long jobs of a size waited lately in a partition: what is likely for the next one.

Jobs of like size are a class: the same partition, and CPUs, GPUs, memory and time limit within the same bounds. The
figure is the median of the class, from when a job might have started (eligible) to when it did. Of an array only the
first task counts, for the others wait for their own kind; jobs in reservations do not. A class of fewer than 10 jobs
has no figure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from statistics import median

from slurmscope.life import Life
from slurmscope.store.protocol import Lives, Store

LEAST = 10
DAYS = 14
_DAY, _GIB = 86400, 1 << 30
# The upper bounds of each class; what is more is the last one.
_CPUS = (1, 4, 16, 64, 256, 1024)
_GPUS = (0, 1, 4, 8, 32)
_MEMORY = tuple(size * _GIB for size in (4, 16, 64, 256, 1024))
_TIME = (3600, 4 * 3600, 12 * 3600, _DAY, 3 * _DAY, 7 * _DAY)
_UNKNOWN = -1

_Class = tuple[str, int, int, int, int]


class Waits:
    def __init__(self, lives: Iterable[Life]) -> None:
        firsts: dict[tuple[str, int, int], Life] = {}
        for life in lives:
            if not life.started or life.start_time is None or life.submit_time is None or life.reservation:
                continue
            key = life.cluster, life.array_id or life.id, life.submit_time
            if key not in firsts or life.start_time < (firsts[key].start_time or 0):
                firsts[key] = life
        self._waited: dict[_Class, list[int]] = {}
        for life in firsts.values():
            since = max(life.eligible_time or 0, life.submit_time or 0)
            size = _class(life.partition, life.cpus, sum(life.gpus.values()), life.memory, life.time_limit)
            self._waited.setdefault(size, []).append(max(0, (life.start_time or 0) - since))

    def __call__(self, partition: str, cpus: int, gpus: int, memory: float | None, time: float | None) -> float | None:
        """Seconds that half of such jobs waited for at most; None: too few are known."""
        waited = self._waited.get(_class(partition, cpus, gpus, memory, time), ())
        return float(median(waited)) if len(waited) >= LEAST else None


def recent(store: Store, cluster: str, now: int, days: int = DAYS) -> Waits:
    """From the jobs that were submitted in the last days."""
    return Waits(store.lives(Lives(cluster=cluster, since=now - days * _DAY, limit=None)))


def _class(partition: str, cpus: int, gpus: int, memory: float | None, time: float | None) -> _Class:
    return (
        partition.partition(",")[0],
        bisect_left(_CPUS, cpus),
        bisect_left(_GPUS, gpus),
        _UNKNOWN if memory is None else bisect_left(_MEMORY, memory),
        _UNKNOWN if time is None else bisect_left(_TIME, time),
    )
