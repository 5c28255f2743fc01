# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps what `serve` sees: hands it to the store and the sinks, and never keeps a poll waiting for them.

The store has one thread of its own. When it cannot be used, what polls saw waits in memory, pages are served as ever,
and it is tried again; the log, `/readyz` and the metrics say so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import msgspec

from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.model import Node, Snapshot
from slurmscope.settings import Accounting
from slurmscope.settings import Store as StoreSettings
from slurmscope.slurm.source import Source, SourceError
from slurmscope.slurm.transport import TransportError
from slurmscope.store import place
from slurmscope.store.accountant import DAY, Accountant
from slurmscope.store.protocol import KINDS, NodeChange, Store, StoreError, Unreachable
from slurmscope.store.recorder import Changes, Recorder, give_up
from slurmscope.worker import compute

log = logging.getLogger(__name__)
T = TypeVar("T")

_AWAY = "the store cannot be used; what is seen waits in memory"
_RETRY = 15.0  # seconds before a store that failed is tried again without news
_FORGET_EVERY = _GIVE_UP_EVERY = 3600.0
_PATIENCE = 7 * DAY  # for the accounting to tell of a job that is in no queue any more
_HAND_ON_SECONDS = 120.0
_FLUSH_SECONDS = 10.0


class Tally(msgspec.Struct):
    """What the store has cost and done since the start."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0
    lives: int = 0  # written, new ones and changed ones
    last_success: float | None = None


class Archive:
    """The store, from its thread; opened when it is first needed, and again when that failed."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time, *, quiet: bool = False) -> None:
        self.tally = Tally()
        self.error: str | None = None
        self.url = url
        self._clock = clock
        self._quiet = quiet  # whoever calls says what is wrong
        self._thread = ThreadPoolExecutor(1, "store")
        self._store: Store | None = None

    async def open(self) -> None:
        """A store that is away now may come back; one that can never be used so raises StoreError."""
        quiet, self._quiet = self._quiet, True
        try:
            await self.call(lambda store: None)
        except Unreachable as error:
            log.error(_AWAY, extra=fields(error=str(error)))
        finally:
            self._quiet = quiet

    async def call(self, work: Callable[[Store], T]) -> T:
        """Raises StoreError; what fails is logged once."""
        started = time.monotonic()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)
        except StoreError as error:
            self.tally.failures += 1
            if str(error) != self.error and not self._quiet:
                log.error(_AWAY, extra=fields(error=str(error)))
            self.error = str(error)
            raise
        finally:
            self.tally.last_seconds = time.monotonic() - started
            self.tally.seconds += self.tally.last_seconds
        self.tally.calls += 1
        self.tally.last_success = self._clock()
        if self.error is not None:
            log.info("the store can be used again")
            self.error = None
        return found

    def _work(self, work: Callable[[Store], T]) -> T:
        if self._store is None:
            self._store = place.open_store(self.url)
        return work(self._store)

    async def close(self) -> None:
        def end() -> None:
            if self._store is not None:
                self._store.close()

        await asyncio.get_running_loop().run_in_executor(self._thread, end)
        self._thread.shutdown(wait=False)


class Taker(Protocol):
    """A sink that wants what changed."""

    async def take(
        self,
        jobs: Sequence[Life],
        nodes: Sequence[tuple[str, Node, int]] = (),
        changes: Sequence[NodeChange] = (),
    ) -> None: ...


