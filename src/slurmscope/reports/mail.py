# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A document as the parts of a mail: plain text, HTML as mail programs show it, and pictures."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from slurmscope.reports import shared
from slurmscope.reports.axis import figure, sound
from slurmscope.reports.document import Bars, Chart, Document, Drawn, Heat, Section, Table
from slurmscope.reports.heat import about as heat_words
from slurmscope.reports.html import environment
from slurmscope.reports.picture import png
from slurmscope.reports.text import text

_CHARTS = 4
_WIDTH = 76
_SUBJECT = 120
_COLOURS = {"fine": "#00704f", "note": "#c77700", "bad": "#d55e00", "unknown": "#8d969d", "": "#0072b2"}
_DEEP = {"fine": "#00704f", "note": "#8a5200", "bad": "#a84a00", "unknown": "#5b646c"}  # legible as words
_COLUMNS = 6  # of a table, at most
_BARS = 5  # columns of a table that has room for bars


class MailParts(msgspec.Struct, frozen=True):
    subject_hint: str
    text: str  # lines of at most 78 characters, which read the same with format=flowed and without
    html: str
    pictures: dict[str, bytes]  # by Content-ID, PNG


def parts(document: Document) -> MailParts:
    shown = shared.plain(document)
    charts = shown.charts()
    inside = {id(chart): f"chart-{at}" for at, chart in enumerate(charts[:_CHARTS], 1)}
    page = (
        environment()
        .get_template("mail.html")
        .render(
            document=shown,
            sections=[one for one in shown.sections if _says(one, inside)],
            cid=lambda chart: inside.get(id(chart), ""),
            about=_about,
            left_out=list(dict.fromkeys(one.title for one in charts[_CHARTS:])),
            cut_off=_cut_off(shown.sections),
            columns=_COLUMNS,
            bars_up_to=_BARS,
            colours=_COLOURS,
            deep=_DEEP,
        )
    )
    return MailParts(
        subject_hint=_subject(shown),
        text=_flowed(text(document, width=_WIDTH, colour=False)),
        html=page,
        pictures={inside[id(chart)]: png(chart, made=shown.made) for chart in charts[:_CHARTS]},
    )


def _says(section: Section, inside: Container[int]) -> bool:
    """Whether anything of it is in the mail: charts may be left out."""
    return any(not isinstance(one, Drawn) or id(one) in inside for one in section.blocks)


def _cut_off(sections: Sequence[Section]) -> list[str]:
    """The columns for which there is no room, and in which sections they would have been."""
    found: dict[str, list[str]] = {}
    for section in sections:
        for table in section.blocks:
            if isinstance(table, Table) and table.rows and len(table.columns) > _COLUMNS:
                names = ", ".join(one.title or one.name for one in table.columns[_COLUMNS:])
                found.setdefault(names, []).append(section.title)
    return [f"{names} ({', '.join(dict.fromkeys(titles))})" for names, titles in found.items()]


def _subject(document: Document) -> str:
    title, headline = document.title, document.verdict.headline
    whole = " ".join((headline if headline.startswith(title) else f"{title}: {headline}").split())
    return whole if len(whole) <= _SUBJECT else whole[: _SUBJECT - 1] + "…"


def _flowed(page: str) -> str:
    """No line begins with what format=flowed or an mbox would take for something else."""
    lines = page.split("\n")
    return "\n".join(
        f"\u00a0{line.removeprefix(' ')}" if line[:1] in (" ", ">") or line[:5] == "From " else line for line in lines
    )


def _about(chart: Drawn) -> str:
    """The picture in words, for those whose mail program shows none."""
    if isinstance(chart, Heat):
        return f"{chart.title}. {heat_words(chart)}"
    return f"{chart.title}, {chart.unit}. {'; '.join(_series(chart))}"


def _series(chart: Chart | Bars) -> Sequence[str]:
    said = []
    for one in chart.series:
        told = [value for value in map(sound, one.values) if value is not None]
        some = f"{figure(min(told))} to {figure(max(told))}" if told else shared.NOT_MEASURED
        said.append(f"{one.name}: {some}" if one.name else some)
    return said + [shared.level_text(one) for one in shared.known(chart.levels)]
