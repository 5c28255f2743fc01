# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every page with and without JavaScript: nothing is missing without, and nothing is wrong with it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from web.browser.tabs import Tabs

pytestmark = pytest.mark.browser

SECTIONS = ["/", "/jobs", "/nodes", "/nodes?view=table", "/accounts", "/reports", "/health", "/settings", "/search?q=a"]


def things(page: Page) -> list[str]:
    """The page of a job, a person, a node and an account, as lists lead there."""
    found = []
    for path, kind in (
        ("/jobs", "jobs"),
        ("/jobs", "users"),
        ("/nodes?view=table", "nodes"),
        ("/accounts", "accounts"),
    ):
        page.goto(path)
        link = page.locator(f"main tbody a[href*='/{kind}/']").first.get_attribute("href")
        assert link is not None
        found.append(link)
    return found


def test_no_page_complains_with_javascript(tabs: Tabs) -> None:
    """Errors and what the content security policy forbids are heard by `tabs`."""
    page = tabs()
    for path in [*things(page), *SECTIONS]:
        answer = page.goto(path)
        assert answer is not None and answer.status == 200, path
        expect(page.locator("h1").first).to_be_visible()
        assert page.locator("body").get_attribute("data-words")


def test_without_javascript_all_is_there(tabs: Tabs) -> None:
    plain, lively = tabs(java_script_enabled=False), tabs()
    lively.route("**/events", lambda route: route.abort())
    tabs.expected.append("/events")
    for path in [*things(plain), *SECTIONS]:
        answer = plain.goto(path)
        assert answer is not None and answer.status == 200, path
        assert plain.locator("[data-ours]").count() == 0
        lively.goto(path)
        count = "main :is(section, table, svg, form, details, h2)"
        ours = lively.locator("main [data-ours]:is(form, svg), main [data-ours] :is(form, svg)").count()
        assert abs(plain.locator(count).count() - lively.locator(count).count() + ours) <= 2, path


def test_without_javascript_lists_are_filtered_by_their_form(tabs: Tabs) -> None:
    page = tabs(java_script_enabled=False)
    page.goto("/jobs")
    page.locator("details.more > summary").click()
    page.locator("form.fields input[name=state][value=running]").check()
    page.locator("form.fields button").click()
    assert "state=running" in page.url
    assert page.locator(".state.run").count() == page.locator(".jobs tbody tr").count() > 0
    page.locator(".chip a").last.click()
    assert page.locator(".jobs tbody tr").count() > 0


def test_without_javascript_charts_are_pictures(tabs: Tabs) -> None:
    page = tabs(java_script_enabled=False)
    page.goto("/")
    assert page.locator("svg.chart g.lines path").count() > 0
    assert page.locator("svg.chart > title").count() == page.locator("svg.chart").count()
