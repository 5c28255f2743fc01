# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The list of jobs: every filter, order and page of it, and what it says of itself."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from lives import accounted, job
from web import sites, town
from web.client import Client

from slurmscope.life import Life, seen, told
from slurmscope.model import Part, Snapshot
from slurmscope.store.place import open_store
from slurmscope.web.pages import jobs
from slurmscope.web.pages.jobs import COLUMNS, ROWS, SORTS

NOW, CLUSTER = sites.NOW, "alpha"
HOUR = 3600


def _ended(id_: int, ago: int, ran: int, **fields: Any) -> Life:
    begun = NOW - ago
    found = job(
        id_,
        fields.pop("state", "COMPLETED"),
        submit_time=begun,
        eligible_time=begun,
        start_time=begun + 100 + id_,
        end_time=begun + 100 + id_ + ran,
        **({"node_list": "n5"} | fields),
    )
    return told(None, fields.get("cluster", CLUSTER), accounted(found, steps=()), NOW)


def _lives() -> list[Life]:
    lives = [
        _ended(1, 2 * HOUR, 600, qos="high", node_list="n[1-2]", nodes=2, cpus=64, memory=1 << 34),
        _ended(2, 3 * HOUR, 60, state="FAILED", partition="gpu", gpus={"a100": 2}, account="chem", name="Sweep_LR"),
        _ended(3, 4 * HOUR, 1200, user="bob", node_list="n3", cpus=2, memory=1 << 30),
        _ended(4, 40 * 24 * HOUR, 300, name="old"),
        seen(None, CLUSTER, job(5, "RUNNING", submit_time=NOW - 500, start_time=NOW - 400, node_list="n1"), NOW),
        seen(None, CLUSTER, job(6, "PENDING", submit_time=NOW - 300, reason="Priority"), NOW),
    ]
    lives += [
        _ended(
            100 + task,
            5 * HOUR,
            50 + task,
            array_id=100,
            array_tasks=str(task),
            state="FAILED" if task % 10 == 0 else "COMPLETED",
        )
        for task in range(70)
    ]
    return lives + [_ended(500 + one, 6 * HOUR + one, 10, name="many") for one in range(120)]


LIVES = _lives()
NUMBERS = {one.id for one in LIVES}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    queue = tuple(one for one in LIVES if not one.ended)
    snapshot = Snapshot(CLUSTER, jobs=Part(queue, float(NOW), "text"))
    site = sites.site_of(tmp_path_factory.mktemp("jobs"), [snapshot], town.SETTINGS)
    sites.keep(site, LIVES)
    store = open_store(site.url)
    with store.writing(CLUSTER) as writer:
        writer.put_findings({LIVES[0].key: ("low_cpu",), LIVES[1].key: ("zero_gpu", "low_cpu"), LIVES[2].key: ()})
    store.close()
    portal = sites.portal_of(site)
    yield town.as_(portal, town.SAM)
    portal.close()


def ids(client: Client, query: str) -> list[int]:
    return [one["id"] for one in client.get(f"/clusters/alpha/jobs.json?user=*&{query}").json["jobs"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=running", {5}),
        ("state=waiting", {6}),
        ("state=FAILED&partition=gpu", {2}),
        ("state=running&state=waiting", {5, 6}),
        ("user=bob", {3}),
        ("account=chem", {2}),
        ("partition=gpu", {2}),
        ("qos=high", {1}),
        ("node=n1", {1, 5}),
        ("node=n2", {1}),
        ("node=n9", set()),
        ("gpu=a100", {2}),
        ("gpu=h100", set()),
        ("name=sweep", {2}),
        ("finding=low_cpu", {1, 2}),
        ("finding=zero_gpu", {2}),
        ("time=all&name=old", {4}),
        ("time=30d&name=old", set()),
        ("time=1d&state=completed&account=physics&user=bob", {3}),
    ],
)
def test_each_filter(client: Client, query: str, expected: set[int]) -> None:
    assert set(ids(client, query)) == expected


def test_an_array_is_one_line_until_each_task_is_wanted(client: Client) -> None:
    (row,) = (one for one in client.get("/jobs.json?user=*&state=failed").json["jobs"] if one["array_id"] == 100)
    assert (row["tasks"], row["task_states"]) == (7, {"FAILED": 7})
    page = client.get("/clusters/alpha/jobs?user=*&state=failed").text
    assert "100_[…]" in page and 'href="/clusters/alpha/jobs/100"' in page
    each = ids(client, "state=failed&arrays=each")
    assert {one for one in each if 100 <= one < 200} == {100 + task for task in range(0, 70, 10)}


