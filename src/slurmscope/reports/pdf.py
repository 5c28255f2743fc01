# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A document on paper, by typst. Its words go there as strings in JSON and never as markup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import typst

from slurmscope.reports import shared
from slurmscope.reports.document import Block, Cell, Changes, Document, Drawn, Facts, Section, Table, Timeline
from slurmscope.reports.svg import chart_svg
from slurmscope.words import minute, moment

_SHORT = 90  # characters of the title at the head of further pages


def pdf(document: Document) -> bytes:
    """The same bytes for the same document, on every machine: only typst's own fonts, and no clock but `made`."""
    shown = shared.plain(document)
    given = msgspec.json.encode(_given(shown)).decode()
    return compiled("report.typ", {"document": given}, timestamp=document.made)


def compiled(template: str, inputs: dict[str, str], **options: Any) -> bytes:
    """What a template of ours becomes, given strings."""
    source = resources.files("slurmscope.reports").joinpath("templates", template).read_bytes()
    compiler = typst.Compiler(source, font_paths=_fonts(), sys_inputs=inputs)
    made = compiler.compile(format=options.pop("format", "pdf"), **options)
    assert isinstance(made, bytes)  # a list is of pictures of several pages
    return made


@cache
def _fonts() -> typst.Fonts:
    return typst.Fonts(include_system_fonts=False)


def _given(document: Document) -> dict[str, Any]:
    title = document.title
    return {
        "title": title,
        "short": title if len(title) <= _SHORT else title[:_SHORT] + "…",
        "subtitle": document.subtitle,
        "made": moment(document.made),
        "verdict": document.verdict,
        "words": shared.WORDS,
        "shapes": shared.SHAPES,
        "rows": [
            [_section(one, document.made, wide=len(row) == 1) for one in row] for row in shared.rows(document.sections)
        ],
    }


def _section(section: Section, made: int, *, wide: bool) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for block in section.blocks:
        if not isinstance(block, Drawn):
            blocks.append(_block(block, made))
        elif blocks and blocks[-1]["type"] == "charts":
            blocks[-1]["charts"].append(block)
        else:
            blocks.append({"type": "charts", "wide": wide, "charts": [block]})
    for one in blocks:
        if one["type"] == "charts":
            one["charts"] = _charts(section, one["charts"], made, whole=wide and len(one["charts"]) == 1)
    return {"title": section.title, "blocks": blocks}


def _charts(section: Section, charts: Sequence[Drawn], made: int, *, whole: bool) -> list[dict[str, Any]]:
    """Drawn as wide as they stand there, so that words are of one size in all."""
    width, height = (720, 190) if whole else (370, 160)
    return [
        {
            "title": one.title,
            "shown": one.title != section.title,
            "note": one.note,
            "svg": chart_svg(one, styled=True, width=width, height=height, made=made),
        }
        for one in charts
    ]


def _block(block: Block, made: int) -> dict[str, Any]:
    given: dict[str, Any] = msgspec.to_builtins(block)
    match block:
        case Table():
            # a row is as long as the head, whatever it was made of
            wide = len(block.columns)
            given["rows"] = [[_cell(one) for one in (*row, *(Cell(""),) * wide)[:wide]] for row in block.rows]
        case Facts():
            given["rows"] = [(name, _cell(cell)) for name, cell in block.rows]
        case Timeline():
            given["events"] = [
                {
                    "time": "" if one.time is None else minute(one.time, made),
                    "title": one.title,
                    "detail": one.detail,
                    "bad": one.bad,
                }
                for one in block.events
            ]
        case Changes():
            given["lines"] = [
                {
                    "before": None if one.before is None else shared.directive(one.option, one.before),
                    "after": None if one.after is None else shared.directive(one.option, one.after),
                    "why": one.why,
                }
                for one in block.lines
            ]
    return given


def _cell(cell: Cell) -> dict[str, Any]:
    metered = shared.metered(cell)
    return {
        "text": cell.text,
        "source": cell.source,
        "level": cell.level,
        "metered": metered,
        "filled": None if cell.share is None else shared.filled(cell),
        "beyond": shared.beyond(cell) if metered else "",
    }
