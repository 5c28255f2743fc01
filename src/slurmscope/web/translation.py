# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Words in the reader's language. English is what the code says; the catalogue has the others, sentence by sentence."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, tzinfo
from functools import cache
from importlib import resources
from typing import Any

from msgspec.structs import replace

from slurmscope import words
from slurmscope.reports.document import (
    Bars,
    Cell,
    Changes,
    Chart,
    Document,
    Event,
    Facts,
    Heat,
    Level,
    Paragraph,
    Section,
    Series,
    Table,
    Timeline,
    Verdict,
)
from slurmscope.reports.shared import NOT_MEASURED
from slurmscope.words import dated

# Columns without a title whose cells are words of ours, and not somebody's names.
_OURS = frozenset({"resource", "quantity", "state", "outcome", "figure", "why"})
_STATE = "state"  # a column of states, whose words are Slurm's
_DECIDES = "Decided by"
_FIGURE = re.compile(r"\d")


@cache
def catalogue(language: str) -> dict[str, str]:
    """From English; empty for English itself."""
    if language == "en":
        return {}
    file = resources.files("slurmscope.web").joinpath(f"words/{language}.toml")
    return tomllib.loads(file.read_text("utf-8"))


class Translation:
    def __init__(self, language: str) -> None:
        self.language = language
        self._words = catalogue(language)

    def __call__(self, english: str, **values: Any) -> str:
        """What stands in braces is put in afterwards. What the catalogue does not have stays English."""
        found = self._words.get(english, english)
        return found.format(**values) if values else found

    def span(self, seconds: float | None) -> str:
        """2 d 3 h, with the day as the reader abbreviates it."""
        return words.span(seconds, self)

    def _days(self, text: str) -> str:
        return text.replace(" d ", f" {self('d')} ") if self._words else text

    def minute(self, when: float | None, made: float | None = None, *, year: bool = False, zone: tzinfo = UTC) -> str:
        """A time, with the names of days and months of the catalogue."""
        told = words.minute(when, made, year=year, zone=zone)
        return dated(told, self) if self._words else told

    def period(self, told: str) -> str:
        """`October 2026, so far`, `2026-10-18 to 2026-11-16`."""
        first, behind, _ = told.partition(", so far")
        return f"{dated(first, self)}{self(behind)}" if self._words and told not in self._words else self(told)

    # --- documents ----------------------------------------------------------------------------------------------------

    def document(self, document: Document) -> Document:
        """With all words that are fixed; sentences about somebody's job are English, as in mails and in PDF."""
        if not self._words:
            return document
        verdict = document.verdict
        said = Verdict(verdict.level, self._headline(document), self(verdict.lead))
        return replace(document, verdict=said, sections=tuple(map(self._section, document.sections)))

    def _headline(self, document: Document) -> str:
        """What is said of a job stands behind its number and name."""
        of, said = f"{document.title}: ", document.verdict.headline
        rest = said.removeprefix(of)
        known = rest != said and rest in self._words
        return self("{of}: {said}", of=document.title, said=self(rest)) if known else self(said)

    def _section(self, section: Section) -> Section:
        blocks = tuple(self._block(one) for one in section.blocks)
        return replace(section, title=self._begun(section.title), blocks=blocks)

    def _block(self, block: Any) -> Any:
        match block:
            case Table():
                return self._table(block)
            case Facts():
                return Facts(tuple((self(name), self._fact(name, cell)) for name, cell in block.rows))
            case Timeline():
                events = (Event(one.time, self._begun(one.title), one.detail, one.bad) for one in block.events)
                return Timeline(tuple(events))
            case Paragraph():
                return replace(block, text=self(block.text))
            case Changes():
                return replace(block, note=self(block.note))
        return self._drawn(block)

    def _table(self, table: Table) -> Table:
        """Cells hold people's words, too: only what can be nothing but ours is looked up."""
        kinds = [((not one.title and one.name in _OURS) or one.name == _STATE, one.number) for one in table.columns]
        rows = tuple(
            # a row may be shorter than its heading, and never longer
            tuple(self._cell(one, own=own, number=number) for one, (own, number) in zip(row, kinds, strict=False))
            for row in table.rows
        )
        columns = tuple(
            replace(one, title=self._within(one.name, one.title) or self.period(one.title)) for one in table.columns
        )
        return replace(table, columns=columns, rows=rows, note=self(table.note), empty=self(table.empty))

    def _cell(self, cell: Cell, *, own: bool, number: bool) -> Cell:
        text, source = cell.text, cell.source
        if own:
            text = self._label(text)
        elif number and not isinstance(cell.value, str):
            text = self._amount(text)
        if source == NOT_MEASURED:
            source = self(source)
        return cell if text is cell.text and source is cell.source else replace(cell, text=text, source=source)

    def _label(self, text: str) -> str:
        """Of a row: a word, `drained: disk`, `3 other reasons`."""
        first, colon, rest = text.partition(": ")
        if colon and first in self._words:
            return self("{of}: {said}", of=self(first), said=rest)
        said = self._amount(text)
        # what is within a sentence elsewhere begins a row here
        return f"{said[:1].upper()}{said[1:]}" if text[:1].isupper() else said

    def _amount(self, text: str) -> str:
        """8 cores, 2 d 3 h, as before."""
        if text in self._words:
            return self._words[text]
        value, _, unit = text.partition(" ")
        return f"{value} {self._words[unit]}" if unit in self._words else self._days(text)

    def _fact(self, name: str, cell: Cell) -> Cell:
        if name == _DECIDES:
            return replace(cell, text=self(cell.text))
        return self._cell(cell, own=False, number=isinstance(cell.value, int | float))

    def _drawn(self, block: Chart | Bars | Heat) -> Chart | Bars | Heat:
        said: dict[str, Any] = {"title": self._begun(block.title), "unit": self(block.unit), "note": self(block.note)}
        if not isinstance(block, Heat):
            said["series"] = tuple(Series(self._series(block, one.name), one.values) for one in block.series)
            said["levels"] = tuple(Level(self._begun(one.name), one.value) for one in block.levels)
        return replace(block, **said)

    def _series(self, block: Chart | Bars, name: str) -> str:
        return self._within(block.title, name) or self._begun(name)

    def _within(self, what: str, text: str) -> str | None:
        """Words that mean something else in one chart or column stand in the catalogue behind its title or name."""
        return self._words.get(f"{what}: {text}")

    def _begun(self, text: str) -> str:
        """Words, or words before a figure: `Waited 3 h`, `asked 16`."""
        found = _FIGURE.search(text)
        if text in self._words or found is None:
            return self(text)
        first = text[: found.start()].rstrip()
        return f"{self._words[first]} {self._days(text[found.start() :])}" if first in self._words else text
