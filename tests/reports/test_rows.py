# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of tables as HTML: what stands in them, and that no text can be anything but text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.reports.document import BAD, FINE, NOTE, STATES, UNKNOWN, Cell, Column, Table
from slurmscope.reports.rows import cell_html, heads_html, rows_html, titles

HOSTILE = "<script>alert('1')</script>\"&\n\u202e\udcff"


def told(when: float, made: float | None) -> str:
    return f"at {when:.0f}"


def address(link: str) -> str:
    return f"/{link.partition(':')[2]}" if link.startswith("user:") else ""


@pytest.mark.parametrize(
    ("cell", "html"),
    [
        (Cell("a b"), "a b"),
        (Cell("a", link="user:x"), '<a href="/x">a</a>'),
        (Cell("a", link="rule:x"), "a"),
        (Cell("runs", level="run"), '<span class="state run">runs</span>'),
        (
            Cell("x", time=0),
            '<time datetime="1970-01-01T00:00:00Z" title="1970-01-01 00:00:00 UTC">at 0</time>',
        ),
        (
            Cell("45 %", 0.45, 0.45, NOTE),
            '<span class="meter note"><svg viewBox="0 0 100 7" preserveAspectRatio="none" aria-hidden="true">'
            '<rect width="45.0" height="7"/></svg>45 % <span class="level note">▲ note</span></span>',
        ),
        (
            Cell("–", level=UNKNOWN, source="agent"),
            '<span class="meter unknown"><svg viewBox="0 0 100 7" preserveAspectRatio="none" role="img" '
            'aria-label="unknown"></svg>–</span> <span class="src">agent</span>',
        ),
    ],
)
def test_a_cell(cell: Cell, html: str) -> None:
    assert cell_html(cell, address, told) == html


def test_nothing_is_linked_where_there_are_no_pages() -> None:
    assert cell_html(Cell("a", link="user:x"), None, told) == "a"


def test_rows_and_their_headings() -> None:
    columns = (Column("job", "job"), Column("hours", "core-hours <of it>", True), Column("name", ""))
    rows = ((Cell("1"), Cell("2"), Cell("x" * 30)), (Cell("y" * 30), Cell("3")))
    assert heads_html(columns) == (
        '<tr role="row" align="left"><th scope="col" role="columnheader">job</th>'
        '<th scope="col" role="columnheader" class="num" align="right">'
        '<span class="whole">core-hours</span> &lt;of it&gt;</th><th scope="col" role="columnheader"></th></tr>'
    )
    assert titles(columns) == "job, core-hours <of it>"
    assert rows_html(Table("t", columns, rows), address, told) == (
        '<tr role="row" align="left"><th scope="row" role="rowheader">1</th>'
        '<td role="cell" data-title="core-hours &lt;of it&gt;" class="num" align="right" nowrap>2</td>'
        f'<td role="cell" data-title="" class="long">{"x" * 30}</td></tr>\n'
        f'<tr role="row" align="left"><th scope="row" role="rowheader" class="long">{"y" * 30}</th>'
        '<td role="cell" data-title="core-hours &lt;of it&gt;" class="num" align="right" nowrap>3</td></tr>\n'
    )


class Seen(HTMLParser):
    """Which elements and attributes a text has become."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}


TEXTS = st.one_of(st.text(st.characters(), max_size=40), st.sampled_from([HOSTILE, '" onload="x', "<b>"]))
CELLS = st.builds(
    Cell,
    TEXTS,
    share=st.none() | st.floats(),
    level=st.sampled_from(["", FINE, NOTE, BAD, UNKNOWN, *STATES]),
    source=TEXTS,
    link=st.sampled_from(["", "rule:x", f"user:{HOSTILE}"]),
    time=st.none() | st.integers(0, 1 << 33),
)


@given(st.lists(CELLS, max_size=4), TEXTS)
def test_whatever_is_told_is_text(cells: list[Cell], title: str) -> None:
    columns = tuple(Column("c", title, at % 2 == 1) for at in range(4))
    html = heads_html(columns) + rows_html(Table("t", columns, (tuple(cells),)), address, told)
    seen = Seen()
    seen.feed(html)
    assert seen.tags <= {"tr", "th", "td", "a", "span", "svg", "rect", "time"}
    assert seen.names <= {
        *("role", "scope", "class", "data-title", "href", "viewbox", "preserveaspectratio", "aria-hidden"),
        *("width", "height", "datetime", "title", "align", "nowrap", "aria-label"),
    }
    assert html.replace("\n", "").isprintable()
