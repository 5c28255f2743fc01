# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Documents on paper, as a reader that is not ours finds them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from reports import samples

from slurmscope.reports.document import NOTE, Cell, Column, Document, Paragraph, Section, Table
from slurmscope.reports.pdf import pdf


def pages(document: Document, pdftotext: str) -> list[str]:
    made = subprocess.run([pdftotext, "-layout", "-", "-"], input=pdf(document), capture_output=True, check=True)
    return made.stdout.decode().split("\f")[:-1]


@pytest.mark.parametrize(("name", "count"), [("job", 2), ("cluster", 2)])
def test_pages_are_numbered(name: str, count: int, pdftotext: str) -> None:
    found = pages(samples.SAMPLES[name](), pdftotext)
    assert len(found) == count
    for at, page in enumerate(found, 1):
        foot = page.rstrip().split("\n")[-1]
        assert re.fullmatch(
            rf"slurmscope, made 2025-11-15 13:07:00 UTC\. All times are UTC\. +page {at} of {count}", foot.strip()
        )


def test_a_long_table_has_its_head_on_each_page(pdftotext: str) -> None:
    first, second = pages(samples.cluster(), pdftotext)
    for page in (first, second):
        assert re.search("Account +Jobs +CPU time +CPU efficiency +Wait, median", page)
    assert "def-account-01" in first and "def-account-59" in second
    assert second.lstrip().startswith("narval, October 2025")


def test_a_level_and_its_word_stay_together_and_so_do_words_with_hyphens(pdftotext: str) -> None:
    meter = Cell("46 %", 0.46, 0.46, NOTE)
    row = (Cell("4813273"), Cell("pretrain"), *(meter,) * 8)
    columns = tuple(Column(f"c{at}", "core-hours in use") for at in range(len(row)))
    words = " ".join(["1,234 core-hours", "of the 2026-10-17"] * 30)
    sections = (Section("Wide", (Table("t", columns, (row,) * 3),)), Section("Words", (Paragraph(words),)))
    document = msgspec.structs.replace(samples.job(), sections=sections)
    found = subprocess.run([pdftotext, "-raw", "-", "-"], input=pdf(document), capture_output=True, check=True)
    text = found.stdout.decode()
    assert text.count("▲ note") == text.count("▲") == 25
    assert text.count("core-hours") == 30 + len(row) and text.count("2026-10-17") == 30


def test_many_charts(pdftotext: str) -> None:
    document = samples.job()
    charts = document.charts()
    many = tuple(msgspec.structs.replace(charts[at % 5], title=f"Chart number {at}") for at in range(12))
    found = pages(msgspec.structs.replace(document, sections=(Section("All", many),)), pdftotext)
    assert all(any(f"Chart number {at}" in page for page in found) for at in range(12))
    assert "page 1 of 2" in found[0]


def test_hostile_words_do_no_harm(pdftotext: str) -> None:
    text = "".join(pages(samples.hostile(), pdftotext))
    assert '#panic() $x$ *b* _i_ @ref <label> // no \\ `raw` ~ #import "/etc/passwd"' in text
    assert "<script>alert(1)</script>" in text and "{{ 7 * 7 }}" in text and "\x1b" not in text


@pytest.mark.parametrize("word", samples.HOSTILE)
def test_each_hostile_word_alone(word: str) -> None:
    document = msgspec.structs.replace(samples.job(), title=word, subtitle=word * 3, sections=())
    assert pdf(document).startswith(b"%PDF-")


def test_only_fonts_that_come_with_it(pdftotext: str, tmp_path: Path) -> None:
    """They are the same on every machine, and so is the PDF."""
    (tmp_path / "it.pdf").write_bytes(pdf(samples.hostile()))
    listed = subprocess.run(
        [Path(pdftotext).with_name("pdffonts"), tmp_path / "it.pdf"], capture_output=True, text=True, check=True
    ).stdout
    fonts = {line.split()[0].split("+")[-1] for line in listed.splitlines()[2:]}
    assert fonts and all(one.startswith(("LibertinusSerif", "DejaVuSansMono", "NewCM")) for one in fonts), fonts


def test_no_clock_but_when_it_was_made() -> None:
    document = samples.job()
    assert pdf(document) == pdf(samples.job())
    assert pdf(document) != pdf(msgspec.structs.replace(document, made=document.made + 1))
