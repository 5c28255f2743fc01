# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs tell of themselves, as samples of their courses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from slurmscope.course import TRACE, Sample
from slurmscope.trace.body import Body

_MOST = 100_000  # processes that are remembered
_SAME = 1.0  # seconds between two tellings of when a process began
_HOLE = 300.0  # seconds between two samples, or five times as long as usual, of which nobody knows what was between


class _Last(msgspec.Struct, frozen=True, gc=False):
    body: Body
    distance: float


class Tracing:
    """Makes a sample of two that follow each other, of one process; of the first, since it began, if that is told and
    was not long ago. `add` is given the cluster, the job and that."""

    def __init__(self, add: Callable[[str, int, Sample], None]) -> None:
        self._add = add
        self._last: OrderedDict[tuple[str, int, str, int], _Last] = OrderedDict()

    def hear(self, cluster: str, body: Body) -> None:
        key = cluster, body.job_id, body.hostname, body.pid
        before = self._last.pop(key, None)
        if before is None or _is_another(before.body, body):
            before = _beginning(body)
        distance = (body.time or 0.0) - (before.body.time or 0.0) if before is not None else 0.0
        self._last[key] = _Last(body, distance)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)
        if before is not None and 0 < distance <= max(_HOLE, 5 * before.distance):
            self._add(cluster, body.job_id, _sample(before.body, body, distance))


def _is_another(before: Body, now: Body) -> bool:
    """Another process has got its number."""
    return before.started is not None and now.started is not None and abs(now.started - before.started) > _SAME


def _beginning(body: Body) -> _Last | None:
    """As if it had been heard of when it began, with nothing used; its memory was as it is now."""
    if body.started is None:
        return None
    return _Last(replace(body, time=body.started, cpu_seconds=0.0, read_bytes=0.0, write_bytes=0.0), 0.0)


def _sample(before: Body, now: Body, seconds: float) -> Sample:
    told = _grown(before.cpu_seconds, now.cpu_seconds)
    return Sample(
        node=now.hostname.partition(".")[0],
        part=str(now.pid),
        start=before.time or 0.0,
        end=now.time or 0.0,
        source=TRACE,
        cpu_seconds=now.cpus / 100 * seconds if told is None else told,
        memory=int((before.mem + now.mem) / 2),
        read_bytes=_whole(_grown(before.read_bytes, now.read_bytes)),
        written_bytes=_whole(_grown(before.write_bytes, now.write_bytes)),
        threads=int(now.threads),
    )


def _grown(before: float | None, now: float | None) -> float | None:
    if before is None or now is None:
        return None
    return max(0.0, now - before)  # it falls where one that it had started got lost, with all that it had used


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
