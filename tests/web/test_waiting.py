# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Why a job waits is told to its owner without the names of those before it, whatever the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lives import job
from web import sites, town
from web.client import Client

from slurmscope.life import seen
from slurmscope.model import Job, License, Limit, Part, Reservation, Snapshot
from slurmscope.web.portal import Portal
from slurmscope.web.shares import Shares

NOW = town.NOW
MINE = 31
HIDDEN = "sshd at login9: permission denied"
RESERVATION = Reservation(
    "course", "ACTIVE", NOW - 100, NOW + 9000, town.NODE, 1, 4, (), "main", (), (town.PHYSICS,), None, {}
)
LIMITS = (
    Limit("association", "root", None, None, None, "GrpTRES", "cpu", 8.0, 8.0),
    Limit("qos", None, town.BOB, None, "normal", "MaxTRESPU", "cpu", 8.0, 8.0),
)
WAITS: dict[str, dict[str, object]] = {
    "Priority": {},
    "Resources": {},
    "Licenses": {"licenses": "matlab:1"},
    "Reservation": {"reservation": "course"},
    "Dependency": {"dependency": f"afterok:{town.HIS_JOB}(unfulfilled)"},
    "AssocGrpCpuLimit": {},
    "QOSMaxCpuPerUserLimit": {},
}
Make = Callable[[str], Portal]


def _his(id_: int, state: str, **fields: object) -> Job:
    own = {"user": town.BOB, "account": town.CHEMISTRY, "name": "hushwork", "priority": 900, "submit_time": NOW - 900}
    return job(id_, state, **(own | fields))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Portal] = []

    def one(reason: str) -> Portal:
        mine = job(MINE, "PENDING", reason=reason, submit_time=NOW - 500, **WAITS[reason])
        queue = (
            mine,
            _his(town.HIS_JOB, "RUNNING", licenses="matlab:2", reservation="course", start_time=NOW - 800),
            _his(town.HIS_JOB + 1, "PENDING"),
        )

        def part(value: object) -> Part[object]:
            return Part(value, float(NOW - 10), "text")

        snapshot: Snapshot = town.snapshot().replaced(
            jobs=part(queue),
            limits=part(LIMITS),
            reservations=part((RESERVATION,)),
            licenses=part((License("matlab", 2, 2, 0, 0, False),)),
            partitions=Part(None, None, "text", error=HIDDEN),
        )
        site = sites.site_of(tmp_path, [snapshot], town.SETTINGS)
        sites.keep(site, [seen(None, town.CLUSTER, one, NOW - 10) for one in queue])
        made.append(sites.portal_of(site))
        return made[-1]

    yield one
    for portal in made:
        portal.close()


@pytest.mark.parametrize("reason", WAITS)
def test_nobody_else_is_named(make: Make, reason: str) -> None:
    portal = make(reason)
    alice, page = town.as_(portal, town.ALICE), f"/clusters/alpha/jobs/{MINE}"
    shared = Shares(portal.site.settings).token(town.CLUSTER, MINE, NOW - 500, town.ALICE, 1, NOW)
    # the number that she gave herself she may know
    hidden = (town.BOB, town.CHEMISTRY, "hushwork", HIDDEN)
    for who, address in (
        *((alice, page + form) for form in ("", ".json", ".csv")),
        (alice, f"/api/v1{page}"),
        (alice, f"/mail/{MINE}"),
        (Client(portal, peer="10.0.0.1"), f"/shared/{shared}.json"),
    ):
        got = who.get(address)
        assert got.status == 200, address
        assert not [word for word in hidden if word in got.text], address


@pytest.mark.parametrize("reason", ["Priority", "Licenses", "Reservation", "Dependency", "AssocGrpCpuLimit"])
def test_the_staff_is_told_who(make: Make, reason: str) -> None:
    told = town.as_(make(reason), town.SAM).get(f"/clusters/alpha/jobs/{MINE}.json").text
    assert town.BOB in told


def test_how_many_are_before_it_is_told_to_all(make: Make) -> None:
    told = town.as_(make("Priority"), town.ALICE).get(f"/clusters/alpha/jobs/{MINE}").text
    assert "1 job of a higher priority" in told and "others 1" in told
