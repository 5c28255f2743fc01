# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""After a poll what pages are made of is made before anybody asks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from web import sites, town

from slurmscope.metrics.pages import Edition
from slurmscope.model import Job, Part, Snapshot
from slurmscope.reports import kept
from slurmscope.reports.document import Document
from slurmscope.reports.kept import Reports
from slurmscope.reports.period import Period, last_month
from slurmscope.store.protocol import Store, StoreError
from slurmscope.waiting.record import Starts, starts
from slurmscope.web import outlook
from slurmscope.web.portal import Portal
from slurmscope.web.preparation import Preparation
from slurmscope.web.queue import Queue, queue_of
from slurmscope.web.site import Site

FRESH = frozenset({"jobs"})
MINUTE = 60


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
        assert town.as_(self.portal, town.SAM).get(f"/clusters/{town.CLUSTER}/{page}").status == 200

    def close(self) -> None:
        self._preparation.close()
        self.portal.close()

    async def publish(self, fresh: frozenset[str], cluster: str = town.CLUSTER) -> None:
        polled = (self.snapshot.jobs.time or 0.0) + MINUTE
        self.snapshot = self.snapshot.replaced(jobs=Part(town.QUEUE, polled, "text"))
        await self._preparation.publish(replace(self.snapshot, cluster=cluster), fresh)

    async def _until_told(self, times: int) -> None:
        async with asyncio.timeout(60):
            while len(self.told) < times:
                await asyncio.sleep(0.001)

    def ended(self, fresh: frozenset[str] = FRESH, cluster: str = town.CLUSTER) -> None:
        """A poll has, and what is made after it."""

        async def publish() -> None:
            await self.publish(fresh, cluster)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

        asyncio.run(publish())

    def polls(self, brought: Sequence[frozenset[str]], begun: threading.Event, go_on: threading.Event) -> None:
        """The first has ended, and the others do while it is prepared."""

        async def publish() -> None:
            await self.publish(brought[0])
            assert await asyncio.to_thread(begun.wait, 60)
            for one in brought[1:]:
                await self.publish(one)
            go_on.set()
            await self._until_told(2)

        asyncio.run(publish())


@pytest.fixture
def poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poll]:
    found = Poll(tmp_path, monkeypatch)
    yield found
    found.close()


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


def test_reports_of_another_cluster_are_not_made(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    poll.read("report?days=7")
    made: list[str] = []
    monkeypatch.setattr(Reports, "month", lambda reports, name, period, told: made.append(name))
    monkeypatch.setattr(Reports, "cluster", lambda reports, name, period, told: made.append(name))
    poll.ended(cluster="beta")
    assert set(made) == {"beta"}


def test_what_somebody_asked_for_in_vain_is_not_made_again(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    assert town.as_(poll.portal, town.SAM).get(f"/clusters/{town.CLUSTER}/report?month=2001-01").status == 404
    made: list[str] = []
    monkeypatch.setattr(Reports, "month", lambda reports, name, period, told: made.append(period.words))
    poll.ended()
    assert set(made) == {last_month(town.NOW).words}


def test_how_jobs_started_lately_is_ready_for_those_that_wait(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, ...]] = []

    def noted(store: Store, cluster: str, partitions: Sequence[str], now: float) -> Starts:
        read.append(tuple(partitions))
        return starts(store, cluster, partitions, now)

    monkeypatch.setattr(kept, "starts", noted)
    poll.ended()
    waiting = next(one for one in town.QUEUE if one.waiting)
    assert tuple(waiting.partitions) in read and len(read) == len(set(read))
    del read[:]
    poll.read(f"jobs/{waiting.id}")
    assert read == []


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


def test_of_a_cluster_without_a_name_nothing_is_made(poll: Poll) -> None:
    poll.ended(cluster="")
    assert poll.events == ["told"]


def test_a_store_that_is_away_keeps_nobody_from_being_told(
    poll: Poll, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever keeps history says that it is away; that is not said again at every poll."""

    def away(site: Site, *, discreet: bool) -> Reports:
        poll.events.append("asked")
        raise StoreError("the disk is gone")

    monkeypatch.setattr(Site, "reports", away)
    poll.ended()
    assert poll.events == ["made", "told", "asked"]
    assert caplog.text == ""


def test_what_is_being_made_is_waited_for_at_the_end(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(jobs: Iterable[Job], now: float) -> Queue:
        begun.set()
        time.sleep(0.2)
        ended.set()
        return queue_of(jobs, now)

    monkeypatch.setattr(outlook, "queue_of", slow)

    async def end() -> None:
        await poll.publish(FRESH)
        assert await asyncio.to_thread(begun.wait, 60)
        poll.close()
        assert ended.is_set()

    asyncio.run(end())
    with pytest.raises(StoreError, match="has ended"):
        _ = poll.site.store


def test_readers_are_told_though_it_cannot_be_made(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    poll.look()
    monkeypatch.setattr(outlook, "prepared", lambda site, cluster: 1 // 0)
    poll.ended()
    assert poll.events == ["made", "told"]
