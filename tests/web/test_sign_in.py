# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Signing in by each way, as a browser does, and out again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from servers.process import free_port
from web import sites, town
from web.client import Client
from web.people.openid import CLIENT, SECRET, USER, OpenId, browse

from slurmscope.settings import Mail, Serve, Settings
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Store as StoreSettings
from slurmscope.web import files
from slurmscope.web.identity import Identity
from slurmscope.web.people.local import Local
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site
from slurmscope.web.table import ROUTES

PASSWORD = "correct horse battery"
Make = Callable[..., Portal]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Portal] = []

    def one(portal: PortalSettings, url: str = "", clock: Callable[[], float] = lambda: sites.NOW) -> Portal:
        town.settled(tmp_path).close()
        settings = Settings(portal=portal, store=StoreSettings(folder=str(tmp_path)), mail=Mail(url=url))
        site = Site(
            settings, f"sqlite:{tmp_path / 'slurmscope.db'}", sites.site_of(tmp_path, [town.snapshot()]).editions, clock
        )
        made.append(Portal(site, ROUTES, Identity(settings, site)))
        return made[-1]

    yield one
    for portal in made:
        portal.close()


@pytest.fixture
def local(make: Make) -> Portal:
    portal = make(PortalSettings(sign_in=["local"], staff=[town.SAM]))
    accounts = Local(Identity(portal.site.settings, portal.site).ledger)
    for name in (town.ALICE, town.SAM):
        accounts.add(name, PASSWORD, sites.NOW, "a test")
    return portal


def signed_in(portal: Portal, name: str) -> Client:
    client = Client(portal)
    assert client.post("/sign-in", {"name": name, "password": PASSWORD}, page="/sign-in").status == 303
    return client


def test_with_a_password(local: Portal) -> None:
    client = Client(local)
    asked = client.get("/clusters/alpha/jobs?user=*")
    assert asked.status == 303
    form = asked.headers["location"]
    assert "Password" in client.get(form).text
    onward = {"next": "/clusters/alpha/jobs?user=*", "name": town.ALICE, "password": PASSWORD}
    done = client.post("/sign-in", onward, page=form)
    assert (done.status, done.headers["location"]) == (303, "/clusters/alpha/jobs?user=*")
    page = client.get(done.headers["location"])
    assert page.status == 200 and ">alice</a>" in page.text
    assert client.post("/sign-out", {}, page="/settings").headers["location"] == "/sign-in"
    assert client.get("/jobs.json").status == 401


def test_the_cookie_cannot_be_read_or_sent_along(local: Portal) -> None:
    client = Client(local)
    done = client.post("/sign-in", {"name": town.ALICE, "password": PASSWORD}, page="/sign-in")
    line = done.cookies["session"]
    assert "HttpOnly" in line and "SameSite=Lax" in line and "Secure" not in line


@pytest.fixture
def by_tls(make: Make) -> Portal:
    portal = make(PortalSettings(sign_in=["local"]), "https://portal.example.org")
    Local(Identity(portal.site.settings, portal.site).ledger).add(town.ALICE, PASSWORD, sites.NOW, "a test")
    return portal


def test_where_people_come_by_tls_no_neighbour_can_set_cookies_in_place_of_ours(by_tls: Portal) -> None:
    client = Client(by_tls)
    shown = client.get("/sign-in")
    done = client.post("/sign-in", {"name": town.ALICE, "password": PASSWORD}, page="/sign-in")
    assert (done.status, list(shown.cookies)) == (303, ["__Host-form"])
    assert client.cookies.keys() == {"__Host-form", "__Host-session"}
    for line in (*shown.cookies.values(), *done.cookies.values()):
        # what browsers demand of cookies that are called so
        assert line.startswith("__Host-") and "; Path=/;" in line and "; Secure" in line and "Domain" not in line
    assert client.get("/jobs.json").status == 200
    assert client.post("/sign-out", {}, page="/settings").status == 303
    assert client.get("/jobs.json").status == 401 and "__Host-session" not in client.cookies


def test_what_was_kept_before_is_not_believed_and_people_sign_in_once(by_tls: Portal) -> None:
    client = signed_in(by_tls, town.ALICE)
    older = Client(by_tls)
    older.cookies = {name.removeprefix("__Host-"): value for name, value in client.cookies.items()}
    assert older.get("/jobs.json").status == 401
    assert older.post("/sign-in", {"name": town.ALICE, "password": PASSWORD}, page="/sign-in").status == 303
    assert older.get("/jobs.json").status == 200


def test_how_pages_look_is_kept_where_their_script_finds_it(by_tls: Portal) -> None:
    client = signed_in(by_tls, town.ALICE)
    kept = client.post("/settings", {"theme": "dark", "language": "en", "zone": "UTC"}, page="/settings").cookies
    assert kept.keys() == {"theme", "language", "zone"} and "Secure" in kept["zone"]


