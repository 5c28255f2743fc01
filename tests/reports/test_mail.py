# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mails: what their programs show, and plain text that reads the same everywhere."""

from __future__ import annotations

import re
import struct

import msgspec
import pytest
from reports import samples
from reports.test_html import Page
from rich.cells import cell_len

from slurmscope.reports.document import NOTE, UNKNOWN, Bars, Cell, Column, Facts, Section, Table
from slurmscope.reports.mail import parts
from slurmscope.reports.picture import png


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_a_mail_holds_what_it_shows(name: str) -> None:
    mail = parts(samples.SAMPLES[name]())
    found = Page(mail.html)
    assert [one["src"] for one in found.of("img")] == [f"cid:{cid}" for cid in mail.pictures]
    assert len(mail.pictures) <= 4
    assert all(one["alt"] for one in found.of("img"))
    assert all(one.startswith(b"\x89PNG") for one in mail.pictures.values())


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_only_what_mail_programs_know(name: str) -> None:
    mail = parts(samples.SAMPLES[name]())
    tags = {tag for tag, _ in Page(mail.html).elements}
    assert not tags & {"svg", "style", "script", "link", "main", "section"}
    styles = " ".join(one.get("style") or "" for _, one in Page(mail.html).elements)
    assert not re.search(r"var\(|light-dark|grid|flex|url\(", styles)


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_plain_text_is_safe_to_flow(name: str) -> None:
    for line in parts(samples.SAMPLES[name]()).text.splitlines():
        assert cell_len(line) <= 78
        assert not line.startswith((" ", ">", "From ")) and not line.endswith(" ")


def test_subject_is_one_line() -> None:
    assert parts(samples.job()).subject_hint == "48211907 vit-large: The GPUs wait for the CPUs"
    named = msgspec.structs.replace(samples.cluster(), title="narval")
    assert parts(named).subject_hint == "narval was 84 % busy"
    subject = parts(samples.hostile()).subject_hint
    assert len(subject) <= 120 and subject.isprintable()


def test_charts_that_are_left_out_are_named() -> None:
    assert "not in this mail: CPU time by core; Its nodes over time." in parts(samples.job()).html
    assert "not in this mail" not in parts(samples.cluster()).html


def test_a_section_of_which_nothing_is_left_is_no_empty_card() -> None:
    charts = samples.job().charts()
    sections = tuple(Section(f"Curve {at}", (one,)) for at, one in enumerate(charts))
    page = parts(msgspec.structs.replace(samples.job(), sections=sections)).html
    assert page.count("<h2") == len(page.split("<img")) - 1 == 4 and "Curve 4" not in page


def test_wide_tables_lose_bars_first_and_then_their_last_columns() -> None:
    def page(count: int) -> str:
        row = (Cell("vision", link="account:vision"), *(Cell("46 %", 0.46, 0.46, NOTE) for _ in range(count - 1)))
        columns = tuple(Column(f"c{at}", f"Column {at}") for at in range(count))
        sections = (Section("Who used it", (Table("t", columns, (row,)),)),)
        return parts(msgspec.structs.replace(samples.job(), sections=sections)).html

    assert [page(count).count('height="8"') for count in (5, 6, 9)] == [8, 0, 0]
    assert [page(count).count("46 % <span") for count in (5, 6, 9)] == [4, 5, 5]
    assert "not in this mail" not in page(6)
    assert "Columns that are not in this mail: Column 6, Column 7, Column 8 (Who used it)." in page(9)


def test_numbers_and_meters_stay_whole_and_levels_are_legible() -> None:
    page = parts(samples.cluster()).html
    number = re.search(r"<td ([^>]*)>900,000 CPU-hours", page)
    assert number is not None and "white-space:nowrap" in number[1] and "word-break" not in number[1]
    # what must break may: a name that is longer than a line
    named = re.search(r"<td ([^>]*)>rrg-a-long-name-of-an-account-00", page)
    assert named is not None and "word-break:break-word" in named[1]
    job = parts(samples.job()).html
    assert "color:#c77700" not in job and "color:#d55e00" not in job
    unknown = msgspec.structs.replace(
        samples.job(), sections=(Section("x", (Facts((("GPU", Cell("–", None, None, UNKNOWN)),)),)),)
    )
    assert "○ unknown" in parts(unknown).html


def test_pictures_are_as_large_as_asked() -> None:
    chart = samples.job().charts()[0]
    for scale in (1, 2):
        width, height = struct.unpack(">II", png(chart, scale=scale)[16:24])
        assert (width, height) == ((560 + 12) * scale, (170 + 12) * scale)
    assert png(Bars("b", "b", "u", (), ())).startswith(b"\x89PNG")
