# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The newest report of each node: what jobs use now."""

from __future__ import annotations

import time
from collections.abc import Callable

from slurmscope.measure import Report

KEEP_SECONDS = 300.0
"""After which a report does not tell of now any more."""
_MOST_NODES = 20_000
_MOST_JOBS = 200_000  # of all of them
_FORGET_EVERY = 15.0


class NoRoom(Exception):
    """More nodes report than can be."""


class Reports:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.version = 0  # another one when there is anything new
        self._clock = clock
        self._newest: dict[tuple[str, str], Report] = {}
        self._jobs = 0
        self._forgotten_at = 0.0

    def take(self, report: Report) -> None:
        """Raises NoRoom. One that is older than what is known changes nothing."""
        key = report.cluster, report.node
        before = self._newest.get(key)
        if (before is not None and before.time >= report.time) or report.time < self._clock() - KEEP_SECONDS:
            return
        if not self._has_room(report):
            self._forget()
            if not self._has_room(report):
                raise NoRoom(f"{len(self._newest)} nodes with {self._jobs} jobs report already, which is the most")
        self._jobs += self._more(report)
        self._newest[key] = report
        self.version += 1

    def _more(self, report: Report) -> int:
        """Jobs, beyond those that the same node told of before."""
        before = self._newest.get((report.cluster, report.node))
        return len(report.jobs) - (len(before.jobs) if before is not None else 0)

    def _has_room(self, report: Report) -> bool:
        more = self._more(report)
        if more > 0 and self._jobs + more > _MOST_JOBS:
            return False
        return (report.cluster, report.node) in self._newest or len(self._newest) < _MOST_NODES

    def _forget(self) -> None:
        oldest = self._clock() - KEEP_SECONDS
        for key, report in list(self._newest.items()):
            if report.time < oldest:
                del self._newest[key]
                self._jobs -= len(report.jobs)
                self.version += 1

    def recent(self) -> list[Report]:
        now = self._clock()
        if now - self._forgotten_at > _FORGET_EVERY:
            self._forgotten_at = now
            self._forget()
        return [report for report in self._newest.values() if report.time >= now - KEEP_SECONDS]

    def heard(self) -> list[tuple[str, str, float]]:
        """Cluster, node and time of each that counts; for other threads, for it changes nothing."""
        since = self._clock() - KEEP_SECONDS
        return [(one.cluster, one.node, one.time) for one in list(self._newest.values()) if one.time >= since]

    @property
    def oldest_seconds(self) -> float | None:
        """How old the oldest of those is that count."""
        return max((self._clock() - report.time for report in self.recent()), default=None)
