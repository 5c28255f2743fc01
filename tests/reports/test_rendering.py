# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The same facts in every form: nothing that a document says is lost in one of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser

import msgspec
import pytest
from reports import samples

from slurmscope.reports.document import (
    Bars,
    Cell,
    Changes,
    Chart,
    Document,
    Facts,
    Heat,
    Paragraph,
    Section,
    Table,
    Timeline,
)
from slurmscope.reports.html import html
from slurmscope.reports.mail import parts
from slurmscope.reports.pdf import pdf
from slurmscope.reports.rendering import FORMATS, rendered
from slurmscope.reports.shared import NOT_MEASURED, directive
from slurmscope.reports.text import text
from slurmscope.words import minute, moment, printable


class Words(HTMLParser):
    """What a page says, and which elements it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self._in: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in.append(tag)
        self.said += [value or "" for name, value in attrs if name == "alt"]

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self._in:
            self.said.append(data)


def facts(document: Document) -> Iterator[str]:
    yield from (document.title, document.subtitle, document.verdict.headline, document.verdict.lead)
    yield moment(document.made)
    for section in document.sections:
        yield section.title
        for block in section.blocks:
            match block:
                case Paragraph():
                    yield block.text
                case Changes():
                    yield block.note
                    for line in block.lines:
                        yield from (line.option, line.before or "", line.after or "", line.why)
                case Table():
                    yield block.note if block.rows else block.empty
                    # a title may take several lines beside those of other columns
                    yield from (word for column in block.columns if block.rows for word in column.title.split())
                    yield from (told for row in block.rows for cell in row for told in of(cell))
                case Timeline():
                    for event in block.events:
                        yield from (minute(event.time) if event.time else "", event.title, event.detail)
                case Facts():
                    yield from (told for name, cell in block.rows for told in (name, *of(cell)))
                case Chart() | Bars() | Heat():
                    yield block.title


def on_paper(document: Document, pdftotext: str) -> str:
    """What another reader finds in the PDF, in the order in which it was written."""
    return subprocess.run(
        [pdftotext, "-raw", "-", "-"], input=pdf(document), capture_output=True, check=True
    ).stdout.decode()


def of(cell: Cell) -> tuple[str, ...]:
    return cell.text, cell.source


def squeezed(words: str) -> str:
    """Without what differs by the room there is: blanks, and places where a word may break."""
    return re.sub(r"[\s\u200b]+", "", printable(words))


@pytest.mark.parametrize("name", ["job", "cluster"])
def test_every_fact_is_in_every_form(name: str, pdftotext: str) -> None:
    document = samples.SAMPLES[name]()
    paper = on_paper(document, pdftotext)
    mail = parts(document)
    forms = {
        "text": text(document, width=120, colour=False),
        "html": "".join(Words(html(document)).said),
        "pdf": paper,
        "mail": "".join(Words(mail.html).said),
        "mail's text": mail.text,
    }
    wanted = {squeezed(one) for one in facts(document)} - {""}
    for form, page in forms.items():
        found = squeezed(page)
        assert not [one for one in wanted if one not in found], form


def test_lines_to_paste_are_whole(pdftotext: str) -> None:
    document = samples.job()
    paper = on_paper(document, pdftotext)
    mail = parts(document)
    lines = [line for block in document.sections[0].blocks if isinstance(block, Changes) for line in block.lines]
    for page in (paper, mail.text, "".join(Words(mail.html).said), text(document, width=100, colour=False)):
        for line in lines:
            assert line.before is None or f"- {directive(line.option, line.before)}" in page
            assert line.after is None or f"+ {directive(line.option, line.after)}" in page


def test_what_is_not_measured_is_said_in_every_form(pdftotext: str) -> None:
    document = samples.job()
    paper = on_paper(document, pdftotext)
    mail = parts(document)
    for page in (paper, html(document), text(document, width=100, colour=False), mail.html, mail.text):
        assert NOT_MEASURED in page and "unknown" in page


def test_one_door_to_all() -> None:
    document = samples.job()
    starts = {
        "text": b"48211907",
        "html": b"<!doctype html>",
        "pdf": b"%PDF-",
        "json": b'{"kind":"job"',
        "csv": b"what,",
    }
    assert tuple(starts) == FORMATS
    for form, start in starts.items():
        assert rendered(document, form).lstrip().startswith(start)
    with pytest.raises(ValueError, match="format: expected one of text, html, pdf, json, csv, found docx"):
        rendered(document, "docx")


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_document_gives_the_same_bytes(form: str) -> None:
    assert rendered(samples.cluster(), form) == rendered(samples.cluster(), form)


def test_a_chart_may_leave_its_title_to_its_section() -> None:
    """It is said once where both would stand, and not lost where the section does not."""
    chart = msgspec.structs.replace(samples.job().charts()[0], title="")
    sections = tuple(Section(f"Curve {at}", (chart,)) for at in range(5))
    document = msgspec.structs.replace(samples.job(), sections=sections)
    page, mail = html(document), parts(document)
    assert "<figcaption>" not in page and page.count("<title>Curve 3</title>") == 1
    assert 'alt="Curve 1, cores.' in mail.html and "not in this mail: Curve 4." in mail.html
    assert text(document, width=80, colour=False).count("Curve 3") == 1
