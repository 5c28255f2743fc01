# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The map and the table of nodes: numbers as the model has them, every filter and order, and who is led where."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from findings.cases import node
from lives import job
from msgspec.structs import replace
from web import sites
from web.client import Client, Got

from slurmscope.life import seen
from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode
from slurmscope.web.portal import Portal

NOW = sites.NOW
HOSTILE = "<script>alert(1)</script>\"'\n\u202e\udcff&"


def snapshot(nodes: Sequence[Node], jobs: Sequence[Job] = (), cluster: str = "alpha") -> Snapshot:
    return Snapshot(
        cluster=cluster, nodes=Part(tuple(nodes), float(NOW), "text"), jobs=Part(tuple(jobs), float(NOW), "text")
    )


NODES = (
    node("cn1", cpus_allocated=16, partitions=("cpu",), features=("avx",), load=16.0),
    node("cn2", cpus_allocated=0, state="IDLE", partitions=("cpu",), load=0.1),
    node("cn10", cpus_allocated=8, partitions=("cpu", "long")),
    node("gn1", partitions=("gpu",), gpus={"a100": 4}, gpus_allocated={"a100": 3}, flags=frozenset({"DRAIN"})),
    node("gn2", partitions=("gpu",), gpus={"h100": 4}, state="DOWN", cpus_allocated=0, load=None),
    node("gn3", partitions=("gpu",), gpus={"h100": 4}, flags=frozenset({"MAINT"}), cpus_allocated=0, reason="October"),
    node("gn4", partitions=(), state="IDLE", flags=frozenset({"DRAIN"}), cpus_allocated=0, reason="disk"),
    node("x", partitions=("cpu",), state="UNKNOWN", cpus_allocated=0),
)
JOBS = (
    job(1, "RUNNING", node_list="cn1"),
    job(2, "RUNNING", node_list="cn[1,10]", user="bob", account="bio"),
    job(3, "PENDING"),
)


@pytest.fixture
def portals() -> Iterator[list[Portal]]:
    made: list[Portal] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def client(tmp_path: Path, portals: list[Portal]) -> Client:
    """Of somebody of the staff: nobody signs in."""
    portals.append(sites.portal_of(sites.site_of(tmp_path, [snapshot(NODES, JOBS)])))
    return Client(portals[-1])


def names(got: Got) -> list[str]:
    assert got.status == 200, got.text
    return [one["node"]["name"] for one in got.json["nodes"]]


def tiles(got: Got) -> dict[str, tuple[str, str]]:
    """Of each tile its classes and its link, by name."""
    assert got.status == 200, got.text
    tile = r'<(?:a href="([^"]*)"|g)><text>.</text><title>(.*?): .*?</title><rect class="([^"]*)"'
    found = re.findall(tile, got.text, re.S)
    return {name: (look, link) for link, name, look in found}


def test_the_sentence_counts_what_the_model_has(client: Client) -> None:
    verdict = client.get("/clusters/alpha/nodes.json").json["verdict"]
    usable = sum(one.usable for one in NODES)
    assert verdict["headline"] == f"{usable} of {len(NODES)} nodes can take work"
    share = sum(one.cpus_allocated for one in NODES) / sum(one.cpus for one in NODES)
    assert verdict["lead"] == (
        f"{share * 100:.0f} % of all CPUs there are allocated. "
        "Away: 1 down, 1 draining, 1 drained, 1 set aside, 1 in no known state; mostly: October (1), disk (1)."
    )


def test_each_node_is_one_tile_by_what_it_is(client: Client) -> None:
    found = tiles(client.get("/clusters/alpha/nodes"))
    assert {name: look for name, (look, _) in found.items()} == {
        "cn1": "f8",
        "cn2": "f0",
        "cn10": "f4",
        "gn1": "f2 draining",
        "gn2": "down",
        "gn3": "f0 aside",
        "gn4": "f0 drained",
        "x": "unknown",
    }
    assert found["cn10"][1] == "/clusters/alpha/nodes/cn10"
    for group in ("partition", "gpu", "none"):
        assert tiles(client.get(f"/clusters/alpha/nodes?group={group}")) == found


