# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is found by a name's beginning, and that what is not shown is told of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from findings.cases import node
from lives import accounted, job
from web import sites, town
from web.client import Client

from slurmscope.life import told
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode


@pytest.fixture
def staff(tmp_path: Path) -> Iterator[Client]:
    """Of a town with many nodes whose names begin as that of an account does."""
    site = town.settled(tmp_path)
    store = open_store(site.url)
    with store.writing(town.CLUSTER) as writer:
        writer.put_nodes([KeptNode(town.CLUSTER, node(f"ph{at:02}"), town.NOW - 10, town.NOW - 99) for at in range(25)])
    store.close()
    portal = sites.portal_of(site)
    yield town.as_(portal, town.SAM)
    portal.close()


def test_accounts_come_before_nodes_and_it_is_told_that_there_are_more(staff: Client) -> None:
    found = staff.get("/search.json?q=ph").json
    assert [one["kind"] for one in found["found"]] == ["account", *["node"] * 20]
    assert found["more"] is True
    page = staff.get("/search?q=ph").text
    assert "More than 21 found for" in page and "write more of the name" in page


def test_all_that_was_found_is_shown(staff: Client) -> None:
    found = staff.get("/search.json?q=ph1").json
    assert [one["name"] for one in found["found"]] == [f"ph{at}" for at in range(10, 20)]
    assert found["more"] is False
    page = staff.get("/search?q=ph1").text
    assert "10 found for" in page and "write more" not in page


def test_a_task_is_found_however_large_its_array(tmp_path: Path) -> None:
    site = town.settled(tmp_path)
    tasks = [
        job(5000 + at, "COMPLETED", user=town.ALICE, account=town.PHYSICS, array_id=5000, array_tasks=str(at))
        for at in range(1, 61)
    ]
    sites.keep(site, [told(None, town.CLUSTER, accounted(one), town.NOW) for one in tasks])
    portal = sites.portal_of(site)
    for who, wanted, found in (
        (town.ALICE, "5000_3", [("job", "5000_3")]),
        (town.ALICE, "5000_60", [("job", "5000_60")]),
        (town.ALICE, "5000_61", []),
        (town.ALICE, "5000", [("array", "5000")]),
        (town.BOB, "5000_3", []),
    ):
        got = town.as_(portal, who).get(f"/search.json?q={wanted}").json
        assert [(one["kind"], one["name"]) for one in got["found"]] == found, (who, wanted)
    portal.close()


def test_who_leads_an_account_finds_oneself_among_many_members(tmp_path: Path) -> None:
    site = town.settled(tmp_path)
    members = [job(900 + at, "COMPLETED", user=f"c{at:02}", account=town.PHYSICS) for at in range(30)]
    sites.keep(site, [told(None, town.CLUSTER, accounted(one), town.NOW) for one in members])
    portal = sites.portal_of(site)
    found = town.as_(portal, town.CAROL).get("/search.json?q=c").json
    assert [(one["kind"], one["name"]) for one in found["found"]] == [("user", town.CAROL)] and not found["more"]
    own = town.as_(portal, town.CAROL).get("/search.json?q=phy").json
    assert [(one["kind"], one["name"]) for one in own["found"]] == [("account", town.PHYSICS)]
    portal.close()


def test_what_is_known_of_each_stands_beside_it(staff: Client) -> None:
    assert "in root" in staff.get("/search?q=p").text
    assert (
        staff.get(f"/search.csv?q={town.HIS_NODE}").text.splitlines()[1] == f"node,{town.HIS_NODE},{town.CLUSTER},MIXED"
    )
