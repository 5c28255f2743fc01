# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody tries who wants to be another, to stay longer than allowed, or to keep others waiting."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import httpx
import pytest
from web import sites, town
from web.client import Client
from web.running import running

from slurmscope import auth
from slurmscope.settings import Mail, Settings
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Store as StoreSettings
from slurmscope.web.identity import Identity
from slurmscope.web.page import Raw
from slurmscope.web.pages.sign_in import NothingAsked
from slurmscope.web.people.checks import is_here
from slurmscope.web.portal import Portal
from slurmscope.web.route import HTML, PDF, Route
from slurmscope.web.site import Site
from slurmscope.web.table import ROUTES
from slurmscope.web.visit import Visit

_BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def opened(folder: Path, portal: PortalSettings, url: str = "") -> Portal:
    settings = Settings(portal=portal, store=StoreSettings(folder=str(folder)), mail=Mail(url=url))
    site = Site(settings, f"sqlite:{folder / 'slurmscope.db'}", list, lambda: sites.NOW)
    return Portal(site, ROUTES, Identity(settings, site))


# --- to be another ----------------------------------------------------------------------------------------------------


def test_nobody_on_this_machine_can_say_to_be_a_proxy_elsewhere(tmp_path: Path) -> None:
    portal = opened(tmp_path, PortalSettings(sign_in=["proxy"], proxies=["192.0.2.7"], staff=[town.SAM]))
    try:
        with running(portal) as url:
            got = httpx.get(f"{url}/jobs.json", headers={"X-Forwarded-For": "192.0.2.7", "X-Remote-User": town.SAM})
    finally:
        portal.close()
    assert got.status_code == 401


def test_a_proxy_on_this_machine_is_believed_whoever_it_speaks_for(tmp_path: Path) -> None:
    portal = opened(tmp_path, PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"]))
    told = {"X-Forwarded-For": "192.0.2.50", "X-Forwarded-Proto": "https", "X-Remote-User": town.ALICE}
    try:
        with running(portal) as url:
            assert httpx.get(f"{url}/jobs.json", headers=told).status_code == 200
    finally:
        portal.close()


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:9092", True),
        ("http://127.0.0.1", True),
        ("http://127.8.9.1:1/x", True),
        ("http://[::1]:9092", True),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://[::1:2]", False),
        ("http://192.0.2.1", False),
        ("", False),
    ],
)
def test_which_addresses_are_of_this_machine(url: str, here: bool) -> None:
    assert is_here(url) is here


# --- to stay ----------------------------------------------------------------------------------------------------------


def test_a_token_changes_nothing(portal: Portal) -> None:
    """One that was stolen makes no other, shares no job, and ends when it is revoked."""
    alice = town.as_(portal, town.ALICE)
    page = alice.post("/settings/tokens", {"label": "plots", "days": "1"}, page="/settings")
    token = page.text.partition('class="copy">')[2].partition("<")[0]
    program = Client(portal, peer="10.9.9.9", headers={"authorization": f"Bearer {token}"})
    job = f"/clusters/alpha/jobs/{town.HER_JOB}"
    assert program.get(f"{job}.json").status == 200
    for address, form, on in (
        ("/settings/tokens", {"label": "another", "days": "366"}, "/settings"),
        ("/settings/tokens/1", {}, "/settings"),
        (f"{job}/share", {"days": "7"}, job),
        ("/sign-out", {}, "/settings"),
    ):
        got = program.post(address, form, page=on)
        assert got.status == 403, address
        assert "sst_" not in got.text and "/shared/" not in got.text


# --- what is far too large, and what is strange -----------------------------------------------------------------------


def test_numbers_of_any_size_are_answered(portal: Portal) -> None:
    alice, job = town.as_(portal, town.ALICE), f"/clusters/alpha/jobs/{town.HER_JOB}"
    for number in ("9" * 5000, "9" * 30, str(1 << 63), "0", "٣"):
        assert alice.post(f"{job}/share", {"days": number}, page=job).status == 200, number[:40]
    for number in ("9" * 30, str(1 << 63), str(1 << 62), "0", "-1"):
        assert alice.post(f"/settings/tokens/{number}", {}, page="/settings").status in (400, 404), number[:40]


def test_cookies_of_other_programs_hide_none_of_ours(portal: Portal) -> None:
    strange = ("a[b]=c", 'state={"x": 1, "y": [2]}', "path=/", "=", "café=x", 'q="', "expires", "", "x=%ff%00")
    for one in strange:
        for whole in (f"{one}; theme=dark", f"theme=dark; {one}"):
            got = town.as_(portal, town.ALICE).ask("GET", "/settings", headers={"cookie": whole})
            assert got.status == 200 and 'data-theme="dark"' in got.text, whole


def test_who_goes_before_the_form_has_come_leaves_no_trace(portal: Portal) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/sign-in", "query_string": b"", "headers": []}
    asyncio.run(portal(scope, receive, send))
    assert sent[0]["status"] == 400


