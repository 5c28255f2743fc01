# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who sees what, at every address of the table and in every form: one that is new cannot be forgotten."""

from __future__ import annotations

import pytest
from web import town
from web.client import Client

from slurmscope.web.portal import Portal
from slurmscope.web.route import GET, HTML, POST, RAW, Route
from slurmscope.web.shares import Shares
from slurmscope.web.table import ROUTES

# What stands in an address for somebody else's things, and for one's own.
HIS = {
    "job": str(town.HIS_JOB),
    "node": town.HIS_NODE,
    "account": town.CHEMISTRY,
    "user": town.BOB,
}
HERS = {"job": str(town.HER_JOB), "node": town.NODE, "account": town.PHYSICS, "user": town.ALICE}
# … and for what is nobody's.
OTHERS = {"cluster": town.CLUSTER, "token": "1", "metric": "cpu"}


def params(path: str) -> list[str]:
    return [one[1:-1] for one in path.split("/") if one.startswith("{")]


def filled(path: str, things: dict[str, str], form: str) -> str:
    whole = path
    for name in params(path):
        whole = whole.replace(f"{{{name}}}", (things | OTHERS)[name])
    if form in (HTML, RAW):
        return whole
    return f"{whole}.{form}" if whole != "/" else f"/index.{form}"


PAIRS = [(route, path) for route in ROUTES for path in route.paths]
CASES = [(route, path, form) for route, path in PAIRS for form in route.forms]
LOOKS = [case for case in CASES if case[0].method == GET]
THINGS = [case for case in LOOKS if set(params(case[1])) & HIS.keys()]


def named(case: tuple[Route, str, str]) -> str:
    return f"{case[0].method} {case[1]} {case[2]}"


@pytest.mark.parametrize("case", THINGS, ids=map(named, THINGS))
def test_what_is_somebody_elses_is_not_there(portal: Portal, case: tuple[Route, str, str]) -> None:
    _, path, form = case
    address = filled(path, HIS, form)
    theirs = town.as_(portal, town.ALICE).get(address)
    assert theirs.status == 404, address
    # … and looks like what is nobody's
    missing = town.as_(portal, town.ALICE).get(
        filled(path, {**HIS, "job": "99", "node": "x", "account": "x", "user": "x"}, form)
    )
    assert (missing.status, missing.headers["content-type"]) == (404, theirs.headers["content-type"])
    staff = town.as_(portal, town.SAM).get(address)
    assert staff.status == 200, staff.text[:500]
    assert town.as_(portal, town.ALICE).get(filled(path, HERS, form)).status in (200, 404)


@pytest.mark.parametrize("case", LOOKS, ids=map(named, LOOKS))
def test_nothing_of_his_is_on_any_page_of_hers(portal: Portal, case: tuple[Route, str, str]) -> None:
    _, path, form = case
    for query in ("", "?user=*&time=all", f"?q={town.BOB[:3]}", f"?q={town.HIS_JOB}", f"?account={town.CHEMISTRY}"):
        got = town.as_(portal, town.ALICE).get(filled(path, HERS, form) + query)
        assert got.status in (200, 303, 400, 404), got.text[:500]
        if got.headers["content-type"].startswith(("application/pdf", "image/png")):
            continue
        body = got.text.replace(f"?q={town.BOB[:3]}", "")
        for word in town.HIS:
            if word in query or word in got.headers.get("location", ""):
                continue
            assert word not in body, (filled(path, HERS, form) + query, word)


@pytest.mark.parametrize("case", CASES, ids=map(named, CASES))
def test_who_has_not_signed_in_sees_nothing(portal: Portal, case: tuple[Route, str, str]) -> None:
    route, path, form = case
    address = filled(path, HIS, form)
    got = town.as_(portal, "").ask(route.method, address)
    if route.open:
        assert got.status in (200, 303, 403, 404)
    elif route.method == GET and form == HTML:
        assert got.status == 303 and got.headers["location"].startswith("/sign-in?next=")
    else:
        assert got.status == 401
    assert not any(word in got.text for word in town.HIS)


def test_every_parameter_of_an_address_is_known_to_these_tests() -> None:
    known = HIS.keys() | OTHERS.keys()
    assert {name for _, path in PAIRS for name in params(path)} <= known


