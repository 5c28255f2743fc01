# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""When a job ran: until when, and when it was suspended meanwhile."""

from __future__ import annotations

from itertools import pairwise

from slurmscope.life import Life
from slurmscope.model import SUSPENDED

_GRACE = 3600  # seconds that Slurm may let a job run beyond its limit (OverTimeLimit)


def elapsed(life: Life, now: int) -> int:
    """Seconds since it started, up to its end; suspended or not."""
    if not life.started or life.start_time is None:
        return 0
    return max(0, until(life, now) - life.start_time)


def until(life: Life, now: int) -> int:
    """When it ended; of one that has not, how far it is known to have run."""
    start = life.start_time or 0
    if life.ended:
        return life.end_time or start
    end = _seen(life, now)
    if life.time_limit is None:
        return end
    # nobody may have looked for days: Slurm has ended it by then, unless it was seen since
    most = start + life.time_limit + suspended_seconds(life, now) + _GRACE
    return min(end, max(most, life.counted_time or 0))


def suspended_seconds(life: Life, now: int) -> int:
    """What the accounting tells in the end. Before that it lags behind what polls saw."""
    told = life.suspended_seconds
    if life.accounted and told is not None:
        return told
    if not any(one.state == SUSPENDED for one in life.transitions):
        return max(0, told or 0)
    return max(told or 0, sum(end - begin for begin, end in suspensions(life, now)))


def suspensions(life: Life, now: int) -> list[tuple[int, int]]:
    """From when until when polls saw it suspended."""
    last = (life.end_time or 0) if life.ended else _seen(life, now)
    line = [(one.time, one.state) for one in life.transitions] + [(last, "")]
    found = [(begin, end) for (begin, state), (end, _) in pairwise(line) if state == SUSPENDED]
    return [(begin, end) for begin, end in found if begin < end]


def _seen(life: Life, now: int) -> int:
    return now if life.gone_time is None else min(now, life.gone_time)
