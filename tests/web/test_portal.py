# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What holds for every page: addresses, forms, headers, refusals, and what a reader likes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web import town
from web.client import Client
from web.test_access import HERS, LOOKS, filled, named

from slurmscope.web import files
from slurmscope.web.pages.sign_in import local_part
from slurmscope.web.portal import Portal
from slurmscope.web.route import HTML, Route
from slurmscope.web.table import ROUTES

PAGES = [case for case in LOOKS if case[2] == HTML]

OWN = ("Your jobs that run", "Your jobs that wait")


@pytest.fixture
def sam(portal: Portal) -> Client:
    return town.as_(portal, town.SAM)


class _Tags(HTMLParser):
    """What a page is made of, as far as it matters here."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.elsewhere: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.unlabelled = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if tag == "style" or "style" in has or any(name.startswith("on") for name in has):
            self.inline.append(self.get_starttag_text() or tag)
        if tag == "script" and "src" not in has and has.get("type") != "application/json":
            self.inline.append(tag)
        for name in ("src", "href", "action", "data"):
            if re.match(r"[a-z]+:|//", has.get(name, "")):
                self.elsewhere.append(has[name])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "id" in has:
            self.ids.append(has["id"])


def tags(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    return found


@pytest.mark.parametrize("case", PAGES, ids=map(named, PAGES))
def test_a_page_is_whole_and_loads_nothing_from_elsewhere(portal: Portal, case: tuple[Route, str, str]) -> None:
    for who in (town.SAM, town.ALICE):
        got = town.as_(portal, who).get(filled(case[1], HERS, HTML))
        if got.status == 303:
            continue
        found = tags(got.text)
        assert got.text.rstrip().endswith("</html>")
        assert (found.inline, found.elsewhere) == ([], [])
        assert found.headings[:1] == [1] and found.headings.count(1) == 1
        assert all(after <= before + 1 for before, after in zip(found.headings, found.headings[1:], strict=False))
        assert len(set(found.ids)) == len(found.ids)
        assert (
            "'self'" in got.headers["content-security-policy"]
            and "unsafe" not in got.headers["content-security-policy"]
        )
        assert got.headers["x-content-type-options"] == "nosniff"


def test_json_is_the_same_at_both_addresses(sam: Client) -> None:
    assert sam.get("/clusters/alpha/jobs.json?user=*").body == sam.get("/api/v1/clusters/alpha/jobs?user=*").body


def test_head_has_no_body(sam: Client) -> None:
    got = sam.ask("HEAD", "/jobs")
    assert (got.status, got.body) == (200, b"")
    assert int(got.headers["content-length"]) > 1000


def test_what_is_not_there(sam: Client) -> None:
    got = sam.get("/nonsense")
    assert got.status == 404 and "There is no such page." in got.text
    assert sam.get("/nonsense.json").json["error"] == "There is no such page."
    assert sam.ask("DELETE", "/jobs").status == 405
    assert sam.get("/sign-out").status == 405
    assert sam.get("/clusters/beta/jobs").status == 404


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "time=3d", "sort=name", "after=x", "columns=" + "&columns=" * 300]
)
def test_what_cannot_be_meant_is_said(sam: Client, query: str) -> None:
    got = sam.get(f"/jobs.json?{query}")
    assert got.status == 400, got.text


@pytest.mark.parametrize(
    "address", ["/jobs/%ff", "/clusters/%00/jobs", "/clusters/..%2f..%2fetc/jobs", "/%e2%80%ae", "//", "/static/../x"]
)
def test_odd_addresses_are_not_there(sam: Client, address: str) -> None:
    assert sam.get(address).status in (200, 404)


@given(st.binary(max_size=60))
def test_no_address_is_a_fault(portal: Portal, raw: bytes) -> None:
    address = "/" + "".join(chr(one) if 32 < one < 127 and chr(one) not in "#?" else f"%{one:02x}" for one in raw)
    assert town.as_(portal, town.SAM).get(address).status in (200, 303, 400, 404, 405)


def test_a_long_form_is_not_read(sam: Client) -> None:
    assert sam.ask("POST", "/settings", b"x" * 100_000).status == 413


def test_compressed_where_the_reader_can(sam: Client) -> None:
    got = sam.get("/jobs", accept_encoding="gzip")
    assert got.headers["content-encoding"] == "gzip" and "<main" in got.text
    assert "content-encoding" not in sam.get("/jobs").headers


def test_files_are_kept_for_ever_at_their_own_address(portal: Portal) -> None:
    stranger = Client(portal)
    for name in ("report.css", "portal.css", "portal.js", "mark.svg"):
        got = stranger.get(files.address(name))
        assert got.status == 200 and "immutable" in got.headers["cache-control"]
        old = stranger.get(f"/static/0123456789ab/{name}")
        assert old.status == 200 and "immutable" not in old.headers.get("cache-control", "")
    assert stranger.get("/static/0/../../web/table.py").status == 404


def test_what_a_reader_likes_is_kept(sam: Client) -> None:
    form = {"theme": "dark", "language": "fr", "zone": "America/Montreal"}
    assert sam.post("/settings", form, page="/settings").status == 303
    page = sam.get(f"/clusters/alpha/jobs/{town.HER_JOB}").text
    assert '<html lang="fr" data-theme="dark">' in page
    assert "-05:00" in page and re.search(r'title="[-0-9: ]+ UTC"', page)
    assert sam.post("/settings", form | {"zone": "Mars/Base"}, page="/settings").status == 400


def test_pages_of_every_table_are_csv_and_json(sam: Client) -> None:
    for route in ROUTES:
        if "csv" in route.forms:
            for path in route.paths:
                got = sam.get(filled(path, HERS, "csv").replace("/shared/1", "/jobs"))
                assert got.status == 200 and got.headers["content-type"].startswith("text/csv"), path
    assert sam.get("/jobs.csv?table=nonsense").status == 404


@pytest.mark.parametrize(
    ("given_next", "goes"),
    [
        ("/jobs?user=*", "/jobs?user=*"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/x\r\nSet-Cookie: a=b", "/"),
        ("", "/"),
    ],
)
def test_nobody_is_sent_elsewhere_after_the_sign_in(given_next: str, goes: str) -> None:
    assert local_part(given_next) == goes


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/jobs.json?time=1y", "time: expected one of 1d, 7d, 30d, 90d, all, found '1y'."),
        ("/jobs.json?page=0", "page: '0' cannot be meant (at least 1). Which page, "),
        ("/clusters/alpha/report.json?days=9999", "days: '9999' cannot be meant (at most 3660). The last days, "),
        ("/clusters/alpha/report.json?month=zz", "month: 'zz' cannot be meant. A month: 2026-10. "),
        ("/clusters/alpha/jobs/abc.json", "job: 'abc' cannot be meant. A number; 123_4 for the task of an array"),
        ("/jobs.json?sort=%1b[31m", "sort: expected one of submitted, "),
    ],
)
def test_what_cannot_be_meant_is_told_in_words(sam: Client, address: str, said: str) -> None:
    got = sam.get(address)
    assert got.status == 400 and got.json["error"].startswith(said)
    assert "`" not in got.text and "\x1b" not in got.text


def test_the_first_page_has_what_the_reader_has_in_the_queue(portal: Portal) -> None:
    page = town.as_(portal, town.ALICE).get("/").text
    runs, waits = (page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0] for title in OWN)
    assert f"/jobs/{town.HER_JOB + 1}" in runs and f"/jobs/{town.HER_JOB + 2}" in waits
    assert "AssocGrpCpuLimit" in waits
    staff = town.as_(portal, town.SAM).get("/").text
    assert not any(title in staff for title in OWN), "sam has none"
