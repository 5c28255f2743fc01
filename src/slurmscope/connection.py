# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One connection of a client, which may be slow, silent or one of far too many."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 200
PATIENCE = 10.0
BODY_PATIENCE = 60.0  # whoever reads a body has less; this is for those that nobody reads
MOST_HEADER_BYTES = 64 << 10


class Connection(HttpToolsProtocol):
    """uvicorn's, with what it leaves to a proxy: bounds on connections, and on the time and length of a request.

    Without them anybody who reaches the port could use up the descriptors, and the commands could not be run.
    """

    _waiting: asyncio.TimerHandle | None = None
    _idle_since: float | None = None  # nothing is asked; None while something is answered
    _header_bytes = 0
    _in_body = False  # how long a body may be is for whoever reads it to say

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST and not self._make_room():
            transport.close()
        else:
            self._idle_since = self.loop.time()
            self._wait(PATIENCE)

    def _make_room(self) -> bool:
        """Hangs up on who has asked nothing for the longest time: a browser keeps several, and asks by few of them."""
        idle = [(one._idle_since, one) for one in self._others() if one._idle_since is not None]
        if not idle:
            return False
        _, longest = min(idle, key=lambda pair: pair[0])
        longest._idle_since = None  # it is still counted, until its end has been told to it
        longest.transport.close()
        return True

    def _others(self) -> list[Connection]:
        return [one for one in self.connections if isinstance(one, Connection)]

    def data_received(self, data: bytes) -> None:
        if self._in_body:
            super().data_received(data)
            return
        if self._waiting is None:  # the next request of a connection that was kept
            self._wait(PATIENCE)
        waiting = self._waiting
        super().data_received(data)
        if self._waiting is waiting:  # the headers have not ended yet
            self._count(len(data))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:  # one that comes behind a body in chunks
            self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._wait_no_more()
        self._idle_since = None
        self._in_body = True
        self._wait(BODY_PATIENCE)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._wait_no_more()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MOST_HEADER_BYTES:
            self.transport.close()

    def _wait(self, seconds: float) -> None:
        self._waiting = self.loop.call_later(seconds, self.transport.close)

    def _wait_no_more(self) -> None:
        self._header_bytes = 0
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
