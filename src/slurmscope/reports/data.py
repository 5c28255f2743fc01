# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A document for scripts: all its facts as JSON, its main table as CSV."""

from __future__ import annotations

import csv
import io
import math
from functools import lru_cache
from typing import Any

import msgspec

from slurmscope.reports.cells import DASH
from slurmscope.reports.document import Cell, Column, Document, Sheet, Table
from slurmscope.words import UNKNOWN, printable

_FORMULA = frozenset("=+-@＝＋－＠")  # what a spreadsheet would calculate


class NoTable(LookupError):
    """The document has nothing that CSV could hold."""


def json_of(document: Document) -> bytes:
    head = {name: getattr(document, name) for name in ("kind", "title", "made", "verdict")}
    return encoded({**head, **document.data})


def encoded(found: Any) -> bytes:
    """JSON of structs and builtins, whatever words they hold."""
    plain = msgspec.to_builtins(found, str_keys=True)
    try:
        return msgspec.json.encode(plain) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_sound(plain)) + b"\n"


def _sound(value: Any) -> Any:
    """Halves of characters, which names may hold, are in no encoding."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_sound(name): _sound(one) for name, one in value.items()}
    return [_sound(one) for one in value] if isinstance(value, list | tuple) else value


def csv_of(document: Document) -> bytes:
    """RFC 4180. What is unknown is empty."""
    table = main_table(document)
    written = io.BytesIO()
    out = io.TextIOWrapper(written, "utf-8", newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([harmless(one.name) for one in table.columns])
    for row in table.rows:
        writer.writerow([_value(cell, column) for cell, column in zip(row, table.columns, strict=False)])
    out.flush()
    return written.getvalue()


def main_table(document: Document) -> Table | Sheet:
    if document.sheet is not None:
        return document.sheet()
    tables = document.tables()
    found = next((one for one in tables if one.name == document.table or not document.table), None)
    if found is None:
        named = f"named {document.table}" if document.table else "at all"
        raise NoTable(f"a report of a {document.kind} has no table {named}: choose another format than csv")
    return found


def _value(cell: Cell, column: Column) -> str | int | float:
    value = cell.value
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else ""
    if value is not None:
        return value
    return "" if column.number or cell.text in (UNKNOWN, DASH) else harmless(cell.text)


@lru_cache(maxsize=4096)  # columns have few words, and many rows
def harmless(text: str) -> str:
    """For a cell of CSV: on one line, and no spreadsheet calculates it."""
    shown = printable(text)
    return f"'{shown}" if shown.lstrip()[:1] in _FORMULA else shown
