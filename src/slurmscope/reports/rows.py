# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of a table as HTML. They are most of what a page has, and so are made here and not by a template, which
takes many times as long for each cell."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from markupsafe import escape

from slurmscope.reports.cells import DASH
from slurmscope.reports.document import STATES, Cell, Column, Table
from slurmscope.reports.shared import SHAPES, WORDS, beyond, filled, metered, unbroken
from slurmscope.words import Say, english, moment, printable

_MARKUP = re.compile("[&<>'\"]")
_LONG_WORD = 24
# Beside classes, what browsers of text go by: they know no style sheet.
_ROW = '<tr role="row" align="left">'
_NUMBER = ' class="num" align="right"'
_WHOLE = " nowrap"
_BAR = 'viewBox="0 0 100 7" preserveAspectRatio="none"'

Address = Callable[[str], str] | None
"""Of what a cell is of ("job:narval/123"); it may answer with nothing."""
Told = Callable[[float, float | None], str]
"""A time in words."""


@lru_cache(maxsize=512)
def heads_html(columns: tuple[Column, ...]) -> str:
    """The row of headings, which is the same on all pages of a kind."""
    drawn = "".join(
        f'<th scope="col" role="columnheader"{_NUMBER if one.number else ""}>{_heading(one.title)}</th>'
        for one in columns
    )
    return f"{_ROW}{drawn}</tr>"


def _heading(title: str) -> str:
    """A word with hyphens in it stays whole: a date, core-hours."""
    return " ".join(
        f'<span class="whole">{_text(word)}</span>' if "-" in word and len(word) < _LONG_WORD else _text(word)
        for word in title.split(" ")
    )


@lru_cache(maxsize=512)
def titles(columns: tuple[Column, ...]) -> str:
    """What a table is of, for those who do not see it."""
    return ", ".join(one.title for one in columns if one.title)


def rows_html(table: Table, address: Address, minute: Told, say: Say = english) -> str:
    opened = [_opened(at, column) for at, column in enumerate(table.columns)]
    drawn = []
    for row in table.rows:
        drawn.append(_ROW)
        # a row may be shorter than its heading, and never longer
        for (start, long, whole, end), one in zip(opened, row, strict=False):
            before = long if unbroken(one) else whole if metered(one) else start
            if one.text == DASH and end == "</td>":
                before = f"{before[:-1]} data-none>"  # a phone leaves it out
            drawn += (before, cell_html(one, address, minute, say), end)
        drawn.append("</tr>\n")
    return "".join(drawn)


def _opened(at: int, column: Column) -> tuple[str, str, str, str]:
    """What is before a cell, before one that must break somewhere within, before a bar, and behind it."""
    if at == 0 and not column.number:
        start = '<th scope="row" role="rowheader"'
        return f"{start}>", f'{start} class="long">', f"{start}{_WHOLE}>", "</th>"
    start = f'<td role="cell" data-title="{_text(column.title)}"'
    if column.number:
        number = f"{start}{_NUMBER}{_WHOLE}>"
        return number, number, number, "</td>"
    return f"{start}>", f'{start} class="long">', f"{start}{_WHOLE}>", "</td>"


def cell_html(cell: Cell, address: Address, minute: Told, say: Say = english) -> str:
    text = _text(cell.text)
    href = address(cell.link) if cell.link and address is not None else ""
    if href:
        text = f'<a href="{_text(href)}">{text}</a>'
    elif cell.level in STATES:
        text = f'<span class="state {cell.level}">{text}</span>'
    elif cell.time is not None:
        text = time_html(cell.time, minute(cell.time, None))
    if metered(cell):
        text = f'<span class="meter {_text(cell.level)}">{_meter(cell, text, say)}</span>'
    return f'{text} <span class="src">{_text(cell.source)}</span>' if cell.source else text


def _meter(cell: Cell, text: str, say: Say) -> str:
    word = beyond(cell)
    if word and cell.text == DASH:
        # a dash says it to the eye
        return f'<svg {_BAR} role="img" aria-label="{_text(say(word))}"></svg>{text}'
    bar = "" if cell.share is None else f'<rect width="{round(filled(cell) * 100, 1)}" height="7"/>'
    return f'<svg {_BAR} aria-hidden="true">{bar}</svg>{text}{f" {level_html(cell.level, say)}" if word else ""}'


def level_html(of: str, say: Say) -> str:
    return f'<span class="level {of}">{SHAPES[of]} {_text(say(WORDS[of]))}</span>'


def time_html(when: float, told: str) -> str:
    """In the reader's zone, where the page knows it, and in UTC for whoever points at it."""
    instant, utc = _moments(when)
    return f'<time datetime="{instant}" title="{utc}">{_text(told)}</time>'


@lru_cache(maxsize=4096)
def _moments(when: float) -> tuple[str, str]:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), moment(when)


def _text(words: str) -> str:
    shown = printable(words)
    return shown if _MARKUP.search(shown) is None else str(escape(shown))