def test_headings_of_groups_count_their_nodes(client: Client) -> None:
    page = client.get("/clusters/alpha/nodes").text
    told = re.findall(r"<h3>(.*?)</h3>\s*<p class=\"soft\">(.*?)</p>", page)
    assert told == [
        ("cpu", "2 of 3 can take work"),
        ("gpu", "0 of 3 can take work"),
        ("cpu, long", "1 of 1 can take work"),
        ("in no partition", "0 of 1 can take work"),
    ]
    page = client.get("/clusters/alpha/nodes?group=gpu").text
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["h100", "a100", "without GPUs"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("state=down", ["gn2"]),
        ("state=draining&state=drained", ["gn1", "gn4"]),
        ("state=aside", ["gn3"]),
        ("state=up", ["cn1", "cn2", "cn10"]),
        ("state=unknown", ["x"]),
        ("partition=long", ["cn10"]),
        ("gpu=h100", ["gn2", "gn3"]),
        ("feature=avx", ["cn1"]),
        ("name=CN1", ["cn1", "cn10"]),
        ("name=cn&state=up&partition=cpu", ["cn1", "cn2", "cn10"]),
        ("partition=none", []),
    ],
)
def test_filters(client: Client, asked: str, expected: list[str]) -> None:
    assert names(client.get(f"/clusters/alpha/nodes.json?{asked}")) == expected
    assert set(tiles(client.get(f"/clusters/alpha/nodes?{asked}"))) == set(expected)
    rows = list(csv.DictReader(io.StringIO(client.get(f"/clusters/alpha/nodes.csv?{asked}").text)))
    assert sorted(row["node"] for row in rows) == sorted(expected)
    page = client.get(f"/clusters/alpha/nodes?{asked}&view=table").text
    assert page.count('<th scope="row" role="rowheader"') == len(expected) + reasons(page)


def reasons(page: str) -> int:
    """Rows of the table of reasons, which stands behind."""
    return page.partition("Why nodes are away")[2].count('<th scope="row" role="rowheader"')


def test_a_filter_can_be_taken_away(client: Client) -> None:
    page = client.get("/clusters/alpha/nodes?state=down&gpu=h100&view=table").text
    assert 'href="/clusters/alpha/nodes?view=table&amp;gpu=h100" aria-label="remove state down"' in page
    assert 'href="/clusters/alpha/nodes?view=table&amp;state=down" aria-label="remove gpu h100"' in page


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("sort=name", ["cn1", "cn2", "cn10", "gn1", "gn2", "gn3", "gn4", "x"]),
        ("sort=name&descending=true", ["x", "gn4", "gn3", "gn2", "gn1", "cn10", "cn2", "cn1"]),
        ("sort=state", ["cn1", "cn2", "cn10", "gn1", "gn4", "gn2", "gn3", "x"]),
        ("sort=cpus&descending=true", ["cn1", "cn10", "gn1", "cn2", "gn2", "gn3", "gn4", "x"]),
        ("sort=gpus&descending=true", ["gn1", "gn2", "gn3", "cn1", "cn2", "cn10", "gn4", "x"]),
        ("sort=load&descending=true", ["cn1", "cn10", "gn1", "gn3", "gn4", "x", "cn2", "gn2"]),
        ("sort=load", ["cn2", "cn10", "gn1", "gn3", "gn4", "x", "cn1", "gn2"]),
        ("sort=jobs&descending=true", ["cn1", "cn10", "cn2", "gn1", "gn2", "gn3", "gn4", "x"]),
    ],
)
def test_orders(client: Client, asked: str, expected: list[str]) -> None:
    rows = csv.DictReader(io.StringIO(client.get(f"/clusters/alpha/nodes.csv?{asked}").text))
    assert [row["node"] for row in rows] == expected
    page = client.get(f"/clusters/alpha/nodes?view=table&{asked}").text
    shown = re.findall(r'rowheader"><a href="/clusters/alpha/nodes/(\w+)"', page.partition("Why nodes are away")[0])
    assert shown == expected


