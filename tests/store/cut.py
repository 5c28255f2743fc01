# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to a MongoDB server that breaks at the n-th command, as it does for a writer that dies there."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

# What a driver sends for its own sake, and when it likes.
_IDLE = frozenset({"hello", "isMaster", "ismaster", "ping", "saslStart", "saslContinue", "endSessions", "killCursors"})
_OP_MSG = 2013


class Cut:
    """Between a client and a server. Once it broke, nobody gets through any more."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 27017)
        self._door = socket.create_server(("127.0.0.1", 0))
        login = parts.netloc.rpartition("@")[0]
        here = f"{login}@127.0.0.1:{self._door.getsockname()[1]}"
        # one answer for each question, so that they can be counted
        query = "&".join([parts.query, "serverMonitoringMode=poll", "serverSelectionTimeoutMS=300"]).lstrip("&")
        self.url = urlunsplit((parts.scheme, here, parts.path, query, ""))
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._left: int | None = None
        self._answered = False
        self.broken = False
        threading.Thread(target=self._accept, daemon=True).start()

    def after(self, commands: int, *, done: bool) -> None:
        """Break at the command after so many; `done`: the server still does that one, and only its answer is lost."""
        with self._lock:
            self._left, self._answered = commands, done

    def close(self) -> None:
        with self._lock:
            self.broken = True
            for one in (self._door, *self._open):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(self._server)
                with self._lock:
                    self._open += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                asked = _message(client)
                last = self._is_last(asked)
                if last and not self._answered:
                    self.close()
                    return
                server.sendall(asked)
                answer = _message(server)
                if last:
                    self.close()
                    return
                client.sendall(answer)

    def _is_last(self, asked: bytes) -> bool:
        if _command(asked) in _IDLE:
            return False
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            return self._left < 0


def _message(connection: socket.socket) -> bytes:
    head = _exactly(connection, 4)
    return head + _exactly(connection, struct.unpack("<i", head)[0] - 4)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        more = connection.recv(min(1 << 20, count - len(found)))
        if not more:
            raise EOFError
        found += more
    return bytes(found)


def _command(message: bytes) -> str:
    """The name of the first element of the first document, which is the command."""
    if struct.unpack_from("<i", message, 12)[0] != _OP_MSG:
        return "hello"
    start = 16 + 4 + 1 + 4 + 1  # header, flags, kind of section, length of the document, type of the element
    return message[start : message.index(b"\0", start)].decode()
