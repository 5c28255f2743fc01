# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of an account: for its coordinators and the staff, with the report's own figures."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import pytest
from lives import job
from waiting.snapshots import limit
from web import offices, sites

from slurmscope.life import Accounted
from slurmscope.reports.holder import SCREEN
from slurmscope.reports.period import last_days

AT = "/clusters/lab/accounts/bio"
HOSTILE = "<b>x</b>\"';/\n\u202e&"


def told() -> list[Accounted]:
    bio = [offices.ran(100 + at, at + 1, "eve" if at % 3 else "bob", "bio") for at in range(20)]
    return [*bio, *(offices.ran(200 + at, at + 1, "ann", "physics") for at in range(5))]


def test_the_report_with_what_is_now(tmp_path: Path) -> None:
    site = offices.site(tmp_path, told=told())
    client = offices.reader(site)
    found = client.get(AT + ".json").json
    report = site.reports(discreet=False).account("bio", last_days(30, sites.NOW), "lab", looked=SCREEN)
    assert report is not None
    assert found["used"]["cpu_seconds"] == report.data["used"]["cpu_seconds"] == 20 * 2 * 3600 * 4
    assert {one["user"]: one["ended"] for one in found["by_user"]} == {"bob": 7, "eve": 13}
    assert found["verdict"]["headline"] == report.verdict.headline
    assert found["verdict"]["lead"].endswith(
        "In the queue now: 1 job running, 2 waiting, 1 of these for a limit, "
        "most for GrpTRES gres/gpu of the account science: 8 GPUs."
    )
    assert found["now"] == {"running": 1, "waiting": 2, "blocked": 1}
    assert {(one["account"], one["user"]) for one in found["limits"]} == {("science", None), ("bio", "eve")}
    assert {one["user"] for one in found["shares"]} == {None, "bob", "eve"}
    page = client.get(AT).text
    for title in ("Who is blocked by which limit", "Limits", "What was found", "Core-hours a day", "By user"):
        assert f"<h2>{title}</h2>" in page
    assert "A job&#39;s page says what to change" in page and "slurmscope report job" not in page


def test_a_period_that_is_over_has_nothing_of_now(tmp_path: Path) -> None:
    """Nobody reads in October's report how long today's queue is."""
    client = offices.reader(offices.site(tmp_path, told=told()))
    day = time.gmtime(sites.NOW - 15 * 86400)
    before = time.strftime("%Y-%m", time.gmtime(sites.NOW - (day.tm_mday + 15) * 86400))
    page = client.get(f"{AT}?month={before}").text
    assert "In the queue now" not in page and "Who is blocked by which limit" not in page
    assert client.get(f"{AT}.json?month={before}").json["now"] == {"running": 1, "waiting": 2, "blocked": 1}


def test_its_forms(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, told=told()))
    assert client.get(AT + ".pdf").body.startswith(b"%PDF")
    assert len(client.get(AT + ".csv?table=by_user").text.splitlines()) == 3
    assert client.get(AT + ".csv").text.startswith("day,cluster,account,user")


@pytest.mark.parametrize(
    ("asked", "days", "status"),
    [
        ("", 30, 200),
        ("?days=7", 7, 200),
        ("?days=90", 90, 200),
        ("?month=2025-12", 31, 200),
        ("?days=8", 0, 400),
        ("?month=2026-13", 0, 400),
        ("?month=2027-01", 0, 400),
        ("?month=x", 0, 400),
    ],
)
def test_its_period(tmp_path: Path, asked: str, days: int, status: int) -> None:
    client = offices.reader(offices.site(tmp_path, told=told()))
    found = client.get(AT + ".json" + asked)
    assert found.status == client.get(AT + asked).status == status
    if days:
        assert found.json["until"] - found.json["since"] == days * 86400


@pytest.mark.parametrize("form", ["", ".json", ".csv", ".pdf"])
@pytest.mark.parametrize("name", ["bob", "eve", "zoe", "stranger"])
def test_others_find_nothing(tmp_path: Path, name: str, form: str) -> None:
    client = offices.reader(offices.site(tmp_path, told=told()), name)
    hidden, missing = client.get(AT + form), client.get("/clusters/lab/accounts/nix" + form)
    assert hidden.status == missing.status == 404
    assert hidden.body.replace(b"bio", b"nix") == missing.body or form == ""
    assert b"eve" not in hidden.body.replace(name.encode(), b"")


@pytest.mark.parametrize("name", [offices.STAFF, "lead"])
def test_a_coordinator_sees_it_as_the_staff_does(tmp_path: Path, name: str) -> None:
    client = offices.reader(offices.site(tmp_path, told=told()), name)
    assert client.get(AT).status == 200
    assert {one["user"] for one in client.get(AT + ".json").json["by_user"]} == {"bob", "eve"}
    assert client.get("/clusters/lab/accounts/nix").status == 404


def test_one_that_only_has_accounts_below_it(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, told=told()), "lead")
    found = client.get("/clusters/lab/accounts/science.json").json
    assert found["verdict"]["headline"] == "science ran nothing itself; 2 accounts below it used 200 core-hours"
    assert found["now"] == {"running": 2, "waiting": 7, "blocked": 6}
    page = client.get("/clusters/lab/accounts/science").text
    assert "<h2>Accounts below it</h2>" in page and 'href="/clusters/lab/accounts/physics"' in page


def test_nothing_was_used(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, offices.snapshot(jobs=None)))
    found = client.get("/clusters/lab/accounts/arts.json").json
    assert found["verdict"]["headline"] == "arts used nothing in 2025-12-03 to 2026-01-01"
    assert found["verdict"]["lead"] == "What is in the queue now has not been read yet."
    assert client.get("/clusters/lab/accounts/arts.pdf").status == 200


def test_one_of_which_only_jobs_are_left(tmp_path: Path) -> None:
    client = offices.reader(offices.site(tmp_path, offices.snapshot(shares=None), told=told()))
    assert client.get(AT + ".json").json["now"] == {"running": 1, "waiting": 2, "blocked": 1}
    assert client.get(AT).status == 200
    assert client.get("/clusters/lab/accounts/nix").status == 404


def test_hostile_names(tmp_path: Path) -> None:
    shares = (offices.share("root", None), offices.share(HOSTILE, "root"), offices.share(HOSTILE, HOSTILE, HOSTILE))
    jobs = (job(1, user=HOSTILE, account=HOSTILE, reason="AssocGrpJobsLimit"),)
    found = offices.snapshot(jobs, shares, (limit("GrpJobs", 1, 1, account=HOSTILE),))
    client = offices.reader(offices.site(tmp_path, found, [offices.ran(1, 2, HOSTILE, HOSTILE, name=HOSTILE)]))
    at = f"/clusters/lab/accounts/{quote(HOSTILE, safe='')}"
    page = client.get(at)
    assert page.status == 200 and "<b>x" not in page.text and "\u202e" not in page.text
    assert [client.get(at + form).status for form in (".json", ".csv", ".pdf")] == [200, 200, 200]
