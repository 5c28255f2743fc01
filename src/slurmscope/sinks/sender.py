# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of a sink: takes from the spool, sends, and forgets what has arrived."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from slurmscope.logs import Once, fields
from slurmscope.sinks.sink import BatchError, SendError, Tally
from slurmscope.sinks.spool import Spool, SpoolError

log = logging.getLogger(__name__)

FIRST_WAIT = 1.0
LONGEST_WAIT = 300.0
_LONGEST_ASKED = 3600.0  # that a server may make us wait by its Retry-After

Batch = list[tuple[int, bytes]]


class Receipt(msgspec.Struct):
    """What became of a batch. What is in neither list is sent again."""

    arrived: list[int]
    rejected: list[tuple[int, str]] = []  # and why; up to the first colon, what kind of reason that is
    expired: list[int] = []  # too old for the server to take
    why: str = ""  # some are to be sent again
    after: float | None = None


class Waits:
    """How long to wait after each failure in a row: 1 s, doubling to 5 minutes; not all at the same moment."""

    def __init__(self, longest: float = LONGEST_WAIT) -> None:
        self._longest = longest
        self._failures = 0

    def next(self, asked: float | None) -> float:
        wait = min(self._longest, FIRST_WAIT * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return max(wait * random.uniform(0.5, 1.0), min(asked or 0.0, _LONGEST_ASKED))  # noqa: S311 - no secret

    def over(self) -> None:
        self._failures = 0


class Health:
    """Keeps what is told of failing and of sending again: once each."""

    def __init__(self, name: str, tally: Tally) -> None:
        self._name = name
        self._tally = tally
        self._since: float | None = None

    def failed(self, why: str) -> None:
        tally = self._tally
        tally.failures += 1
        tally.up = False
        tally.last_error = why
        if self._since is None:
            self._since = time.monotonic()
            log.warning("cannot send", extra=fields(sink=self._name, error=why))

    def worked(self) -> None:
        self._tally.up = True
        self._tally.last_success = time.time()
        if self._since is not None:
            took = round(time.monotonic() - self._since, 1)
            log.info("sends again", extra=fields(sink=self._name, seconds=took, queued=self._tally.queued))
            self._since = None


class Sender:
    """Sends what is added, in order, in batches of at most so many and so much."""

    def __init__(
        self,
        name: str,
        spool: Spool,
        send: Callable[[Batch], Awaitable[Receipt]],
        *,
        most_items: int,
        most_bytes: int,
    ) -> None:
        self.tally = Tally()
        self._name = name
        self._spool = spool
        self._send = send
        self._most_items = most_items
        self._most_bytes = most_bytes
        self._ceiling = most_items  # less for a while, where the server takes less
        self._next = most_items  # less for a while, where one is bad and has to be found
        self._lost = 0  # could not even be put into the spool, or grew too old in it
        self._settled: list[int] = []  # arrived, or rejected, but still in the spool
        self._waits = Waits()
        self._health = Health(name, self.tally)
        self._once = Once()
        self._spool_failed = False
        self._overflowed = False
        self._dropped = spool.dropped  # as was told
        self._new = asyncio.Event()
        self._sending = asyncio.Lock()
        self._count()

    async def add(self, items: Sequence[bytes], mark: int = 0) -> None:
        """Puts these into the spool; if that cannot be they are lost, counted, and it is said once."""
        if not items:
            return
        try:
            await asyncio.to_thread(self._spool.add, items, mark)
        except SpoolError as error:
            self._lost += len(items)
            self.tally.last_error = str(error)
            if not self._spool_failed:
                log.error("data is lost", extra=fields(sink=self._name, error=error))
            self._spool_failed = True
        else:
            if self._spool_failed:
                log.info("data is kept again", extra=fields(sink=self._name, lost=self._lost))
            self._spool_failed = False
        self._count()
        self._new.set()

    async def run(self) -> None:
        """Sends until it is cancelled."""
        while True:
            self._new.clear()
            wait = await self._round()
            if wait is None:
                await self._new.wait()
            else:
                await asyncio.sleep(wait)

    async def flush(self, seconds: float) -> None:
        """Sends what waits, as far as that works at the first try and takes no longer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self._round() == 0:
                    pass

    def close(self) -> None:
        self._spool.close()

    async def _round(self) -> float | None:
        """Sends one batch. Says how long to wait then; None: nothing is left."""
        async with self._sending:
            try:
                return await self._one_batch()
            except (SendError, SpoolError) as error:
                self._health.failed(str(error))
                return self._waits.next(getattr(error, "after", None))
            except Exception as error:  # a fault of ours must not end the loop
                if self.tally.up is not False:
                    log.exception("sending failed", extra=fields(sink=self._name))
                self._health.failed(f"{type(error).__name__}: {error}")
                return self._waits.next(None)
            finally:
                self._count()

    async def _one_batch(self) -> float | None:
        await self._settle()
        batch = await asyncio.to_thread(self._spool.peek, self._next, self._most_bytes)
        if not batch:
            self._next = self._ceiling = self._most_items
            self._overflowed = False
            return None
        try:
            receipt = await self._send(batch)
        except BatchError as error:
            if len(batch) > 1:
                self._next = len(batch) // 2
                self._ceiling = self._next if error.large else self._ceiling
                return 0
            receipt = Receipt([], [(batch[0][0], str(error))])
        self._read(receipt)
        await self._settle()
        if receipt.why:
            raise SendError(receipt.why, receipt.after)
        self._next = min(self._ceiling, 2 * self._next)
        self._waits.over()
        self._count()
        self._health.worked()
        return 0

    def _read(self, receipt: Receipt) -> None:
        # remembered before anything is waited for: what has arrived is not to be sent again
        self._settled = [*receipt.arrived, *receipt.expired, *(seq for seq, _ in receipt.rejected)]
        self._lost += len(receipt.expired)
        self.tally.sent += len(receipt.arrived)
        self.tally.rejected += len(receipt.rejected)
        for _, why in receipt.rejected:
            told = "some items are never taken, and are left out"
            self._once(log, logging.ERROR, why.partition(":")[0], told, sink=self._name, error=why)
            self.tally.last_error = why

    async def _settle(self) -> None:
        if self._settled:
            await asyncio.to_thread(self._spool.done, self._settled)
            self._settled = []

    def _count(self) -> None:
        tally, spool = self.tally, self._spool
        tally.queued, tally.queued_bytes = spool.length, spool.bytes
        tally.dropped = spool.dropped + self._lost
        if spool.dropped > self._dropped and not self._overflowed:
            self._overflowed = True
            log.warning("too much waits, the oldest is lost", extra=fields(sink=self._name, queued=spool.length))
        self._dropped = spool.dropped
