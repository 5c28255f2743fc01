# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""After a poll what pages are made of is made before anybody asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from web import sites, town

from slurmscope.metrics.pages import Edition
from slurmscope.model import Job, Part, Snapshot
from slurmscope.reports.document import Document
from slurmscope.reports.kept import Reports
from slurmscope.reports.period import Period, last_month
from slurmscope.web import outlook
from slurmscope.web.portal import Portal
from slurmscope.web.preparation import Preparation
from slurmscope.web.queue import Queue, queue_of
from slurmscope.web.site import Site

FRESH = frozenset({"jobs"})


class Poll:
    """One cluster, read again and again, with what happened and who was told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshot = town.snapshot()
        self.events: list[str] = []
        self.told: list[frozenset[str]] = []
        settled = town.settled(folder)
        self.site = Site(settled.settings, settled.url, lambda: [self._edition()], lambda: town.NOW)
        settled.close()
        self.portal: Portal = sites.portal_of(self.site)
        self._preparation = Preparation(self.site, self._tell)

        monkeypatch.setattr(outlook, "queue_of", self.made)

    def made(self, jobs: Iterable[Job], now: float) -> Queue:
        self.events.append("made")
        return queue_of(jobs, now)

    def _edition(self) -> Edition:
        return Edition(self.snapshot, True, lambda: town.NOW)

    async def _tell(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self.events.append("told")
        self.told.append(fresh)

    def look(self) -> None:
        assert town.as_(self.portal, town.SAM).get("/").status == 200

    def read(self, page: str) -> None:
        found = town.as_(self.portal, town.SAM).get(f"/clusters/{town.CLUSTER}/{page}")
        assert found.status in (200, 404)  # of some times nothing is kept

    async def _publish(self, fresh: frozenset[str]) -> None:
        time = (self.snapshot.jobs.time or 0.0) + 1
        self.snapshot = self.snapshot.replaced(jobs=Part(town.QUEUE, time, "text"))
        await self._preparation.publish(self.snapshot, fresh)

    async def _until_told(self, times: int) -> None:
        async with asyncio.timeout(60):
            while len(self.told) < times:
                await asyncio.sleep(0.001)

    def ended(self, fresh: frozenset[str] = FRESH) -> None:
        """A poll has."""

        async def publish() -> None:
            await self._publish(fresh)
            await self._until_told(1)

        asyncio.run(publish())

    def polls(self, brought: Sequence[frozenset[str]], begun: threading.Event, go_on: threading.Event) -> None:
        """The first has ended, and the others do while it is prepared."""

        async def publish() -> None:
            await self._publish(brought[0])
            assert await asyncio.to_thread(begun.wait, 60)
            for one in brought[1:]:
                await self._publish(one)
            go_on.set()
            await self._until_told(2)

        asyncio.run(publish())


@pytest.fixture
def poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poll]:
    found = Poll(tmp_path, monkeypatch)
    yield found
    found.portal.close()


def test_it_is_ready_when_readers_are_told(poll: Poll) -> None:
    poll.look()
    assert poll.events == ["made"]
    poll.ended()
    assert poll.events == ["made", "made", "told"]
    poll.look()
    assert poll.events == ["made", "made", "told"]


def test_reports_that_somebody_has_read_lately_are_ready_and_the_first_that_is_shown(
    poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    month, cluster = Reports.month, Reports.cluster

    def short(reports: Reports, name: str, period: Period, *, told: bool) -> Document | None:
        made.append(period.words)
        return month(reports, name, period, told=told)

    def full(reports: Reports, name: str, period: Period, *, told: bool) -> Document | None:
        made.append(f"{period.days} days")
        return cluster(reports, name, period, told=told)

    monkeypatch.setattr(Reports, "month", short)
    monkeypatch.setattr(Reports, "cluster", full)
    poll.read("report?days=7")
    assert made == ["7 days"]
    poll.ended()
    # the last month is the one that is shown where no other is asked for
    assert made == ["7 days", last_month(town.NOW).words, "7 days"]
    poll.read("report?days=7")
    poll.read("report")
    assert len(made) == 3
    # of what is over nothing is made again so soon; of many that were read, the last
    for days in range(8, 18):
        poll.read(f"report?days={days}")
    del made[:]
    poll.ended()
    assert made == ["17 days", "16 days", "15 days"]


def test_a_poll_that_ends_meanwhile_is_prepared_too(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    poll.look()
    begun, go_on = threading.Event(), threading.Event()

    def slow(jobs: Iterable[Job], now: float) -> Queue:
        begun.set()
        assert go_on.wait(60)
        return poll.made(jobs, now)

    monkeypatch.setattr(outlook, "queue_of", slow)
    poll.polls([FRESH, frozenset({"nodes"}), frozenset({"shares"})], begun, go_on)
    # the second is over when the third comes, which tells what both have brought
    assert poll.events == ["made", "made", "told", "made", "told"]
    assert poll.told == [FRESH, frozenset({"nodes", "shares"})]


def test_it_is_ready_for_the_first_reader_of_the_day(poll: Poll) -> None:
    poll.ended()
    assert poll.events == ["made", "told"]
    poll.look()
    assert poll.events == ["made", "told"]


def test_nothing_is_made_of_a_poll_that_read_nothing(poll: Poll) -> None:
    poll.look()
    poll.ended(frozenset())
    assert poll.events == ["made", "told"]


def test_readers_are_told_though_it_cannot_be_made(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    poll.look()
    monkeypatch.setattr(outlook, "prepared", lambda site, cluster: 1 // 0)
    poll.ended()
    assert poll.events == ["made", "told"]
