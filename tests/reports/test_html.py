# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Pages: whole, without anything to fetch or to run, and told apart without colour."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest
from reports import samples

from slurmscope.reports.document import Section
from slurmscope.reports.html import environment, html

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Says of a page which elements it has, and that each is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, (tag, self.getpos())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_a_page_is_whole_and_alone(name: str) -> None:
    page = html(samples.SAMPLES[name]())
    page.encode()
    found = Page(page)
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "a"}
    names = {name for _, attrs in found.elements for name in attrs}
    assert not names & {"src", "href", "style"} and not [name for name in names if name.startswith("on")]
    assert "url(" not in page and "@import" not in page
    assert len(found.of("main")) == len(found.of("header")) == len(found.of("footer")) == len(found.of("h1")) == 1


def test_tables_name_what_their_cells_are_of() -> None:
    found = Page(html(samples.job()))
    assert found.of("th") and all(one.get("scope") in ("col", "row") for one in found.of("th"))


def test_what_may_scroll_can_be_reached_with_keys_and_has_a_name() -> None:
    scrolls = [one for one in Page(html(samples.job())).of("div") if one.get("class") == "scroll"]
    assert len(scrolls) == 7 and all(one["tabindex"] == "0" and one["aria-label"] for one in scrolls)


def test_words_and_numbers_in_tables_stay_whole() -> None:
    page = html(samples.cluster())
    assert '<td role="cell" data-title="CPU time" class="num" align="right" nowrap>900,000 CPU-hours</td>' in page
    assert '<th scope="row" role="rowheader" class="long">rrg-a-long-name-of-an-account-00</th>' in page
    assert '<th scope="row" role="rowheader">def-account-01</th>' in page


def test_a_chart_that_has_all_of_the_page_is_drawn_wider() -> None:
    chart = samples.job().charts()[0]
    alone = (Section("One", (chart,)),)
    beside = (Section("One", (chart,), half=True), Section("Two", (chart,), half=True))
    for sections, width in ((alone, 800), (beside, 480), ((Section("Both", (chart, chart)),), 480)):
        page = html(msgspec.structs.replace(samples.job(), sections=sections))
        assert set(re.findall(r'class="chart" viewBox="0 0 (\d+)', page)) == {str(width)}
        assert ('class="wide"' in page) == (width == 800)


def test_levels_have_words_and_shapes() -> None:
    page = html(samples.job())
    for level, shape, word in (("note", "▲", "note"), ("bad", "✕", "bad"), ("fine", "✓", "fine")):
        assert f'<span class="level {level}">{shape} {word}</span>' in page
    # zero is an empty bar, and not known is none
    assert re.search(r'class="meter unknown"><svg[^>]*></svg>unknown', page)


def test_hostile_words_stay_words() -> None:
    page = html(samples.hostile())
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script" not in page
    assert "{{ 7 * 7 }}" in page and "\x1b" not in page and "\u202e" not in page and "\x00" not in page


def test_a_page_that_has_more_links_to_it() -> None:
    blocks = environment().get_template("_blocks.html").make_module()
    facts = samples.job().sections[3].blocks[0]
    linked = blocks.facts(facts, lambda link: f"/nodes/{link.split('/')[1]}?a=1&b=2")  # type: ignore[attr-defined]
    assert '<a href="/nodes/gn031?a=1&amp;b=2">gn031</a>' in linked
