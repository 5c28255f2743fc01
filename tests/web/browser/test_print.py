# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every page of the table of addresses on paper: A4, from a screen that is light and from one that is dark."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from web.browser import looks
from web.browser.tabs import Tabs

from slurmscope.web.pages.jobs import COLUMNS
from slurmscope.web.route import GET, HTML
from slurmscope.web.table import ROUTES

pytestmark = pytest.mark.browser

ELSEWHERE = ("/shared/{token}", "/sign-in/begin", "/sign-in/oidc")
"""Nobody signs in to the demo, or is sent a link; a job that is shared has the blocks of any job's page."""
PATHS = [path for route in ROUTES if route.method == GET and HTML in route.forms for path in route.paths]
CHOSEN = "/jobs?" + "&".join(f"columns={name}" for name in COLUMNS)
MORE = ["/nodes?view=table", CHOSEN, "/search?q=a", "/clusters/{cluster}/jobs/{waiting}"]
LISTS = ["/jobs", "/nodes?view=table"]
A4 = (794, 1123)  # in CSS's pixels
MARGIN = 38

PRESSED = "nav.side, input, select, button, form.fields, .chips, .sorts, .spans, .pager, .skip, details.more > summary"
_SEEN = """(selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility())
  .map((one) => one.outerHTML.slice(0, 120))"""
# What reaches beyond the paper, or is cut by what it stands in; a picture is scaled, and cuts nothing.
_CUT = """() => {
  const found = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const owner = node.parentElement;
    if (!node.data.trim() || owner.closest(".hidden, title, desc, script") || !owner.checkVisibility()) continue;
    range.selectNodeContents(node);
    const { right, left, width } = range.getBoundingClientRect();
    if (!width) continue;
    let edge = innerWidth;
    for (let one = owner; one && one !== document.body; one = one.parentElement)
      if (!one.closest("svg") && getComputedStyle(one).overflowX !== "visible")
        edge = Math.min(edge, one.getBoundingClientRect().right);
    if (right > edge + 1 || left < -1) found.push(node.data.trim().slice(0, 60));
  }
  return found;
}"""
_WHOLE = """() => [...document.querySelectorAll("main :is(tbody tr, figure, .verdict)")]
  .filter((one) => one.checkVisibility() && getComputedStyle(one).breakInside !== "avoid")
  .map((one) => one.outerHTML.slice(0, 120))"""
# Its words as they are printed, without those that are only heard
_WORDS = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const owner = node.parentElement;
    if (owner.closest(".hidden, svg, script") || !owner.checkVisibility()) continue;
    found.push(...node.data.split(/\\s+/));
  }
  return found.filter(Boolean);
}"""


@contextmanager
def opened(tabs: Tabs, path: str) -> Iterator[Page]:
    """As it is printed; it stays as it is, although the demo goes on."""
    page = tabs()
    page.route("**/events", lambda route: route.abort())
    tabs.expected.append("/events")
    answer = page.goto(path)
    assert answer is not None and answer.status == 200
    page.emulate_media(media="print")
    # long lists lie on their side
    width, height = sorted(A4, reverse=bool(page.locator(".jobs, .nodes").count()))
    page.set_viewport_size({"width": width - 2 * MARGIN, "height": height})
    yield page
    page.close()


def printed(page: Page, theme: Any = "light") -> bytes:
    page.emulate_media(media="print", color_scheme=theme)
    margin = dict.fromkeys(("top", "right", "bottom", "left"), f"{MARGIN}px")
    return page.pdf(format="A4", margin=margin, prefer_css_page_size=True)  # type: ignore[arg-type]


def text_of(pdftotext: str, pdf: bytes) -> str:
    """In the order in which it was written; pages end with a form feed."""
    ended = subprocess.run([pdftotext, "-raw", "-", "-"], input=pdf, capture_output=True, check=True)
    return ended.stdout.decode()


def drawn(pdf: bytes) -> bytes:
    """Without the times at which it was made."""
    return re.sub(rb"/(CreationDate|ModDate) ?\(.*?\)", b"", pdf)


def shades(pdf: bytes, folder: Path) -> bytes:
    """The first page's pixels, in grey: 0 is black."""
    (folder / "page.pdf").write_bytes(pdf)
    subprocess.run(["pdftoppm", "-gray", "-r", "50", "-singlefile", "page.pdf", "page"], cwd=folder, check=True)
    _, size, _, pixels = (folder / "page.pgm").read_bytes().split(b"\n", 3)
    width, height = map(int, size.split())
    assert len(pixels) == width * height
    return pixels


def kept(pdf: bytes, path: str) -> None:
    name = re.sub(r"\W+", "-", path).strip("-")[:60] or "home"
    place = looks.PICTURES.parent / "printed" / f"{name}.pdf"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(pdf)


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ELSEWHERE] + MORE)
def test_a_page_prints_well(tabs: Tabs, demo: str, things: Mapping[str, str], pdftotext: str, path: str) -> None:
    address = path.format(**things)
    with opened(tabs, address) as page:
        assert page.evaluate(_SEEN, PRESSED) == []
        assert page.evaluate(_CUT) == []
        assert page.evaluate(_WHOLE) == []
        words = page.evaluate(_WORDS)
        light, dark = printed(page), printed(page, "dark")
    kept(light, path)
    assert drawn(light) == drawn(dark), "paper is as white for who has a dark screen"
    text = "".join(text_of(pdftotext, light).split())
    assert [word for word in words if word not in text] == []
    assert f"{demo}{address}" in text
    assert re.search(r"Dataof\d{4}-\d\d-\d\d\d\d:\d\d:\d\dUTC", text)


def test_who_has_chosen_the_dark_theme_prints_on_white(tabs: Tabs, tmp_path: Path, pdftotext: str) -> None:
    with opened(tabs, "/settings") as page:
        page.emulate_media(media="screen")
        page.locator("select[name=theme]").select_option("dark")
        page.locator("form.fields button").first.click()
        page.goto("/")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        pixels = shades(printed(page), tmp_path)
    assert min(pixels) < 90, "its text is dark"
    assert pixels[0] == pixels[-1] == 255
    assert sum(one > 200 for one in pixels) > 0.75 * len(pixels)


@pytest.mark.parametrize("path", LISTS)
def test_a_long_list_has_its_columns_names_on_every_sheet(tabs: Tabs, pdftotext: str, path: str) -> None:
    with opened(tabs, path) as page:
        titles = page.locator("main table").first.locator("thead th").all_inner_texts()
        row = page.locator("main table").first.locator("tbody tr").first.inner_text().split()
        sheets = text_of(pdftotext, printed(page)).split("\f")[:-1]
    assert len(sheets) > 1
    flat = ["".join(sheet.split()) for sheet in sheets]
    first = next(at for at, sheet in enumerate(flat) if all(word in sheet for word in row))
    assert "".join(" ".join(titles).split()) in flat[first + 1]
