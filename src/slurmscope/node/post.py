# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Sends what was measured to `slurmscope serve`. What cannot be sent waits in memory, an hour or so of it."""

from __future__ import annotations

import asyncio
import gzip
from collections import deque
from collections.abc import Iterable

import msgspec

from slurmscope.measure import Report
from slurmscope.settings import Agent
from slurmscope.sinks.http import Server, Target, words
from slurmscope.sinks.sender import Health, Waits
from slurmscope.sinks.sink import BatchError, SendError, Tally

PATH = "/agent"
_MOST = 256  # reports that wait
_AT_ONCE = 32
_LONGEST_WAIT = 60.0
_STOP_SECONDS = 3.0
_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
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

    async def take(self, reports: Iterable[Report]) -> None:
        for report in reports:
            self._waiting.append(_encode(report))
            if len(self._waiting) > _MOST:
                self._waiting.popleft()
                self.tally.dropped += 1
        self.tally.queued = len(self._waiting)
        self._new.set()

    async def run(self) -> None:
        while True:
            await self._new.wait()
            try:
                wait = await self._send()
            except Exception as error:  # a fault of ours must not end the agent
                self._health.failed(f"{type(error).__name__}: {error}")
                wait = self._waits.next(None)
            if wait is not None:
                await asyncio.sleep(wait)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while self._waiting and await self._send() is None:
                    pass
        except TimeoutError:
            self._health.failed(f"did not answer in {_STOP_SECONDS:g} s")
        await self._server.close()

    async def _send(self) -> float | None:
        """How long to wait if it failed."""
        some = [self._waiting[at] for at in range(min(self._at_once, len(self._waiting)))]
        if not some:
            self._new.clear()
            return None
        try:
            body = gzip.compress(b"[" + b",".join(some) + b"]", 1)
            answer = await self._server.request("POST", PATH, body, _HEADERS)
            if answer.status == 400:
                self._refused(some, words(answer.body))
                return None
            if answer.status not in (200, 202, 204):
                raise SendError(f"POST {PATH} was answered with {answer.status}: {words(answer.body)}")
        except (SendError, BatchError) as error:
            self._health.failed(str(error))
            return self._waits.next(getattr(error, "after", None))
        self.tally.sent += len(some)
        self._took(some)
        self._at_once = min(_AT_ONCE, 2 * self._at_once)
        self._waits.over()
        self._health.worked()
        return None

    def _refused(self, some: list[bytes], why: str) -> None:
        """One that is wrong must not keep the others waiting: they are sent one by one, and it is given up."""
        self._at_once = 1
        if len(some) == 1:
            self.tally.rejected += 1
            self._health.failed(f"what was measured is refused: {why}")
            self._took(some)

    def _took(self, some: list[bytes]) -> None:
        for one in some:
            if self._waiting and self._waiting[0] is one:  # none that was dropped meanwhile
                self._waiting.popleft()
        self.tally.queued = len(self._waiting)
