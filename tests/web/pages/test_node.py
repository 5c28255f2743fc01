# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One node: what it went through, its jobs, how it fares beside its peers, and who may open it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from findings.cases import node
from lives import job
from web import sites
from web.client import Client

from slurmscope.life import Life, seen
from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode, NodeChange
from slurmscope.web.portal import Portal

NOW = sites.NOW
DAY = 86400
HOSTILE = "<script>alert(1)</script>\"'\n\u202e&/é"
FORMS = ("", ".json", ".csv")
SIGN_IN = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["root"])

Make = Callable[..., Client]


def change(time: int, state: str = "IDLE", *flags: str, of: str = "n1", **fields: Any) -> NodeChange:
    given: dict[str, Any] = {"reason": None, "reason_user": None, "reason_time": None}
    return NodeChange("alpha", of, time, state, flags, **(given | fields))


def life(id_: int, nodes: str, state: str = "COMPLETED", **fields: Any) -> Life:
    """One that ended an hour ago, or still runs."""
    ends = None if state == "RUNNING" else NOW - 3600
    given = {"submit_time": NOW - 9000, "start_time": NOW - 8000, "end_time": ends, "node_list": nodes}
    return seen(None, "alpha", job(id_, state, **(given | fields)), NOW)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Portal] = []

    def one(
        nodes: Sequence[Node],
        changes: Sequence[NodeChange] = (),
        lives: Sequence[Life] = (),
        jobs: Sequence[Job] = (),
        user: str = "",
        portal: PortalSettings | None = None,
    ) -> Client:
        """Somebody's browser; of the staff, where nobody is named."""
        if not made:
            parts: dict[str, Part[Any]] = {
                "nodes": Part(tuple(nodes), float(NOW), "text"),
                "jobs": Part(tuple(jobs), float(NOW), "text"),
            }
            site = sites.site_of(tmp_path, [Snapshot(cluster="alpha").replaced(**parts)], portal)
            store = open_store(site.url)
            with store.writing("alpha") as writer:
                writer.put_nodes([KeptNode("alpha", one, NOW, NOW - 400 * DAY) for one in nodes])
                writer.add_node_changes(changes)
            store.close()
            sites.keep(site, lives)
            made.append(sites.portal_of(site))
        return Client(made[0], headers={SIGN_IN.proxy_header: user} if user else {})

    yield one
    for portal in made:
        portal.close()


def table(client: Client, name: str, where: str = "n1") -> list[list[str]]:
    got = client.get(f"/clusters/alpha/nodes/{where}.csv?table={name}")
    assert got.status == 200, got.text
    return list(csv.reader(io.StringIO(got.text)))[1:]


@pytest.mark.parametrize(
    ("fields", "level", "headline"),
    [
        ({"cpus_allocated": 4}, "fine", "n1 is 25 % allocated"),
        ({"cpus_allocated": 16}, "fine", "n1 is full"),
        ({"cpus_allocated": 0, "state": "IDLE"}, "fine", "n1 is free"),
        ({"state": "DOWN", "reason": "PSU"}, "bad", "n1 is down: PSU"),
        ({"flags": frozenset({"DRAIN"}), "reason": "disk"}, "note", "n1 is draining: disk"),
        ({"flags": frozenset({"DRAIN"}), "cpus_allocated": 0}, "note", "n1 is drained"),
        ({"flags": frozenset({"MAINT"})}, "note", "n1 is set aside"),
        ({"state": "UNKNOWN", "cpus_allocated": 0}, "unknown", "The state of n1 is not known"),
    ],
)
def test_the_headline_says_how_it_is(make: Make, fields: dict[str, Any], level: str, headline: str) -> None:
    verdict = make([node("n1", **fields)]).get("/clusters/alpha/nodes/n1.json").json["verdict"]
    assert (verdict["level"], verdict["headline"]) == (level, headline)


def test_since_when_by_whom_and_who_holds_it(make: Make) -> None:
    one = node("n1", flags=frozenset({"DRAIN"}), reason="disk", reason_user="ops", reason_time=NOW - 7200)
    running = [
        job(1, "RUNNING", node_list="n[1-2]"),
        job(2, "RUNNING", node_list="n1"),
        job(3, "RUNNING", node_list="n2"),
    ]
    lead = make([one], jobs=running).get("/clusters/alpha/nodes/n1.json").json["verdict"]["lead"]
    assert lead == (
        "Since Wed 31 Dec 2025 22:00, for 2 h 0 min, as ops said. 2 jobs hold it, with 4 of its 16 CPUs allocated."
    )