def test_figures_of_a_row_are_those_of_the_model(client: Client) -> None:
    rows = {row["node"]: row for row in csv.DictReader(io.StringIO(client.get("/clusters/alpha/nodes.csv").text))}
    for one in NODES:
        row = rows[one.name]
        assert row["state"] == one.state
        assert row["flags"].split() == sorted(one.flags)
        assert int(row["cpus"]) == one.cpus and int(row["cpus_allocated"]) == one.cpus_allocated
        assert int(row["memory_bytes"]) == one.memory
        assert int(row["gpus"]) == sum(one.gpus.values())
    assert {name: row["jobs"] for name, row in rows.items() if row["jobs"] != "0"} == {"cn1": "2", "cn10": "1"}
    assert rows["gn1"]["gpus_allocated"] == "3"
    assert rows["gn2"]["load"] == ""


def test_nodes_that_are_away_for_one_reason_stand_together(tmp_path: Path, portals: list[Portal]) -> None:
    some = [node(f"n{at}", state="DOWN", reason="power", reason_user="ops", reason_time=NOW - at) for at in (1, 2, 3)]
    portals.append(
        sites.portal_of(sites.site_of(tmp_path, [snapshot([*some, node("n9", flags=frozenset({"DRAIN"}))])]))
    )
    got = Client(portals[-1]).get("/clusters/alpha/nodes.csv?table=reasons")
    assert list(csv.reader(io.StringIO(got.text)))[1:] == [
        ["power", "down", "3", "n[1-3]", str(NOW - 3), "ops"],
        ["", "draining", "1", "n9", "", ""],
    ]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["a", "b", "c"], "Away: 3 down, each for another reason."),
        (["a", "b"], "Away: 2 down; mostly: a (1), b (1)."),
        (["a", "b", "c", "c"], "Away: 4 down; mostly: c (2), a (1)."),
        (["a", "b", "c", None], "Away: 4 down; mostly: a (1), b (1)."),
    ],
)
def test_why_nodes_are_away_in_a_sentence(
    tmp_path: Path, portals: list[Portal], reasons: list[str | None], said: str
) -> None:
    some = [node(f"n{at}", state="DOWN", reason=reason) for at, reason in enumerate(reasons)]
    portals.append(sites.portal_of(sites.site_of(tmp_path, [snapshot(some)])))
    lead = Client(portals[-1]).get("/clusters/alpha/nodes.json").json["verdict"]["lead"]
    assert lead.endswith(said)


def test_a_table_has_pages_and_the_sheet_has_all(tmp_path: Path, portals: list[Portal]) -> None:
    many = [node(f"n{at:04}") for at in range(250)]
    portals.append(sites.portal_of(sites.site_of(tmp_path, [snapshot(many)])))
    client = Client(portals[-1])
    found = []
    for page in (1, 2, 3):
        text = client.get(f"/clusters/alpha/nodes?view=table&page={page}").text
        found += re.findall(r'rowheader"><a href="/clusters/alpha/nodes/(\w+)"', text)
        assert ('rel="next"' in text) == (page < 3) and ('rel="prev"' in text) == (page > 1)
    assert found == [one.name for one in many]
    assert client.get("/clusters/alpha/nodes.csv?page=2").text.count("\r\n") == 251
    assert len(names(client.get("/clusters/alpha/nodes.json?page=3"))) == 250
    assert client.get("/clusters/alpha/nodes?view=table&page=9").status == 200


def test_all_clusters_have_a_map_each(tmp_path: Path, portals: list[Portal]) -> None:
    shots = [snapshot([node("n1")], cluster="alpha"), snapshot([node("n1"), node("n2")], cluster="beta")]
    portals.append(sites.portal_of(sites.site_of(tmp_path, shots)))
    client = Client(portals[-1])
    page = client.get("/nodes").text
    assert re.findall(r"<h2>(\w+)</h2>", page) == ["alpha", "beta"]
    assert "3 of 3 nodes can take work" in page
    assert page.count('<rect class="f2" x=') == 3
    rows = list(csv.DictReader(io.StringIO(client.get("/nodes.csv").text)))
    assert [(row["cluster"], row["node"]) for row in rows] == [("alpha", "n1"), ("beta", "n1"), ("beta", "n2")]
    assert client.get("/clusters/gamma/nodes").status == 404


