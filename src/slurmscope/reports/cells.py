# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts as cells of a table: the words for people, and what they are made of for scripts."""

from __future__ import annotations

from slurmscope.findings.memory import OUT_OF_MEMORY
from slurmscope.reports.document import BAD, FINE, NOTE, UNKNOWN, Cell
from slurmscope.words import minute, number, percent, size, span

DASH = "–"
_WELL, _HALF = 0.7, 0.35  # of what was asked for: from where on it is used well, or half way
_CLOSE = 0.9  # … and from where on memory may soon be too little


def level_of(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return FINE if share >= _WELL else NOTE if share >= _HALF else BAD


def words(text: str | None, link: str = "") -> Cell:
    return Cell(text or DASH, text, link=link)


def count(value: float | None, unit: str = "") -> Cell:
    return Cell(DASH if value is None else f"{number(value)} {unit}".rstrip(), value)


def bytes_(value: float | None) -> Cell:
    return Cell(DASH if value is None else size(value), value)


def seconds(value: float | None) -> Cell:
    return Cell(DASH if value is None else span(value), value)


def moment(when: float | None, made: float | None = None) -> Cell:
    """A time, which pages tell in the zone of who reads them; with its year, where it is `made` in another."""
    return Cell(DASH) if when is None else Cell(minute(when, made), when, time=int(when))


def hours(value: float | None) -> Cell:
    """Seconds, told as hours: of cores, of GPUs."""
    return Cell(DASH if value is None else number(value / 3600), value)


def share(value: float | None) -> Cell:
    """Without a bar, where there is no room for one or nothing to be filled."""
    return Cell(DASH if value is None else percent(value), value)


def memory(share: float | None, state: str) -> Cell:
    """That much of it is used is nothing good where it ran out, or nearly did."""
    full = BAD if state == OUT_OF_MEMORY else NOTE if share is not None and share >= _CLOSE else ""
    return meter(share, level=full if share is not None else "")


def meter(share: float | None, source: str = "", *, judged: bool = True, level: str = "") -> Cell:
    """A share with its bar. Where it is not `judged`, a low one is no worse than a high one, and has no word. `level`
    is for what more is known of."""
    level = level or (level_of(share) if judged else "")
    # beside a bar there is no room for words
    text = DASH if share is None else "< 1 %" if 0 < share < 0.01 else percent(share)
    return Cell(text, share, share, level, source)
