# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Totals in a SQLite file: the names of their values, which are most of them, are kept once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_values = msgspec.msgpack.Decoder(tuple[float, ...]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode


class Shapes:
    """The rows of names that there are, by number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._shapes: dict[int, tuple[str, ...]] = {}

    def forget(self) -> None:
        """What was written meanwhile has not come to be."""
        self._numbers.clear()
        self._shapes.clear()

    def pack(self, db: sqlite3.Connection, values: Mapping[str, float]) -> tuple[int, bytes]:
        """Within a transaction: a shape that is new is written."""
        names = tuple(sorted(values))
        number = self._numbers.get(names)
        if number is None:
            text = msgspec.json.encode(names).decode()
            db.execute("INSERT OR IGNORE INTO shapes (names) VALUES (?)", (text,))
            (number,) = db.execute("SELECT number FROM shapes WHERE names = ?", (text,)).fetchone()
            self._numbers[names] = number
        return number, _encode([_short(float(values[name])) for name in names])

    def unpack(self, db: sqlite3.Connection, number: int, packed: bytes) -> dict[str, float]:
        if number not in self._shapes:
            (text,) = db.execute("SELECT names FROM shapes WHERE number = ?", (number,)).fetchone()
            self._shapes[number] = _names(text)
        return dict(zip(self._shapes[number], _values(packed), strict=True))


def _short(value: float) -> float:
    """Most are whole numbers, and those take less room."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
