# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every page of the table of addresses in a browser of text, as somebody reads it over ssh."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from web import town
from web.browser.outline import Outline
from web.running import running

from slurmscope.web.route import GET, HTML
from slurmscope.web.shares import Shares
from slurmscope.web.table import ROUTES

WIDTH = 100
PATHS = [path for route in ROUTES if route.method == GET and HTML in route.forms for path in route.paths]
SIGNED = ("/settings", "/sign-in", "/shared/{token}")
"""Of a site where people sign in they have more."""
ELSEWHERE = ("/sign-in/begin", "/sign-in/oidc")
"""These only lead to other pages."""
MORE = ["/nodes?view=table", "/search?q=a", "/jobs?state=failed&time=all", "/clusters/{cluster}/jobs/{waiting}"]


@pytest.fixture
def reader(w3m: str, tmp_path: Path) -> Reader:
    return Reader(w3m, tmp_path)


class Reader:
    """Somebody with a terminal."""

    def __init__(self, w3m: str, home: Path) -> None:
        self._command = [w3m, "-I", "UTF-8", "-O", "UTF-8"]
        self._home = home

    def fetched(self, url: str, header: str = "") -> str:
        """The page as it came."""
        return self._said(*(["-header", header] if header else []), "-dump_source", url)

    def shown(self, page: str, columns: int = WIDTH) -> str:
        return self._said("-dump", "-cols", str(columns), "-T", "text/html", given=page)

    def _said(self, *arguments: str, given: str = "") -> str:
        command, environment = [*self._command, *arguments], {"HOME": str(self._home)}
        ended = subprocess.run(
            command, input=given.encode(), env=environment, capture_output=True, timeout=60, check=True
        )
        return ended.stdout.decode()


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The town, where people sign in: its address, and a link to a job."""
    with town.opened(tmp_path_factory.mktemp("signed")) as portal, running(portal) as url:
        shares = Shares(portal.site.settings)
        token = shares.token(town.CLUSTER, town.HER_JOB, town.NOW - 9000, town.ALICE, 1, town.NOW)
        yield {"url": url, "token": token}


def flat(words: str) -> str:
    return " ".join(words.split())


def faults(reader: Reader, page: str) -> list[str]:
    """What reads badly in it."""
    outline, text = Outline(page), reader.shown(page)
    found = [*unordered(outline, text), *unlabelled(outline), *glued(outline, text)]
    # where all of its columns have room
    found += ragged(outline, reader.shown(page, 400))
    if re.search(r"\n[ \t]*\n[ \t]*\n[ \t]*\n", text):
        found.append("several empty lines")
    found += [f"left over: {one}" for one in ("[svg]", "\ufffd", "CDATA", "]]>") if one in text]
    for about in outline.pictures:
        numbers = [one.rstrip(",.") for one in re.findall(r"\d[\d,.]*", about)]
        found += [f"only drawn: {one}, of {about!r}" for one in numbers if one not in flat(text)][:1]
    return found


def unordered(outline: Outline, text: str) -> Iterator[str]:
    """The sentence that opens it comes at once, and headings as they are numbered."""
    title = outline.headings[0][1] if outline.headings else ""
    opening = flat("\n".join([line for line in text.splitlines() if line.strip()][:8]))
    if not title or title not in opening:
        yield f"does not open with {title!r}: {opening!r}"
    levels = [level for level, _ in outline.headings]
    if levels[:1] != [1] or 1 in levels[1:] or any(after > before + 1 for before, after in pairwise(levels)):
        yield f"headings are not in order: {levels}"
    at, whole = 0, flat(text)
    for _, said in outline.headings:
        at = whole.find(said, at)
        if at < 0:
            yield f"the heading {said!r} is not where it should be"
            return


def unlabelled(outline: Outline) -> Iterator[str]:
    if not all(outline.links):
        yield "a link without words"
    for form in outline.forms:
        if not form.buttons or not all(form.buttons):
            yield f"a form without a button, of {form.fields}"
        if not all(form.fields):
            yield f"a field without a label, among {form.fields}"


def ragged(outline: Outline, text: str) -> Iterator[str]:
    """Tables whose columns are not known, or that have a hole where something is drawn."""
    for grid in outline.grids:
        if not re.search(r"\s+".join(re.escape(word) for title in grid.titles for word in title.split()), text):
            yield f"no line has all of {grid.titles}"
        # that of what its rows are of may be plain enough
        if not all(grid.titles[1:]):
            yield f"a column without a name, among {grid.titles}"
        yield from [f"only drawn: the last of {row}" for row in grid.mute[:1]]


def glued(outline: Outline, text: str) -> Iterator[str]:
    """Words that are none of the page's, but two of them without anything between."""
    words, ends = outline.words, "()[]{}.,;:/“”'\"–·×"
    # where there is no room a word is broken: nf-STAR_( and 72)
    parts = {part for one in words for part in re.split(r"\W", one)}
    for word in {one.strip(ends) for one in text.split()} - words - {one.strip(ends) for one in words} - parts:
        for at in range(1, len(word)):
            first, second = word[:at], word[at:]
            if first[-1].isalnum() and second[0].isalnum() and first in words and second in words:
                yield f"glued: {first} and {second}"
                break


@pytest.mark.parametrize("path", [path for path in PATHS if path not in (*ELSEWHERE, "/shared/{token}")] + MORE)
def test_a_page_reads_well(demo: str, things: Mapping[str, str], reader: Reader, path: str) -> None:
    assert faults(reader, reader.fetched(demo + path.format(**things))) == []


@pytest.mark.parametrize("path", SIGNED)
def test_where_people_sign_in_pages_read_well(signed: dict[str, str], reader: Reader, path: str) -> None:
    page = reader.fetched(signed["url"] + path.format(**signed), f"X-Remote-User: {town.ALICE}")
    assert faults(reader, page) == []


def test_what_is_not_there_says_so_at_once(demo: str, reader: Reader) -> None:
    assert faults(reader, reader.fetched(f"{demo}/clusters/none")) == []


def test_charts_are_told_in_words(demo: str, things: Mapping[str, str], reader: Reader) -> None:
    """Without the numbers of their axes."""
    text = flat(reader.shown(reader.fetched(f"{demo}/clusters/{things['cluster']}")))
    day = r"\w{3} \d\d \w{3} \d\d:\d\d"
    assert re.search(
        rf"GPUs in use GPUs, {day} to {day} UTC; in use: \d+ to \d+[^;]*; there \d+\. Jobs that wait", text
    )


def test_a_node_is_a_mark_with_a_meaning(demo: str, reader: Reader) -> None:
    """A map without colours and edges."""
    text = flat(reader.shown(reader.fetched(f"{demo}/nodes")))
    assert re.search("[▁▂▃▄▅▆▇█·]{8}", text)
    for mark, meaning in (("·", "free"), ("▄", "half of its CPUs allocated"), ("█", "all allocated"), ("✕", "down")):
        assert f"{mark} {meaning}" in text
