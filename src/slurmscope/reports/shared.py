# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What every rendering does alike: text that can do no harm, words and shapes of levels, lines of a job's script."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from slurmscope.reports.axis import DAY, LATEST, figure, sound
from slurmscope.reports.document import (
    BAD,
    FINE,
    NOTE,
    UNKNOWN,
    Cell,
    Chart,
    Document,
    Drawn,
    Heat,
    Level,
    Section,
    Table,
)
from slurmscope.words import Say, dated, english, minute, printable

WORDS = {FINE: "fine", NOTE: "note", BAD: "bad", UNKNOWN: "unknown"}
SHAPES = {FINE: "✓", NOTE: "▲", BAD: "✕", UNKNOWN: "○"}
NOT_MEASURED = "not measured"
_LONG = 24  # characters of a word that is still kept whole
_BESIDE, _HALF = 4, 52  # columns, and characters, of a table that may stand beside another one
_LONG_SPAN = 300 * DAY  # from where on a chart's times have their year
_BAR = 9  # characters that a bar takes, with the shape of its level


def plain(document: Document) -> Document:
    """The same with every text printable and every chart titled; what is for scripts is left out."""
    shown = msgspec.structs.replace(document, data={}, sheet=None)
    found = shown if _harmless(shown) else msgspec.convert(_plain(msgspec.to_builtins(shown)), Document)
    return msgspec.structs.replace(found, sections=tuple(map(titled, found.sections)))


def _harmless(document: Document) -> bool:
    """Whether all of it is printable surely, as nearly every document is: to look at each text alone takes long."""
    try:
        written = msgspec.json.encode(document)
    except (UnicodeEncodeError, OverflowError):
        return False
    # what JSON escapes may be a control; or a quotation mark, which is looked at for nothing
    return b"\\" not in written and written.decode().isprintable()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        # a link is no text: an address is made of it, in which whatever a name holds is escaped
        return {name: one if name == "link" else _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def directive(option: str, value: str) -> str:
    """A line of a job's script; an option without a value stands alone."""
    return f"#SBATCH {option}={value}" if value else f"#SBATCH {option}"


def beyond(cell: Cell) -> str:
    """The word of a meter's level, where its text does not say it already."""
    word = WORDS.get(cell.level, "")
    return "" if word in cell.text else word


def metered(cell: Cell) -> bool:
    """Whether a bar is drawn: a share, or that there is none."""
    return cell.share is not None or cell.level == UNKNOWN


def filled(cell: Cell) -> float:
    """How far the bar goes, 0 to 1."""
    return min(1.0, max(0.0, sound(cell.share) or 0.0))


def unbroken(cell: Cell) -> bool:
    """Whether it has a word, or beside a bar a text, so long that it must break somewhere within."""
    text = cell.text
    return len(text) > _LONG and any(len(word) > _LONG for word in ([text] if metered(cell) else text.split()))


def level_text(level: Level) -> str:
    """Its name, with its value where the name has no number of its own."""
    return level.name if any(map(str.isdigit, level.name)) else f"{level.name} {figure(level.value)}"


def known(levels: Sequence[Level]) -> list[Level]:
    """Those that can be drawn."""
    values = [(one.name, sound(one.value)) for one in levels]
    return [Level(name, value) for name, value in values if value is not None]


def titled(section: Section) -> Section:
    """Its charts with a title each: what stands alone in a section may leave it to that."""
    blocks = (
        msgspec.structs.replace(one, title=section.title) if isinstance(one, Drawn) and not one.title else one
        for one in section.blocks
    )
    return msgspec.structs.replace(section, blocks=tuple(blocks))


def ends(chart: Chart | Heat) -> tuple[int, int] | None:
    """From when to when it is, in years that have a calendar."""
    if not chart.times:
        return None
    start = max(0, min(LATEST, *chart.times))
    return start, max(start + 1, min(LATEST, max(chart.times) + max(1, chart.step)))


def between(chart: Chart | Heat, made: int | None, zone: tzinfo = UTC, say: Say = english) -> str:
    """From when to when it is, in words; nothing where it is of no time."""
    found = ends(chart)
    if found is None:
        return ""
    start, end = found
    year = end - start > _LONG_SPAN
    first, last = (dated(minute(when, made, year=year, zone=zone), say) for when in (start, end))
    return say("{first} to {last}", first=first, last=last)


def spread(least: str, most: str, say: Say) -> str:
    return say("{first} to {last}", first=least, last=most)


def unmeasured(gaps: int, parts: int, say: Say) -> str:
    """How many parts of a time are not known."""
    if gaps == 1:
        return say("1 part of {parts} not measured", parts=parts)
    return say("{gaps} parts of {parts} not measured", gaps=f"{gaps:,}", parts=parts)


def missing(chart: Chart | Heat, values: Sequence[float | None], made: int | None) -> list[bool]:
    """Which of the values should be known and are not: none that is ahead, and none of what looks ahead."""
    if made is None:
        return [value is None for value in values]
    step = max(1, chart.step)
    pairs = list(zip(chart.times, values, strict=False))
    if any(when > made and value is not None for when, value in pairs):
        return [False] * len(values)
    found = [value is None and when + step <= made for when, value in pairs]
    return found + [False] * (len(values) - len(found))


def rows(sections: Sequence[Section]) -> list[tuple[Section, ...]]:
    """Halves beside each other, two by two, where their tables have room for it; one that has no other is whole."""
    found: list[tuple[Section, ...]] = []
    waiting: Section | None = None
    for section in sections:
        if waiting is not None and section.half:
            found += [(waiting, section)] if _narrow(waiting) and _narrow(section) else [(waiting,), (section,)]
            waiting = None
            continue
        if waiting is not None:
            found.append((waiting,))
        waiting = section if section.half else None
        if not section.half:
            found.append((section,))
    return [*found, (waiting,)] if waiting is not None else found


def _narrow(section: Section) -> bool:
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return all(len(one.columns) <= _BESIDE and _room(one) <= _HALF for one in tables)


def _room(table: Table) -> int:
    """About so many characters are the least that its columns need: numbers and meters stay whole, words may wrap."""
    needs = [max(map(len, column.title.split()), default=0) for column in table.columns]
    for row in table.rows:
        for at, (column, cell) in enumerate(zip(table.columns, row, strict=False)):
            words = min(_LONG, max(map(len, cell.text.split()), default=0))
            bar = _BAR + len(beyond(cell)) if metered(cell) else 0
            needs[at] = max(needs[at], (len(cell.text) if column.number or bar else words) + bar)
    return sum(needs) + 2 * (len(needs) - 1)