def test_what_was_never_read_and_what_is_not_read_any_more(tmp_path: Path, portals: list[Portal]) -> None:
    site = sites.site_of(tmp_path, [Snapshot(cluster="new")])
    with open_store(site.url).writing("old") as writer:
        writer.put_nodes([KeptNode("old", node("n1"), NOW - 86400, NOW - 90000)])
    portals.append(sites.portal_of(site))
    client = Client(portals[-1])
    assert "No node has been read yet" in client.get("/clusters/new/nodes").text
    assert names(client.get("/clusters/new/nodes.json")) == []
    page = client.get("/clusters/old/nodes").text
    assert "It is not being read now: this is how its nodes were last seen, Wed 31 Dec 2025 00:00." in page
    assert set(tiles(client.get("/clusters/old/nodes"))) == {"n1"}


def test_an_error_is_told_with_the_age_of_what_is_shown(tmp_path: Path, portals: list[Portal]) -> None:
    part: Part[tuple[Node, ...]] = Part((node("n1"),), NOW - 7200.0, "text", error="slurmctld does not answer")
    portals.append(sites.portal_of(sites.site_of(tmp_path, [Snapshot(cluster="alpha", nodes=part)])))
    page = Client(portals[-1]).get("/clusters/alpha/nodes").text
    assert "Its nodes could not be read just now: this is how they were" in page


def test_hostile_names_do_no_harm(tmp_path: Path, portals: list[Portal]) -> None:
    evil = node(HOSTILE, partitions=(HOSTILE,), features=(HOSTILE,), gpus={HOSTILE: 1}, reason=HOSTILE, state="DOWN")
    portals.append(sites.portal_of(sites.site_of(tmp_path, [snapshot([evil, node("n1")])])))
    client = Client(portals[-1])
    where = quote(HOSTILE, safe="", errors="surrogateescape")
    for asked in ("", "?view=table", "?group=gpu", f"?partition={where}", f"?name={where}", f"?gpu={where}&view=table"):
        got = client.get(f"/clusters/alpha/nodes{asked}")
        assert got.status == 200
        # fields of the form keep it, to be sent again
        assert "<script>alert" not in got.text and not re.search(r">[^<]*\u202e", got.text)
    assert tiles(client.get("/clusters/alpha/nodes"))
    assert f'href="/clusters/alpha/nodes/{where}"' in client.get("/clusters/alpha/nodes").text
    assert client.get("/clusters/alpha/nodes.json").status == client.get("/clusters/alpha/nodes.csv").status == 200


def test_who_is_not_of_the_staff_sees_all_and_is_led_to_nodes_of_own_jobs(
    tmp_path: Path, portals: list[Portal]
) -> None:
    settings = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["root"])
    away = node("n9", state="DOWN", reason="disk", reason_user="ops")
    shot = snapshot([node("n1"), node("n2"), node("n3"), away], [job(1, "RUNNING", node_list="n1")])
    site = sites.site_of(tmp_path, [shot], settings)
    done = job(7, "COMPLETED", node_list="n2", end_time=NOW - 10, submit_time=NOW - 900, start_time=NOW - 800)
    other = job(8, "COMPLETED", node_list="n3", end_time=NOW - 10, submit_time=NOW - 900, start_time=NOW - 800)
    sites.keep(site, [seen(None, "alpha", done, NOW), seen(None, "alpha", replace(other, user="bob"), NOW)])
    portals.append(sites.portal_of(site))
    header = settings.proxy_header
    alice, staff = (Client(portals[-1], headers={header: name}) for name in ("alice", "root"))
    assert {name: bool(link) for name, (_, link) in tiles(alice.get("/clusters/alpha/nodes")).items()} == {
        "n1": True,
        "n2": True,
        "n3": False,
        "n9": False,
    }
    assert all(link for _, link in tiles(staff.get("/clusters/alpha/nodes")).values())
    for form in ("", ".json", ".csv"):
        assert "ops" in staff.get(f"/clusters/alpha/nodes{form}?view=table").text
        assert "ops" not in alice.get(f"/clusters/alpha/nodes{form}?view=table").text
