# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Signing in by each way, sharing and signing out, in a real browser: with JavaScript and without."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from servers.process import free_port
from web import town
from web.browser import looks
from web.browser.tabs import Tabs, opened
from web.people import openid
from web.running import running

from slurmscope.settings import Mail, Settings
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Store as StoreSettings
from slurmscope.web.identity import Identity
from slurmscope.web.people.local import Local
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site
from slurmscope.web.table import ROUTES

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("scripts", [True, False], ids=["javascript", "plain"])]

PASSWORD = "correct horse battery"
Open = Callable[..., Tabs]


@pytest.fixture
def site(tmp_path: Path, browser: Browser) -> Iterator[Open]:
    """Opens the town to those who sign in as they are told to."""
    with ExitStack() as stack:

        def one(settings: PortalSettings, port: int = 0) -> Tabs:
            settled = town.settled(tmp_path)
            settled.close()
            mail = Mail(url=f"http://127.0.0.1:{port}" if port else "")
            found = Settings(portal=settings, store=StoreSettings(folder=str(tmp_path)), mail=mail)
            made = Site(found, f"sqlite:{tmp_path / 'slurmscope.db'}", settled.editions, time.time)
            identity = Identity(found, made)
            for name in (town.ALICE, town.BOB):
                Local(identity.ledger).add(name, PASSWORD, int(time.time()), "a test")
            portal = Portal(made, ROUTES, identity)
            stack.callback(portal.close)
            url = stack.enter_context(running(portal, port))
            return stack.enter_context(opened(browser, url))

        yield one


def mine(page: Page, name: str) -> None:
    """She is known, and sees her own."""
    expect(page.locator("header .me")).to_have_text(name)
    page.goto("/jobs?time=all")
    expect(page.locator("main")).to_contain_text("train")
    expect(page.locator("main")).not_to_contain_text("hushwork")


def sign_out(page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in**")
    # whoever comes after them finds nothing by going back
    page.go_back()
    assert urlsplit(page.url).path == "/sign-in"
    page.goto("/jobs")
    assert urlsplit(page.url).path == "/sign-in"


def with_password(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_with_a_password(site: Open, scripts: bool, theme: str) -> None:
    tabs = site(PortalSettings(sign_in=["local"]))
    page = tabs(java_script_enabled=scripts, color_scheme=theme, viewport={"width": 360, "height": 740})
    page.goto("/jobs?time=all")
    assert urlsplit(page.url).path == "/sign-in"
    if scripts:  # without them a page cannot be asked how it looks
        assert (looks.overflowing(page), looks.overlapping(page), looks.inaccessible(page)) == ([], [], [])
    looks.kept(page, f"doors/{theme}-360/sign-in")
    with_password(page, town.ALICE, "wrong wrong wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value(town.ALICE)
    looks.kept(page, f"doors/{theme}-360/sign-in-refused")
    with_password(page, town.ALICE)
    # where it was to go, and nowhere else
    assert page.url.endswith("/jobs?time=all")
    mine(page, town.ALICE)
    sign_out(page)


def test_whom_the_proxy_names(site: Open, scripts: bool) -> None:
    tabs = site(PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"]))
    page = tabs(java_script_enabled=scripts, extra_http_headers={"X-Remote-User": town.ALICE})
    page.goto("/")
    mine(page, town.ALICE)
    nobody = tabs(java_script_enabled=scripts)
    nobody.goto("/jobs")
    assert urlsplit(nobody.url).path == "/sign-in"
    expect(nobody.locator("main")).to_contain_text("Your site's own proxy says who you are")


def test_by_openid_with_a_provider_of_others(
    site: Open, scripts: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = free_port()
    provider = openid.OpenId(tmp_path_factory.mktemp("openid"), f"http://127.0.0.1:{port}")
    try:
        provider.start()
        settings = PortalSettings(
            sign_in=["oidc"],
            oidc_issuer=provider.issuer,
            oidc_client_id=openid.CLIENT,
            oidc_client_secret=openid.SECRET,
        )
        tabs = site(settings, port)
        tabs.expected.append(provider.relay.url)  # what its own pages lack is none of ours
        page = tabs(java_script_enabled=scripts)
        page.goto("/jobs?time=all")
        page.get_by_role("link", name="Sign in with your institution").click()
        page.wait_for_url(re.compile(re.escape(provider.relay.url)))
        page.locator("[name=username]").fill(openid.USER)
        page.locator("[name=password]").fill(openid.PASSWORD)
        page.locator("[type=submit]").click()
        page.wait_for_url("**/jobs?time=all")
        mine(page, openid.USER)
        sign_out(page)
    finally:
        provider.close()


def test_a_job_is_shared_by_a_link(site: Open, scripts: bool) -> None:
    tabs = site(PortalSettings(sign_in=["local"], share_days=7))
    hers = tabs(java_script_enabled=scripts)
    hers.goto("/sign-in")
    with_password(hers, town.ALICE)
    hers.goto(f"/clusters/{town.CLUSTER}/jobs/{town.HER_JOB}")
    hers.get_by_role("button", name="Share for 7 days").click()
    link = hers.locator("pre.copy").inner_text().strip()
    looks.kept(hers, "doors/light-1280/link")
    for theme in ("light", "dark"):
        theirs = tabs(java_script_enabled=scripts, color_scheme=theme)
        theirs.goto(link)
        expect(theirs.locator("main")).to_contain_text(str(town.HER_JOB))
        if scripts:
            assert (looks.overflowing(theirs), looks.overlapping(theirs), looks.inaccessible(theirs)) == ([], [], [])
        looks.kept(theirs, f"doors/{theme}-1280/shared")
        # that job alone
        theirs.goto(f"/clusters/{town.CLUSTER}/jobs/{town.HER_JOB}")
        assert urlsplit(theirs.url).path == "/sign-in"
    his = tabs(java_script_enabled=scripts)
    his.goto("/sign-in")
    with_password(his, town.BOB)
    tabs.expected.append("404")
    answer = his.goto(f"/clusters/{town.CLUSTER}/jobs/{town.HER_JOB}")
    assert answer is not None and answer.status == 404
    looks.kept(his, "doors/light-1280/not-his")


def test_tokens_are_made_and_revoked(site: Open, scripts: bool) -> None:
    tabs = site(PortalSettings(sign_in=["local"]))
    page = tabs(java_script_enabled=scripts)
    page.goto("/sign-in")
    with_password(page, town.ALICE)
    page.goto("/settings")
    form = page.locator("form[action='/settings/tokens']")
    form.locator("[name=label]").fill("plots")
    form.get_by_role("button").click()
    token = page.locator("pre.copy").inner_text().strip()
    program = tabs(extra_http_headers={"Authorization": f"Bearer {token}"})
    assert program.request.get("/jobs.json").status == 200
    page.goto("/settings")
    page.get_by_role("button", name="Revoke").click()
    page.wait_for_load_state()
    assert program.request.get("/jobs.json").status == 401