def test_forms_are_refused_without_their_key(portal: Portal) -> None:
    for route, path in PAIRS:
        if route.method == POST:
            got = town.as_(portal, town.ALICE).ask(POST, filled(path, HERS, HTML), b"days=1")
            assert got.status == 403, path


@pytest.mark.parametrize("who", [town.ALICE, town.CAROL, town.SAM])
def test_whoever_may_sees_her_job(portal: Portal, who: str) -> None:
    for form in ("", ".json", ".csv", ".pdf"):
        assert town.as_(portal, who).get(f"/clusters/alpha/jobs/{town.HER_JOB}{form}").status == 200


def test_a_coordinator_sees_the_accounts_jobs_and_no_others(portal: Portal) -> None:
    found = town.as_(portal, town.CAROL).get("/jobs.json?user=*&time=all").json
    assert {one["user"] for one in found["jobs"]} == {town.ALICE}
    everybody = town.as_(portal, town.SAM).get("/jobs.json?user=*&time=all").json
    assert {one["user"] for one in everybody["jobs"]} == {town.ALICE, town.BOB}


def test_a_link_shows_one_job_and_no_other(portal: Portal) -> None:
    alice = town.as_(portal, town.ALICE)
    page = f"/clusters/alpha/jobs/{town.HER_JOB}"
    made = alice.post(f"{page}/share", {"days": "2"}, page=page)
    assert made.status == 200
    link = made.text.partition("/shared/")[2].partition("<")[0]
    stranger = Client(portal)
    for form in ("", ".json", ".csv", ".pdf"):
        assert stranger.get(f"/shared/{link}{form}").status == 200
    shown = stranger.get(f"/shared/{link}").text
    assert "train" in shown and "/clusters/" not in shown.partition("<main")[2]
    assert stranger.get(f"/shared/{link[:-2]}xx").status == 404
    others = Shares(portal.site.settings).token(town.CLUSTER, town.HIS_JOB, 0, town.BOB, 1, town.NOW)
    assert stranger.get(f"/shared/{others}").status == 404, "a life that is not there"
    old = Shares(portal.site.settings).token(
        town.CLUSTER, town.HER_JOB, town.NOW - 9000, town.ALICE, 1, town.NOW - 90_000
    )
    assert stranger.get(f"/shared/{old}").status == 404


def test_another_users_job_is_not_shared(portal: Portal) -> None:
    alice = town.as_(portal, town.ALICE)
    page = f"/clusters/alpha/jobs/{town.HIS_JOB}/share"
    assert alice.post(page, {}, page=f"/clusters/alpha/jobs/{town.HER_JOB}").status == 404


def test_a_token_sees_what_its_owner_sees(portal: Portal) -> None:
    alice = town.as_(portal, town.ALICE)
    page = alice.post("/settings/tokens", {"label": "plots", "days": "3"}, page="/settings")
    token = page.text.partition('class="copy">')[2].partition("<")[0]
    assert token.startswith("sst_")
    program = Client(portal, peer="10.9.9.9", headers={"authorization": f"Bearer {token}"})
    assert program.get(f"/api/v1/clusters/alpha/jobs/{town.HER_JOB}").status == 200
    assert program.get(f"/api/v1/clusters/alpha/jobs/{town.HIS_JOB}").status == 404
    number = alice.get("/settings").text.partition("/settings/tokens/")[2].partition('"')[0]
    assert alice.post(f"/settings/tokens/{number}", {}, page="/settings").status == 303
    assert program.get("/api/v1/jobs").status == 401
    assert Client(portal, headers={"authorization": "Bearer sst_wrong"}).get("/jobs.json").status == 401


def test_a_bearer_of_somebody_else_is_none_of_ours(portal: Portal) -> None:
    """A gateway may pass on what it was let in by."""
    alice = Client(portal, headers={"x-remote-user": town.ALICE, "authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.x"})
    assert alice.get(f"/clusters/alpha/jobs/{town.HER_JOB}.json").status == 200
    assert alice.post("/settings", {"theme": "dark", "language": "en", "zone": "UTC"}, page="/settings").status == 303
    assert Client(portal, headers={"authorization": "Bearer eyJ"}).get("/jobs.json").status == 401


def test_only_listed_proxies_say_who_somebody_is(portal: Portal) -> None:
    elsewhere = Client(portal, peer="10.0.0.1", headers={"x-remote-user": town.SAM})
    assert elsewhere.get("/jobs.json").status == 401