def test_one_that_fails_more_often_than_its_peers_stands_out(make: Make) -> None:
    """A failure is a time at which it went down: not each line that tells of it, and no reboot that was meant."""
    nodes = [node(f"n{at}") for at in range(1, 6)]
    failed = [
        found
        for at in range(4)
        for found in (
            change(NOW - (80 - 10 * at) * DAY, "DOWN", reason="Not responding"),
            change(NOW - (80 - 10 * at) * DAY + 60, "DOWN", "NOT_RESPONDING", reason="Not responding, again"),
            change(NOW - (80 - 10 * at) * DAY + 3600),
        )
    ]
    changes = [
        change(NOW - 300 * DAY),
        change(NOW - 200 * DAY, "DOWN", reason="long ago"),
        change(NOW - 199 * DAY),
        *failed,
        change(NOW - 5 * DAY, "DOWN", "REBOOT_ISSUED", reason="kernel"),
        change(NOW - 5 * DAY + 600),
        change(NOW - 3 * DAY, "MIXED", "DRAIN", reason="disk"),
        change(NOW - 3 * DAY + DAY),
        change(NOW - 9 * DAY, "DOWN", of="n2"),
    ]
    died = [life(at, f"n[{at}-{at + 1}]", "NODE_FAIL") for at in (1, 2)]
    client = make(nodes, changes, died)
    found = client.get("/clusters/alpha/nodes/n1.json").json
    assert found["record"]["own"] == {"downs": 4, "drains": 1, "died": 1}
    assert (found["record"]["peers"], found["record"]["downs"], found["record"]["died"]) == (4, 0.25, 0.75)
    assert "It failed 4 times in 90 days; its 4 peers 0.2 times on average." in found["verdict"]["lead"]
    assert found["verdict"]["level"] == "note"
    # an hour each time, ten minutes for a reboot, and a day
    assert found["available_share"] == pytest.approx(1 - (4 * 3600 + 600 + DAY) / (90 * DAY))
    assert [row[1:] for row in table(client, "record")] == [
        ["4", "0.25"],
        ["1", "0.0"],
        ["1", "0.75"],
        [str(found["available_share"]), ""],
    ]


def test_one_as_good_as_its_peers_does_not_stand_out(make: Make) -> None:
    changes = [change(NOW - 100 * DAY, of=f"n{at}") for at in (1, 2, 3)]
    lead = (
        make([node(f"n{at}") for at in (1, 2, 3)], changes).get("/clusters/alpha/nodes/n1.json").json["verdict"]["lead"]
    )
    assert lead == "No job holds it. It did not fail in the last 90 days."


def test_peers_are_of_the_same_kind(make: Make) -> None:
    nodes = [
        node("n1", partitions=("gpu",), gpus={"a100": 4}),
        *(node(f"n{at}", partitions=("gpu",), gpus={"a100": 4}) for at in (2, 3)),
        *(node(f"n{at}", partitions=("gpu",), gpus={"h100": 4}) for at in (4, 5, 6)),
        node("n7", partitions=("cpu",)),
    ]
    client = make(nodes)
    records = {name: client.get(f"/clusters/alpha/nodes/{name}.json").json["record"] for name in ("n1", "n4", "n7")}
    assert {name: one["peers"] for name, one in records.items()} == {"n1": 2, "n4": 2, "n7": 0}
    assert records["n7"]["downs"] is None
    assert "there are no others like it to compare with" in client.get("/clusters/alpha/nodes/n7").text


def test_its_history_is_told_with_reasons(make: Make) -> None:
    changes = [
        change(NOW - 30 * DAY),
        change(NOW - 2 * DAY, "MIXED", "DRAIN", reason="bad dimm", reason_user="jdoe"),
        change(NOW - DAY, "MIXED"),
    ]
    client = make([node("n1")], changes)
    assert table(client, "changes") == [
        [str(NOW - DAY), "fine", "mixed", "", "", str(DAY)],
        [str(NOW - 2 * DAY), "drained", "mixed, drain", "bad dimm", "jdoe", str(DAY)],
        [str(NOW - 30 * DAY), "fine", "idle", "", "", str(28 * DAY)],
    ]
    page = client.get("/clusters/alpha/nodes/n1").text
    assert "for 1 d 0 h, bad dimm, by jdoe" in page
    kinds = re.findall(
        r'<rect class="(\w+)" x="([\d.]+)"', page.partition('class="stack strip"')[2].partition("</svg>")[0]
    )
    assert [kind for kind, _ in kinds] == ["free", "free", "held"]
    assert "not known" in page  # of the two months before


