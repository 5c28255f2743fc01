# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A small file of its own beside the store, wherever that is: what was told to whom, who is signed in.

What was committed is on the disk, whatever happens then. Several processes may have it open.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from slurmscope.logs import Once
from slurmscope.store.private import make_file, make_folder
from slurmscope.store.protocol import StoreError, Unreachable

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

BUSY_SECONDS = 15
_LATER = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class FileBeside:
    """One process' door to it; it may be used by several threads, one after the other."""

    def __init__(self, path: Path, migrate: Callable[[sqlite3.Connection, str], None], patience: float) -> None:
        """One that is locked is waited for `patience` seconds while it is opened. Raises StoreError."""
        self.path = path
        self.lock = threading.RLock()
        self._once = Once()
        try:
            make_folder(path.parent)
            make_file(path)
        except OSError as error:
            raise Unreachable(f"{path}: {error.strerror}: run this as the user of `slurmscope serve`") from error
        try:
            self._db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            try:
                migrate(self._db, str(path))
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:d}")
            except BaseException:
                self._db.close()
                raise
        except sqlite3.Error as error:
            raise _error(path, error) from error

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # a disk that is full may have ended it already
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _note(self, statement: str, values: Sequence[object]) -> None:
        """What is good to know, and for which nobody is kept waiting or sent away when it cannot be written."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            with self._writing():
                self._db.execute(statement, values)
        except sqlite3.OperationalError as error:
            self._once(log, logging.WARNING, str(error), "could not note it", file=str(self.path), error=str(error))
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:d}")


F = TypeVar("F", bound=FileBeside)


def told(work: Callable[Concatenate[F, P], T]) -> Callable[Concatenate[F, P], T]:
    """One thread after the other; what SQLite raises, as what a store raises."""

    @wraps(work)
    def wrapped(file: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with file.lock:
                return work(file, *args, **kwargs)
        except sqlite3.Error as error:
            raise _error(file.path, error) from error

    return wrapped


def _error(path: Path, error: sqlite3.Error) -> StoreError:
    later = getattr(error, "sqlite_errorcode", 0) & 0xFF in _LATER
    cure = "is there room, and may this user write to it and its folder (store.folder)?"
    return (Unreachable if later else StoreError)(f"{path}: {error}: {cure}")
