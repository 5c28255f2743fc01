# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One document, whatever it is rendered as: terminal, HTML, PDF, mail, JSON, CSV.

A document opens with a verdict, a sentence that a person could have said; then come what to change, the figures, what
happened, charts and facts. All texts are plain: no markup, and nothing in them is trusted, for they hold users' words.
A renderer shows all of it, and adds no fact of its own. What a number is made of goes with it: `Cell.value` has it in
base units for scripts, `Cell.text` for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

FINE, NOTE, BAD, UNKNOWN = "fine", "note", "bad", "unknown"
"""Levels of a verdict and of a meter. Each has a word and a shape besides its colour."""
RUN, WAIT, OK, FAIL, OFF = STATES = ("run", "wait", "ok", "fail", "off")
"""Levels of a state, whose word is the cell's text."""


class Verdict(msgspec.Struct, frozen=True):
    level: str
    headline: str
    lead: str  # one or two sentences


class Cell(msgspec.Struct, frozen=True, gc=False):
    text: str
    value: str | float | int | None = None  # in base units
    share: float | None = None  # drawn as a bar, 0 to 1; more is drawn as full
    level: str = ""  # of the bar; one of STATES for a state
    source: str = ""  # who told it, and of how much of the time: "agent 98 %"
    link: str = ""  # what the cell is of, for pages that can link: "job:narval/123", "user:alice"
    time: int | None = None  # the moment that the text tells, for pages that know their reader's zone


class Column(msgspec.Struct, frozen=True):
    name: str  # for scripts: cpu_hours
    title: str  # for people: CPU hours
    number: bool = False  # aligned to the right


class Paragraph(msgspec.Struct, frozen=True, tag="paragraph"):
    text: str
    soft: bool = False  # of less weight


class Line(msgspec.Struct, frozen=True):
    """A line of a job's script to change. Without `before` it is new; without `after` it is to be left out."""

    option: str  # "--cpus-per-task"
    before: str | None
    after: str | None
    why: str = ""


class Changes(msgspec.Struct, frozen=True, tag="changes"):
    """What to paste into the next job script."""

    lines: tuple[Line, ...]
    note: str = ""


class Table(msgspec.Struct, frozen=True, tag="table"):
    name: str  # for scripts: "by_partition"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    empty: str = "none"  # said where there are no rows


class Event(msgspec.Struct, frozen=True):
    time: int | None
    title: str  # Submitted, Waited, Started
    detail: str = ""
    bad: bool = False


class Timeline(msgspec.Struct, frozen=True, tag="timeline"):
    events: tuple[Event, ...]


class Facts(msgspec.Struct, frozen=True, tag="facts"):
    rows: tuple[tuple[str, Cell], ...]


class Series(msgspec.Struct, frozen=True):
    name: str
    values: tuple[float | None, ...]  # None: a gap, which stays one


class Level(msgspec.Struct, frozen=True):
    """A dashed line across a chart: what was asked for, what is allocated, what is expected."""

    name: str
    value: float


class Chart(msgspec.Struct, frozen=True, tag="chart"):
    """Something over time. The first series is filled, further ones are lines."""

    name: str  # for scripts and files: "cpu"
    title: str
    unit: str  # at the axis: "cores", "GiB"; values are in it
    times: tuple[int, ...]  # the start of each bucket
    step: int  # seconds of one
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    note: str = ""  # a sentence that says what is to be seen
    ceiling: float | None = None  # the axis goes up to it at least


class Bars(msgspec.Struct, frozen=True, tag="bars"):
    """One bar for each label, of one or several parts on top of each other."""

    name: str
    title: str
    unit: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    levels: tuple[Level, ...] = ()
    note: str = ""


class HeatRow(msgspec.Struct, frozen=True):
    name: str
    values: tuple[float | None, ...]  # 0 to 1; None: not measured
    link: str = ""  # an address, for pages that show more of it


class Heat(msgspec.Struct, frozen=True, tag="heat"):
    """How busy each of several was over time: a row for each, a shade for each piece of time."""

    name: str
    title: str
    unit: str  # what the shares are of: "of its cores busy"
    times: tuple[int, ...]  # the start of each piece
    step: int  # seconds of one
    rows: tuple[HeatRow, ...]
    note: str = ""


Drawn = Chart | Bars | Heat
Block = Paragraph | Changes | Table | Timeline | Facts | Drawn


class Section(msgspec.Struct, frozen=True):
    title: str
    blocks: tuple[Block, ...]
    half: bool = False  # beside another one, where the page is wide


class Sheet(msgspec.Struct, frozen=True):
    """Rows that nobody looks at, and that are made one after the other: there may be millions."""

    columns: tuple[Column, ...]
    rows: Iterable[tuple[Cell, ...]]


class Document(msgspec.Struct, frozen=True):
    kind: str  # job, array, user, account, cluster, month
    title: str  # "48211907 vit-large"
    subtitle: str  # whose, where, of which time
    made: int  # when
    verdict: Verdict
    sections: tuple[Section, ...]
    data: dict[str, Any]  # the same facts for scripts, in base units; what `--format json` prints
    table: str = ""  # the name of the table that `--format csv` prints; the first one where it is empty
    # what `--format csv` prints in its place, made when it is asked for: all rows, where pages show the first ones
    sheet: Callable[[], Table | Sheet] | None = None

    def tables(self) -> list[Table]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]

    def charts(self) -> list[Drawn]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Drawn)]
