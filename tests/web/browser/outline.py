# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a page consists of, apart from how it looks: headings, tables, links, forms, pictures and words."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta"}
_UNSEEN = {"title", "script", "style"}
_UNREAD = {*_UNSEEN, "option", "datalist"}
"""What stands in these is no part of a sentence around it."""


@dataclass
class Form:
    fields: list[str] = field(default_factory=list)  # the words before or beside each
    buttons: list[str] = field(default_factory=list)


@dataclass
class Grid:
    """A table."""

    titles: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    mute: list[str] = field(default_factory=list)  # what stands in a cell that has a picture and no words


class Outline(HTMLParser):
    """Of one page; `page` is its HTML."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.headings: list[tuple[int, str]] = []
        self.grids: list[Grid] = []
        self.links: list[str] = []  # the words of each, but for those in pictures
        self.forms: list[Form] = []
        self.pictures: list[str] = []  # what each says of itself
        self.words: set[str] = set()
        self._items = 0
        self._drawn = False  # something is drawn in the cell
        self._open: list[str] = []
        self._heard: list[list[str]] = []  # of each that is open, its words
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "input":
            self.words.update(given.get("value", "").split())
        if tag == "li":
            self._items += 1
            self.words.add(str(self._items))  # which a browser puts before it
        if tag == "svg":
            self._drawn = True
        if tag in ("td", "th"):
            self._drawn = False
        if tag == "svg" and given.get("aria-hidden") != "true":
            self.pictures.append(given.get("aria-label", ""))
        if tag == "table":
            self.grids.append(Grid())
        if tag == "tr" and "tbody" in self._open:
            self.grids[-1].rows.append([])
        if tag == "form":
            self.forms.append(Form())
        if tag in ("input", "select") and given.get("type") != "hidden" and "form" in self._open:
            # a search field's name is its button's, and what is ticked has its words behind it
            named = "label" in self._open or "search" in (given.get("type"), *self._open)
            self.forms[-1].fields.append(given.get("name", "") if named else "")
        if tag not in _EMPTY:
            self._open.append(tag)
            self._heard.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Only in pictures; it has no words."""

    def handle_data(self, data: str) -> None:
        if not _UNSEEN & set(self._open):
            self.words.update(data.split())
        for at, tag in enumerate(self._open):
            if tag not in _UNREAD:
                self._heard[at].append(data)

    def unknown_decl(self, data: str) -> None:
        """Of a picture, what is only drawn."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open:
            closed, said = self._open.pop(), " ".join("".join(self._heard.pop()).split())
            self._closed(closed, said)
            if closed == tag:
                return

    def _closed(self, tag: str, said: str) -> None:
        drawn = "svg" in self._open
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append((int(tag[1]), said))
        elif tag == "a" and not drawn:
            self.links.append(said)
        elif tag == "button" and "form" in self._open:
            self.forms[-1].buttons.append(said)
        elif tag == "th" and "thead" in self._open:
            self.grids[-1].titles.append(said)
        elif tag in ("th", "td") and self.grids and self.grids[-1].rows:
            self.grids[-1].rows[-1].append(said)
            if self._drawn and not said:
                self.grids[-1].mute.append(", ".join(self.grids[-1].rows[-1]))
        elif tag == "desc" and self.pictures:
            self.pictures[-1] += f" {said}"
