# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a person: all of it for them and the staff; for a coordinator what was done in the account."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from web import offices, sites

from slurmscope.life import Accounted, seen
from slurmscope.web.site import Site

AT = "/users/bob"
HOSTILE = "<b>x</b>\"';/\n\u202e&"


def told() -> list[Accounted]:
    physics = [offices.ran(100 + at, at + 1, "bob", "physics", name=f"fit-{at}", used=0.25) for at in range(6)]
    return [*physics, *(offices.ran(200 + at, at + 1, "bob", "bio", name="blast") for at in range(4))]


def office(folder: Path) -> Site:
    """With the queue in the store, as polls would have put it there."""
    found = offices.site(folder, told=told())
    sites.keep(found, [seen(None, offices.CLUSTER, one, sites.NOW - 60) for one in offices.QUEUE])
    return found


@pytest.mark.parametrize("name", ["bob", offices.STAFF])
def test_all_of_a_person(tmp_path: Path, name: str) -> None:
    client = offices.reader(office(tmp_path), name)
    found = client.get(AT + ".json").json
    assert found["used"]["ended"] == 10
    assert {one["account"] for one in found["by_account"]} == {"physics", "bio"}
    assert found["now"] == {"running": 1, "waiting": 1, "blocked": 1}
    assert {(one["account"], one["user"]) for one in found["shares"]} == {("physics", "bob"), ("bio", "bob")}
    assert {one["name"] for one in found["limits"]} == {"GrpTRES", "MaxWallPJ"}
    page = client.get(AT).text
    for title in ("Running now", "Waiting now", "What to ask for next time", "What was found", "Limits that hold"):
        assert f"<h2>{title}</h2>" in page
    assert "AssocGrpGRES" in page and "All running jobs of the account together hold so much" in page
    assert ('href="/clusters/lab/accounts/bio"' in page) == (name == offices.STAFF)  # its page is not bob's
    assert client.get(AT + ".pdf").body.startswith(b"%PDF")
    assert len(client.get(AT + ".csv?table=waiting").text.splitlines()) == 2


def test_what_to_ask_for_next(tmp_path: Path) -> None:
    found = offices.reader(office(tmp_path)).get(AT + ".json").json["next_requests"]
    assert [(one["name"], one["runs"]) for one in found] == [("fit", 6), ("blast", 4)]
    options = {change["option"] for change in found[0]["request"]["changes"]}
    assert "--time" in options


def test_on_one_cluster_and_in_one_account(tmp_path: Path) -> None:
    client = offices.reader(office(tmp_path), "bob")
    found = client.get("/clusters/lab/users/bob.json?account=bio").json
    assert (found["account"], found["cluster"], found["used"]["ended"]) == ("bio", "lab", 4)
    page = client.get("/clusters/lab/users/bob?account=bio").text
    assert 'href="/clusters/lab/users/bob?days=7&amp;account=bio"' in page
    assert 'href="/clusters/lab/users/bob.json?account=bio"' in page


def test_a_coordinator_sees_what_was_done_in_the_account(tmp_path: Path) -> None:
    site = offices.site(tmp_path, told=[*told(), offices.ran(300, 1, "zoe", "bio"), offices.ran(301, 1, "zoe", "arts")])
    client = offices.reader(site, "lead")
    bob = client.get(AT + ".json").json
    assert (bob["account"], bob["cluster"]) == ("bio", "lab")  # the first of those that they share
    assert bob["used"]["cpu_seconds"] == 4 * 2 * 3600 * 4
    assert {one["account"] for one in bob["by_account"]} == {"bio"}
    assert bob["now"] == {"running": 1, "waiting": 1, "blocked": 1}
    assert [one["name"] for one in bob["next_requests"]] == ["blast"]
    physics = client.get(AT + ".json?account=physics").json
    assert physics["used"]["cpu_seconds"] == 6 * 2 * 3600 * 4
    assert "account=physics" in client.get(AT).text
    # one who is no member any more, but was
    zoe = client.get("/users/zoe.json").json
    assert (zoe["account"], zoe["used"]["ended"]) == ("bio", 1)
    assert client.get("/users/zoe.json?account=arts").status == 404
    assert client.get("/clusters/lab/users/bob.json?account=arts").status == 404


@pytest.mark.parametrize("form", ["", ".json", ".csv", ".pdf"])
@pytest.mark.parametrize("name", ["ann", "eve", "zoe", "stranger"])
def test_others_find_nobody(tmp_path: Path, name: str, form: str) -> None:
    client = offices.reader(office(tmp_path), name)
    hidden, missing = client.get(AT + form), client.get("/users/nix" + form)
    assert hidden.status == missing.status == 404
    assert hidden.body.replace(b"bob", b"nix") == missing.body or form == ""
    assert client.get("/clusters/lab/users/bob" + form).status == 404
    assert b"physics" not in hidden.body


def test_who_is_known(tmp_path: Path) -> None:
    staff = offices.reader(offices.site(tmp_path))
    assert [staff.get(f"/users/{name}").status for name in ("ann", "lead", "nix")] == [200, 200, 404]
    assert staff.get("/clusters/nowhere/users/ann").status == 404
    # who has signed in has a page, though nothing is known of them
    new = offices.reader(offices.site(tmp_path), "newcomer")
    page = new.get("/users/newcomer")
    assert page.status == 200 and "newcomer used nothing in" in page.text
    assert "Nothing is in the queue now." in page.text


def test_where_nobody_signs_in(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, told=told(), open_=True), "")
    assert client.get(AT).status == 200
    assert client.get("/users/nix").status == 404


def test_hostile_names(tmp_path: Path) -> None:
    shares = (offices.share("root", None), offices.share(HOSTILE, "root"), offices.share(HOSTILE, HOSTILE, HOSTILE))
    ran = [offices.ran(at, at, HOSTILE, HOSTILE, name=HOSTILE, qos=HOSTILE, partition=HOSTILE) for at in range(1, 6)]
    client = offices.reader(offices.site(tmp_path, offices.snapshot(shares=shares), ran))
    at = f"/users/{quote(HOSTILE, safe='')}"
    page = client.get(at)
    assert page.status == 200 and "<b>x" not in page.text and "\u202e" not in page.text
    assert [client.get(at + form).status for form in (".json", ".csv", ".pdf")] == [200, 200, 200]
