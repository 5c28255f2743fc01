# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of accounts: its numbers are those of the model, and each sees what is theirs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from lives import job
from waiting.snapshots import limit, simulated
from web import offices, sites
from web.client import Client

from slurmscope.model import Snapshot
from slurmscope.waiting.blocked import by_limit
from slurmscope.waiting.reasons import parse, reason_of

AT = "/clusters/lab/accounts"
HOSTILE = "<b>x</b>\"';\n\u202e\udcff&"


def rows(found: Any) -> set[tuple[str, str | None]]:
    return {(one["account"], one["user"]) for one in found["accounts"]}


def of_demo(folder: Path) -> tuple[Snapshot, Client]:
    found = simulated(sites.NOW)
    return found, Client(sites.portal_of(sites.site_of(folder, [found])))


def test_counts_are_those_of_the_model(tmp_path: Path) -> None:
    found, client = of_demo(tmp_path)
    jobs, shares = found.jobs.value or (), found.shares.value or ()
    parents = {one.account: one.parent for one in shares if one.user is None}
    told = client.get("/clusters/demo/accounts.json?people=true").json

    def within(account: str | None, wanted: str) -> bool:
        return account is not None and (account == wanted or within(parents.get(account), wanted))

    assert len(told["accounts"]) == len(shares)
    for row in told["accounts"]:
        own = [
            one
            for one in jobs
            if (within(one.account, row["account"]) if row["user"] is None else one.user == row["user"])
        ]
        waiting = [one for one in own if one.waiting]
        assert row["running"] == sum(one.tasks for one in own if one.holding)
        assert row["waiting"] == sum(one.tasks for one in waiting)
        assert row["blocked"] == sum(one.tasks for one in waiting if by_limit(reason_of(parse(one.reason))))
    assert sum(one["jobs"] for one in told["blocked"]) == next(
        one["blocked"] for one in told["accounts"] if one["account"] == "root"
    )
    assert len(told["limits"]) == len(found.limits.value or ())


def test_a_sentence_first(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path))
    page = client.get(AT)
    assert page.status == 200
    told = "Of 4 accounts 2 are blocked by a limit: physics waits for GrpTRES gres/gpu=8 of science with 5 jobs."
    assert told in page.text and client.get(AT + ".json").json["verdict"]["lead"] == told


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ((), "4 accounts, and no job waits for a limit."),
        (None, "4 accounts, and no job waits for a limit."),
        (
            (job(1, reason="AssocMaxJobsLimit", user="eve", account="bio"),),
            "Of 4 accounts one is blocked by a limit: bio waits for MaxJobs=4 with 1 job.",
        ),
        (
            (job(1, reason="AccountingPolicy", user="eve", account="bio", tasks=2),),
            "Of 4 accounts one is blocked by a limit: bio waits for AccountingPolicy with 2 jobs.",
        ),
    ],
)
def test_other_sentences(tmp_path: Path, jobs: Any, words: str) -> None:
    site = offices.site(tmp_path, offices.snapshot(jobs))
    assert offices.reader(site).get(AT + ".json").json["verdict"]["lead"] == words


def test_what_was_not_read_is_said_so(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, offices.snapshot(shares=None, limits=None)))
    assert "has not been read yet" in client.get(AT).text
    assert client.get(AT + ".json").json["accounts"] == []


def test_people_on_demand_and_levels(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path))
    accounts = {(one, None) for one in ("root", "science", "physics", "bio", "arts")}
    assert rows(client.get(AT + ".json").json) == accounts
    assert len(rows(client.get(AT + ".json?people=true").json)) == len(offices.SHARES)
    assert rows(client.get(AT + ".json?depth=2").json) == accounts - {("physics", None), ("bio", None)}
    under = client.get(AT + ".json?under=bio&people=true").json
    assert rows(under) == {("bio", None), ("bio", "bob"), ("bio", "eve")}
    assert client.get(AT + "?under=nothing").status == 404
    assert client.get(AT + "?depth=99").status == 400


def test_long_trees_have_pages(tmp_path: Path) -> None:
    many = (*offices.SHARES, *(offices.share("arts", "arts", f"u{at:04}") for at in range(400)))
    client = offices.reader(offices.site(tmp_path, offices.snapshot(shares=many)))
    first = client.get(AT + "?people=true").text
    assert first.count('class="person"') < 200 and "page=2" in first
    assert "u0399" in client.get(AT + "?people=true&page=5").text and "page=6" not in first
    pages = [client.get(f"{AT}.json?people=true&page={at}").json for at in range(1, 6)]
    assert [one["next"] and one["next"]["page"] for one in pages] == [2, 3, 4, 5, None]
    assert len({row for one in pages for row in rows(one)}) == len(many)
    assert len(list(csv.reader(client.get(AT + ".csv?people=true").text.splitlines()))) == 1 + len(many)


