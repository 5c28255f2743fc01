# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Charts tell their figures, and show a part of the time; by a pointer and by keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect
from web.browser.tabs import Tabs

pytestmark = pytest.mark.browser

ZONE = ZoneInfo("America/Toronto")


class Drawn:
    """The first chart of the overview."""

    def __init__(self, page: Page, demo: str) -> None:
        page.context.add_cookies([{"name": "zone", "value": "America%2FToronto", "url": demo}])
        page.route("**/events", lambda route: route.abort())
        with page.expect_response("**/charts.js"):
            page.goto("/")
        self.page = page
        self.figure: Locator = page.locator("figure", has=page.locator("svg[data-chart]")).first
        self.svg = self.figure.locator("svg[data-chart]")
        self.svg.scroll_into_view_if_needed()
        self.data: dict[str, Any] = json.loads(self.svg.get_attribute("data-chart") or "")
        self.tip = self.figure.locator(".tip")

    def x(self, at: float) -> tuple[float, float]:
        """Where on the screen a bucket's middle is, while all of the time is shown."""
        left, right, top, bottom = self.data["box"]
        start, end = self.data["ends"]
        box = self.svg.bounding_box()
        assert box is not None
        scale = box["width"] / float((self.svg.get_attribute("viewBox") or "").split()[2])
        when = self.data["times"][round(at)] + self.data["step"] / 2
        return (
            box["x"] + scale * (left + (right - left) * when / (end - start)),
            box["y"] + scale * (top + bottom) / 2,
        )

    def told(self, at: int) -> list[str]:
        """What must be said of a bucket: the reader's time, UTC, and each value."""
        when = self.data["ends"][0] + self.data["times"][at]
        local, world = datetime.fromtimestamp(when, ZONE), datetime.fromtimestamp(when, UTC)
        offset = local.strftime("%z")
        times = [f"{local:%a %d %b %H:%M} {offset[:3]}:{offset[3:]}", f"{world:%a %d %b %H:%M} UTC"]
        series = self.data["series"]
        found = [one["values"][at] for one in series]
        values = ["not measured" if one is None else f"{one:,.4g} {self.data['unit']}" for one in found]
        return times + [
            value if len(series) == 1 else f"{one['name']}: {value}" for one, value in zip(series, values, strict=True)
        ]

    def known(self, share: float) -> int:
        """A bucket about there of which everything is known, and that is written without an exponent."""
        near = range(round(share * len(self.data["times"])), len(self.data["times"]))
        return next(
            at
            for at in near
            if all(one["values"][at] is not None and one["values"][at] < 10_000 for one in self.data["series"])
        )

    def lines(self) -> str:
        return str(self.svg.locator("g.lines").inner_html() + self.svg.locator("g.times").inner_html())


@pytest.fixture
def drawn(tabs: Tabs, demo: str) -> Drawn:
    tabs.expected.append("/events")
    return Drawn(tabs(), demo)


def test_a_pointer_reads_off_values_and_times(drawn: Drawn) -> None:
    for share in (0.3, 0.8):
        at = drawn.known(share)
        drawn.page.mouse.move(*drawn.x(at))
        expect(drawn.tip).to_be_visible()
        assert drawn.tip.inner_text().splitlines() == drawn.told(at)
    drawn.page.mouse.move(0, 0)
    expect(drawn.tip).to_be_hidden()


def test_a_part_of_the_time_by_dragging_and_all_of_it_again(drawn: Drawn) -> None:
    before = drawn.lines()
    first, last = drawn.known(0.3), drawn.known(0.6)
    drawn.page.mouse.move(*drawn.x(first))
    drawn.page.mouse.down()
    drawn.page.mouse.move(*drawn.x((first + last) // 2))
    drawn.page.mouse.move(*drawn.x(last))
    drawn.page.mouse.up()
    expect(drawn.svg).to_have_attribute("data-zoomed", "")
    assert drawn.lines() != before
    # the left edge is now where the drag began
    left, right, *_ = drawn.data["box"]
    box = drawn.svg.bounding_box()
    assert box is not None
    scale = box["width"] / float((drawn.svg.get_attribute("viewBox") or "").split()[2])
    drawn.page.mouse.move(box["x"] + scale * left + 1, drawn.x(first)[1])
    assert drawn.tip.inner_text().splitlines() == drawn.told(first)
    drawn.page.mouse.move(box["x"] + scale * right - 1, drawn.x(first)[1])
    assert drawn.tip.inner_text().splitlines() == drawn.told(last)
    for path in drawn.svg.locator("g.lines path").all():
        across = path.bounding_box()
        assert across is not None
        assert across["x"] >= box["x"] + scale * left - 2
        assert across["x"] + across["width"] <= box["x"] + scale * right + 2
    drawn.figure.get_by_role("button", name="Whole time").click()
    assert drawn.lines() == before
    expect(drawn.figure.locator("button.all")).to_be_hidden()


def test_a_refresh_leaves_a_zoomed_chart_alone(drawn: Drawn) -> None:
    frame = drawn.figure.locator(".scroll")
    frame.focus()
    drawn.page.keyboard.press("+")
    zoomed = drawn.lines()
    drawn.page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("portal:changed", () => done(true), {once: true});
          document.dispatchEvent(new Event("portal:refresh"));
        })"""
    )
    assert drawn.lines() == zoomed
    drawn.page.keyboard.press("Escape")
    expect(drawn.svg).not_to_have_attribute("data-zoomed", "")


def test_keys_do_the_same_and_what_they_find_is_spoken(drawn: Drawn) -> None:
    page, said = drawn.page, drawn.page.locator("#said")
    before = drawn.lines()
    drawn.figure.locator(".scroll").focus()
    page.keyboard.press("Home")
    first = str(drawn.told(0)[0])
    expect(said).to_contain_text(first)
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text(drawn.told(1)[0])
    page.keyboard.press("Shift+ArrowRight")
    expect(said).to_contain_text(drawn.told(11)[0])
    page.keyboard.press("+")
    expect(drawn.svg).to_have_attribute("data-zoomed", "")
    page.keyboard.press("-")
    assert drawn.lines() == before
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    assert drawn.lines() == before
    expect(drawn.tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawn.tip).to_be_hidden()


@pytest.mark.parametrize("width", [360, 1280])
def test_what_is_told_stays_on_the_page(tabs: Tabs, demo: str, width: int) -> None:
    tabs.expected.append("/events")
    drawn = Drawn(tabs(viewport={"width": width, "height": 800}), demo)
    for share in (0.02, 0.95):
        drawn.figure.locator(".scroll").focus()
        drawn.page.mouse.move(*drawn.x(drawn.known(share)))
        box = drawn.tip.bounding_box()
        if box is not None:  # else it is beyond what is scrolled to
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
    assert drawn.page.evaluate("document.documentElement.scrollWidth") <= width


def test_only_pages_with_charts_load_what_moves_them(tabs: Tabs) -> None:
    page = tabs()
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto("/jobs")
    page.locator("form.narrowing").wait_for()
    assert any(one.endswith("/portal.js") for one in loaded)
    assert not any(one.endswith("/charts.js") for one in loaded)
