# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The store in a file: SQLite with a write-ahead log.

One writer at a time, of whatever process; readers are never kept waiting. A transaction that was committed survives
`kill -9`; one that was not leaves no trace. Lives are kept whole, as msgpack, beside the few columns by which they
are looked for.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from slurmscope.course import Course
from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.slurm.source import own_user
from slurmscope.store import backups, names, schema
from slurmscope.store.classes import Classes
from slurmscope.store.forgetting import FORGOTTEN, forget
from slurmscope.store.measured import to_course, to_summary
from slurmscope.store.private import make_file
from slurmscope.store.protocol import (
    Fold,
    JobKey,
    KeptNode,
    Lives,
    Measured,
    NameKind,
    NodeChange,
    Point,
    Progress,
    Sight,
    Span,
    Stats,
    StoreError,
    Unreachable,
    UsageAsked,
    UsageSum,
)
from slurmscope.store.search import Search, lives_of
from slurmscope.store.shapes import Shapes
from slurmscope.store.transaction import Transaction, judged, wanted
from slurmscope.store.transaction import life as _life
from slurmscope.summary import Summary
from slurmscope.usage import AMOUNTS, KEYS, Amounts

P = ParamSpec("P")
T = TypeVar("T")

_BUSY_SECONDS = 15  # for another process to end its writing
_MANY = 10_000  # rows changed, after which it is worth a look at them
_BATCH = 5000
_SERIES_BATCH = 200  # a course takes some 100 kB of memory
_WRITER_CACHE, _READER_CACHE = 8192, 2048  # KiB: pages that are written again and again are those of the indexes' ends
_PAGES = 2000  # of a backup, between which others may write

_node = msgspec.msgpack.Decoder(Node).decode
_change = msgspec.msgpack.Decoder(NodeChange).decode


def _told(work: Callable[P, T]) -> Callable[P, T]:
    """What SQLite raises, as what a store raises."""

    @wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except sqlite3.Error as error:
            raise _error(args[0].where, error) from error  # type: ignore[attr-defined]

    return wrapped


# What SQLite's codes mean here: whether it may be over later, and what to do.
_ERRORS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (Unreachable, "the disk is full: make room there, or let store.url name another place"),
    sqlite3.SQLITE_READONLY: (Unreachable, "may not be written by {us}: give them the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: (Unreachable, "cannot be opened by {us}: is the folder there, and may they write to it?"),
    sqlite3.SQLITE_PERM: (Unreachable, "may not be opened by {us}"),
    sqlite3.SQLITE_BUSY: (Unreachable, f"another process has been writing for {_BUSY_SECONDS} s"),
    sqlite3.SQLITE_IOERR: (Unreachable, "cannot be read or written ({said}): is the disk full, or its server away?"),
    sqlite3.SQLITE_NOTADB: (StoreError, "is no SQLite file: store.url names something else"),
    sqlite3.SQLITE_CORRUPT: (
        StoreError,
        "is damaged ({said}): put back a backup, or move it away and `slurmscope import` again",
    ),
}


def _error(where: str, error: sqlite3.Error) -> StoreError:
    kind, words = _ERRORS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, (StoreError, "{said}"))
    return kind(f"{where}: {words.format(us=own_user(), said=error)}")


def _inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


