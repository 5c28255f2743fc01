# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a job: which one is meant where several had its number, as happens when numbers come round again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lives import accounted, job, step
from msgspec.structs import replace
from web import sites, town
from web.client import Client

from slurmscope import life as lives
from slurmscope.life import Accounted, Life, told
from slurmscope.model import Part
from slurmscope.web.portal import Portal

DAY = 86400
FORMS = ("", ".json", ".csv", ".pdf")


def _life(id_: int, days_ago: int, *, his: bool = False, **fields: Any) -> Life:
    submitted = sites.NOW - days_ago * DAY
    given: dict[str, Any] = {
        "user": town.BOB if his else town.ALICE,
        "account": town.CHEMISTRY if his else town.PHYSICS,
        "submit_time": submitted,
        "start_time": submitted + 60,
        "end_time": submitted + 600,
    }
    return told(None, town.CLUSTER, accounted(job(id_, "COMPLETED", **(given | fields))), sites.NOW)


def _array(number: int, tasks: int, days_ago: int, *, his: bool = False) -> list[Life]:
    return [
        _life(number + tasks - at, days_ago, his=his, array_id=number, array_tasks=str(at))
        for at in range(1, tasks + 1)
    ]


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    site = sites.site_of(tmp_path_factory.mktemp("job"), [town.snapshot()], town.SETTINGS)
    site.script = lambda life: f"#!/bin/sh\n# of {life.user}\n"
    some = [_life(7, 50), _life(7, 20), _life(7, 3, his=True)]
    some += [*_array(100, 2, 30), *_array(100, 3, 5, his=True)]
    some += [*_array(200, 2, 30), _life(200, 5, his=True)]
    sites.keep(site, some)
    found = sites.portal_of(site)
    yield found
    found.close()


