# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A document for the terminal: in the order of the page, with bars of characters, and nothing that steers it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from slurmscope.reports.axis import figure, sound
from slurmscope.reports.bars import parts_of, whole_of
from slurmscope.reports.document import (
    BAD,
    FINE,
    NOTE,
    UNKNOWN,
    Bars,
    Block,
    Cell,
    Changes,
    Chart,
    Document,
    Drawn,
    Facts,
    Heat,
    Paragraph,
    Table,
    Timeline,
)
from slurmscope.reports.heat import row_words
from slurmscope.reports.shared import (
    NOT_MEASURED,
    SHAPES,
    WORDS,
    between,
    beyond,
    directive,
    filled,
    known,
    level_text,
    metered,
    missing,
    plain,
)
from slurmscope.reports.spark import bars_of
from slurmscope.words import minute, moment

_COLOURS = {FINE: "green", NOTE: "yellow", BAD: "red", UNKNOWN: "bright_black"}
_SOFT = "bright_black"
_METER = 10  # characters of a bar
_SMALL = 4  # where there is little room
_STAGES = ((_METER, 2), (_SMALL, 2), (0, 2), (0, 1))  # bars, and blanks between columns, while there is no room
_LISTED = 5  # columns of which each has a line of its own in a list
_LEAST = 12  # below it a column of words is no column
_ROWS = 40  # bars that get a row each; of more there is one line