def test_a_tree_that_bites_its_tail(tmp_path: Path) -> None:
    shares = (
        offices.share("a", "b"),
        offices.share("b", "a"),
        offices.share("c", "nobody"),
        offices.share("c", "c", "ann"),
    )
    client = offices.reader(offices.site(tmp_path, offices.snapshot(shares=shares)))
    assert client.get(AT + "?people=true").status == 200
    assert ("c", "ann") in rows(client.get(AT + ".json?people=true").json)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("ann", {("physics", None), ("physics", "ann")}),
        ("bob", {("physics", None), ("physics", "bob"), ("bio", None), ("bio", "bob")}),
        ("lead", {(one.account, one.user) for one in offices.SHARES if one.account in ("science", "physics", "bio")}),
        ("zoe", {("arts", None), ("arts", "zoe")}),
        ("stranger", set()),
    ],
)
def test_who_sees_which_rows(tmp_path: Path, name: str, seen: set[tuple[str, str | None]]) -> None:
    client = offices.reader(offices.site(tmp_path), name)
    told = client.get(AT + ".json?people=true").json
    assert rows(told) == seen
    others = {one.user for one in offices.SHARES if one.user} - {user for _, user in seen} - {name}
    page = client.get(AT + "?people=true").text
    sheet = client.get(AT + ".csv?people=true").text
    assert not [other for other in others if f">{other}<" in page or f",{other}," in sheet]
    assert all(set(one["users"]) <= {user for _, user in seen} for one in told["blocked"])


def test_a_member_sees_their_own_jobs_alone(tmp_path: Path) -> None:
    told = offices.reader(offices.site(tmp_path), "bob").get(AT + ".json").json
    (bio,) = [one for one in told["accounts"] if one["account"] == "bio" and one["user"] is None]
    assert (bio["running"], bio["waiting"], bio["blocked"]) == (1, 1, 1)  # and eve's is not counted
    limits = {(one["account"], one["user"], one["qos"]) for one in told["limits"]}
    assert limits == {(None, None, "normal")}
    assert "/accounts/bio" not in offices.reader(offices.site(tmp_path), "bob").get(AT).text  # its page is not theirs


def test_limits_have_use_and_headroom(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path))
    told = {(one["account"], one["name"]): one for one in client.get(AT + ".json").json["limits"]}
    for one in offices.LIMITS:
        row = told[one.account, one.name]
        assert (row["limit"], row["used"]) == (one.limit, one.used)
        assert row["headroom"] == (None if one.used is None else one.limit - one.used)
    sheet = list(csv.DictReader(client.get(AT + ".csv?table=limits").text.splitlines()))
    assert [one["of"] for one in sheet][:2] == ["science", "bio, eve"]
    assert sheet[0]["blocked"] == "6"


def test_clusters_side_by_side(tmp_path: Path) -> None:
    other = offices.snapshot()
    other.cluster = "two"
    site = sites.site_of(tmp_path, [offices.snapshot(), other])
    client = Client(sites.portal_of(site))
    assert {one["cluster"] for one in client.get("/accounts.json").json["accounts"]} == {"lab", "two"}
    assert client.get("/accounts").status == 200
    assert client.get("/clusters/nowhere/accounts").status == 404


def test_hostile_names(tmp_path: Path) -> None:
    shares = (offices.share("root", None), offices.share(HOSTILE, "root"), offices.share(HOSTILE, HOSTILE, HOSTILE))
    jobs = (job(1, user=HOSTILE, account=HOSTILE, qos=HOSTILE, reason="AssocGrpJobsLimit"),)
    limits = (limit("GrpJobs", 1, 1, account=HOSTILE), limit("GrpJobs", 1, 1, qos=HOSTILE), limit("X" * 300, 1, 1))
    client = offices.reader(offices.site(tmp_path, offices.snapshot(jobs, shares, limits)))
    page = client.get(AT + "?people=true")
    assert page.status == 200 and "<b>x" not in page.text and "\u202e" not in page.text
    assert client.get(AT + ".json").status == client.get(AT + ".csv?people=true").status == 200
    assert len(client.get(AT + ".csv?people=true").text.splitlines()) == 4


def test_in_french(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path))
    page = client.get(AT, accept_language="fr").text
    assert "<h1>Comptes</h1>" in page and "De 4 comptes, 2 sont bloqués par une limite" in page


def test_each_poll_is_counted_anew(tmp_path: Path) -> None:
    before, after = offices.snapshot(), offices.snapshot((job(1, "RUNNING", user="zoe", account="arts", tasks=7),))
    for found, expected in ((before, 1), (after, 7), (before, 1)):
        told = offices.reader(offices.site(tmp_path, found)).get(AT + ".json").json["accounts"]
        assert [one["running"] for one in told if one["account"] == "arts"] == [expected]