def seen(portal: Portal, who: str, number: str) -> list[tuple[str, int]]:
    """Whose it is, and how many days ago it was submitted; of each task, where it is an array."""
    found = town.as_(portal, who).get(f"/clusters/{town.CLUSTER}/jobs/{number}.json").json
    jobs = [one["job"] for one in found["tasks"]] if "tasks" in found else [found["job"]]
    return [(one["user"], (sites.NOW - one["submit_time"]) // DAY) for one in jobs]


def test_it_is_the_newest_that_one_may_see(portal: Portal) -> None:
    assert seen(portal, town.ALICE, "7") == seen(portal, town.CAROL, "7") == [(town.ALICE, 20)]
    assert seen(portal, town.BOB, "7") == seen(portal, town.SAM, "7") == [(town.BOB, 3)]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_not_there_only_for_who_may_see_none_of_them(portal: Portal, form: str) -> None:
    for number in ("7", "100", "100_1", "200"):
        for who, status in ((town.ALICE, 200), (town.BOB, 200), (town.SAM, 200), ("dave", 404)):
            got = town.as_(portal, who).get(f"/clusters/{town.CLUSTER}/jobs/{number}{form}")
            assert got.status == status, (who, number)
            assert form == ".pdf" or who in (town.SAM, town.BOB) or town.BOB not in got.text


def test_with_the_time_of_its_submission_each_is_itself(portal: Portal) -> None:
    for days, his in ((50, False), (20, False), (3, True)):
        number = f"7.{sites.NOW - days * DAY}"
        assert seen(portal, town.SAM, number) == [(town.BOB if his else town.ALICE, days)]
        theirs = town.as_(portal, town.ALICE).get(f"/clusters/{town.CLUSTER}/jobs/{number}.json")
        assert theirs.status == (404 if his else 200)


def test_arrays_of_two_people_are_two(portal: Portal) -> None:
    assert seen(portal, town.ALICE, "100") == [(town.ALICE, 30)] * 2
    assert seen(portal, town.SAM, "100") == [(town.BOB, 5)] * 3
    assert seen(portal, town.ALICE, "100_2") == [(town.ALICE, 30)]
    assert seen(portal, town.SAM, "100_2") == [(town.BOB, 5)]
    assert town.as_(portal, town.ALICE).get(f"/clusters/{town.CLUSTER}/jobs/100_3").status == 404


def test_a_job_that_is_no_array_may_have_the_number_of_one(portal: Portal) -> None:
    assert seen(portal, town.ALICE, "200") == [(town.ALICE, 30)] * 2
    assert seen(portal, town.SAM, "200") == [(town.BOB, 5)]


def test_what_goes_with_a_job_is_of_the_same_one(portal: Portal) -> None:
    alice, page = town.as_(portal, town.ALICE), f"/clusters/{town.CLUSTER}/jobs/7"
    assert alice.get(f"{page}/script.json").json["script"] == f"#!/bin/sh\n# of {town.ALICE}\n"
    link = alice.post(f"{page}/share", {"days": "1"}, page=page).text.partition("/shared/")[2].partition("<")[0]
    shared = town.as_(portal, "").get(f"/shared/{link}.json").json["job"]
    assert (shared["user"], shared["submit_time"]) == (town.ALICE, sites.NOW - 20 * DAY)


def test_older_addresses_lead_to_the_same(portal: Portal) -> None:
    for who in (town.ALICE, town.BOB):
        assert who in town.as_(portal, who).get("/mail/7").text
    assert town.as_(portal, "dave").get("/mail/7").status == 404


def _over(id_: int, **fields: Any) -> Accounted:
    ended = job(id_, "COMPLETED", user=town.ALICE, account=town.PHYSICS, node_list=town.NODE, name="train")
    times = {"submit_time": sites.NOW - 900, "start_time": sites.NOW - 800, "end_time": sites.NOW - 700}
    return accounted(replace(ended, **times), **fields)


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({"submit_line": "sbatch --mem=1G a.sh", "steps": (step("batch"),)}, True),
        ({"steps": (step("batch"),)}, True),
        ({"steps": ()}, True),
        ({"submit_line": "/usr/bin/salloc -n1"}, False),
        ({"submit_line": "srun hostname"}, False),
        ({"steps": (step("interactive"),)}, False),
    ],
)
def test_a_script_is_offered_where_there_may_be_one(tmp_path: Path, fields: dict[str, Any], offered: bool) -> None:
    site = sites.site_of(tmp_path, [town.snapshot()], town.SETTINGS)
    sites.keep(site, [told(None, town.CLUSTER, _over(5, **fields), sites.NOW)])
    found = sites.portal_of(site)
    try:
        page = town.as_(found, town.ALICE).get(f"/clusters/{town.CLUSTER}/jobs/5")
    finally:
        found.close()
    assert page.status == 200
    assert ("/jobs/5/script" in page.text) == offered


def test_why_it_waits_is_told_by_the_clock_of_who_reads(tmp_path: Path) -> None:
    begins = sites.NOW + 7200
    mine = {"user": town.ALICE, "account": town.PHYSICS, "submit_time": sites.NOW - 600, "start_time": begins}
    waits = job(77, "PENDING", reason="BeginTime", node_list="", eligible_time=begins, **mine)
    snapshot = town.snapshot().replaced(jobs=Part((waits,), float(sites.NOW), "text"))
    site = sites.site_of(tmp_path, [snapshot], town.SETTINGS)
    sites.keep(site, [lives.seen(None, town.CLUSTER, waits, sites.NOW)])
    portal = sites.portal_of(site)
    address = f"/clusters/{town.CLUSTER}/jobs/77"
    utc = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(begins))
    plain = town.as_(portal, town.ALICE).get(address).text
    assert utc in plain.partition("Why it waits")[2].partition("</section>")[0]
    there = Client(portal, headers={"x-remote-user": town.ALICE, "cookie": "zone=Asia/Kolkata"})
    why = there.get(address).text.partition("Why it waits")[2].partition("</section>")[0]
    local = time.strftime("%a %d %b %H:%M +05:30", time.gmtime(begins + 19800))
    assert local in why and " UTC" not in why
    assert utc in there.get(f"{address}.json").text, "programs are told the same, wherever they are"
    portal.close()
