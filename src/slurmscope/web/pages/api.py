# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The API: its document for programs, and a page for those who write them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slurmscope.reports import cells
from slurmscope.reports.data import encoded
from slurmscope.reports.document import Block, Cell, Column, Document, Paragraph, Section, Table, Verdict
from slurmscope.reports.rendering import TYPES
from slurmscope.web import openapi
from slurmscope.web.openapi import Entry, Operation
from slurmscope.web.page import Crumb, Page, Raw
from slurmscope.web.visit import Visit

OPENAPI = "/api/v1/openapi.json"


class NothingAsked(msgspec.Struct, frozen=True):
    pass


def described(visit: Visit, asked: NothingAsked) -> Raw:
    return Raw(encoded(openapi.document(visit.routes)), TYPES["json"])


def api(visit: Visit, asked: NothingAsked) -> Page:
    t = visit.t
    known, others = openapi.operations(visit.routes), openapi.others(visit.routes)
    columns = (Column("address", "address"), Column("about", "what it tells"))
    table = Table("addresses", columns, tuple(_row(one) for one in (*known, *others)))
    lead = t(
        "{addresses} under /api/v1, each with the facts of a page: base units, nothing rounded, null where something "
        "is not known. You see what you see in the browser.",
        addresses=t("1 address") if len(known) == 1 else t("{count} addresses", count=f"{len(known):,}"),
    )
    document = Document(
        kind="api",
        title=t("API"),
        subtitle="v1",
        made=visit.now,
        verdict=Verdict("", t("Every page can be read by a program"), lead),
        sections=(
            Section("Addresses", (table,)),
            *map(_section, openapi.entries(known)),
            *_older(visit, openapi.entries(others)),
        ),
        data={"addresses": [_datum(one) for one in (*known, *others)], "openapi": OPENAPI},
    )
    return Page(
        document=document,
        template="api.html",
        crumbs=(Crumb(t("API"), "/api"),),
        shown={
            "here": "/api",
            "question": "",
            "openapi": OPENAPI,
            "base": visit.base,
            "signs_in": bool(visit.identity.ways),
        },
    )


def _row(one: Operation) -> tuple[Cell, ...]:
    return cells.words(one.path), cells.words(one.route.about)


def _section(entry: Entry) -> Section:
    return Section(entry.title, _blocks(entry))


def _blocks(entry: Entry) -> tuple[Block, ...]:
    told = (Paragraph(", ".join(entry.paths)), Paragraph(entry.route.about, soft=True))
    return (*told, _table(entry)) if entry.parameters else told


def _table(entry: Entry) -> Table:
    columns = (
        Column("parameter", "parameter"),
        Column("about", "what it says"),
        Column("values", "what it may be"),
        Column("default", "if not given"),
    )
    rows = tuple(
        (cells.words(mark), cells.words(one.about), cells.words(one.words), cells.words(one.default or cells.DASH))
        for mark, one in entry.parameters
    )
    return Table(f"parameters_of_{entry.route.name}", columns, rows)


def _older(visit: Visit, others: Sequence[Entry]) -> list[Section]:
    if not others:
        return []
    told = Paragraph(visit.t("For scripts that were written for an older web app."))
    return [Section("Older addresses", (told, *(block for one in others for block in _blocks(one))))]


def _datum(one: Operation) -> dict[str, object]:
    parameters = [
        {"name": each.name, "about": each.about, "in": "path" if each.inside else "query", "schema": each.schema}
        for each in one.parameters
    ]
    return {"address": one.path, "name": one.route.name, "about": one.route.about, "parameters": parameters}
