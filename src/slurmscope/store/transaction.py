# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to the SQLite store: all that is done within one transaction, for one cluster."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from slurmscope.life import Life
from slurmscope.store import traits
from slurmscope.store.classes import class_numbers, name_numbers
from slurmscope.store.measured import COLUMNS, columns, packed
from slurmscope.store.protocol import JobKey, KeptNode, Measured, NodeChange, Point, Span, fold_of
from slurmscope.store.shapes import Shapes
from slurmscope.usage import AMOUNTS, KEYS, Amounts, Key

_LARGEST = (1 << 63) - 1
_AT_ONCE = 400  # keys in a query; SQLite takes 32766 variables
_encode = msgspec.msgpack.Encoder().encode
_rules = msgspec.json.Decoder(tuple[str, ...]).decode
life = msgspec.msgpack.Decoder(Life).decode
"""A life as it is kept."""

_COLUMNS = (
    "cluster",
    "id",
    "submit",
    "array",
    "fold",
    "class",
    "user",
    "account",
    "name",
    "tasks",
    "eligible",
    "started",
    "end",
    "cpus",
    "gpus",
    "memory",
    "life",
)
_PUT_LIFE = f"""
INSERT INTO jobs ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (cluster, id, submit) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[3:])}
"""  # noqa: S608
_PUT_PERSON = "INSERT OR IGNORE INTO people (cluster, account, user) VALUES (?, ?, ?)"
_PUT_NODE = "INSERT OR IGNORE INTO job_nodes (cluster, node, submit, fold, id) VALUES (?, ?, ?, ?, ?)"
_DROP_NODE = "DELETE FROM job_nodes WHERE cluster = ? AND node = ? AND submit = ? AND fold = ? AND id = ?"
_PUT_FINDING = "INSERT OR IGNORE INTO job_findings (cluster, rule, submit, fold, id) VALUES (?, ?, ?, ?, ?)"
_DROP_FINDING = "DELETE FROM job_findings WHERE cluster = ? AND rule = ? AND submit = ? AND fold = ? AND id = ?"
_PUT_FINDINGS = "UPDATE jobs SET findings = ? WHERE cluster = ? AND id = ? AND submit = ?"
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


def judged(db: sqlite3.Connection, number: int, keys: Collection[JobKey]) -> dict[JobKey, tuple[str, ...]]:
    """What was found in some jobs of a cluster, of those that were judged."""
    rows = wanted(db, number, keys, "jobs", "id, submit, findings")
    return {(id_, submit): _rules(found) for id_, submit, found in rows if found is not None}


class Transaction:
    """A Writer; who has begun the transaction ends it."""

    def __init__(self, db: sqlite3.Connection, cluster: str, number: int, shapes: Shapes) -> None:
        self._db = db
        self._cluster = cluster
        self._number = number
        self._shapes = shapes
        # As they are in the file, or that they are not there: nobody else writes meanwhile.
        self._read: dict[JobKey, Life | None] = {}

    def lives(self, keys: Collection[JobKey]) -> dict[JobKey, Life]:
        unread = [key for key in keys if key not in self._read]
        self._read.update(dict.fromkeys(unread))
        for (row,) in wanted(self._db, self._number, unread, "jobs", "life"):
            one = life(row)
            self._read[one.key] = one
        return {key: known for key in keys if (known := self._read[key]) is not None}

    def open_lives(self) -> list[Life]:
        rows = self._db.execute("SELECT life FROM jobs WHERE cluster = ? AND end IS NULL", (self._number,))
        return [life(row) for (row,) in rows]

    def put_lives(self, lives: Sequence[Life]) -> None:
        latest = {one.key: one for one in lives}
        before = self.lives(latest.keys())
        moved = [key for key, one in before.items() if fold_of(one) != fold_of(latest[key])]
        findings = judged(self._db, self._number, moved)
        self.put_findings(dict.fromkeys(findings, ()))
        self.put_new(list(latest.values()), before)
        self.put_findings(findings)

    def put_new(self, lives: Sequence[Life], before: Mapping[JobKey, Life] = MappingProxyType({})) -> None:
        """Lives that are not there yet, or as they were before."""
        db, number = self._db, self._number
        classes = class_numbers(db, number, lives)
        names = name_numbers(db, {one.name for one in lives})
        db.executemany(_PUT_PERSON, sorted({(number, one.account, one.user) for one in lives}))
        rows = [_row(number, one, class_, names[one.name]) for one, class_ in zip(lives, classes, strict=True)]
        db.executemany(_PUT_LIFE, rows)
        moved = [one for one in lives if one.key not in before or _place(before[one.key]) != _place(one)]
        gone = [before[one.key] for one in moved if one.key in before]
        db.executemany(_DROP_NODE, [row for one in gone for row in self._nodes_of(one)])
        db.executemany(_PUT_NODE, [row for one in moved for row in self._nodes_of(one)])
        for one in lives:
            self._read.pop(one.key, None)

    def _nodes_of(self, one: Life) -> list[tuple[Any, ...]]:
        submit, fold = one.submit_time or 0, fold_of(one)
        return [(self._number, name, submit, fold, one.id) for name in traits.node_names(one)]

    def put_findings(self, findings: Mapping[JobKey, tuple[str, ...]]) -> None:
        there = list(wanted(self._db, self._number, findings.keys(), "jobs", "id, submit, fold, findings"))
        self._db.executemany(
            _DROP_FINDING,
            [
                (self._number, rule, submit, fold, id_)
                for id_, submit, fold, found in there
                for rule in ([] if found is None else _rules(found))
            ],
        )
        self._db.executemany(
            _PUT_FINDING,
            [
                (self._number, rule, submit, fold, id_)
                for id_, submit, fold, _ in there
                for rule in findings[id_, submit]
            ],
        )
        self._db.executemany(
            _PUT_FINDINGS,
            [
                (msgspec.json.encode(findings[id_, submit]).decode(), self._number, id_, submit)
                for id_, submit, _, _ in there
            ],
        )

    def put_judged(self, time: int) -> None:
        self._db.execute("UPDATE clusters SET judged = ? WHERE number = ?", (time, self._number))

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


def _place(one: Life) -> tuple[str, int]:
    return one.node_list, fold_of(one)


def _row(cluster: int, one: Life, class_: int, name: int) -> tuple[Any, ...]:
    return (
        cluster,
        one.id,
        one.submit_time or 0,
        one.array_id,
        fold_of(one),
        class_,
        one.user,
        one.account,
        name,
        one.tasks,
        traits.eligible(one),
        traits.started(one),
        traits.end(one),
        one.cpus,
        traits.gpus(one),
        None if one.memory is None else min(one.memory, _LARGEST),
        _encode(one),
    )
