# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Pages stay as new as the data, and what somebody does on them stays too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect
from web.browser.tabs import Tabs

pytestmark = pytest.mark.browser

REFRESHED = """() => new Promise((done) => {
  document.addEventListener("portal:changed", () => done(true), {once: true});
  document.dispatchEvent(new Event("portal:refresh"));
})"""
# which elements of the page are touched, as long as it is watched
WATCH = """() => {
  window.touched = [];
  const note = ({target}) => {
    const element = target.nodeType === 1 ? target : target.parentElement;
    const ours = element.closest("[data-ours]");
    if (!ours) window.touched.push(element.closest("tr")?.rowIndex ?? element.tagName);
  };
  new MutationObserver((all) => all.forEach(note)).observe(
    document.querySelector("main"), {subtree: true, childList: true, attributes: true, characterData: true});
}"""
COUNT = """() => {
  let times = 0;
  const count = () => { document.documentElement.dataset.times = Math.min(3, times += 1); };
  document.addEventListener("portal:changed", count);
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
JOBS = "/jobs?state=completed"
ROW = re.compile(r'<tr role="row"[^>]*><(?!th scope="col").*?</tr>', re.S)


class Told:
    """A page that is told what a test wants, and asks for it when the test says so."""

    def __init__(self, page: Page, path: str) -> None:
        self.page = page
        self.body = ""
        page.clock.install()  # its own clock stands still, but for what the test lets pass
        page.route("**/events", lambda route: route.abort())
        page.route(f"**{path}", self._answer)
        page.goto(path)
        page.locator("form.narrowing").first.wait_for()

    def _answer(self, route: Route) -> None:
        if not self.body:
            found = route.fetch()
            self.body = found.text()
            self.headers = found.headers
        route.fulfill(status=200, body=self.body, content_type="text/html; charset=utf-8")

    def change(self, change: Callable[[str], str]) -> None:
        before = self.body
        self.body = change(before)
        assert self.body != before
        self.refresh()

    def refresh(self) -> None:
        assert self.page.evaluate(REFRESHED)


@pytest.fixture
def told(tabs: Tabs) -> Told:
    tabs.expected.append("/events")
    page = tabs()
    return Told(page, JOBS)


def without_row(body: str, at: int) -> str:
    rows = ROW.findall(body)
    return body.replace(rows[at], "")


def with_row_on_top(body: str) -> str:
    first = ROW.findall(body)[0]
    new = re.sub(r"/jobs/\d+\.\d+", "/jobs/1.1", first)
    return body.replace(first, f"{new}\n{first}")


def test_each_poll_brings_what_is_new(tabs: Tabs) -> None:
    page = tabs()
    page.add_init_script("sessionStorage.loads = Number(sessionStorage.loads || 0) + 1")
    with page.expect_request("**/events") as streamed:
        page.goto("/jobs")
    heard = streamed.value.response()
    assert heard is not None and heard.status == 200
    page.evaluate("document.querySelector('main').dataset.same = 'yes'")
    page.evaluate(COUNT)
    # by polls alone: the page's own clock does not look as often as polls come
    expect(page.locator("html")).to_have_attribute("data-times", "3")
    assert page.evaluate("document.querySelector('main').dataset.same") is None, "it was changed in its place"
    assert page.evaluate("sessionStorage.loads") == "1", "it was loaded anew"


def test_only_what_changed_is_touched(told: Told) -> None:
    page = told.page
    page.evaluate(WATCH)
    told.refresh()
    assert page.evaluate("window.touched") == [], "nothing is new"
    fifth = ROW.findall(told.body)[4]
    told.change(lambda body: body.replace(fifth, fifth.replace("completed", "well done")))
    assert set(page.evaluate("window.touched")) == {5}
    expect(page.locator("tbody tr").nth(4)).to_contain_text("well done")


def test_rows_that_come_and_go_leave_the_others_alone(told: Told) -> None:
    page = told.page
    page.evaluate("document.querySelectorAll('tbody tr').forEach((row, at) => { row.mine = at })")
    told.change(with_row_on_top)
    told.change(lambda body: without_row(body, 3))
    order = page.evaluate("[...document.querySelectorAll('tbody tr')].slice(0, 6).map((row) => row.mine ?? 'new')")
    assert order == ["new", 0, 1, 3, 4, 5]


def test_focus_scroll_what_is_open_and_what_is_typed_stay(told: Told) -> None:
    page = told.page
    page.locator("details.more > summary").click()
    field = page.locator("form.fields input[name=user]")
    field.fill("somebo")
    narrowing = page.locator("form.narrowing input")
    narrowing.fill("completed")
    link = page.locator("tbody tr a[href*='/jobs/']").nth(6)
    href = link.get_attribute("href")
    link.focus()
    before = page.evaluate("window.scrollY")
    told.change(with_row_on_top)
    assert page.evaluate("document.activeElement.getAttribute('href')") == href
    assert page.locator("details.more").get_attribute("open") is not None
    assert (field.input_value(), narrowing.input_value()) == ("somebo", "completed")
    assert abs(page.evaluate("window.scrollY") - before) < 80  # by a row that came above it, at most
    field.focus()
    told.change(lambda body: without_row(body, 0))
    assert page.evaluate("document.activeElement.name") == "user"
    assert field.input_value() == "somebo"


def test_what_somebody_has_marked_stays_marked(told: Told) -> None:
    page = told.page
    marked = page.evaluate(
        """() => {
          const cell = document.querySelectorAll("tbody tr")[2].cells[2];
          getSelection().selectAllChildren(cell);
          return getSelection().toString();
        }"""
    )
    assert marked
    told.change(lambda body: with_row_on_top(body.replace("completed", "finished")))
    assert page.evaluate("getSelection().toString()") == marked


def test_the_age_counts_up_and_is_spoken_only_when_it_becomes_old(told: Told, tabs: Tabs) -> None:
    tabs.expected.append(JOBS)
    page = told.page
    age, said = page.locator(".age"), page.locator("#said")
    seconds = int(age.get_attribute("data-seconds") or "")
    page.clock.run_for(5_000)
    expect(age).to_have_text(f"{seconds + 5} s old")
    expect(said).to_be_empty()
    page.route(f"**{JOBS}", lambda route: route.abort())  # the server is away
    page.clock.run_for(180_000)
    expect(age).to_have_class(re.compile("old"))
    expect(age).to_contain_text("3 min")
    expect(said).to_contain_text("2 min 0 s old")
    assert page.evaluate("[...document.querySelectorAll('[aria-live], [role=status]')].map((one) => one.id)") == [
        "said"
    ]


def test_where_streams_are_refused_the_page_looks_itself_but_not_while_nobody_sees_it(tabs: Tabs) -> None:
    tabs.expected.append("/events")
    page = tabs()
    page.clock.install()
    page.route("**/events", lambda route: route.fulfill(status=503, body="full"))
    page.goto(JOBS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith(JOBS) else None)
    page.clock.run_for(20_000)
    assert asked == []
    with page.expect_response(f"**{JOBS}"):
        page.clock.run_for(12_000)
    page.evaluate(HIDE, True)
    asked.clear()
    page.clock.run_for(120_000)
    assert asked == []
    with page.expect_response(f"**{JOBS}"):
        page.evaluate(HIDE, False)
        page.clock.run_for(5_000)


def test_who_does_not_look_holds_no_stream(tabs: Tabs) -> None:
    page = tabs()
    with page.expect_request("**/events") as first:
        page.goto("/jobs")
    with page.expect_event("requestfailed", lambda request: request == first.value):
        page.evaluate(HIDE, True)
    with page.expect_request("**/events"):
        page.evaluate(HIDE, False)


def test_who_was_signed_out_is_told(tabs: Tabs) -> None:
    tabs.expected += ["/events", "/sign-in"]
    page = tabs()
    page.route("**/events", lambda route: route.abort())
    page.goto(JOBS)
    page.route(f"**{JOBS}", lambda route: route.fulfill(status=303, headers={"location": "/sign-in"}))
    page.evaluate("document.dispatchEvent(new Event('portal:refresh'))")
    expect(page.locator(".age")).to_have_text("Signed out: load this page anew")
    expect(page.locator("tbody tr").first).to_be_visible()


def test_another_version_of_the_site_is_loaded_whole(told: Told) -> None:
    page = told.page
    told.body = re.sub(r"/static/[0-9a-f]{12}/portal.css", "/static/000000000000/portal.css", told.body)
    with page.expect_navigation():
        page.evaluate("document.dispatchEvent(new Event('portal:refresh'))")
    assert "000000000000" in page.content()
