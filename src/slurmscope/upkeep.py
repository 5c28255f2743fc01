# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All that `serve` does besides serving pages: what it keeps, and what it sends on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Protocol

from slurmscope import logs
from slurmscope.keeper import Archive, Keeper, Taker, forget_on
from slurmscope.mail.tally import Tally as MailTally
from slurmscope.measured.service import Measuring
from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.model import Snapshot
from slurmscope.settings import Settings
from slurmscope.sinks.sink import Sink, SinkError
from slurmscope.slurm.source import Source
from slurmscope.store import place
from slurmscope.store.protocol import StoreError

if TYPE_CHECKING:
    from slurmscope.findings.keeping import Judging


class UpkeepError(Exception):
    """A store or a sink cannot be used as it is set up; the message says what to do."""


class Mailing(Protocol):
    """Who tells people."""

    @property
    def tally(self) -> MailTally: ...

    async def run(self) -> None: ...

    async def close(self) -> None: ...


class Cluster(Protocol):
    """One that is polled."""

    @property
    def source(self) -> Source: ...

    @property
    def listeners(self) -> list[Callable[[Snapshot, frozenset[str]], Awaitable[None]]]: ...


class _Beside:
    """A listener that keeps no poll waiting: while the last is not taken yet, what is new is passed over."""

    def __init__(self, take: Callable[[Snapshot], Coroutine[None, None, None]]) -> None:
        self._take = take
        self._task: asyncio.Task[None] | None = None

    async def listen(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._take(snapshot))


def _judging(settings: Settings, archive: Archive) -> Judging:
    # only here: rules take memory
    from slurmscope.findings.keeping import Judging  # noqa: PLC0415
    from slurmscope.findings.policy import PolicyError  # noqa: PLC0415

    try:
        return Judging(settings, archive.url)
    except PolicyError as error:
        raise UpkeepError(str(error)) from error


class Upkeep:
    def __init__(self, archive: Archive | None) -> None:
        self.archive = archive
        self.sinks: list[Sink] = []
        self.keepers: list[Keeper] = []
        self.measuring: Measuring | None = None
        self.mailing: Mailing | None = None
        self._settings = Settings()
        self._judging: Judging | None = None

    @classmethod
    async def of(
        cls,
        settings: Settings,
        clusters: Sequence[Cluster],
        book: Book,
        archive: Archive | None,
        measuring: Measuring | None = None,
        mailing: Mailing | None = None,
    ) -> Upkeep:
        """The sinks that the settings name, and a keeper for each cluster."""
        upkeep = cls(archive)
        upkeep._settings = settings
        upkeep.mailing = mailing
        book.requests.upkeep = upkeep
        takers: list[Taker] = []
        try:
            upkeep._add_sinks(settings, clusters, book, takers)
        except SinkError as error:
            raise UpkeepError(str(error)) from error
        if archive is not None:
            upkeep._judging = _judging(settings, archive)
            try:
                await archive.open()
            except StoreError as error:
                await archive.close()
                raise UpkeepError(str(error)) from error
            for one in clusters:
                keeper = Keeper(archive, one.source, settings.accounting, takers)
                upkeep.keepers.append(keeper)
                one.listeners.append(keeper.publish)
        if measuring is not None:
            upkeep.measuring = measuring
            for one in clusters:
                one.listeners.append(measuring.listen)
        return upkeep

    def _add_sinks(self, settings: Settings, clusters: Sequence[Cluster], book: Book, takers: list[Taker]) -> None:
        folder = place.folder_of(settings.store) / "spool"
        # each is loaded only where it is used: their clients take memory
        if settings.elasticsearch.url:
            from slurmscope.sinks.elasticsearch import ElasticsearchSink  # noqa: PLC0415

            if self.archive is None:
                raise SinkError("elasticsearch.url: needs a store, which knows each job's life: set store.url")
            elasticsearch = ElasticsearchSink(settings.elasticsearch, folder)
            self.sinks.append(elasticsearch)
            takers.append(elasticsearch)
        if settings.cloudwatch.enabled:
            from slurmscope.sinks.cloudwatch import CloudWatchSink  # noqa: PLC0415

            cloudwatch = CloudWatchSink(settings.cloudwatch, folder)
            self.sinks.append(cloudwatch)

            for one in clusters:
                one.listeners.append(_Beside(cloudwatch.take).listen)
        if settings.pushgateway.url:
            from slurmscope.sinks.pushgateway import PushgatewaySink  # noqa: PLC0415

            async def page() -> bytes:
                return b"".join(await book.body(catalogue.DEFAULT, openmetrics=False, gzip=True))

            pushgateway = PushgatewaySink(settings.pushgateway, page)
            self.sinks.append(pushgateway)

            async def pushed(snapshot: Snapshot, fresh: frozenset[str]) -> None:
                await pushgateway.take()

            for one in clusters:
                one.listeners.append(pushed)

    @property
    def troubles(self) -> list[str]:
        """What does not work now, without details: those may name hosts and paths."""
        found = ["the store"] if self.archive is not None and self.archive.error is not None else []
        if not found and self.measuring is not None and self.measuring.failing:
            found = ["what jobs used"]
        return found + [sink.name for sink in self.sinks if sink.tally.up is False]

    def start(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(sink.run()) for sink in self.sinks]
        tasks += [asyncio.create_task(self._keep(keeper)) for keeper in self.keepers]
        if self.measuring is not None:
            tasks.append(asyncio.create_task(self.measuring.run()))
        if self.mailing is not None:
            tasks.append(asyncio.create_task(self.mailing.run()))
        if self._judging is not None:
            tasks.append(asyncio.create_task(self._judging.run()))
        if self.archive is not None:
            tasks.append(asyncio.create_task(forget_on(self.archive, self._settings.store)))
        return tasks

    async def _keep(self, keeper: Keeper) -> None:
        await keeper.named.wait()
        if len(self.keepers) > 1:
            logs.cluster.set(keeper.cluster)
        await keeper.run()

    async def close(self) -> None:
        """Writes and sends what there still is; polls and tasks must have ended."""
        for keeper in self.keepers:
            await keeper.flush()
        if self.measuring is not None:
            await self.measuring.close()
        await asyncio.gather(*(sink.close() for sink in self.sinks), return_exceptions=True)
        if self.mailing is not None:
            await self.mailing.close()
        if self._judging is not None:
            await self._judging.close()
        if self.archive is not None:
            await self.archive.close()
