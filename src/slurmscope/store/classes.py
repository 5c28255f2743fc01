# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of a SQLite file: what many lives have in common, which is kept once and has a number.

A class is partition, QOS, state and types of GPUs of a cluster's lives; there are some hundreds of them, and each stays
for ever. Names are as many as users think of, and go when no life has them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

import msgspec

from slurmscope.life import Life
from slurmscope.store.protocol import Lives
from slurmscope.store.traits import lowered

_AT_ONCE = 400
_types = msgspec.json.Decoder(tuple[str, ...]).decode


class Class(msgspec.Struct, frozen=True):
    number: int
    cluster: int
    partition: str
    qos: str
    state: str
    gpu_types: tuple[str, ...]

    def fits(self, asked: Lives) -> bool:
        return (
            asked.partition in (None, self.partition)
            and asked.qos in (None, self.qos)
            and (not asked.states or self.state in asked.states)
            and (asked.gpu_type is None or asked.gpu_type in self.gpu_types)
        )


def by_class(asked: Lives) -> bool:
    """Whether anything is asked that a class tells."""
    return bool(asked.states) or any(one is not None for one in (asked.partition, asked.qos, asked.gpu_type))


class Classes:
    """Those that a reader knows; they are never changed, so that only new ones are read."""

    def __init__(self) -> None:
        self._known: dict[int, Class] = {}

    def all(self, db: sqlite3.Connection) -> dict[int, Class]:
        rows = db.execute("SELECT * FROM classes WHERE number > ?", (max(self._known, default=0),)).fetchall()
        if rows:
            new = {one: Class(one, of, name, qos, state, _types(types)) for one, of, name, qos, state, types in rows}
            self._known = {**self._known, **new}  # another thread may be going over it
        return self._known


def class_numbers(db: sqlite3.Connection, cluster: int, lives: Iterable[Life]) -> list[int]:
    """Of each of them; within a transaction: one that is new is written."""
    known: dict[tuple[str, str, str, tuple[str, ...]], int] = {}
    found = []
    for life in lives:
        key = life.partition, life.qos, life.state, tuple(life.gpus)
        number = known.get(key)
        if number is None:
            row = cluster, *key[:3], msgspec.json.encode(sorted(life.gpus)).decode()
            where = "cluster = ? AND partition = ? AND qos = ? AND state = ? AND gpu_types = ?"
            db.execute("INSERT OR IGNORE INTO classes VALUES (NULL, ?, ?, ?, ?, ?)", row)
            (number,) = db.execute(f"SELECT number FROM classes WHERE {where}", row).fetchone()  # noqa: S608
            known[key] = number
        found.append(number)
    return found


def name_numbers(db: sqlite3.Connection, names: Collection[str]) -> dict[str, int]:
    """Within a transaction: one that is new is written."""
    found = _known(db, list(names))
    new = [name for name in names if name not in found]
    rows = [(name, None if (low := lowered(name)) == name else low) for name in new]
    db.executemany("INSERT INTO names (name, lowered) VALUES (?, ?)", rows)
    return found | _known(db, new)


def _known(db: sqlite3.Connection, names: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for at in range(0, len(names), _AT_ONCE):
        some = names[at : at + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found.update(db.execute(f"SELECT name, number FROM names WHERE name IN ({marks})", some))  # noqa: S608
    return found