def test_pages_follow_each_other_and_miss_nothing(client: Client) -> None:
    address, found, pages = "/clusters/alpha/jobs?user=*&time=all", [], 0
    while address:
        page = client.get(address.replace("/jobs?", "/jobs.json?")).json
        found += [(one["id"] if one["array_id"] is None else one["array_id"]) for one in page["jobs"]]
        assert len(page["jobs"]) <= ROWS
        older = re.search(r'<a href="([^"]+)" rel="next">', client.get(address).text)
        address = unescape(older[1]) if older else ""
        pages += 1
    assert len(found) == len(set(found)), "none twice"
    assert set(found) == {one for one in NUMBERS if not 100 <= one < 200} | {100}
    assert pages == 3


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("ascending", ["false", "true"])
def test_each_order(client: Client, sort: str, ascending: str) -> None:
    def value(life: Life) -> float | None:
        started = life.start_time if life.started else None
        return {
            "submitted": life.submit_time,
            "started": started,
            "ended": life.end_time if life.ended else None,
            "waited": None if started is None else started - (life.submit_time or 0),
            "ran": life.end_time - started if life.ended and started and life.end_time else None,
            "cpus": life.cpus,
            "gpus": sum(life.gpus.values()),
            "memory": life.memory,
        }[sort]

    by_id = {one.id: one for one in LIVES}
    # those of which nobody could say otherwise: what waits, or still runs, may be counted up to now
    over = [by_id[one] for one in ids(client, f"arrays=each&state=completed&sort={sort}&ascending={ascending}")]
    values = [value(one) for one in over]
    assert len(values) == ROWS
    known = [one for one in values if one is not None]
    assert known == sorted(known, reverse=ascending == "false")


def test_pages_of_another_order(client: Client) -> None:
    first = ids(client, "arrays=each&sort=ran&time=all")
    second = ids(client, "arrays=each&sort=ran&time=all&page=2")
    assert len(first) == ROWS and not set(first) & set(second)


def test_columns_are_chosen_and_csv_has_them(client: Client) -> None:
    rows = list(csv.reader(io.StringIO(client.get("/jobs.csv?user=*&state=running&columns=job&columns=waited").text)))
    assert rows == [["job", "waited"], ["5", "100"]]
    everything = "&".join(f"columns={name}" for name in COLUMNS)
    assert client.get(f"/jobs?user=*&{everything}").status == 200


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("arrays", ["fold", "each"])
def test_a_spreadsheet_has_all_of_them(client: Client, monkeypatch: pytest.MonkeyPatch, sort: str, arrays: str) -> None:
    """However many a page shows, and whichever page it is."""
    monkeypatch.setattr(jobs, "_PIECE", 30)
    got = client.get(f"/jobs.csv?user=*&time=all&sort={sort}&arrays={arrays}&page=2")
    rows = list(csv.DictReader(io.StringIO(got.text)))
    folded = arrays == "fold" and sort == "submitted"
    assert len(rows) == (len(LIVES) - 69 if folded else len(LIVES))
    assert len({(row["cluster"], row["id"]) for row in rows}) == len(rows)
    assert sum(int(row["tasks"]) for row in rows) == len(LIVES)
    assert rows[0].keys() >= {"account", "submit_time", "start_time", "end_time", "gpus", "cpu_share", "findings"}
    (one,) = [row for row in rows if row["id"] == "2"]
    assert (one["gpus"], one["account"], one["state"]) == ("a100:2", "chem", "FAILED")
    assert one["submit_time"] == time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW - 3 * HOUR))


def test_it_says_what_is_shown(client: Client) -> None:
    said = client.get("/clusters/alpha/jobs.json?user=bob").json["shown"]
    assert said == "1 job of bob on alpha in the last 7 days, the newest first."
    every = client.get("/jobs.json?user=*&time=all&arrays=each").json["shown"]
    assert every == f"{len(LIVES)} jobs, the newest first."


def test_chips_can_be_removed(client: Client) -> None:
    page = client.get("/clusters/alpha/jobs?user=bob&state=completed&node=n3").text
    chips = re.findall(r'<span class="chip">([^<]+) <a href="([^"]+)"', page)
    assert [text for text, _ in chips] == [
        "cluster alpha",
        "user bob",
        "in the last 7 days",
        "state completed",
        "node n3",
    ]
    for _, without in chips:
        assert client.get(unescape(without)).status == 200
    assert unescape(chips[4][1]) == "/clusters/alpha/jobs?state=completed&user=bob"


def test_mine_by_default(client: Client) -> None:
    alice = Client(client._portal, headers={"x-remote-user": "alice"})
    assert {one["user"] for one in alice.get("/jobs.json?time=all").json["jobs"]} == {"alice"}
    assert client.get("/jobs.json").json["jobs"] == [], "sam has none"
    assert "You have none. " in client.get("/jobs").text
    assert "There are none. " in client.get("/jobs?user=nobody").text


def test_numbers_are_those_of_the_lives(client: Client) -> None:
    by_id = {one.id: one for one in LIVES}
    for row in client.get("/jobs.json?user=*&arrays=each&time=all").json["jobs"]:
        life = by_id[row["id"]]
        assert (row["cpus"], row["memory"], row["state"], row["submit_time"]) == (
            life.cpus,
            life.memory,
            life.state,
            life.submit_time,
        )
        assert (row["start_time"], row["end_time"]) == (life.start_time, life.end_time)
