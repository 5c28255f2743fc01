# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to the SQLite store: all that is done within one transaction, for one cluster."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slurmscope.life import Life
from slurmscope.store.measured import COLUMNS, columns, packed
from slurmscope.store.protocol import JobKey, KeptNode, Measured, NodeChange, Point, Span
from slurmscope.store.shapes import Shapes
from slurmscope.usage import AMOUNTS, KEYS, Amounts, Key

_AT_ONCE = 400  # keys in a query; SQLite takes 32766 variables
_encode = msgspec.msgpack.Encoder().encode
life = msgspec.msgpack.Decoder(Life).decode
"""A life as it is kept."""

_PUT_LIFE = """
INSERT INTO jobs (cluster, id, submit, array, user, account, partition, state, end, life)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (cluster, id, submit) DO UPDATE SET
    array = excluded.array, user = excluded.user, account = excluded.account, partition = excluded.partition,
    state = excluded.state, end = excluded.end, life = excluded.life
"""
_PUT_SUMMARY = f"""
INSERT INTO measured (cluster, id, submit, {", ".join(COLUMNS)}, summary)
VALUES ({", ".join("?" * (len(COLUMNS) + 4))})
ON CONFLICT (cluster, id, submit) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in COLUMNS)}, summary = excluded.summary
"""  # noqa: S608
_PUT_COURSE = """
INSERT INTO series (cluster, id, submit, last, course) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (cluster, id, submit) DO UPDATE SET last = excluded.last, course = excluded.course
"""
_DROP_COURSE = "DELETE FROM series WHERE cluster = ? AND id = ? AND submit = ?"
_ADD_USAGE = f"""
INSERT INTO usage ({", ".join((*KEYS, *AMOUNTS))}) VALUES ({", ".join("?" * (len(KEYS) + len(AMOUNTS)))})
ON CONFLICT ({", ".join(KEYS)}) DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in AMOUNTS)}
"""  # noqa: S608


def wanted(
    db: sqlite3.Connection, number: int, keys: Collection[JobKey], table: str, names: str
) -> Iterator[tuple[Any, ...]]:
    """The rows of some jobs of a cluster, those that are there."""
    listed = list(keys)
    for at in range(0, len(listed), _AT_ONCE):
        some = listed[at : at + _AT_ONCE]
        query = (
            f"WITH wanted (i, s) AS (VALUES {', '.join(['(?, ?)'] * len(some))}) "  # noqa: S608
            f"SELECT {names} FROM wanted CROSS JOIN {table} ON cluster = ? AND id = i AND submit = s"
        )
        yield from db.execute(query, [one for key in some for one in key] + [number])


class Transaction:
    """A Writer; who has begun the transaction ends it."""

    def __init__(self, db: sqlite3.Connection, cluster: str, number: int, shapes: Shapes) -> None:
        self._db = db
        self._cluster = cluster
        self._number = number
        self._shapes = shapes

    def lives(self, keys: Collection[JobKey]) -> dict[JobKey, Life]:
        found = (life(row) for (row,) in wanted(self._db, self._number, keys, "jobs", "life"))
        return {one.key: one for one in found}

    def open_lives(self) -> list[Life]:
        rows = self._db.execute("SELECT life FROM jobs WHERE cluster = ? AND end IS NULL", (self._number,))
        return [life(row) for (row,) in rows]

    def put_lives(self, lives: Sequence[Life]) -> None:
        number = self._number
        self._db.executemany(
            _PUT_LIFE,
            [
                (
                    number,
                    one.id,
                    one.submit_time or 0,
                    one.array_id,
                    one.user,
                    one.account,
                    one.partition,
                    one.state,
                    one.end_time if one.ended else None,
                    _encode(one),
                )
                for one in lives
            ],
        )

    def put_measured(self, measured: Sequence[Measured]) -> None:
        latest = {(self._number, *one.key): one for one in measured}
        self._db.executemany(
            _PUT_SUMMARY, [(*key, *columns(one.summary), packed(one.summary)) for key, one in latest.items()]
        )
        courses = [(*key, one.summary.last, packed(one.course)) for key, one in latest.items() if one.course]
        self._db.executemany(_PUT_COURSE, courses)
        self._db.executemany(_DROP_COURSE, [key for key, one in latest.items() if one.course is None])

    def add_usage(self, deltas: Mapping[Key, Amounts]) -> None:
        number = self._number
        self._db.executemany(_ADD_USAGE, [(key.day, number, *key[2:], *amounts) for key, amounts in deltas.items()])

    def clear_usage(self, since: int) -> None:
        self._db.execute("DELETE FROM usage WHERE cluster = ? AND day >= ?", (self._number, since))

    def put_nodes(self, nodes: Sequence[KeptNode]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO nodes (cluster, name, time, since, node) VALUES (?, ?, ?, ?, ?)",
            [(self._number, one.node.name, one.time, one.since, _encode(one.node)) for one in nodes],
        )

    def drop_nodes(self, names: Collection[str]) -> None:
        self._db.executemany(
            "DELETE FROM nodes WHERE cluster = ? AND name = ?", [(self._number, name) for name in names]
        )

    def add_node_changes(self, changes: Sequence[NodeChange]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO node_changes (cluster, node, time, change) VALUES (?, ?, ?, ?)",
            [(self._number, one.node, one.time, _encode(one)) for one in changes],
        )

    def put_points(self, points: Sequence[Point]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO points (cluster, step, partition, time, samples, shape, amounts) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (self._number, one.step, one.partition, one.time, one.samples, *self._shapes.pack(self._db, one.values))
                for one in points
            ],
        )

    def put_spans(self, spans: Sequence[Span]) -> None:
        self._db.execute("DELETE FROM spans WHERE cluster = ?", (self._number,))
        self._db.executemany(
            "INSERT INTO spans (cluster, start, end) VALUES (?, ?, ?)",
            [(self._number, one.start, one.end) for one in spans],
        )