# --- to keep others waiting -------------------------------------------------------------------------------------------


class Hanging:
    """A view that ends when it is told to: no real one can be made to hang."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Semaphore(0), threading.Event()

    def __call__(self, visit: Visit, asked: NothingAsked) -> Raw:
        self.reached.release()
        assert self.go_on.wait(60)
        return Raw(b"%PDF-", "application/pdf")

    def route(self, path: str, **fields: Any) -> Route:
        return Route(name=path, paths=(path,), asked=NothingAsked, view=self, about="", **fields)


def test_pdfs_that_hang_keep_no_page_waiting_by_a_view_that_is_made_to(tmp_path: Path) -> None:
    view = Hanging()
    site = sites.site_of(tmp_path, [town.snapshot()])
    routes = (*ROUTES, view.route("/slow", forms=(HTML, PDF)), view.route("/slower", forms=(HTML,), long=True))
    portal = Portal(site, routes, Identity(site.settings, site))
    most, further = 15, 3  # are made or wait, and are told to come again
    with ThreadPoolExecutor(most + further) as people:
        asked = [people.submit(Client(portal, headers=_BROWSER).get, "/slow.pdf") for _ in range(most + further)]
        try:
            refused = [one.result() for one in itertools.islice(as_completed(asked, 60), further)]
            for one in refused:
                assert (one.status, one.headers["retry-after"]) == (503, "10")
                assert "Try again in a moment." in one.text and one.text.rstrip().endswith("</html>")
            # whoever is no person is told in a line
            told = Client(portal).get("/slow.pdf")
            assert told.status == 503 and told.headers["content-type"].startswith("text/plain")
            assert Client(portal).get("/slower").status == 503
            for page in ("/", "/jobs", "/nodes.json", "/health"):
                assert Client(portal).get(page).status == 200
            assert sum(one.done() for one in asked) == further
            assert all(view.reached.acquire(timeout=60) for _ in range(3))
            assert not view.reached.acquire(blocking=False), "no more than three are made at a time"
        finally:
            view.go_on.set()
            found = sorted(one.result().status for one in asked)
            portal.close()
    assert found == [200] * most + [503] * further


def test_strangers_take_no_place_of_those_who_may_have_a_pdf_by_a_view_that_is_made_to_hang(tmp_path: Path) -> None:
    view, site = Hanging(), town.settled(tmp_path)
    portal = Portal(site, (*ROUTES, view.route("/slow", forms=(HTML, PDF))), Identity(site.settings, site))
    with ThreadPoolExecutor(4) as people:
        made = [people.submit(town.as_(portal, town.ALICE).get, "/slow.pdf") for _ in range(3)]
        try:
            for _ in made:
                assert view.reached.acquire(timeout=60)
            # all who make PDFs are busy, and these are told at once all the same
            assert people.submit(Client(portal).get, "/slow.pdf").result(30).status == 401
        finally:
            view.go_on.set()
        assert [one.result().status for one in made] == [200] * 3
    portal.close()


def test_a_provider_that_does_not_answer_keeps_nobody_waiting_but_those_who_want_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(8) as people:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        portal = opened(
            tmp_path,
            PortalSettings(sign_in=["oidc", "local"], oidc_issuer=address, oidc_client_id="x"),
            url="http://localhost:9092",
        )
        try:
            wanting = [people.submit(Client(portal).get, "/sign-in/begin") for _ in range(8)]
            reached, _ = silent.accept()
            with reached:
                assert Client(portal).get("/sign-in").status == 200
                wrong = {"name": "alice", "password": "wrong password"}
                assert Client(portal).post("/sign-in", wrong, page="/sign-in").status == 200
                assert not any(one.done() for one in wanting)
            silent.close()
            assert {one.result().status for one in wanting} == {200}
        finally:
            portal.close()


def test_a_flood_of_passwords_keeps_no_page_waiting_by_a_check_that_is_made_to_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(auth, "check_password", lambda password, stored: not go_on.wait(60))
    portal = opened(tmp_path, PortalSettings(sign_in=["local"]))
    most, further = 16, 4  # one is looked at, and the others wait; these are told to come again
    tried = {"name": "nobody", "password": "wrong wrong wrong"}
    with ThreadPoolExecutor(most + further) as people:
        asked = [
            people.submit(Client(portal, headers=_BROWSER).post, "/sign-in", tried, page="/sign-in")
            for _ in range(most + further)
        ]
        try:
            for one in itertools.islice(as_completed(asked, 60), further):
                assert (one.result().status, one.result().headers["retry-after"]) == (503, "10")
            assert Client(portal).get("/sign-in").status == 200
            assert sum(one.done() for one in asked) == further
        finally:
            go_on.set()
            found = sorted(one.result().status for one in asked)
            portal.close()
    assert found == [200] * most + [503] * further
