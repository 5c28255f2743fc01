# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All that `serve` does with what was measured, put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from slurmscope.keeper import Archive
from slurmscope.logs import fields
from slurmscope.measure import Report
from slurmscope.measured import endpoint, page
from slurmscope.measured.backfill import Backfill
from slurmscope.measured.courses import Courses
from slurmscope.measured.endpoint import AgentReceiver
from slurmscope.measured.page import JobsPage
from slurmscope.measured.reports import Reports
from slurmscope.measured.tally import Tally
from slurmscope.measured.tracing import Tracing
from slurmscope.model import Snapshot
from slurmscope.settings import Settings
from slurmscope.store.protocol import StoreError
from slurmscope.trace.traces import Traces

log = logging.getLogger(__name__)

_FLUSH_SECONDS = 10.0


class Measuring:
    """Takes reports, shows the newest, and keeps the courses of jobs where there is a store."""

    def __init__(self, settings: Settings, clusters: Callable[[], Sequence[Snapshot]], archive: Archive | None) -> None:
        self.tally: Tally = Tally(refused={})
        self.reports: Reports = Reports()
        self.courses: dict[str, Courses] = {}
        self.receivers: dict[str, AgentReceiver] = {}
        self.pages: dict[str, JobsPage] = {}
        self.backfill: Backfill | None = None
        self._archive = archive
        self._new: asyncio.Queue[Courses] = asyncio.Queue()
        agents = settings.agents
        self.enabled: bool = agents.enabled
        if agents.enabled:
            keeper = self if archive is not None else None
            receiver = AgentReceiver(agents.tokens, clusters, self.reports, keeper, self.tally)
            self.receivers[endpoint.PATH] = receiver
            self.pages[page.PATH] = JobsPage(self.reports)
        if archive is not None and settings.prometheus.url:
            self.backfill = Backfill(settings.prometheus.url, archive)
        self._keeps = archive is not None and (agents.enabled or settings.trace.enabled or self.backfill is not None)

    async def listen(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes note of a poll, which says which jobs there are."""
        if self._keeps and snapshot.cluster and "jobs" in fresh:
            await self.of(snapshot.cluster).see(snapshot)

    async def take(self, report: Report) -> None:
        await self.of(report.cluster).take(report)

    def hear(self, traces: Traces | None) -> None:
        """Has what jobs tell of themselves added to their courses."""
        if traces is not None and self._keeps:
            traces.on_sample.append(Tracing(lambda cluster, id_, sample: self.of(cluster).add(id_, sample)).hear)

    def of(self, cluster: str) -> Courses:
        """The courses of a cluster that is read; there must be a store."""
        found = self.courses.get(cluster)
        if found is None:
            assert self._archive is not None
            found = self.courses[cluster] = Courses(cluster, self._archive, self.tally)
            self._new.put_nowait(found)
        return found

    @property
    def failing(self) -> bool:
        """What was measured could not be written when that was last tried."""
        return any(courses.failing for courses in self.courses.values())

    async def run(self) -> None:
        """Writes, and asks Prometheus, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                courses = await self._new.get()
                tasks.create_task(courses.run())
                if self.backfill is not None:
                    tasks.create_task(self.backfill.run(courses))

    async def close(self) -> None:
        """Writes what there still is; `run()` must have ended."""
        if self.backfill is not None:
            await self.backfill.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                for courses in self.courses.values():
                    await _flush(courses)
        except TimeoutError:
            pass
        if waiting := sum(courses.waiting for courses in self.courses.values()):
            log.warning("what was measured last is not written", extra=fields(jobs=waiting))


async def _flush(courses: Courses) -> None:
    """Whatever is wrong with one cluster's, the others are written."""
    try:
        await courses.flush()
    except StoreError:
        pass  # which is told already
    except Exception:  # a fault of ours must not keep the rest from ending well
        log.exception("what was measured last is not written", extra=fields(cluster=courses.cluster))