def text(document: Document, *, width: int, colour: bool) -> str:
    """Lines of at most so many characters, without blanks at their ends."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(20, width),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for part in _parts(plain(document), max(20, width)):
        console.print(part, soft_wrap=False)
    lines = (line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
    return "\n".join(lines) + "\n"


def _parts(document: Document, width: int) -> Iterator[RenderableType]:
    verdict = document.verdict
    yield _said(document.title, "bold")
    if document.subtitle:
        yield _said(document.subtitle, _SOFT)
    yield ""
    level = Text(f"{SHAPES[verdict.level]} {WORDS[verdict.level]}: ", _COLOURS[verdict.level])
    yield level.append(verdict.headline, "bold")
    yield _said(verdict.lead)
    for section in document.sections:
        yield ""
        yield _said(section.title, "bold underline")
        for at, block in enumerate(section.blocks):
            if at:
                yield ""
            yield from _block(block, width, section.title, document.made)
    yield ""
    yield _said(f"slurmscope, made {moment(document.made)}; all times are UTC", _SOFT)


def _said(words: str, style: str = "") -> Text:
    return Text(words, style, overflow="fold")


def _block(block: Block, width: int, title: str, made: int) -> Iterator[RenderableType]:
    match block:
        case Paragraph():
            yield _said(block.text, _SOFT if block.soft else "")
        case Changes():
            yield from _changes(block)
        case Table():
            yield _table(block, width) if block.rows else _said(block.empty, _SOFT)
        case Timeline():
            yield _timeline(block, made)
        case Facts():
            yield _facts(block)
        case Chart():
            yield _title(block, title)
            yield from _chart(block, width, made)
        case Bars():
            yield _title(block, title)
            yield from _bars(block, width)
        case Heat():
            yield _title(block, title)
            yield from _heat(block, width, made)
    if isinstance(block, Changes | Table | Drawn) and block.note:
        yield _said(block.note, _SOFT)


def _changes(block: Changes) -> Iterator[Text]:
    for line in block.lines:
        shown = [
            Text(f"{sign} {directive(line.option, value)}", style, overflow="fold")
            for sign, value, style in (("-", line.before, "red"), ("+", line.after, "green"))
            if value is not None
        ]
        if shown and line.why:
            shown[-1].append(f"  # {line.why}", _SOFT)
        yield from shown


def _cell(cell: Cell, bar: int = _METER) -> Text:
    """A bar, the text, the word of its level, and who told it; where it must be small the shape stands for the word."""
    shown = Text(overflow="fold")
    if metered(cell) and bar:
        full = round(filled(cell) * bar)
        drawn = "▓" * full + "░" * (bar - full) if cell.share is not None else "╌" * bar
        shown.append(drawn, _COLOURS.get(cell.level, "")).append(" ")
    shown.append(cell.text)
    if metered(cell) and beyond(cell):
        shown.append(f" {SHAPES[cell.level]}" + (f" {beyond(cell)}" if bar == _METER else ""), _COLOURS[cell.level])
    if cell.source:
        shown.append(f" ({cell.source})", _SOFT)
    return shown


def _table(table: Table, width: int) -> RenderableType:
    """Columns where they have room, with smaller meters or none and closer to each other if need be; else a list."""
    for bar, gap in _STAGES:
        cells = [[_cell(one, bar) for one in row] for row in table.rows]
        titles = [column.title if gap > 1 else column.title.replace("-", "- ") for column in table.columns]
        wide = _widths([_room(table, at, cells, titles[at]) for at in range(len(titles))], width, gap)
        if wide is not None:
            break
    else:
        return _records(table, width)
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for column, title, room in zip(table.columns, titles, wide, strict=True):
        side: Literal["left", "right"] = "right" if column.number else "left"
        # a title breaks at its hyphen only where it must
        head = column.title if all(cell_len(word) <= room for word in column.title.split()) else title
        grid.add_column(Text(head), justify=side, overflow="fold", width=room)
    for row in cells:
        grid.add_row(*row)
    return grid


def _room(table: Table, at: int, cells: Sequence[Sequence[Text]], title: str) -> tuple[int, int]:
    """What a column needs, and what it would take.

    Numbers and meters stay whole, words break at blanks; who told it may go to the next line.
    """
    column = table.columns[at]
    pairs = [(row[at], shown[at]) for row, shown in zip(table.rows, cells, strict=True) if at < len(row)]
    needs = [cell_len(word) for word in title.split()]
    takes = [cell_len(column.title)]
    for cell, shown in pairs:
        source = f" ({cell.source})" if cell.source else ""
        told = shown.plain.removesuffix(source)
        words = max(map(cell_len, told.split()), default=0)
        whole = cell_len(told)
        needs.append(whole if column.number or metered(cell) else min(whole, max(_LEAST, words)))
        needs += [cell_len(word) for word in source.split()]
        takes.append(cell_len(shown.plain))
    return max(needs, default=0), max(takes)


def _widths(rooms: Sequence[tuple[int, int]], width: int, gap: int) -> list[int] | None:
    """How wide each column is: what it needs, and of what is left as much as it would take, the same for all."""
    wide = [needs for needs, _ in rooms]
    spare = width - sum(wide) - gap * (len(wide) - 1)
    if spare < 0:
        return None
    while spare and (short := [at for at, (_, takes) in enumerate(rooms) if wide[at] < takes]):
        for at in short[:spare]:
            wide[at] += 1
        spare -= min(spare, len(short))
    return wide


def _records(table: Table, width: int) -> RenderableType:
    """Each row one value under the other with its name; where they are many, as many in a line as it holds."""
    many = len(table.columns) > _LISTED
    parts: list[RenderableType] = []
    for row in table.rows:
        told = [
            Text.assemble((f"{column.title}: ", "bold") if column.title else "", _cell(one, 0 if many else _METER))
            for column, one in zip(table.columns, row, strict=False)
        ]
        for at, line in enumerate(_packed(told, width - 2) if many else told):
            parts.append(Padding(line, (0, 0, 0, 2)) if at else Text.assemble("• ", line))
    return Group(*parts)


def _packed(pieces: Sequence[Text], width: int) -> list[Text]:
    """In lines of this width, none of them broken that would fit into a line of its own."""
    lines: list[Text] = []
    for piece in pieces:
        if lines and cell_len(lines[-1].plain) + cell_len(piece.plain) + 3 <= width:
            lines[-1].append("; ").append_text(piece)
        else:
            lines = [*lines[:-1], lines[-1].append(";"), piece] if lines else [piece]
    return lines


def _timeline(timeline: Timeline, made: int) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for event in timeline.events:
        told = Text(f"{SHAPES[BAD]} " if event.bad else "", _COLOURS[BAD]).append(event.title, "bold")
        if event.detail:
            told.append(f"  {event.detail}", _SOFT)
        grid.add_row("·" if event.time is None else minute(event.time, made), told)
    return grid


def _facts(facts: Facts) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=30)
    grid.add_column(overflow="fold")
    for name, cell in facts.rows:
        grid.add_row(Text(name, _SOFT), _cell(cell))
    return grid


def _chart(chart: Chart, width: int, made: int) -> Iterator[RenderableType]:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(max_width=max(8, width // 4), overflow="fold")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    gaps = False
    for one in chart.series:
        values = [sound(value) for value in one.values]
        told = [value for value in values if value is not None]
        lacking = missing(chart, values, made)
        gaps = gaps or (bool(told) and any(lacking))
        line = Text(bars_of(values, max(8, min(60, width // 2)), lacking) if told else "", "blue")
        grid.add_row(Text(one.name), line, Text(_least_and_most(told)))
    yield grid
    when = between(chart, made)
    said = [when] if when else []
    said += [level_text(one) for one in known(chart.levels)]
    said += [f"· was {NOT_MEASURED}"] if gaps else []
    if said:
        yield _said("; ".join(said), _SOFT)


def _bars(bars: Bars, width: int) -> Iterator[RenderableType]:
    rows = parts_of(bars)
    sums = [whole_of(row) for row in rows]
    told = [one for one in sums if one is not None]
    if not told:
        yield _said(NOT_MEASURED, _SOFT)
    elif len(sums) > _ROWS:
        yield _said(bars_of(sums, max(8, width - 2)), "blue")
        yield _said(f"{bars.labels[0]} to {bars.labels[-1]}: {_least_and_most(told)}")
    else:
        grid = Grid.grid(padding=(0, 2, 0, 0))
        for most in (max(8, width // 3), None, None):
            grid.add_column(max_width=most, overflow="fold")
        for label, row, whole in zip(bars.labels, rows, sums, strict=True):
            full = round((whole or 0) / max(told) * _METER * 2) if max(told) > 0 else 0
            line = Text("╌" * _METER if whole is None else "▓" * full, "blue")
            grid.add_row(Text(label), line, Text(NOT_MEASURED if whole is None else _stack(bars, row, whole)))
        yield grid
    said = [level_text(one) for one in known(bars.levels)]
    if said:
        yield _said("; ".join(said), _SOFT)


def _heat(heat: Heat, width: int, made: int) -> Iterator[RenderableType]:
    """A line of characters for each row, all of them from nothing to all."""
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(max_width=max(8, width // 4), overflow="fold")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    gaps = False
    for row in heat.rows:
        values = [sound(value) for value in row.values]
        lacking = missing(heat, values, made)
        gaps = gaps or any(lacking)
        line = Text(bars_of(values, max(8, min(60, width // 2)), lacking, 1.0) if values else "", "blue")
        grid.add_row(Text(row.name), line, Text(row_words(row)))
    yield grid
    said = [one for one in (between(heat, made), f"· was {NOT_MEASURED}" if gaps else "") if one]
    if said:
        yield _said("; ".join(said), _SOFT)


def _title(chart: Drawn, section: str) -> Text:
    """With its unit; what has the title of its section does not say it again."""
    if chart.title == section:
        return Text(chart.unit, _SOFT, overflow="fold")
    shown = Text(chart.title, "bold", overflow="fold")
    return shown.append(f" ({chart.unit})", _SOFT) if chart.unit else shown


def _least_and_most(told: Sequence[float]) -> str:
    return f"{figure(min(told))} to {figure(max(told))}" if told else NOT_MEASURED


def _stack(bars: Bars, row: Sequence[float | None], whole: float) -> str:
    """The sum, and what it is made of where that is more than one part."""
    if len(bars.series) < 2:
        return figure(whole)
    parts = (f"{one.name} {figure(value)}" for one, value in zip(bars.series, row, strict=True) if value is not None)
    return f"{figure(whole)}: {', '.join(parts)}"
