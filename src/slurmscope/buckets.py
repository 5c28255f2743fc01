# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Integrals over time in buckets of a step, which doubles when there would be too many. Pure.

Whatever is spread over buckets is rounded at their edges. So two buckets hold the same as one of twice the step, and it
does not matter when the step was doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Protocol

import msgspec

STEP = 15
"""Seconds of a bucket, at first."""
MOST_IN_LANE = 60
"""Buckets of a lane."""


class Buckets(Protocol):
    step: int
    start: int  # of the first one, a multiple of the step
    amounts: dict[str, list[int]]

    @property
    def length(self) -> int: ...

    @property
    def end(self) -> int: ...


class Lane(msgspec.Struct):
    """How busy the cores of one node were over time, where a job has several nodes."""

    step: int
    start: int
    amounts: dict[str, list[int]]  # "covered" and "cpu", as those of the course

    @classmethod
    def at(cls, time: float) -> Lane:
        return cls(STEP, int(time) // STEP * STEP, {"covered": [], "cpu": []})

    @property
    def length(self) -> int:
        return len(self.amounts["covered"])

    @property
    def end(self) -> int:
        return self.start + self.length * self.step


def lane_of(buckets: Buckets, step: int = STEP) -> Lane:
    """What of some buckets a lane holds, of this step at least."""
    found = Lane(buckets.step, buckets.start, {name: list(buckets.amounts[name]) for name in ("covered", "cpu")})
    while found.step < step or found.length > MOST_IN_LANE:
        coarsen(found)
    return found


def merged_lanes(one: Lane | None, other: Lane | None) -> Lane | None:
    """Both, neither of them changed."""
    told = [lane for lane in (one, other) if lane is not None and lane.length]
    if len(told) < 2:
        return told[0] if told else one or other
    found, more = lane_of(told[0], told[1].step), told[1]
    reach(found, more.start, more.end, MOST_IN_LANE)
    more = lane_of(more, found.step)
    first = (more.start - found.start) // found.step
    for name, column in more.amounts.items():
        for at, amount in enumerate(column, first):
            found.amounts[name][at] += amount
    return found


def spread(buckets: Buckets, start: float, end: float, amounts: Mapping[str, float], most: int) -> None:
    """Into the buckets, each its share; rounded so that nothing is lost or gained."""
    reach(buckets, start, end, most)
    edges = [start, *_edges(buckets, start, end), end]
    first = int(start - buckets.start) // buckets.step
    for name, amount in amounts.items():
        column = buckets.amounts[name]
        given = 0
        for at, (_, until) in enumerate(pairwise(edges)):
            total = round(amount * ((until - start) / (end - start)))  # the last is all of it, exactly
            column[first + at] += total - given
            given = total


def _edges(buckets: Buckets, start: float, end: float) -> Iterable[int]:
    edge = buckets.start + (int(start - buckets.start) // buckets.step + 1) * buckets.step
    return range(edge, int(end) + (end > int(end)), buckets.step)


def reach(buckets: Buckets, start: float, end: float, most: int) -> None:
    """Makes buckets for a time, of a longer step if there would be too many."""
    if not buckets.length:
        buckets.start = int(start) // buckets.step * buckets.step
    while True:
        first = min(buckets.start, int(start) // buckets.step * buckets.step)
        last = max(buckets.end, int(-(-end // buckets.step)) * buckets.step)
        if (last - first) // buckets.step <= most:
            break
        coarsen(buckets)
    before = (buckets.start - first) // buckets.step
    after = (last - buckets.end) // buckets.step
    buckets.start = first
    if before or after:
        for name, column in buckets.amounts.items():
            buckets.amounts[name] = [0] * before + column + [0] * after


def coarsen(buckets: Buckets) -> None:
    step = buckets.step * 2
    start = buckets.start // step * step
    before = [0] if start < buckets.start else []
    for name, column in buckets.amounts.items():
        padded = before + column
        if len(padded) % 2:
            padded.append(0)
        buckets.amounts[name] = [one + other for one, other in zip(padded[::2], padded[1::2], strict=True)]
    buckets.step, buckets.start = step, start
