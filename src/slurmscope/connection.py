# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One connection of a client, which may be slow, silent or one of far too many."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 200
PATIENCE = 10.0
MOST_HEADER_BYTES = 64 << 10


class Connection(HttpToolsProtocol):
    """uvicorn's, with what it leaves to a proxy: bounds on connections, and on the time and length of a request.

    Without them anybody who reaches the port could use up the descriptors, and the commands could not be run.
    """

    _waiting: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:  # the next request of a connection that was kept
            self._wait()
        self._header_bytes += len(data)
        if self._header_bytes > MOST_HEADER_BYTES:
            self.transport.close()
            return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._wait_no_more()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(PATIENCE, self.transport.close)

    def _wait_no_more(self) -> None:
        self._header_bytes = 0
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
