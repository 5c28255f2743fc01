# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Documents in the terminal: within its width, and nothing that steers it."""

from __future__ import annotations

import re

import msgspec
import pytest
from reports import samples
from rich.cells import cell_len

from slurmscope.reports.document import NOTE, Cell, Column, Document, Section, Table, Verdict
from slurmscope.reports.text import text

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [40, 60, 76, 100, 200])
@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_every_line_fits(name: str, width: int) -> None:
    for line in text(samples.SAMPLES[name](), width=width, colour=False).splitlines():
        assert cell_len(line) <= width, line
        assert line == line.rstrip()


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_words_do_no_harm(colour: bool) -> None:
    page = text(samples.hostile(), width=100, colour=colour)
    bare = ESCAPES.sub("", page) if colour else page
    assert all(char.isprintable() for char in bare.replace("\n", ""))
    page.encode()
    assert "[bold red]markup[/] :smile:" in bare


def test_colour_changes_no_word() -> None:
    plain, coloured = (text(samples.job(), width=100, colour=colour) for colour in (False, True))
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()] == plain.splitlines()


def test_surroundings_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    page = text(samples.job(), width=100, colour=True)
    for name, value in (("NO_COLOR", "1"), ("COLUMNS", "33"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    assert text(samples.job(), width=100, colour=True) == page


@pytest.mark.parametrize(
    ("width", "head", "row"),
    [
        (120, "account  core-hours", "nlp         713,592  ▓▓▓▓▓░░░░░ 46 % ▲ note"),
        (90, "account  core-hours", "nlp         713,592  ▓▓░░ 46 % ▲  ▓▓░░ 46 % ▲"),
        (70, "account  core-hours", "nlp         713,592  46 % ▲"),
        (44, "account    hours CPU", "nlp      713,592 46 % ▲ 46 % ▲ 46 % ▲ 46 % ▲"),
        (40, "• account: nlp; core-hours: 713,592;", "  CPU: 46 % ▲; CPU: 46 % ▲; CPU: 46 % ▲;"),
    ],
)
def test_wide_tables_have_smaller_meters_then_none_and_then_are_lists(width: int, head: str, row: str) -> None:
    """A title breaks at its hyphen only where nothing else helps."""
    meters = 4
    columns = (
        Column("account", "account"),
        Column("core_hours", "core-hours", number=True),
        *(Column(f"cpu{at}", "CPU") for at in range(meters)),
    )
    cells = (Cell("nlp"), Cell("713,592"), *(Cell("46 %", 0.46, 0.46, NOTE),) * meters)
    sections = (Section("Who used it", (Table("t", columns, (cells,)),)),)
    lines = text(msgspec.structs.replace(samples.job(), sections=sections), width=width, colour=False).splitlines()
    assert any(line.startswith(head) for line in lines), lines
    assert any(line.startswith(row) for line in lines), lines


def test_no_line_ends_within_a_word_with_a_hyphen() -> None:
    verdict = Verdict("note", "It used 42,640 GPU-hours", "They held 280,498 core-hours and used none. " * 20)
    document = msgspec.structs.replace(samples.job(), verdict=verdict, sections=())
    for width in range(40, 120):
        assert not [line for line in text(document, width=width, colour=False).splitlines() if line.endswith("-")]


def test_a_document_of_nothing() -> None:
    nothing = Document("job", "1", "", samples.NOW, Verdict("unknown", "Nothing is known", ""), (Section("x", ()),), {})
    assert "○ unknown: Nothing is known" in text(nothing, width=80, colour=False)
