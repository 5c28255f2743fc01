# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What waits to be sent: a queue on disk that is bounded, and outlives the process.

One SQLite file for each sink. In WAL mode a process may be killed at any moment: what was added is there, what was
half added is not. A machine that loses its power may lose the last seconds, and never the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurmscope.sinks.sink import SinkError
from slurmscope.store.private import make_file

_SCHEMA = """
CREATE TABLE IF NOT EXISTS item (seq INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS count (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO count VALUES ('dropped', 0), ('mark', 0);
"""
_ROOM = 1 << 20  # that an empty spool may keep, so that it need not be asked for again and again
# What is left free on the disk: deleting takes room too, and a spool that filled its disk could never get empty.
_LEFT_FREE = 16 << 20
_STEP = 2000  # pages given back at a time, so that nobody waits long for the spool meanwhile
_MOST_VALUES = 500  # in one statement; older SQLite takes no more than 999


class SpoolError(SinkError):
    """The spool cannot be used; the message says which, and why."""


class Spool:
    """First in, first out. At `most_bytes` the oldest are dropped, and counted. Safe to use from threads."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._mutex = threading.Lock()
        self._lock = _locked(path)
        try:
            with self._told():
                self._db = _opened(path)
                self.length, self.bytes = self._db.execute(
                    "SELECT count(*), coalesce(sum(size), 0) FROM item"
                ).fetchone()
                self.dropped, self.mark = (
                    self._db.execute("SELECT value FROM count WHERE name = ?", (name,)).fetchone()[0]
                    for name in ("dropped", "mark")
                )
                # the bound may have been another the last time
                with self._change():
                    self._make_room(0)
        except BaseException:
            os.close(self._lock)
            raise

    def add(self, items: Sequence[bytes], mark: int = 0) -> None:
        """Puts these behind the others. `mark` is a number that only grows, and is kept with what it came with."""
        with self._mutex, self._told(), self._change():
            self._check_disk(sum(map(len, items)))
            fitting = [item for item in items if len(item) <= self._most_bytes]
            # of more than there is room for, the last ones stay
            first, size = len(fitting), 0
            while first and size + len(fitting[first - 1]) <= self._most_bytes:
                first -= 1
                size += len(fitting[first])
            self._count_dropped(len(items) - len(fitting) + first)
            self._make_room(size, nothing_stays=first > 0)
            rows = ((len(item), item) for item in fitting[first:])
            self._db.executemany("INSERT INTO item (size, body) VALUES (?, ?)", rows)
            self.length += len(fitting) - first
            self.bytes += size
            if mark > self.mark:
                self._db.execute("UPDATE count SET value = ? WHERE name = 'mark'", (mark,))
                self.mark = mark

    def peek(self, most_items: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """The oldest, with their numbers: so many, but one at least if there is any."""
        with self._mutex, self._told():
            found: list[tuple[int, bytes]] = []
            size = 0
            for seq, body in self._db.execute("SELECT seq, body FROM item ORDER BY seq LIMIT ?", (most_items,)):
                size += len(body)
                if found and size > most_bytes:
                    break
                found.append((seq, body))
            return found

    def done(self, seqs: Sequence[int]) -> None:
        """Forgets these. Some may have been dropped meanwhile."""
        with self._mutex, self._told():
            with self._change():
                for at in range(0, len(seqs), _MOST_VALUES):
                    some = seqs[at : at + _MOST_VALUES]
                    which = f"FROM item WHERE seq IN ({','.join('?' * len(some))})"
                    self._remove(which, some)
            self._give_back()

    def close(self) -> None:
        with self._mutex, contextlib.suppress(sqlite3.Error):
            self._db.close()
        os.close(self._lock)

    def _check_disk(self, size: int) -> None:
        disk = os.statvfs(self._path.parent)
        # it is written to the log first, and from there to the file
        if disk.f_bavail * disk.f_frsize < _LEFT_FREE + 2 * size:
            raise OSError(errno.ENOSPC, "the disk is full")

    def _make_room(self, size: int, *, nothing_stays: bool = False) -> None:
        """Drops the oldest until there is room for so much."""
        over = self.bytes + size - self._most_bytes
        last = 0
        for seq, one in self._db.execute("SELECT seq, size FROM item ORDER BY seq"):
            if over <= 0 and not nothing_stays:
                break
            over -= one
            last = seq
        before = self.length
        if last:
            self._remove("FROM item WHERE seq <= ?", (last,))
        self._count_dropped(before - self.length)

    def _count_dropped(self, count: int) -> None:
        if count:
            self.dropped += count
            self._db.execute("UPDATE count SET value = ? WHERE name = 'dropped'", (self.dropped,))

    def _remove(self, which: str, values: Sequence[object]) -> None:
        count, size = self._db.execute(f"SELECT count(*), coalesce(sum(size), 0) {which}", values).fetchone()
        self._db.execute(f"DELETE {which}", values)
        self.length -= count
        self.bytes -= size

    def _give_back(self) -> None:
        """Makes the file smaller when there is much in it that is not used any more."""
        (free,) = self._db.execute("PRAGMA freelist_count").fetchone()
        (page,) = self._db.execute("PRAGMA page_size").fetchone()
        if free * page > _ROOM:
            # as a script, for execute() would stop at the first page
            self._db.executescript(f"PRAGMA incremental_vacuum({_STEP})")
        if not self.length and self._on_disk() > 2 * _ROOM:
            self._db.executescript("PRAGMA incremental_vacuum")
            # the files themselves get smaller when the log is written back
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _on_disk(self) -> int:
        log = self._path.with_name(f"{self._path.name}-wal")
        return sum(path.stat().st_size for path in (self._path, log) if path.exists())

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """All of it, or nothing."""
        before = self.length, self.bytes, self.dropped, self.mark
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self.length, self.bytes, self.dropped, self.mark = before
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise SpoolError(_why(self._path, error)) from error


def _locked(path: Path) -> int:
    """A lock that ends with the process. SQLite's own would let two processes take turns, and send all of it twice."""
    place = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpoolError(f"{place}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except BlockingIOError as error:
        owner = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        raise SpoolError(
            f"{path}: is in use by process {owner or 'unknown'}: each slurmscope needs a folder of its own"
        ) from error
    except OSError as error:
        os.close(lock)
        raise SpoolError(f"{place}: cannot be written: {error.strerror}") from error
    return lock


def _opened(path: Path) -> sqlite3.Connection:
    # what waits names users and their jobs: it is nobody else's to read
    make_file(path)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA journal_size_limit = {_ROOM}")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _why(path: Path, error: sqlite3.Error | OSError) -> str:
    match getattr(error, "sqlite_errorname", "").split("_")[1:2]:
        case ["FULL"]:
            why = "the disk is full"
        case ["READONLY"] | ["CANTOPEN"]:
            why = "it cannot be written: is its folder read-only, or another user's?"
        case ["CORRUPT"] | ["NOTADB"]:
            why = "it is damaged: move it away, and what waits in it is lost"
        case _:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{path}: {why}"