STRICT = "strict-transport-security"


def test_browsers_that_came_by_tls_do_not_come_without_it_again(by_tls: Portal) -> None:
    client = signed_in(by_tls, town.ALICE)
    for address in ("/", "/jobs.json", "/nonsense", "/static/x", "/sign-in", files.address("portal.css")):
        said = client.get(address).headers.get(STRICT)
        assert said == "max-age=15552000", address
    assert Client(by_tls).get("/jobs").headers[STRICT] and client.ask("DELETE", "/jobs").headers[STRICT]


@pytest.mark.parametrize("url", ["", "http://localhost:9092", "http://127.0.0.1", "https://host.example.org:9092"])
def test_nothing_is_said_without_tls_or_of_a_name_that_others_have_too(make: Make, url: str) -> None:
    """At its other ports there may be somebody who knows no TLS."""
    portal = make(PortalSettings(sign_in=["local"]), url)
    for address in ("/sign-in", "/jobs.json", files.address("portal.css")):
        assert STRICT not in Client(portal).get(address).headers


def test_the_address_that_people_are_told_decides(make: Make) -> None:
    """A proxy may leave out the port by which they came."""
    portal = make(PortalSettings(sign_in=["local"]), "https://host.example.org:8443")
    assert STRICT not in Client(portal, headers={"host": "host.example.org"}, scheme="https").get("/sign-in").headers


@pytest.mark.parametrize(
    ("host", "said"), [("portal.example.org", True), ("host:9092", False), ("[::1]", True), ("[::1]:9092", False)]
)
def test_by_tls_to_us_it_is_said_at_the_usual_port(make: Make, host: str, said: bool) -> None:
    portal = make(PortalSettings(sign_in=["local"]))
    got = Client(portal, headers={"host": host}, scheme="https").get("/sign-in")
    assert (STRICT in got.headers) is said and got.cookies.keys() == {"__Host-form"}


def test_another_password_ends_sessions_and_tokens(local: Portal) -> None:
    client = signed_in(local, town.ALICE)
    page = client.post("/settings/tokens", {"label": "plots", "days": "9"}, page="/settings")
    token = page.text.partition('class="copy">')[2].partition("<")[0]
    program = Client(local, headers={"authorization": f"Bearer {token}"})
    others = signed_in(local, town.SAM)
    assert program.get("/jobs.json").status == client.get("/jobs.json").status == 200
    accounts = Local(Identity(local.site.settings, local.site).ledger)
    accounts.change(town.ALICE, "staple staple", sites.NOW, "a test")
    assert program.get("/jobs.json").status == client.get("/jobs.json").status == 401
    assert others.get("/jobs.json").status == 200


def test_a_wrong_password_tells_nothing_and_then_waits(local: Portal) -> None:
    client = Client(local)
    said = []
    for name in (town.ALICE, "nobody"):
        got = client.post("/sign-in", {"name": name, "password": "wrong wrong wrong"}, page="/sign-in")
        assert got.status == 200 and 'role="alert"' in got.text
        said.append(got.text.partition('role="alert"')[2].partition("</p>")[0])
    assert said[0] == said[1]
    for _ in range(6):
        client.post("/sign-in", {"name": town.ALICE, "password": "wrong wrong wrong"}, page="/sign-in")
    refused = client.post("/sign-in", {"name": town.ALICE, "password": PASSWORD}, page="/sign-in")
    assert refused.status == 200 and "Try again in" in refused.text
    assert client.get("/jobs.json").status == 401


def test_a_form_of_another_site_does_nothing(local: Portal) -> None:
    client = signed_in(local, town.SAM)
    assert client.ask("POST", "/sign-out", b"").status == 403
    theirs = Client(local)
    theirs.get("/sign-in")
    key = theirs.get("/sign-in").text.partition('name="key" value="')[2].partition('"')[0]
    assert client.ask("POST", "/sign-out", f"key={key}".encode()).status == 403
    cross = client.post("/sign-out", {}, page="/settings", sec_fetch_site="cross-site")
    assert cross.status == 403
    assert client.get("/jobs.json").status == 200


@pytest.mark.parametrize(
    ("url", "said"),
    [("", "open the page again"), ("https://portal.example.org", "open the page at https://portal.exa")],
)
def test_who_keeps_no_cookie_is_told_so(make: Make, url: str, said: str) -> None:
    """As a browser does that comes by http to a portal that is behind TLS."""
    portal = make(PortalSettings(sign_in=["local"]), url)
    got = Client(portal).ask("POST", "/sign-in", f"key={'0' * 96}&name=alice&password=x".encode())
    assert got.status == 403 and "has not kept this site" in got.text and said in got.text


