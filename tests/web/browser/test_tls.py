# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""By TLS a real browser takes our cookies by the names that only this host may give them, and sends them back."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect
from web import sites, town
from web.browser.tabs import opened
from web.running import running

from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Serve
from slurmscope.web.identity import Identity
from slurmscope.web.people.local import Local
from slurmscope.web.portal import Portal
from slurmscope.web.table import ROUTES

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"
OURS = {"__Host-form", "__Host-session"}


@pytest.fixture
def tls(tmp_path: Path) -> Serve:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    line = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "1"]
    subprocess.run([*line, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return Serve(tls_cert=str(cert), tls_key=str(key))


def test_signing_in_and_out(tmp_path: Path, browser: Browser, tls: Serve) -> None:
    site = sites.site_of(tmp_path, [town.snapshot()], PortalSettings(sign_in=["local"]), time.time)
    identity = Identity(site.settings, site)
    Local(identity.ledger).add(town.ALICE, PASSWORD, int(time.time()), "a test")
    portal = Portal(site, ROUTES, identity)
    try:
        with running(portal, serve=tls) as url, opened(browser, url) as tabs:
            page = tabs(java_script_enabled=False, ignore_https_errors=True)
            page.goto("/jobs")
            page.get_by_label("Name").fill(town.ALICE)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("header .me")).to_have_text(town.ALICE)
            kept = {one.get("name"): one for one in page.context.cookies()}
            assert kept.keys() == OURS
            assert all(one.get("secure") and one.get("httpOnly") for one in kept.values())
            page.goto("/settings")
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url("**/sign-in**")
            assert "__Host-session" not in {one.get("name") for one in page.context.cookies()}
            page.goto("/jobs")
            assert urlsplit(page.url).path == "/sign-in"
    finally:
        portal.close()