class Keeper:
    """Of one cluster."""

    def __init__(
        self,
        archive: Archive,
        source: Source,
        accounting: Accounting,
        takers: Sequence[Taker] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.recorder = Recorder()
        self._archive = archive
        self._source = source
        self._accounting = accounting
        self._takers = takers
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.named = asyncio.Event()  # the cluster has told its name
        self.cluster = ""
        self._complaint = ""  # why the accounting cannot be read

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes note of a poll; it is written later."""
        if snapshot.cluster and fresh:
            self.cluster = snapshot.cluster
            await compute(self.recorder.notice, snapshot, fresh)
            self._news.set()
            self.named.set()

    async def run(self) -> None:
        """Writes, and reads the accounting, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_on())
            tasks.create_task(self._give_up_on())
            if self._accounting.enabled:
                tasks.create_task(self._account_on())

    async def _write_on(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._write()
            except StoreError:
                await asyncio.sleep(_RETRY)
                self._news.set()
            except Exception:  # a fault of ours must not end the service
                log.exception("what was seen could not be written")

    async def _write(self) -> None:
        self._archive.tally.lives += await self._archive.call(lambda store: self.recorder.write(store, self._hand_on))

    def _hand_on(self, changes: Changes) -> None:
        """In the store's thread: the sinks put it on their own disk, which takes a moment."""
        nodes = [(one.cluster, one.node, one.time) for one in changes.nodes]
        for taker in self._takers:
            taken = taker.take(changes.lives, nodes, changes.node_changes)
            asyncio.run_coroutine_threadsafe(taken, self._loop).result(_HAND_ON_SECONDS)

    async def _account_on(self) -> None:
        await self.named.wait()
        accountant = Accountant(self._source, self.cluster, self._archive.call, self._hand_on, self._clock)
        while True:
            try:
                progress = await accountant.catch_up(self._accounting.reach_days * DAY)
                self._archive.tally.lives += progress.changed
                self._complain("")
            except StoreError:
                pass  # which is told already
            except (TransportError, SourceError) as error:
                self._complain(str(error))
            except Exception:  # a fault of ours must not end the service
                log.exception("the accounting could not be read")
            await asyncio.sleep(self._accounting.interval)

    async def _give_up_on(self) -> None:
        """Closes lives that are lost. As long as somebody may tell how they ended, that is waited for."""
        await self.named.wait()
        while True:
            await asyncio.sleep(_GIVE_UP_EVERY)
            try:
                await self._archive.call(self._give_up)
            except StoreError:
                pass  # which is told already
            except Exception:  # a fault of ours must not end the service
                log.exception("lost jobs could not be closed")

    def _give_up(self, store: Store) -> None:
        now = int(self._clock())
        patience = _PATIENCE if self._accounting.enabled else 0
        give_up(store, self.cluster, now - patience, now, self._hand_on)

    def _complain(self, error: str) -> None:
        """Once for each reason, and once when it is over."""
        if error and error != self._complaint:
            log.warning("the accounting cannot be read", extra=fields(error=error))
        elif self._complaint and not error:
            log.info("the accounting can be read again")
        self._complaint = error

    async def flush(self) -> None:
        """The last thing: what was seen and is not written yet."""
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._write()
        except (StoreError, TimeoutError):
            log.warning("what was seen last is not written", extra=fields(waiting=self.recorder.waiting))
        except Exception:  # a fault of ours must not keep the rest from ending well
            log.exception("what was seen last is not written")


async def forget_on(archive: Archive, settings: StoreSettings, clock: Callable[[], float] = time.time) -> None:
    """Forgets what has been kept for long enough, until it is cancelled."""
    while True:
        try:
            await archive.call(lambda store: forget(store, settings, int(clock())))
        except StoreError:
            pass  # which is told already
        except Exception:  # a fault of ours must not end the service
            log.exception("what is old could not be forgotten")
        await asyncio.sleep(_FORGET_EVERY)


def forget(store: Store, settings: StoreSettings, now: int) -> dict[str, int]:
    """How many of each kind were forgotten."""
    days = {kind: getattr(settings, f"{kind}_days") for kind in KINDS}
    # sums are taken from when a job changes, and so stay for as long as there are jobs that may
    days["usage"] = max(days["usage"], days["jobs"]) if days["usage"] and days["jobs"] else 0
    return {kind: store.forget(kind, now - days[kind] * DAY) for kind in KINDS if days[kind]}