def test_a_token_that_does_not_hold_is_told_so(local: Portal) -> None:
    client = Client(local, headers={"authorization": "Bearer sst_" + "x" * 40})
    got = client.get("/api/v1/jobs")
    assert got.status == 401 and "This token does not hold" in got.json["error"]
    foreign = Client(local, headers={"authorization": "Bearer eyJhbGciOi"}).get("/api/v1/jobs")
    assert foreign.status == 401 and "Only those who have signed in" in foreign.json["error"]


def test_a_page_that_is_sent_again_makes_no_second_token(local: Portal) -> None:
    client = signed_in(local, town.ALICE)
    for said in ("sst_", "There is a token called"):
        assert said in client.post("/settings/tokens", {"label": "plots", "days": "9"}, page="/settings").text
    kept = Identity(local.site.settings, local.site).tokens.all(town.ALICE, sites.NOW)
    assert [one.label for one in kept] == ["plots"]


def test_sessions_end_by_themselves(make: Make) -> None:
    now = [float(sites.NOW)]
    portal = make(PortalSettings(sign_in=["local"], session_hours=1), clock=lambda: now[0])
    Local(Identity(portal.site.settings, portal.site).ledger).add(town.ALICE, PASSWORD, sites.NOW, "a test")
    client = signed_in(portal, town.ALICE)
    now[0] += 3000
    assert client.get("/jobs.json").status == 200
    now[0] += 3700
    assert client.get("/jobs.json").status == 401


def test_what_was_done_is_written_down(local: Portal) -> None:
    client = signed_in(local, town.ALICE)
    client.post("/settings/tokens", {"label": "plots", "days": "9"}, page="/settings")
    client.post(f"/clusters/alpha/jobs/{town.HER_JOB}/share", {}, page=f"/clusters/alpha/jobs/{town.HER_JOB}")
    client.post("/sign-out", {}, page="/settings")
    entries = Identity(local.site.settings, local.site).ledger.entries(None, 50)
    assert [one.action for one in reversed(entries) if one.who == town.ALICE] == [
        "signed in",
        "token made",
        "shared",
        "signed out",
    ]


def test_without_sign_in_only_this_machines_names_lead_here(make: Make) -> None:
    portal = make(PortalSettings())
    for host in ("localhost:9092", "127.0.0.1:9092", "[::1]:9092"):
        assert Client(portal, headers={"host": host}).get("/jobs.json").status == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "192.0.2.1", ""):
        assert Client(portal, headers={"host": host}).get("/jobs.json").status == 401


def test_a_name_that_a_proxy_may_pass_on_lets_nobody_in_who_has_not_signed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics may be told by it, and the jobs of all may not: at the proxy's other end there is everybody."""
    monkeypatch.setattr(socket, "gethostname", lambda: "login1.example.org")
    town.settled(tmp_path).close()
    serve = Serve(listen="localhost4:9092", names=["metrics.example.org"])
    settings = Settings(serve=serve, store=StoreSettings(folder=str(tmp_path)))
    site = sites.site_of(tmp_path, [town.snapshot()])
    portal = Portal(site, ROUTES, Identity(settings, site))
    for host in ("metrics.example.org", "login1.example.org", "login1"):
        got = Client(portal, headers={"host": host})
        assert got.get("/jobs.json").status == 401
        assert "none of its own" in got.get("/sign-in").text and "sees everything" not in got.get("/sign-in").text
    assert Client(portal, headers={"host": "localhost4:9092"}).get("/jobs.json").status == 200
    portal.close()


def test_by_openid_with_a_provider_of_others(make: Make, tmp_path_factory: pytest.TempPathFactory) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    openid = OpenId(tmp_path_factory.mktemp("openid"), url)
    try:
        openid.start()
        settings = PortalSettings(
            sign_in=["oidc"], oidc_issuer=openid.issuer, oidc_client_id=CLIENT, oidc_client_secret=SECRET
        )
        portal = make(settings, url, clock=time.time)
        client = Client(portal)
        assert "/sign-in/begin" in client.get("/sign-in?next=/jobs").text
        away = client.get("/sign-in/begin?next=/jobs")
        assert away.status == 303 and away.headers["location"].startswith(openid.issuer.rpartition("/o")[0])
        back = "/sign-in/oidc?" + urlencode(browse(away.headers["location"], url), doseq=True)
        done = client.get(back)
        assert (done.status, done.headers["location"]) == (303, "/jobs")
        assert f">{USER}</a>" in client.get("/jobs").text
        # the same answer is good once
        assert "begin again" in Client(portal).get(back).text
    finally:
        openid.close()


def test_a_provider_that_is_away_is_said(make: Make) -> None:
    settings = PortalSettings(
        sign_in=["oidc", "local"], oidc_issuer=f"http://127.0.0.1:{free_port()}/o", oidc_client_id="x"
    )
    got = Client(make(settings, "http://127.0.0.1:1")).get("/sign-in/begin")
    assert got.status == 200 and 'role="alert"' in got.text and "Password" in got.text