def test_its_jobs_now_and_before(make: Make) -> None:
    lives = [life(1, "n1", "RUNNING"), life(2, "n[1-3]"), life(3, "n2"), life(4, "n1", "FAILED", user="bob")]
    client = make([node("n1"), node("n2")], lives=lives)
    found = client.get("/clusters/alpha/nodes/n1.json").json
    assert [one["id"] for one in found["jobs"]] == [1]
    assert sorted(one["id"] for one in found["jobs_before"]) == [2, 4]
    assert (
        'href="/clusters/alpha/jobs?node=n1&amp;user=%2A&amp;time=all"' in client.get("/clusters/alpha/nodes/n1").text
    )


def test_one_that_is_not_there_any_more(make: Make) -> None:
    client = make([node("n2")], [change(NOW - 9 * DAY), change(NOW - 8 * DAY, "")])
    found = client.get("/clusters/alpha/nodes/n1.json").json
    assert (found["verdict"]["headline"], found["condition"]) == ("n1 is not there any more", "gone")
    assert client.get("/clusters/alpha/nodes/n1").status == 200
    for form in FORMS:
        assert client.get(f"/clusters/alpha/nodes/n3{form}").status == 404
        assert client.get(f"/clusters/beta/nodes/n2{form}").status == 404


def test_who_may_open_it(make: Make) -> None:
    """The staff, and who has or had a job there; of those they see only their own, and no names of others."""
    one = node("n1", state="DOWN", reason="disk", reason_user="ops", cpus_allocated=4)
    lives = [life(1, "n[1-2]"), life(2, "n1", user="bob", account="bio"), life(3, "n3", user="bob", account="bio")]
    running = [job(9, "RUNNING", node_list="n1", user="carol", account="bio")]
    parts = {"changes": [change(NOW - DAY, "DOWN", reason="disk", reason_user="ops")], "lives": lives, "jobs": running}
    nodes = [one, node("n2"), node("n3")]
    alice, bob, staff = (make(nodes, **parts, user=name, portal=SIGN_IN) for name in ("alice", "bob", "root"))
    for form in FORMS:
        opened = {
            who: [
                name for name in ("n1", "n2", "n3") if client.get(f"/clusters/alpha/nodes/{name}{form}").status == 200
            ]
            for who, client in (("alice", alice), ("bob", bob), ("staff", staff))
        }
        assert opened == {"alice": ["n1", "n2"], "bob": ["n1", "n3"], "staff": ["n1", "n2", "n3"]}
        missing = alice.get(f"/clusters/alpha/nodes/n3{form}"), alice.get(f"/clusters/alpha/nodes/n4{form}")
        assert missing[0].status == missing[1].status == 404
        assert missing[0].text.replace("n3", "n4") == missing[1].text
        text = alice.get(f"/clusters/alpha/nodes/n1{form}").text
        assert "disk" in text and not any(name in text for name in ("ops", "bob", "carol"))
    found = alice.get("/clusters/alpha/nodes/n1.json").json
    assert [one["id"] for one in found["jobs_before"]] == [1]
    assert found["holding_jobs"] == 1
    assert sorted(one["id"] for one in staff.get("/clusters/alpha/nodes/n1.json").json["jobs_before"]) == [1, 2]


def test_hostile_names_do_no_harm(make: Make) -> None:
    evil = node(HOSTILE, partitions=(HOSTILE,), features=(HOSTILE,), gpus={HOSTILE: 1}, reason=HOSTILE, version=HOSTILE)
    changes = [change(NOW - DAY, "DOWN", of=HOSTILE, reason=HOSTILE, reason_user=HOSTILE)]
    client = make([evil, node("n1")], changes)
    where = quote(HOSTILE, safe="")
    for form in FORMS:
        got = client.get(f"/clusters/alpha/nodes/{where}{form}")
        assert got.status == 200
        assert form or not re.search(r"<script>alert|>[^<]*\u202e", got.text)
        # a byte that is no text
        refused = client.get(f"/clusters/alpha/nodes/{where}%FF{form}")
        assert refused.status == 404
        assert form or not re.search(r"<script>alert|>[^<]*\u202e", refused.text)
