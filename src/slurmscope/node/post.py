# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Sends what was measured to `slurmscope serve`. What cannot be sent waits in memory, an hour or so of it."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
from collections import deque
from collections.abc import Iterable

import msgspec

from slurmscope.logs import fields
from slurmscope.measure import Report
from slurmscope.settings import Agent
from slurmscope.sinks.http import Server, Target, words
from slurmscope.sinks.sender import Health, Waits
from slurmscope.sinks.sink import BatchError, SendError, Tally

log = logging.getLogger(__name__)

PATH = "/agent"
_MOST = 256  # reports that wait
_MOST_BYTES = 16 << 20  # of them: those of a node with hundreds of jobs are large
_AT_ONCE = 32
_LONGEST_WAIT = 60.0
_STOP_SECONDS = 3.0
_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
_NUMBERS = re.compile(r"\d+")
_MOST_REASONS = 16  # that are told of one after the other; a server may give a new one each time
_encode = msgspec.json.Encoder().encode


class Poster:
    name = "serve"

    def __init__(self, settings: Agent) -> None:
        self.tally = Tally()
        target = Target(settings.serve_url, settings.serve_ca, settings.serve_token_file, "agent.serve_token_file")
        self._server = Server("agent.serve_url", target)
        self._waiting: deque[bytes] = deque()
        self._health = Health(self.name, self.tally)
        self._waits = Waits(_LONGEST_WAIT)
        self._new = asyncio.Event()
        self._at_once = _AT_ONCE
        self._ceiling = _AT_ONCE  # less while something waits, where the server takes less
        self._reasons: set[str] = set()  # for which it failed since it last worked

    async def take(self, reports: Iterable[Report]) -> None:
        for report in reports:
            self._waiting.append(_encode(report))
            self.tally.queued_bytes += len(self._waiting[-1])
            while len(self._waiting) > _MOST or self.tally.queued_bytes > _MOST_BYTES:
                self._forget()
                self.tally.dropped += 1
        self.tally.queued = len(self._waiting)
        self._new.set()

    async def run(self) -> None:
        while True:
            await self._new.wait()
            try:
                wait = await self._send()
            except Exception as error:  # a fault of ours must not end the agent
                self._failed(f"{type(error).__name__}: {error}")
                wait = self._waits.next(None)
            if wait is not None:
                await asyncio.sleep(wait)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while self._waiting and await self._send() is None:
                    pass
        except TimeoutError:
            self._failed(f"did not answer in {_STOP_SECONDS:g} s")
        await self._server.close()

    async def _send(self) -> float | None:
        """How long to wait if it failed."""
        some = [self._waiting[at] for at in range(min(self._at_once, len(self._waiting)))]
        if not some:
            self._new.clear()
            self._ceiling = self._at_once = _AT_ONCE
            return None
        try:
            body = gzip.compress(b"[" + b",".join(some) + b"]", 1)
            answer = await self._server.request("POST", PATH, body, _HEADERS)
            if answer.status == 400:
                self._refused(some, words(answer.body))
                return None
            if answer.status not in (200, 202, 204):
                raise SendError(f"POST {PATH} was answered with {answer.status}: {words(answer.body)}")
        except BatchError as error:
            self._too_large(some, str(error))
            return None
        except SendError as error:
            self._failed(str(error))
            return self._waits.next(error.after)
        self.tally.sent += len(some)
        self._took(some)
        self._at_once = min(self._ceiling, 2 * self._at_once)
        self._waits.over()
        self._health.worked()
        self._reasons.clear()
        return None

    def _refused(self, some: list[bytes], why: str) -> None:
        """One that is wrong must not keep the others waiting: they are sent one by one, and it is given up."""
        self._at_once = 1
        if len(some) == 1:
            self._give_up(some, f"what was measured is refused: {why}")

    def _too_large(self, some: list[bytes], why: str) -> None:
        """Half as many may be taken; to send as many again would be refused for ever."""
        self._ceiling = self._at_once = max(1, len(some) // 2)
        if len(some) == 1:
            self._give_up(some, why)

    def _give_up(self, some: list[bytes], why: str) -> None:
        self.tally.rejected += len(some)
        self._failed(why)
        self._took(some)

    def _took(self, some: list[bytes]) -> None:
        for one in some:
            if self._waiting and self._waiting[0] is one:  # none that was dropped meanwhile
                self._forget()
        self.tally.queued = len(self._waiting)

    def _forget(self) -> None:
        self.tally.queued_bytes -= len(self._waiting.popleft())

    def _failed(self, why: str) -> None:
        """The first reason is told by Health, and every further one here: a server that was away may refuse us when it
        is back. Numbers (of bytes, of seconds) make no other reason."""
        kind = _NUMBERS.sub("", why)
        if self._reasons and kind not in self._reasons and len(self._reasons) < _MOST_REASONS:
            log.warning("cannot send, for another reason now", extra=fields(sink=self.name, error=why))
        if len(self._reasons) < _MOST_REASONS:
            self._reasons.add(kind)
        self._health.failed(why)
