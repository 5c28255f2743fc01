# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Documents for scripts: whole JSON, and CSV that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import samples

from slurmscope.reports.data import NoTable, csv_of, json_of
from slurmscope.reports.document import Cell, Column, Document, Section, Table, Verdict


def table(*rows: tuple[Cell, ...], name: str = "t") -> Document:
    columns = (Column("what", "What"), Column("n", "N", number=True))
    section = Section("s", (Table(name, columns, rows),))
    return Document("job", "t", "", samples.NOW, Verdict("fine", "h", "l"), (section,), {})


def read(document: Document) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_of(document).decode(), newline="")))


def test_json_has_the_head_and_the_data() -> None:
    found = json.loads(json_of(samples.job()))
    assert list(found) == ["kind", "title", "made", "verdict", "job", "cpu_share", "network"]
    assert found["verdict"]["level"] == "note" and found["network"] is None


def test_json_of_hostile_words() -> None:
    found = json.loads(json_of(samples.hostile()))
    assert found["name"][0] == samples.HOSTILE[0] and found["name"][2] == samples.HOSTILE[2]
    assert found["name"][6] == "\ufffd\ufffd half\ufffe"


def test_values_are_in_base_units_and_unknown_is_empty() -> None:
    rows = read(samples.cluster())
    assert rows[0] == ["account", "jobs", "cpu_seconds", "efficiency", "wait_seconds"]
    assert rows[1] == ["rrg-a-long-name-of-an-account-00", "4000", "3240000000", "0.95", "0"]
    assert rows[5] == ["def-account-04", "3756", "3038400000", "0.89", ""]
    assert len(rows) == 61 and csv_of(samples.cluster()).count(b"\r\n") == 61
    assert read(table((Cell("a"), Cell("-", float("nan"))), (Cell("unknown"), Cell("–")))) == [
        ["what", "n"],
        ["a", ""],
        ["", ""],
    ]


@pytest.mark.parametrize("word", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "＝1"])
def test_formulas_are_words(word: str) -> None:
    assert read(table((Cell(word), Cell("-5", -5))))[1][0].startswith("'")
    assert read(table((Cell("x", word), Cell("-5", -5))))[1][1] == "-5"


@given(st.text(st.characters(), max_size=30))
def test_no_word_breaks_a_row(word: str) -> None:
    rows = read(table((Cell(word), Cell("1", 1)), (Cell("x"), Cell("2", 2))))
    assert [row[1] for row in rows] == ["n", "1", "2"] and rows[2] == ["x", "2"]


@pytest.mark.parametrize("cell", [Cell("–"), Cell("unknown"), Cell("–", ""), Cell("–", None, time=None)])
def test_what_is_unknown_is_empty(cell: Cell) -> None:
    assert read(table((cell, Cell("–"))))[1] == ["", ""]


def test_which_table() -> None:
    document = samples.cluster()
    assert len(read(msgspec.structs.replace(document, table=""))) == 61
    assert read(msgspec.structs.replace(document, table="failed")) == [["user"]]
    sheet = table((Cell("a"), Cell("1", 1))).tables()[0]
    assert read(msgspec.structs.replace(document, sheet=lambda: sheet)) == [["what", "n"], ["a", "1"]]
    with pytest.raises(NoTable, match="a report of a cluster has no table named other: choose another format than csv"):
        csv_of(msgspec.structs.replace(document, table="other"))
    with pytest.raises(NoTable, match="no table at all"):
        csv_of(msgspec.structs.replace(document, sections=(), table=""))
