# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is there to be copied, lists that are narrowed, the reader's zone, the search by a key."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from web.browser.tabs import Tabs

pytestmark = pytest.mark.browser


def job_with_changes(page: Page) -> None:
    """Opens the newest job that ended and is told what to change."""
    page.goto("/jobs?state=completed&time=7d")
    links = [one.get_attribute("href") for one in page.locator("tbody tr a[href*='/jobs/']").all()]
    for link in links:
        text = page.request.get(str(link)).text()
        if '<div class="changes">' in text and "<del>" in text:
            page.goto(str(link))
            return
    pytest.fail("no job of the demo is told what to change")


def test_only_lines_to_paste_are_copied(tabs: Tabs) -> None:
    page = tabs(permissions=["clipboard-read", "clipboard-write"])
    job_with_changes(page)
    changes = page.locator(".changes pre").first
    new, gone = changes.locator("ins").all_inner_texts(), changes.locator("del").all_inner_texts()
    button = page.locator(".changes button.copying").first
    button.click()
    expect(button).to_have_text("Copied")
    expect(page.locator("#said")).to_have_text("Copied")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(lines) == len(new)
    for line, value in zip(lines, new, strict=True):
        assert re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line)
        assert line.endswith(value)
    assert gone and not any(line.endswith(f"={one}") for line in lines for one in set(gone) - set(new))


def test_copied_by_plain_http_too(tabs: Tabs) -> None:
    """Where a browser gives pages no clipboard."""
    page = tabs(permissions=["clipboard-read"])
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    job_with_changes(page)
    button = page.locator(".changes button.copying").first
    button.click()
    expect(button).to_have_text("Copied")
    assert page.locator("textarea").count() == 0


@pytest.mark.parametrize("path", ["/jobs", "/nodes?view=table"])
def test_rows_are_narrowed_as_somebody_types(tabs: Tabs, path: str) -> None:
    page = tabs()
    page.route("**/events", lambda route: route.abort())
    tabs.expected.append("/events")
    page.goto(path)
    rows, field = page.locator("tbody tr"), page.locator("form.narrowing input")
    field.wait_for()
    texts = [text.lower() for text in page.locator(":is(.jobs, .nodes) tbody tr").all_text_contents()]
    word = next(word for text in reversed(texts) for word in re.findall(r"[a-z_]{4,}\d+", text))
    field.press_sequentially(word.upper()[:-1] + " " + word[:2])
    wanted = [text for text in texts if word[:-1] in text]
    assert 0 < len(wanted) < len(texts)
    expect(page.locator("form.narrowing output")).to_have_text(f"{len(wanted)} of {len(texts)} shown")
    shown = [
        one.lower()
        for one in rows.locator("visible=true").locator("xpath=.").all_text_contents()
        if one.lower() in texts
    ]
    assert shown == wanted
    field.fill("")
    expect(page.locator("form.narrowing output")).to_be_empty()
    assert page.locator("[data-out]").count() == 0


def test_enter_asks_the_server_for_all_of_that_name(tabs: Tabs) -> None:
    page = tabs()
    page.goto("/jobs?state=completed")
    name = page.locator(".jobs tbody tr td[data-title=name]").first.inner_text().split()[0]
    page.locator("form.narrowing input").fill(name)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert f"name={name}" in page.url and "state=completed" in page.url
    expect(page.locator(".chip", has_text=name)).to_be_visible()


def test_the_first_visit_learns_the_readers_zone_without_a_new_page(tabs: Tabs) -> None:
    page = tabs(timezone_id="Australia/Adelaide")
    page.add_init_script("sessionStorage.loads = Number(sessionStorage.loads || 0) + 1")
    page.goto("/jobs?state=completed&columns=job&columns=ended")
    times = page.locator("tbody time")
    expect(times.first).to_contain_text(re.compile(r"\+(09|10):30"))
    assert page.evaluate("sessionStorage.loads") == "1", "it was loaded anew"
    cookies = {one.get("name"): one for one in page.context.cookies()}
    assert cookies["zone"].get("value") == "Australia%2FAdelaide"
    assert cookies["zone"].get("sameSite") == "Lax"
    assert re.search(r"UTC$", times.first.get_attribute("title") or "")


def test_who_has_chosen_a_zone_keeps_it(tabs: Tabs, demo: str) -> None:
    page = tabs(timezone_id="Asia/Kolkata")
    page.context.add_cookies([{"name": "zone", "value": "America%2FToronto", "url": demo}])
    page.goto("/jobs?state=completed&columns=job&columns=ended")
    expect(page.locator("tbody time").first).to_contain_text(re.compile("-0[45]:00"))
    page.locator("form.narrowing").wait_for()
    assert {one.get("value") for one in page.context.cookies() if one.get("name") == "zone"} == {"America%2FToronto"}


def test_a_key_leads_to_the_search_and_another_out_of_it(tabs: Tabs) -> None:
    page = tabs()
    page.goto("/jobs")
    page.locator("form.narrowing").wait_for()  # the script is there
    search = page.locator(".search input")
    page.keyboard.press("/")
    expect(search).to_be_focused()
    assert search.input_value() == ""
    page.keyboard.type("a/b")
    assert search.input_value() == "a/b", "within a field it is a letter"
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
    field = page.locator("form.narrowing input")
    field.focus()
    page.keyboard.press("/")
    expect(field).to_have_value("/")


def test_all_of_it_speaks_french(tabs: Tabs, demo: str) -> None:
    page = tabs(locale="fr-FR")
    page.goto("/jobs")
    expect(page.locator("form.narrowing input")).to_have_attribute("placeholder", "Restreindre ce qui est affiché")
