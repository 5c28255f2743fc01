# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The API: its document has every address of the table, and nothing else is answered than it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from web import sites, town
from web.client import Client

from slurmscope.web import openapi
from slurmscope.web.portal import Portal
from slurmscope.web.route import GET, JSON, RAW
from slurmscope.web.table import ROUTES

DOCS = Path(__file__).parent.parent.parent / "docs"
NAMED = [(route, path) for route in ROUTES if route.method == GET and JSON in route.forms for path in route.paths]


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    with town.opened(tmp_path_factory.mktemp("town")) as found:
        yield found


def test_every_route_with_json_is_in_the_document_and_on_the_pages(portal: Portal) -> None:
    client = town.as_(portal, town.ALICE)
    got = client.get("/api/v1/openapi.json")
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    page = client.get("/api").text
    written = (DOCS / "api.md").read_text()
    assert set(got.json["paths"]) == {"/api/v1" + path.rstrip("/") for _, path in NAMED}
    for route, path in NAMED:
        found = got.json["paths"]["/api/v1" + path.rstrip("/")]["get"]
        assert found["description"] == route.about
        assert {one["name"] for one in found["parameters"]} == set(route.asked.__struct_encode_fields__)
        assert all(one["description"] for one in found["parameters"]), f"{path} leaves a parameter unsaid"
        inside = {one["name"] for one in found["parameters"] if one["in"] == "path"}
        assert inside == set(openapi.inside(path))
        assert f"/api/v1{path.rstrip('/')}" in page and f"`/api/v1{path.rstrip('/')}`" in written
    for one in openapi.others(ROUTES):
        assert one.path in page and f"`{one.path}`" in written
    ids = [one["get"]["operationId"] for one in got.json["paths"].values()]
    assert len(set(ids)) == len(ids)


def test_every_get_route_has_one_form_at_least() -> None:
    for route in ROUTES:
        assert route.forms and (RAW not in route.forms or route.forms == (RAW,)), route.name
        assert route.shape is None or route.forms == (JSON,), f"{route.name}: a page has a page's shape"


def test_limits_choices_and_defaults_of_parameters_are_told() -> None:
    jobs = openapi.document(ROUTES)["paths"]["/api/v1/jobs"]["get"]
    found = {one["name"]: one["schema"] for one in jobs["parameters"]}
    assert (found["page"]["minimum"], found["page"]["maximum"], found["page"]["default"]) == (1, 200, 1)
    assert found["time"]["default"] == "7d" and "30d" in found["time"]["enum"]
    assert found["state"]["type"] == "array" and "pattern" in found["after"]
    words = {one.name: (one.words, one.default) for one in openapi.operations(ROUTES)[2].parameters}
    assert words["page"] == ("1 to 200", "1") and words["ascending"] == ("true, false", "false")
    assert words["state"] == ("text, several times", "") and words["user"] == ("text", "")


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/v1/jobs?page=0", 400),
        ("/api/v1/jobs?after=1." + "9" * 5000, 400),
        ("/api/v1/jobs?" + "&".join(f"state={one}" for one in range(300)), 400),
        ("/api/v1/clusters/none/jobs", 404),
        ("/api/v1/clusters/%ff%00", 404),
        ("/api/v1/users/%ff", 404),
        ("/api/v1/users/%ed%a0%80?account=x", 404),
        ("/api/v1/clusters/alpha/accounts/%ff", 404),
        ("/api/v1/nowhere", 404),
        ("/api/v1/clusters/alpha/jobs/99", 404),
        ("/nowhere.json", 404),
    ],
)
def test_what_goes_wrong_is_said_in_one_shape(portal: Portal, address: str, status: int) -> None:
    for who in (town.ALICE, town.SAM):
        got = town.as_(portal, who).get(address)
        assert (got.status, got.headers["content-type"]) == (status, "application/json")
        assert set(got.json) == {"error", "cure"} and got.json["error"]


def test_only_who_has_signed_in_reads_of_the_api(portal: Portal, tmp_path: Path) -> None:
    stranger = Client(portal)
    got = stranger.get("/api/v1/openapi.json")
    assert got.status == 401 and got.headers["www-authenticate"].startswith("Bearer") and "error" in got.json
    assert stranger.get("/api").status == 303
    signed = town.as_(portal, town.ALICE).get("/api", host="hpc.example.org").text
    assert (
        'curl -H "Authorization: Bearer $TOKEN" "http://hpc.example.org/api/v1/jobs?state=running"'
        in signed.replace("&#34;", '"')
    )
    free = sites.portal_of(sites.site_of(tmp_path))
    try:
        assert "no token is needed" in Client(free).get("/api").text
        assert Client(free).get("/api/v1/openapi.json").status == 200
    finally:
        free.close()


def test_a_program_that_searches_gets_what_was_found_and_is_not_sent_elsewhere(portal: Portal) -> None:
    alice = town.as_(portal, town.ALICE)
    assert alice.get(f"/search?q={town.HER_JOB}").status == 303
    for address in ("/search.json", "/api/v1/search"):
        got = alice.get(f"{address}?q={town.HER_JOB}")
        assert got.status == 200
        assert [(one["kind"], one["name"]) for one in got.json["found"]] == [("job", str(town.HER_JOB))]
        assert alice.get(got.json["found"][0]["address"]).status == 200
    assert alice.get(f"/api/v1/search?q={town.HIS_JOB}").json["found"] == []


def test_other_methods_are_refused(portal: Portal) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        got = town.as_(portal, town.ALICE).ask(method, "/api/v1/jobs")
        assert (got.status, got.headers["allow"]) == (405, "GET")
    head = town.as_(portal, town.ALICE).ask("HEAD", "/api/v1/jobs")
    assert (head.status, head.body) == (200, b"")
