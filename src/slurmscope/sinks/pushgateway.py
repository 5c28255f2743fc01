# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A Prometheus Pushgateway, for where Prometheus cannot reach us: the page of metrics, pushed when it is new.

There is no spool: a Pushgateway keeps one value of each series, the last that was pushed, and refuses values of a time
gone by. Of the pages that could not be pushed only the newest is worth anything, and that one is at hand.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from slurmscope.settings import Pushgateway
from slurmscope.sinks.http import Server, words
from slurmscope.sinks.sender import LONGEST_WAIT, Health, Waits
from slurmscope.sinks.sink import BatchError, SendError, Tally

_STOP_SECONDS = 5.0
_PLAIN = re.compile(r"[^/]+")
_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8", "Content-Encoding": "gzip"}


class PushgatewaySink:
    name = "pushgateway"

    def __init__(
        self, settings: Pushgateway, page: Callable[[], Awaitable[bytes]], longest_wait: float = LONGEST_WAIT
    ) -> None:
        """`page` gives the page as it is now: the text format, compressed by gzip."""
        self.tally = Tally()
        self._settings = settings
        self._page = page
        self._server = Server(self.name, settings)
        labels = {"job": settings.job} | settings.grouping
        self._path = "/metrics/" + "/".join(_label(name, value) for name, value in labels.items())
        self._health = Health(self.name, self.tally)
        self._waits = Waits(longest_wait)
        self._new = asyncio.Event()

    async def take(self) -> None:
        """There is a new page."""
        self._new.set()
        self.tally.queued = 1

    async def run(self) -> None:
        while True:
            await self._new.wait()
            started = time.monotonic()
            try:
                wait = await self._push()
            except Exception as error:  # a fault of ours must not end the service
                self._health.failed(f"{type(error).__name__}: {error}")
                wait = self._waits.next(None)
            rest = self._settings.interval - (time.monotonic() - started)
            await asyncio.sleep(max(0.0, rest) if wait is None else wait)

    async def close(self) -> None:
        """Pushes what is new, or deletes the group: series that nobody renews would look alive for ever."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                if self._settings.delete_on_stop:
                    await self._delete()
                elif self._new.is_set():
                    await self._push()
        except TimeoutError:
            self._health.failed(f"{self._settings.url} did not answer in {_STOP_SECONDS:g} s")
        await self._server.close()

    async def _push(self) -> float | None:
        """How long to wait if it failed."""
        self._new.clear()
        try:
            page = await self._page()
            self.tally.queued_bytes = len(page)
            answer = await self._server.request("PUT", self._path, page, _HEADERS)
            if answer.status not in (200, 202):
                raise SendError(f"PUT {self._path} was answered with {answer.status}: {words(answer.body)}")
        except (SendError, BatchError) as error:
            # the next try is with the page of then
            self._new.set()
            self._health.failed(str(error))
            return self._waits.next(getattr(error, "after", None))
        self.tally.sent += 1
        self.tally.queued = self.tally.queued_bytes = 0
        self._waits.over()
        self._health.worked()
        return None

    async def _delete(self) -> None:
        try:
            answer = await self._server.request("DELETE", self._path)
            if answer.status != 202:
                raise SendError(f"DELETE {self._path} was answered with {answer.status}: {words(answer.body)}")
        except (SendError, BatchError) as error:
            self._health.failed(str(error))


def _label(name: str, value: str) -> str:
    """A label of the group in an address. Base64 is for what an address cannot hold, and for nothing (`=`)."""
    if _PLAIN.fullmatch(value) and value not in (".", ".."):
        return f"{name}/{quote(value, safe='')}"
    coded = base64.urlsafe_b64encode(value.encode()).decode() or "="
    return f"{name}@base64/{coded}"
