# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page `/metrics/jobs`: what agents told last, of all clusters."""

from __future__ import annotations

import asyncio
import time

import msgspec

from slurmscope.measure import Report
from slurmscope.measured.reports import Reports
from slurmscope.metrics import jobs
from slurmscope.metrics.exposition import Chunk, Page, join, render
from slurmscope.worker import compute

PATH = "/metrics/jobs"
_REST = 4  # times what it took to make a page, for which the next one waits
_LONGEST = 15.0  # seconds that a page is served, though nothing new came: reports grow old


class _Made(msgspec.Struct, frozen=True):
    page: Page
    version: int
    at: float
    took: float

    def good(self, version: int, now: float) -> bool:
        age = now - self.at
        return age < _REST * self.took or (version == self.version and age < _LONGEST)


class JobsPage:
    """Made when it is asked for. With many nodes there is always something new, so that one is used for a while."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._made: dict[bool, _Made] = {}
        self._making = asyncio.Lock()

    async def body(self, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        async with self._making:
            made = self._made.get(openmetrics)
            if made is None or not made.good(self._reports.version, time.monotonic()):
                started, version = time.monotonic(), self._reports.version
                page = await compute(_made, self._reports.recent(), openmetrics=openmetrics)
                now = time.monotonic()
                made = self._made[openmetrics] = _Made(page, version, now, now - started)
        return made.page.body(b"# EOF\n" if openmetrics else b"", gzip=gzip)


def _made(reports: list[Report], *, openmetrics: bool) -> Page:
    clusters: dict[str, list[Report]] = {}
    for report in sorted(reports, key=lambda one: (one.cluster, one.node)):
        clusters.setdefault(report.cluster, []).append(report)
    chunks = []
    for topic in jobs.TOPICS:
        blocks = [
            render(topic, jobs.JobsView(some), cluster, openmetrics=openmetrics) for cluster, some in clusters.items()
        ]
        chunks.append(Chunk(join(blocks)))
    return Page(chunks)
