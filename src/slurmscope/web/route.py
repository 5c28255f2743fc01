# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A row of the table of addresses, and how one is found in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from slurmscope.web.page import Elsewhere, Page, Raw
    from slurmscope.web.visit import Visit

HTML, JSON, CSV, PDF = "html", "json", "csv", "pdf"
SUFFIXES = (JSON, CSV, PDF)
"""What may stand behind the last dot of an address, and says in which form the answer is wanted."""
RAW = "raw"
"""Of an address that has one form only, which is the view's own."""
GET, POST = "GET", "POST"
API = ("api", "v1")
"""How the addresses of the API begin: behind it stands that of a page, and the answer is its JSON."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paths: tuple[str, ...]  # "/clusters/{cluster}/jobs": what is in braces is a field of `asked`
    asked: type[msgspec.Struct]
    view: Callable[[Visit, Any], Page | Elsewhere | Raw]
    about: str  # what it tells, in a sentence
    forms: tuple[str, ...] = (HTML, JSON, CSV)
    method: str = GET
    open: bool = False  # for those, too, who have not signed in
    long: bool = False  # to make it, or to wait for it, takes much longer than a page does
    section: str = ""  # which of the bar at the left it belongs to
    shape: Any = None  # the type of its JSON, where that is not a page's


class Found(msgspec.Struct, frozen=True):
    route: Route
    params: dict[str, str]
    form: str
    api: bool = False

    @property
    def long(self) -> bool:
        """A PDF always takes longer, and so may all rows of that of which a page shows the first."""
        return self.route.long or self.form in (PDF, CSV)


class Routes:
    def __init__(self, routes: Sequence[Route]) -> None:
        self.all = tuple(routes)
        self._rows = [(_segments(path), route) for route in routes for path in route.paths]
        # what is said exactly comes before what may be anything
        self._rows.sort(key=lambda row: [one.startswith("{") for one in row[0]])

    def find(self, method: str, segments: Sequence[str], suffix: str) -> Found | None:
        """`suffix` is what says the form, where the address ends so."""
        if tuple(segments[: len(API)]) == API:
            return self._at(method, segments[len(API) :], JSON, api=True)
        plain = self._at(method, segments, HTML) or self._at(method, segments, RAW)
        return self._suffixed(method, segments, suffix) or plain

    def _suffixed(self, method: str, segments: Sequence[str], suffix: str) -> Found | None:
        last = segments[-1].removesuffix(f".{suffix}") if suffix else ""
        if not last:
            return None
        # the first page has no name of its own
        inner = segments[:-1] if (*segments[:-1], last) == ("index",) else [*segments[:-1], last]
        return self._at(method, inner, suffix)

    def _at(self, method: str, segments: Sequence[str], form: str, *, api: bool = False) -> Found | None:
        for pattern, route in self._rows:
            if route.method == method and form in route.forms and len(pattern) == len(segments):
                params = _params(pattern, segments)
                if params is not None:
                    return Found(route, params, form, api)
        return None

    def methods(self, segments: Sequence[str], suffix: str) -> list[str]:
        """Those by which something is found there."""
        return [one for one in (GET, POST) if self.find(one, segments, suffix) is not None]


def _segments(path: str) -> tuple[str, ...]:
    return tuple(one for one in path.split("/") if one)


def _params(pattern: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    found = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            found[expected[1:-1]] = given
        elif expected != given:
            return None
    return found
