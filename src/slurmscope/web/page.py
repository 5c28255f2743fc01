# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a view answers with, before it has a form: a document, and how the portal shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from slurmscope.reports.document import Document, Verdict


class Crumb(msgspec.Struct, frozen=True):
    title: str
    link: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """JSON is the document's data, CSV its main table, PDF all of it; HTML is the template's, which has `shown` too."""

    document: Document
    template: str = "document.html"
    crumbs: tuple[Crumb, ...] = ()
    cluster: str = ""  # whose age stands in the bar; "" for that of all
    shown: dict[str, Any] = {}
    live: bool = False  # changes with each poll, so that a browser may ask again


def bare(kind: str, title: str, made: int) -> Document:
    """Of a page that is all template: a form, and no facts."""
    return Document(
        kind=kind, title=title, subtitle="", made=made, verdict=Verdict("", title, ""), sections=(), data={}
    )


class Raw(msgspec.Struct, frozen=True):
    """An answer that has its form already."""

    body: bytes
    kind: str  # text/plain; charset=utf-8


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a form, or to an address that has another name: where to go on."""

    location: str
    cookies: tuple[str, ...] = ()