class SqliteStore:
    @_told
    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._writing = threading.RLock()
        self._shapes = Shapes()
        self._classes = Classes()
        try:
            make_file(self._path)
            self._file = _inode(self._path)
        except OSError as error:
            cure = f"let {own_user()} write there, or let store.url (store.folder) name another place"
            raise Unreachable(f"{self.where}: cannot be made: {error.strerror}: {cure}") from error
        self._writer = self._connect(_WRITER_CACHE)
        try:
            schema.migrate(self._writer, self.where)
        except BaseException:
            self._writer.close()
            raise
        self._numbers: dict[str, int] = dict(self._writer.execute("SELECT name, number FROM clusters"))

    @property
    def where(self) -> str:
        return f"sqlite:{self._path}"

    def _connect(self, cache: int) -> sqlite3.Connection:
        found = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        found.execute("PRAGMA synchronous = NORMAL")  # a commit survives us; after a power cut the last may be missing
        found.execute(f"PRAGMA cache_size = -{cache}")
        return found

    # --- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, cluster: str) -> Iterator[Transaction]:
        with self._writing:
            self._look()
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    number = self._number(cluster)
                    yield Transaction(self._writer, cluster, number, self._shapes)
                    self._writer.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                        self._writer.execute("ROLLBACK")
                    self._shapes.forget()
                    raise
                self._numbers[cluster] = number
            except sqlite3.Error as error:
                raise _error(self.where, error) from error
            except OverflowError as error:
                raise StoreError(f"{self.where}: SQLite cannot keep this: {error}") from error

    def _look(self) -> None:
        """What is written to a file that somebody moved away, or replaced, nobody would find again."""
        try:
            same = _inode(self._path) == self._file
        except OSError:
            same = False
        if not same:
            raise Unreachable(f"{self.where}: is not the file any more that was opened: start slurmscope again")

    @property
    def identity(self) -> str:
        return "sqlite {}:{}".format(*self._file)

    def _number(self, cluster: str) -> int:
        self._writer.execute("INSERT OR IGNORE INTO clusters (name) VALUES (?)", (cluster,))
        (number,) = self._writer.execute("SELECT number FROM clusters WHERE name = ?", (cluster,)).fetchone()
        return int(number)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _reader(self) -> sqlite3.Connection:
        """A connection for each thread."""
        reader: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect(_READER_CACHE)
            reader.execute("PRAGMA query_only = 1")
            self._readers.append(reader)
        return reader

    def _ask(self, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._reader().execute(query, values)

    def _of(self, cluster: str) -> int:
        """A cluster's number; 0, which none has, for one that is not known."""
        if cluster not in self._numbers:
            self._numbers = dict(self._ask("SELECT name, number FROM clusters"))
        return self._numbers.get(cluster, 0)

    def _names(self) -> dict[int, str]:
        return {number: name for name, number in self._ask("SELECT name, number FROM clusters")}

    @_told
    def life(self, cluster: str, id_: int, submit_time: int) -> Life | None:
        key = self._of(cluster), id_, submit_time
        row = self._ask("SELECT life FROM jobs WHERE cluster = ? AND id = ? AND submit = ?", key).fetchone()
        return None if row is None else _life(row[0])

    def _search(self, asked: Lives, **changes: Any) -> Search:
        clusters = {self._of(asked.cluster): asked.cluster} if asked.cluster is not None else self._names()
        clusters.pop(0, None)
        db = self._reader()
        return Search(db, replace(asked, **changes), clusters, self._classes.all(db))

    @_told
    def lives(self, asked: Lives) -> list[Life]:
        after = asked.after if asked.order == "submitted" else None
        return [_life(one) for one in lives_of(self._reader(), self._search(asked, after=after).rows())]

    @_told
    def count(self, asked: Lives, most: int | None = None) -> int:
        return self._search(asked, after=None).count(most)

    @_told
    def folded(self, asked: Lives) -> list[Fold]:
        return list(islice(self._search(asked, order="submitted", ascending=False).folds(), asked.limit))

    @_told
    def names(
        self,
        kind: NameKind,
        beginning: str = "",
        cluster: str | None = None,
        limit: int = 20,
        sight: Sight | None = None,
    ) -> list[str]:
        db, clusters = self._reader(), {self._of(cluster): cluster} if cluster is not None else self._names()
        if kind == "name":
            asked = Lives(cluster=cluster, sight=sight)
            return names.titles(db, beginning, limit, lambda name: self.count(replace(asked, name=name), 1) > 0)
        if kind in ("partition", "qos", "gpu_type"):
            return names.of_classes(db, kind, beginning, clusters, limit, self._classes.all(db).values())
        return names.listed(db, kind, beginning, clusters, limit, sight)

    @_told
    def findings(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, tuple[str, ...]]:
        return judged(self._reader(), self._of(cluster), keys)

    @_told
    def judged(self, cluster: str) -> int:
        row = self._ask("SELECT judged FROM clusters WHERE name = ?", (cluster,)).fetchone()
        return 0 if row is None else int(row[0])

    @_told
    def each_life(self, cluster: str) -> Iterator[list[Life]]:
        return self._each(self._of(cluster))

    def _each(self, number: int) -> Iterator[list[Life]]:
        query = (
            "SELECT id, submit, life FROM jobs WHERE cluster = ? AND (id, submit) > (?, ?) ORDER BY id, submit LIMIT ?"
        )
        key: tuple[int, int] = -1, -1
        while rows := self._ask(query, (number, *key, _BATCH)).fetchall():
            yield [_life(life) for _, _, life in rows]
            key = rows[-1][0], rows[-1][1]

    @_told
    def summary(self, cluster: str, id_: int, submit_time: int) -> Summary | None:
        return self.summaries(cluster, [(id_, submit_time)]).get((id_, submit_time))

    @_told
    def summaries(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, Summary]:
        rows = wanted(self._reader(), self._of(cluster), keys, "measured", "id, submit, summary")
        return {(id_, submit): to_summary(data) for id_, submit, data in rows}

    @_told
    def course(self, cluster: str, id_: int, submit_time: int) -> Course | None:
        key = self._of(cluster), id_, submit_time
        row = self._ask("SELECT course FROM series WHERE cluster = ? AND id = ? AND submit = ?", key).fetchone()
        return None if row is None else to_course(row[0])

    @_told
    def each_measured(self, cluster: str) -> Iterator[list[Measured]]:
        return self._each_measured(self._of(cluster))

    def _each_measured(self, number: int) -> Iterator[list[Measured]]:
        query = (
            "SELECT id, submit, summary, course FROM measured LEFT JOIN series USING (cluster, id, submit) "
            "WHERE cluster = ? AND (id, submit) > (?, ?) ORDER BY id, submit LIMIT ?"
        )
        key: JobKey = -1, -1
        while rows := self._ask(query, (number, *key, _SERIES_BATCH)).fetchall():
            yield [
                Measured(id_, submit, to_summary(summary), None if course is None else to_course(course))
                for id_, submit, summary, course in rows
            ]
            key = rows[-1][0], rows[-1][1]

    @_told
    def usage(self, asked: UsageAsked) -> list[UsageSum]:
        if unknown := {*asked.by, *asked.only} - set(KEYS):
            raise ValueError(f"usage is by {', '.join(KEYS)}, and not by {', '.join(sorted(unknown))}")
        by = ", ".join(
            "(SELECT name FROM clusters WHERE number = cluster)" if one == "cluster" else one for one in asked.by
        )
        where = "day >= ? AND day < ?"
        values: list[Any] = [asked.since, asked.until]
        for name, value in asked.only.items():
            where += f" AND {name} = ?"
            values.append(self._of(value) if name == "cluster" else value)
        sums = ", ".join(f"sum({name})" for name in AMOUNTS)
        group = f" GROUP BY {', '.join(asked.by)}" if by else ""
        query = f"SELECT {by + ', ' if by else ''}{sums} FROM usage WHERE {where}{group}"  # noqa: S608
        width = len(asked.by)
        rows = self._ask(query, values).fetchall()
        found = [UsageSum(tuple(row[:width]), Amounts(*(one or 0 for one in row[width:]))) for row in rows]
        return sorted((one for one in found if any(one.amounts)), key=lambda one: one.key)

    @_told
    def first_used(self, since: int, until: int, cluster: str | None = None) -> int | None:
        of, values = ("", []) if cluster is None else (" AND cluster = ?", [self._of(cluster)])
        where = f"day >= ? AND day < ?{of} AND ({' OR '.join(AMOUNTS)})"
        query = f"SELECT day FROM usage WHERE {where} ORDER BY day LIMIT 1"  # noqa: S608
        row = self._ask(query, [since, until, *values]).fetchone()
        return None if row is None else int(row[0])

    @_told
    def nodes(self, cluster: str) -> list[KeptNode]:
        query = "SELECT node, time, since FROM nodes WHERE cluster = ? ORDER BY name"
        rows = self._ask(query, (self._of(cluster),))
        return [KeptNode(cluster, _node(node), time, since) for node, time, since in rows]

    @_told
    def node_changes(self, cluster: str, since: int, until: int, node: str | None = None) -> list[NodeChange]:
        query = "SELECT change FROM node_changes WHERE cluster = ? AND time >= ? AND time < ?"
        values: list[Any] = [self._of(cluster), since, until]
        if node is not None:
            query += " AND node = ?"
            values.append(node)
        return [_change(change) for (change,) in self._ask(query + " ORDER BY time, node", values)]

    @_told
    def points(self, cluster: str, partition: str | None, step: int, since: int, until: int) -> list[Point]:
        where = "cluster = ? AND step = ? AND time >= ? AND time < ?"
        values: list[Any] = [self._of(cluster), step, since, until]
        if partition is not None:
            where += " AND partition = ?"
            values.append(partition)
        query = f"SELECT partition, time, samples, shape, amounts FROM points WHERE {where} ORDER BY time, partition"  # noqa: S608
        rows = self._ask(query, values).fetchall()
        unpack, db = self._shapes.unpack, self._reader()
        return [Point(cluster, name, step, time, count, unpack(db, *packed)) for name, time, count, *packed in rows]

    @_told
    def spans(self, cluster: str) -> list[Span]:
        query = "SELECT start, end FROM spans WHERE cluster = ? ORDER BY start"
        return [Span(start, end) for start, end in self._ask(query, (self._of(cluster),))]

    @_told
    def clusters(self) -> list[str]:
        return sorted(self._names().values())

    # --- keeping ------------------------------------------------------------------------------------------------------

    @_told
    def forget(self, kind: str, before: int) -> int:
        with self._writing:
            return forget(self._writer, kind, before)

    @_told
    def forgotten(self) -> int:
        row = self._ask("SELECT value FROM marks WHERE name = ?", (FORGOTTEN,)).fetchone()
        return 0 if row is None else int(row[0])

    @_told
    def stats(self) -> Stats:
        tables = {
            "jobs": "jobs",
            "measured": "measured",
            "series": "series",
            "usage": "usage",
            "nodes": "nodes",
            "node_changes": "node_changes",
            "totals": "points",
        }
        counts = {kind: self._ask(f"SELECT count(*) FROM {table}").fetchone()[0] for kind, table in tables.items()}  # noqa: S608
        # each by itself, for SQLite looks up the least or the greatest of an index only so
        times = ", ".join(f"(SELECT {end}(submit) FROM jobs WHERE cluster = ?1)" for end in ("min", "max"))  # noqa: S608
        found = [row for one in self._names() for row in self._ask(f"SELECT {times}", (one,)) if row[0] is not None]
        oldest = min((first for first, _ in found), default=None)
        newest = max((last for _, last in found), default=None)
        files = [self._path, *(self._path.with_name(self._path.name + end) for end in ("-wal", "-shm"))]
        size = sum(file.stat().st_size for file in files if file.exists())
        (version,) = self._ask("PRAGMA user_version").fetchone()
        return Stats(self.where, version, size, counts, tuple(self.clusters()), oldest, newest)

    @_told
    def check(self) -> list[str]:
        found = [row[0] for row in self._ask("PRAGMA integrity_check(20)") if row[0] != "ok"]
        negative = " OR ".join(f"{name} < 0" for name in AMOUNTS)
        (wrong,) = self._ask(f"SELECT count(*) FROM usage WHERE {negative}").fetchone()  # noqa: S608
        return found + (
            [f"{wrong} sums of usage are below zero: `slurmscope store rebuild` makes them anew"] if wrong else []
        )

    @_told
    def vacuum(self) -> None:
        with self._writing:
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA optimize")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @_told
    def backup(self, path: str, progress: Progress = lambda done, of: None) -> None:
        target = Path(path).resolve()  # a link stays one
        backups.refuse(target, self._path)
        part = target.with_name(f"{target.name}.part")
        try:
            backups.clear(part)
            make_file(part)
            copy = sqlite3.connect(part)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{target}: cannot be written by {own_user()}: {error}: name another place") from error
        try:
            # a reader's snapshot: others write on, and what they write is not in the copy
            reader = self._reader()
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM marks").fetchone()  # from here on it sees nothing new
            try:
                reader.backup(copy, pages=_PAGES, progress=lambda _, left, of: progress(of - left, of), sleep=0.001)
            finally:
                reader.execute("ROLLBACK")
        except sqlite3.Error as error:
            copy.close()
            backups.clear(part)
            raise StoreError(
                f"{target}: the backup failed, and is not there: {error}: make room, or name another place"
            ) from error
        copy.close()
        part.replace(target)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            if self._writer.total_changes > _MANY:
                schema.learn(self._writer)
        for one in (*self._readers, self._writer):
            with suppress(sqlite3.Error):
                one.close()
