# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A page in the form that was asked for."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import tzinfo
from functools import cache, lru_cache
from typing import Annotated, Any

import jinja2
import msgspec
from msgspec import Meta

from slurmscope.reports import html as reports_html
from slurmscope.reports import shared
from slurmscope.reports.data import NoTable, csv_of, encoded, json_of
from slurmscope.reports.rendering import TYPES
from slurmscope.server import Answer, Headers, accepts_gzip
from slurmscope.usage import DAY
from slurmscope.web import files, frame
from slurmscope.web.addresses import address, within
from slurmscope.web.errors import NotFound, Refusal
from slurmscope.web.page import Page
from slurmscope.web.request import address_of
from slurmscope.web.route import CSV, HTML, JSON, PDF
from slurmscope.web.taste import LANGUAGES
from slurmscope.web.translation import Translation
from slurmscope.web.visit import Visit
from slurmscope.words import offset_words, printable

_LEAST = 1000  # bytes of an answer that is worth being compressed
_SQUEEZED = (TYPES[PDF], "image/png")  # are so already
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),  # nor may "back" show a page to whoever comes after one who signed out
    (b"vary", b"Accept-Encoding, Accept-Language, Cookie"),
]

STRICT: Headers = [(b"strict-transport-security", b"max-age=15552000")]  # half a year; other names are not ours to bind


class Said(msgspec.Struct, frozen=True):
    """What a program is told in place of an answer."""

    error: Annotated[str, Meta(description="What is wrong.")]
    cure: Annotated[str, Meta(description="What to do next; empty where nothing helps.")]


# Pages of a busy site tell of the same things and times again and again.
_address = lru_cache(maxsize=8192)(address)


@lru_cache(maxsize=8192)
def _zoned(when: float | None, made: float | None, zone: tzinfo, language: str) -> str:
    return f"{Translation(language).minute(when, made, zone=zone)} {offset_words(when or 0, zone)}"


def _harmless(value: Any) -> Any:
    """Whatever a template puts on a page: what was made here is as it is, all else can steer nothing."""
    return printable(value) if type(value) is str else value


@cache
def environment() -> jinja2.Environment:
    """The portal's templates, beside those of the reports, whose blocks they show."""
    made = reports_html.environment().overlay(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("slurmscope.web"), jinja2.PackageLoader("slurmscope.reports")]
        ),
        finalize=_harmless,
        auto_reload=False,  # to look at each file for each page takes long, and they do not change
    )
    made.globals = {
        **made.globals,
        "file": files.address,
        "has_file": files.has,
        "within": within,
        "address_of": address_of,
        "live": True,
    }
    return made


def answered(visit: Visit, page: Page, form: str, around: Mapping[str, Any]) -> Answer:
    """`around` is what the frame has besides: the section, the form's key. Raises NotFound."""
    match form:
        case "html":
            body = html(visit, page, around)
        case "json":
            body = json_of(page.document)
        case "csv":
            body = _csv(visit, page)
        case "pdf":
            # only here: what draws PDF takes memory
            from slurmscope.reports.pdf import pdf  # noqa: PLC0415

            body = pdf(page.document)
    headers = list(HEADERS)
    if form in (CSV, PDF):
        headers.append((b"content-disposition", f'inline; filename="{_file_name(page)}.{form}"'.encode()))
    return sent(visit, 200, body, TYPES[form], headers)


def _csv(visit: Visit, page: Page) -> bytes:
    name = (visit.request.query.get("table") or [""])[-1]
    document = page.document
    if name:
        if name not in {one.name for one in document.tables()}:
            there = ", ".join(one.name for one in document.tables())
            raise NotFound("This page has no table {name}.", "It has {there}.", name=repr(name), there=there or "none")
        document = msgspec.structs.replace(document, table=name, sheet=None)
    try:
        return csv_of(document)
    except NoTable as error:
        raise NotFound("This page has no table.") from error


def _file_name(page: Page) -> str:
    """Of what is saved: plain letters and digits, whatever somebody called their job."""
    kind, title = page.document.kind, page.document.title
    words = kind if kind.lower() == title.lower() else f"{kind} {title}"
    return "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in words).split())[:80]


def html(visit: Visit, page: Page, around: Mapping[str, Any]) -> bytes:
    document = visit.t.document(shared.plain(page.document))
    zone, language = visit.taste.zone, visit.t.language

    # it is the year of it that matters, and what was told before is told again
    today = document.made // DAY * DAY

    def zoned(when: float | None, made: float | None = None) -> str:
        return _zoned(when, today, zone, language)

    template = environment().get_template(page.template)
    return template.render(
        document=document,
        page=page,
        visit=visit,
        t=visit.t,
        age=frame.age(visit, page.cluster),
        address=_address,
        languages=LANGUAGES,
        tab=frame.title(page.crumbs, document.title),
        minute=zoned,
        say=visit.t,
        zone=zone,
        **page.shown,
        **around,
    ).encode("utf-8", "replace")


def refused(visit: Visit, refusal: Refusal, form: str, around: Mapping[str, Any]) -> Answer:
    if form == JSON:
        return sent(visit, refusal.status, encoded(Said(refusal.text, refusal.cure)), TYPES[JSON])
    if form == HTML:
        template = environment().get_template("refusal.html")
        shown = template.render(
            refusal=refusal,
            visit=visit,
            t=visit.t,
            age=None,
            page=None,
            languages=LANGUAGES,
            tab=visit.t(refusal.title) + " · slurmscope",
            **around,
        )
        return sent(visit, refusal.status, shown.encode("utf-8", "replace"), TYPES[HTML])
    return sent(visit, refusal.status, f"{refusal.text} {refusal.cure}\n".encode("utf-8", "replace"), TYPES["text"])


def sent(visit: Visit, status: int, body: bytes, kind: str, headers: Headers | None = None) -> Answer:
    """Compressed where the reader can, and it is worth it."""
    more = list(HEADERS if headers is None else headers)
    if len(body) >= _LEAST and kind not in _SQUEEZED and accepts_gzip(visit.request.headers.get("accept-encoding", "")):
        squeeze = zlib.compressobj(1, wbits=31)
        body = squeeze.compress(body) + squeeze.flush()
        more.append((b"content-encoding", b"gzip"))
    return Answer(status, body, kind, more)
