# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every filter, order and page of a list, by what is on the page alone: with JavaScript and without."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from web.browser.tabs import Tabs

from slurmscope.findings.catalogue import catalogue
from slurmscope.web.pages.jobs import SORTS, JobsAsked
from slurmscope.web.pages.nodes import NodesAsked
from slurmscope.web.states import GROUPS

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("scripts", [True, False], ids=["javascript", "plain"])]

WORDS = ("user", "account", "partition", "qos", "node", "gpu", "name", "finding")


@pytest.fixture
def page(tabs: Tabs, scripts: bool) -> Page:
    """Nothing changes on it by itself: what it shows is compared with what is told a little later."""
    page = tabs(java_script_enabled=scripts)
    page.route("**/events", lambda route: route.abort())
    tabs.expected.append("/events")
    return page


def told(page: Page) -> Any:
    """What the page that is open tells programs."""
    address = urlsplit(page.url)
    return page.request.get(f"{address.path}.json?{address.query}").json()


def open_form(page: Page) -> None:
    page.locator("details.more > summary").click()


def send(page: Page) -> None:
    page.locator("form.fields button").click()
    page.wait_for_load_state()


def numbers(page: Page) -> list[int]:
    return [int(one) for one in re.findall(r'href="[^"]*/jobs/(\d+)', page.locator(".jobs tbody").inner_html())]


def agreed(page: Page) -> list[Any]:
    """The jobs that the page shows and tells programs of; a poll between the two is waited out."""
    for _ in range(20):
        rows: list[Any] = told(page)["jobs"]
        if [one["id"] for one in rows] == numbers(page):
            return rows
        page.reload()
    raise AssertionError(f"{page.url} shows others than it tells of")


def test_every_field_of_jobs_is_in_the_form(page: Page) -> None:
    page.goto("/jobs")
    names = {one.get_attribute("name") for one in page.locator("form.fields :is(input, select)").all()}
    # the cluster is in the address, and pages have their links
    assert names == set(JobsAsked.__struct_fields__) - {"cluster", "after", "page"}


def judged(page: Page) -> Any:
    """One with GPUs, on one node, in which something was found. The demo judges its past after it has started."""
    for _ in range(120):
        for rule in catalogue():
            asked = f"/jobs.json?state=completed&arrays=each&time=30d&finding={rule}"
            for one in page.request.get(asked).json()["jobs"]:
                if one["gpus"] and one["qos"] and one["nodes"] == 1:
                    return one
        time.sleep(1)
    raise AssertionError("the demo has judged no such job")


def test_every_word_of_jobs(page: Page) -> None:
    """By a job of which all of them are known."""
    page.goto("/jobs")
    job = judged(page)
    values = {name: job[name] for name in ("user", "account", "partition", "qos", "name")}
    values |= {"gpu": next(iter(job["gpus"])), "finding": job["findings"][0], "node": job["node_list"]}
    assert set(values) == set(WORDS)
    for name, value in values.items():
        page.goto("/jobs?time=30d&arrays=each")
        open_form(page)
        page.locator(f"form.fields input[name={name}]").fill(value)
        send(page)
        assert parse_qs(urlsplit(page.url).query)[name] == [value]
        chip = page.locator(".chip", has_text=value)
        expect(chip).to_have_count(1)
        found = agreed(page)
        assert found, name
        if name == "name":
            assert all(value.lower() in one["name"].lower() for one in found)
        elif name in ("user", "account", "partition", "qos"):
            assert {one[name] for one in found} == {value}
        chip.locator("a").click()
        page.wait_for_load_state()
        # without a word for it, the list would be one's own
        assert parse_qs(urlsplit(page.url).query).get(name) == (["*"] if name == "user" else None)


def test_every_group_of_states(page: Page) -> None:
    for group in GROUPS:
        page.goto("/jobs?time=30d&arrays=each")
        open_form(page)
        page.locator(f"form.fields input[name=state][value={group}]").check()
        send(page)
        found = {one["state"] for one in told(page)["jobs"]}
        assert found and found <= set(GROUPS[group]), group


def test_every_order(page: Page) -> None:
    for name in SORTS:
        for ascending in ("true", "false"):
            page.goto("/jobs?state=completed&arrays=each&time=7d")
            open_form(page)
            page.locator("form.fields select[name=sort]").select_option(name)
            page.locator("form.fields select[name=ascending]").select_option(ascending)
            send(page)
            values = [order(name, one) for one in agreed(page)]
            assert values, name
            assert values == sorted(values, reverse=ascending == "false"), (name, ascending)


def order(name: str, job: Any) -> float:
    times = {"submitted": "submit_time", "started": "start_time", "ended": "end_time"}
    if name in times:
        return float(job[times[name]])
    if name == "waited":
        return float(job["start_time"] - max(job["submit_time"], job["eligible_time"] or 0))
    if name == "ran":
        return float(job["end_time"] - job["start_time"])
    if name == "gpus":
        return float(sum(job["gpus"].values()))
    return float(job[name])


def test_pages(page: Page) -> None:
    seen: list[int] = []
    page.goto("/jobs?state=completed")
    first = numbers(page)
    for _ in range(3):
        seen += numbers(page)
        page.locator(".pager a[rel=next]").click()
        page.wait_for_load_state()
    assert len(seen) == len(set(seen)) == 3 * len(first)
    page.locator(".pager a:not([rel=next])").first.click()
    page.wait_for_load_state()
    assert "after=" not in page.url and first[0] in numbers(page)  # newer ones may have come meanwhile


def test_columns(page: Page) -> None:
    page.goto("/jobs")
    open_form(page)
    boxes = page.locator("form.fields input[name=columns]")
    names = [str(one.get_attribute("value")) for one in boxes.all()]
    for one in boxes.all():
        one.check()
    send(page)
    assert page.locator(".jobs thead th").count() == len(names)
    open_form(page)
    for one in boxes.all():
        if one.get_attribute("value") not in ("job", "state"):
            one.uncheck()
    send(page)
    assert page.locator(".jobs thead th").all_inner_texts() == ["job", "state"]


def test_every_choice_of_nodes(page: Page) -> None:
    page.goto("/nodes?view=table")
    fields = {str(one.get_attribute("name")) for one in page.locator("form.fields :is(input, select)").all()}
    assert fields == set(NodesAsked.__struct_fields__) - {"cluster", "group", "page"}
    for name in ("partition", "gpu", "feature"):
        page.goto("/nodes?view=table")
        open_form(page)
        choice = page.locator(f"form.fields select[name={name}]")
        value = choice.locator("option").nth(1).get_attribute("value")
        assert value
        choice.select_option(value)
        send(page)
        expect(page.locator(f"form.fields select[name={name}]")).to_have_value(value)
        assert len(told(page)["nodes"]) > 0
        assert told(page)["nodes"] != page.request.get("/nodes.json").json()["nodes"]
    for state in ("up", "drained"):
        page.goto("/nodes?view=table")
        open_form(page)
        page.locator(f"form.fields input[name=state][value={state}]").check()
        send(page)
        assert f"state={state}" in page.url
        assert page.locator(".nodes tbody tr").count() > 0, state


@pytest.mark.parametrize("path", ["/clusters/{cluster}/accounts", "/clusters/{cluster}/accounts/{account}"])
def test_accounts(page: Page, things: dict[str, str], path: str) -> None:
    """Levels, people and periods."""
    page.goto(path.format(**things))
    links = [str(one.get_attribute("href")) for one in page.locator(".periods a").all()]
    for link in links:
        page.goto(link)
        assert page.locator(".periods a[aria-current]").count() == 1
    for depth in [
        str(one.get_attribute("value") or one.inner_text()) for one in page.locator("[name=depth] option").all()
    ]:
        page.goto(path.format(**things))
        page.locator("select[name=depth]").select_option(depth)
        page.locator("input[name=people]").check()
        page.locator("form.chips button").click()
        page.wait_for_load_state()
        expect(page.locator("select[name=depth]")).to_have_value(depth)
        expect(page.locator("input[name=people]")).to_be_checked()


def test_a_report_of_any_days(page: Page) -> None:
    page.goto("/reports")
    form = page.locator("form.fields").first
    today = str(form.locator("input[name=since]").get_attribute("max"))
    form.locator("input[name=since]").fill(today)
    form.locator("button").click()
    page.wait_for_load_state()
    assert page.locator("main h1").count() == 1 and today in page.url


def test_what_is_searched_for_is_found(page: Page, things: dict[str, str]) -> None:
    for name in ("job", "user", "node", "account"):
        page.goto("/")
        page.locator(".search input").fill(things[name])
        page.locator(".search input").press("Enter")
        # what is the only one by that name is opened at once
        page.wait_for_url(lambda url: urlsplit(url).path != "/")
        expect(page.locator("main")).to_contain_text(things[name])
