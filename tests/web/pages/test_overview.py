# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The first page: its sentences are made of the numbers below, and these are those of the model."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from findings import cases, gpus
from lives import job
from waiting.snapshots import limit, node, partition
from web import sites
from web.client import Client, Got

from slurmscope.life import seen
from slurmscope.metrics.pages import Edition
from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.settings import Allocation, Settings
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Store as StoreSettings
from slurmscope.store.place import open_store
from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Measured, Point
from slurmscope.store.recorder import Recorder
from slurmscope.usage import DAY
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site

NOW = sites.NOW
HOUR = 3600
HOSTILE = "<script>alert(1)</script>\"'\n\u202e\udcff&"

NODES = (
    node("cn1", state="MIXED", cpus_allocated=12, memory_allocated=16 << 30),
    node("cn2"),
    node("cn3", state="DOWN", reason="disk", reason_user="ops", reason_time=NOW - 2 * DAY),
    node("cn4", state="DOWN", reason="disk", reason_user="ops", reason_time=NOW - DAY),
    node("gn1", state="MIXED", partitions=("gpu",), cpus_allocated=8, gpus={"a100": 4}, gpus_allocated={"a100": 1}),
    node("gn2", state="MIXED", partitions=("gpu",), cpus_allocated=16, gpus={"a100": 4}, gpus_allocated={"a100": 2}),
    node("gn3", state="MIXED", flags=frozenset({"DRAIN"}), partitions=("gpu",), cpus_allocated=1, gpus={"h100": 8}),
)


def waiting(id_: int, minutes: int, tasks: int = 1, **fields: Any) -> Job:
    submit = NOW - minutes * 60
    return job(id_, **({"submit_time": submit, "eligible_time": submit, "tasks": tasks} | fields))


JOBS = (
    job(1, "RUNNING", node_list="cn1"),
    waiting(2, 10, 5),
    waiting(3, 60, 4, partition="gpu", reason="Resources"),
    waiting(4, 600, 2, partition="main,gpu", reason="AssocGrpGRES", gpus={"a100": 1}, user="bob", account="bio"),
    waiting(5, 9000, 1, eligible_time=None, reason="Dependency"),
)


def snapshot(
    nodes: Sequence[Node] | None = NODES, jobs: Sequence[Job] | None = JOBS, cluster: str = "alpha", **parts: Any
) -> Snapshot:
    given: dict[str, Any] = {
        "nodes": None if nodes is None else tuple(nodes),
        "jobs": None if jobs is None else tuple(jobs),
        "partitions": (partition("main"), partition("gpu")),
        "limits": (limit("GrpTRES", 64, 64, account="bio", tres="gres/gpu"),),
    } | parts
    known = {name: Part(value, float(NOW), "text") for name, value in given.items() if value is not None}
    return Snapshot(cluster).replaced(**known)


@pytest.fixture
def portals() -> Iterator[list[Portal]]:
    made: list[Portal] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def client(tmp_path: Path, portals: list[Portal]) -> Client:
    """Of somebody of the staff: nobody signs in."""
    return opened(portals, sites.site_of(tmp_path, [snapshot()]))


def opened(portals: list[Portal], site: Site, **headers: str) -> Client:
    portals.append(sites.portal_of(site))
    return Client(portals[-1], headers=headers)


def rows(got: Got) -> list[dict[str, str]]:
    assert got.status == 200, got.text
    return list(csv.DictReader(io.StringIO(got.text)))


def lead(got: Got) -> str:
    assert got.status == 200, got.text
    found = re.search(r'<p class="lead">(.*?)</p>', got.text, re.S)
    assert found is not None
    return found[1]


# --- what it says -----------------------------------------------------------------------------------------------------


def test_it_opens_with_sentences_made_of_the_numbers_below(client: Client) -> None:
    got = client.get("/")
    assert "<h1>alpha is 33 % busy</h1>" in got.text  # 37 of 112 CPUs
    assert lead(got) == (
        "3 GPUs can start work now, 2 are stranded behind full CPUs. "
        "12 jobs wait, half of them for 1 h 0 min or less. 3 nodes need a hand."
    )
    # with one cluster there is nothing to choose
    assert client.get("/clusters/alpha").text.count("<h1>alpha is 33 % busy</h1>") == 1


def test_one_of_each_is_said_as_one(tmp_path: Path, portals: list[Portal]) -> None:
    nodes = [
        node("gn1", gpus={"a100": 4}, gpus_allocated={"a100": 3}, cpus_allocated=1, state="MIXED"),
        node("gn2", gpus={"a100": 1}, cpus_allocated=16, state="ALLOCATED"),
        node("gn3", state="DOWN"),
    ]
    found = opened(portals, sites.site_of(tmp_path, [snapshot(nodes, [waiting(1, 5)])]))
    assert lead(found.get("/")) == (
        "One GPU can start work now, one is stranded behind full CPUs. "
        "One job waits, for 5 min 0 s so far. One node needs a hand."
    )


def test_without_gpus_it_is_told_of_cpus(tmp_path: Path, portals: list[Portal]) -> None:
    found = opened(portals, sites.site_of(tmp_path, [snapshot([node("n1"), node("n2")], [])]))
    assert lead(found.get("/")) == "32 CPUs on 2 nodes can start work now. Nobody waits."
    full = opened(portals, sites.site_of(tmp_path, [snapshot([node("n1", cpus_allocated=16, state="ALLOCATED")], [])]))
    assert lead(full.get("/")) == "No CPU can start work now. Nobody waits."


def test_what_there_is_adds_up_to_the_model(client: Client) -> None:
    found = {row["resource"]: row for row in rows(client.get("/index.csv"))}
    assert {name: tuple(row.values())[1:] for name, row in found.items() if name != "memory"} == {
        "CPUs": ("37", "28", "0", "47", "112"),
        "a100": ("3", "3", "2", "0", "8"),
        "h100": ("0", "0", "0", "8", "8"),
        "nodes": ("3", "1", "0", "3", "7"),
    }
    assert float(found["memory"]["all"]) == sum(one.memory for one in NODES)
    assert float(found["memory"]["used"]) == sum(one.memory_allocated for one in NODES)
    told = {one["name"]: one for one in client.get("/clusters/alpha.json").json["resources"]}
    assert all(
        one["used"] + one["free"] + one["stranded"] + one["unavailable"] == one["total"] for one in told.values()
    )


# --- who waits --------------------------------------------------------------------------------------------------------


def test_tasks_are_counted_by_partition_and_reason(client: Client) -> None:
    found = {row["partition"]: row for row in rows(client.get("/index.csv?table=waiting"))}
    # who waits in two partitions counts in both, and once in all
    assert {name: row["waiting"] for name, row in found.items()} == {"main": "8", "gpu": "6"}
    assert found["main"]["reasons"] == "Priority 5, AssocGrpGRES 2, Dependency 1"
    # of the seven that could start: five for 10 minutes, two for 10 hours
    assert [float(found["main"][name]) for name in ("median_seconds", "ninetieth_seconds", "longest_seconds")] == [
        600,
        36000,
        36000,
    ]
    reasons = {row["reason"]: (row["jobs"], row["decides"]) for row in rows(client.get("/index.csv?table=reasons"))}
    assert reasons == {
        "Priority": ("5", "the queue"),
        "Resources": ("4", "the queue"),
        "AssocGrpGRES": ("2", "a limit of the account"),
        "Dependency": ("1", "the jobs that it depends on"),
    }
    told = client.get("/clusters/alpha.json").json["queue"]
    assert (told["running"], told["waiting"]["tasks"], told["waiting"]["eligible"]) == (1, 12, 11)


def test_those_that_started_are_told_with_what_they_waited(tmp_path: Path, portals: list[Portal]) -> None:
    site = sites.site_of(tmp_path, [snapshot(jobs=[])])
    store = open_store(site.url)
    begun = [
        job(at, "RUNNING", submit_time=NOW - 3 * HOUR, eligible_time=NOW - 3 * HOUR, start_time=NOW - at * HOUR)
        for at in (1, 2)
    ]
    recorder = Recorder()
    recorder.notice(snapshot(jobs=begun), frozenset({"jobs", "nodes"}))
    recorder.write(store)
    store.close()
    (row,) = rows(opened(portals, site).get("/index.csv?table=waiting"))
    assert (row["partition"], row["waiting"], row["started"], float(row["mean_wait_seconds"])) == (
        "main",
        "0",
        "2",
        5400,
    )


# --- what can start ---------------------------------------------------------------------------------------------------


def test_what_can_start_is_what_the_metrics_tell(client: Client, portals: list[Portal]) -> None:
    found = {row["partition"]: row for row in rows(client.get("/index.csv?table=can_start"))}
    view = portals[0].site.view("alpha")
    for name, nodes in view.startable.items():
        assert int(found[name]["nodes"]) == len(nodes)
        assert int(found[name]["cpus"]) == sum(one.cpus_idle for one in nodes)
        assert int(found[name]["most_memory_bytes"]) == max(one.memory_idle for one in nodes)
    assert found["gpu"]["gpus"] == "3 a100 (3 on one)"
    (gpu,) = rows(client.get("/index.csv?table=gpus_can_start"))
    assert (gpu["type"], gpu["free"], gpu["most"], gpu["nodes"]) == ("a100", "3", "3", "1")


def test_nothing_starts_in_a_partition_that_is_closed(tmp_path: Path, portals: list[Portal]) -> None:
    closed = snapshot(partitions=(partition("main", state="DOWN"), partition("gpu", state="DRAIN")))
    found = opened(portals, sites.site_of(tmp_path, [closed]))
    assert lead(found.get("/")).startswith("No GPU can start work now, 2 are stranded")
    assert {row["nodes"] for row in rows(found.get("/index.csv?table=can_start"))} == {"0"}


# --- what needs a hand ------------------------------------------------------------------------------------------------


def test_nodes_are_grouped_by_what_is_wrong(client: Client) -> None:
    found = rows(client.get("/index.csv?table=needs_a_hand"))
    assert [(row["what"], row["state"], row["why"]) for row in found] == [
        ("cn[3-4]", "down", "disk, by ops"),
        ("gn3", "draining", "no reason is given"),
        ("bio", "2", "GrpTRES gres/gpu of the account bio: 64 GPUs"),
    ]
    assert found[0]["since"] == str(NOW - 2 * DAY)
    page = client.get("/").text
    assert 'href="/clusters/alpha/nodes/gn3"' in page
    assert 'href="/clusters/alpha/accounts/bio"' in page


def held(tmp_path: Path, portal: PortalSettings | None = None, **measured: Any) -> Site:
    """Two GPUs of bob's that nothing used for two hours."""
    start = NOW - 2 * HOUR
    running = job(9, "RUNNING", gpus={"h100": 2}, user="bob", account="bio", submit_time=start, start_time=start)
    site = sites.site_of(tmp_path, [snapshot(jobs=[running])], portal)
    sites.keep(site, [seen(None, "alpha", running, NOW)])
    given = {"peak": 0.0, "mean": 0.0, "seconds": 2.0 * HOUR} | measured
    last = given.pop("last", NOW)
    told = tuple(cases.gpu(at, **given) for at in range(2))
    summary = cases.summary(last=last, gpus=told, gpu=cases.figures(0.0))
    store = open_store(site.url)
    with store.writing("alpha") as writer:
        writer.put_measured([Measured(9, start, summary, None)])
    store.close()
    return site


def test_gpus_that_nothing_uses_are_told_with_who_holds_them(tmp_path: Path, portals: list[Portal]) -> None:
    row = rows(opened(portals, held(tmp_path)).get("/index.csv?table=needs_a_hand"))[-1]
    assert (row["what"], row["state"], row["why"]) == ("bob", "2", "2 h100 held, none used for 2 h 0 min")


@pytest.mark.parametrize(
    "measured",
    [
        {"peak": 0.5},  # used
        {"peak": None, "mean": None},  # a driver that tells nothing
        {"seconds": 1800.0},  # not for an hour
        {"last": NOW - 2000},  # whoever told has fallen silent
    ],
)
def test_what_is_not_known_of_gpus_is_not_held_against_anybody(
    tmp_path: Path, portals: list[Portal], measured: dict[str, Any]
) -> None:
    found = opened(portals, held(tmp_path, **measured))
    assert "bob" not in found.get("/index.csv?table=needs_a_hand").text
    assert found.get("/index.json").json["needs_a_hand"]["unused_gpus"] == []


# --- over time --------------------------------------------------------------------------------------------------------


def trended(tmp_path: Path, points: Sequence[tuple[int, int, float]], nodes: Sequence[Node] = NODES) -> Site:
    """(step, time, GPUs allocated)"""
    settings = Settings(
        store=StoreSettings(folder=str(tmp_path)),
        allocations=[
            Allocation(
                cluster="alpha",
                resource="gpu",
                amount=3.0,
                start=datetime.date(2025, 7, 1),
                end=datetime.date(2026, 7, 1),
            )
        ],
    )
    edition = Edition(snapshot(nodes), True, lambda: NOW)
    site = Site(settings, sites.url_of(tmp_path), lambda: [edition], lambda: NOW)
    store = open_store(site.url)
    with store.writing("alpha") as writer:
        values = [({"gpus": 16.0, "gpus_allocated": used, "jobs_pending": used * 2}) for _, _, used in points]
        writer.put_points(
            [Point("alpha", "", step, time, 1, told) for (step, time, _), told in zip(points, values, strict=True)]
        )
    store.close()
    return site


def test_a_day_is_drawn_with_its_gaps(tmp_path: Path, portals: list[Portal]) -> None:
    times = [at for at in range(NOW - DAY, NOW, MIDDLE) if not NOW - 6 * HOUR <= at < NOW - 3 * HOUR]
    found = opened(portals, trended(tmp_path, [(MIDDLE, at, 8.0) for at in times[:-1]] + [(FINE, NOW - 60, 4.0)]))
    line = found.get("/index.json").json["trend"]
    assert (line["resource"], line["step"], len(line["times"])) == ("gpus", MIDDLE, DAY // MIDDLE)
    told = dict(zip(line["times"], line["used"], strict=True))
    assert {told[at] for at in times[:-1]} == {8.0}
    assert all(value is None for at, value in told.items() if NOW - 6 * HOUR <= at < NOW - 3 * HOUR)
    assert told[NOW - MIDDLE] == 4.0  # of what is not over yet, what was seen of it
    page = found.get("/").text
    assert "there 16" in page
    assert "allocation 3" in page


@pytest.mark.parametrize(("span", "step", "days"), [("7d", COARSE, 7), ("30d", 3 * COARSE, 30)])
def test_a_week_and_a_month_have_no_more_points_than_can_be_seen(
    tmp_path: Path, portals: list[Portal], span: str, step: int, days: int
) -> None:
    site = trended(tmp_path, [(COARSE, at, float(at // COARSE % 3)) for at in range(NOW - 40 * DAY, NOW, COARSE)])
    line = opened(portals, site).get(f"/index.json?span={span}").json["trend"]
    assert (line["step"], line["times"][0], len(line["times"])) == (step, NOW - days * DAY, days * DAY // step)
    assert len(line["times"]) <= 300
    if step == 3 * COARSE:
        assert set(line["used"]) == {1.0}  # the mean of 0, 1 and 2


def test_that_polls_are_far_between_is_no_gap(tmp_path: Path, portals: list[Portal]) -> None:
    site = trended(tmp_path, [(MIDDLE, at, 1.0) for at in range(NOW - DAY, NOW, 3 * MIDDLE)])
    line = opened(portals, site).get("/index.json").json["trend"]
    assert line["step"] == 3 * MIDDLE
    assert None not in line["used"]


def test_what_is_allocated_is_drawn_against_what_is_used(tmp_path: Path, portals: list[Portal]) -> None:
    found = opened(portals, trended(tmp_path, []))
    (told,) = found.get("/index.json").json["allocations"]
    assert (told["amount"], told["unit"], told["used"]) == (3.0, "GPU-years", 0.0)
    assert "alpha has used 0 of 3 GPU-years (0 %)" in found.get("/").text


# --- several clusters -------------------------------------------------------------------------------------------------


def test_several_clusters_have_a_line_each_and_a_sentence_over_all(tmp_path: Path, portals: list[Portal]) -> None:
    other = snapshot([node("n1", cpus_allocated=16, state="ALLOCATED")], [waiting(1, 30, 8)], "beta")
    found = opened(portals, sites.site_of(tmp_path, [snapshot(), other, Snapshot("gamma")]))
    got = found.get("/")
    assert "<h1>3 clusters are 41 % busy</h1>" in got.text  # 53 of 128
    assert lead(got).startswith("3 GPUs can start work now, 2 are stranded behind full CPUs. 20 jobs wait.")
    lines = {row["cluster"]: row for row in rows(found.get("/index.csv"))}
    names = ("free_gpus", "free_cpus", "waiting", "nodes_in_need")
    assert {name: tuple(row[one] for one in names) for name, row in lines.items()} == {
        "alpha": ("3", "28", "12", "3"),
        "beta": ("", "0", "8", "0"),
        "gamma": ("", "", "", ""),
    }
    assert 'href="/clusters/beta"' in got.text
    assert "<h1>beta is 100 % busy</h1>" in found.get("/clusters/beta").text


def test_a_cluster_that_is_not_read_yet_says_what_to_do(tmp_path: Path, portals: list[Portal]) -> None:
    found = opened(portals, sites.site_of(tmp_path, [Snapshot("gamma")]))
    got = found.get("/")
    assert "<h1>gamma has not been read yet</h1>" in got.text
    assert "Health says" in lead(got)
    assert found.get("/index.json").json["busy"] is None
    nothing = opened(portals, sites.site_of(tmp_path / "other", []))
    (tmp_path / "other").mkdir()
    unread = nothing.get("/")
    assert unread.status == 503 and "No cluster has been read yet." in unread.text
    assert nothing.get("/clusters/delta").status == 404


def test_one_that_does_not_answer_is_shown_as_it_was(tmp_path: Path, portals: list[Portal]) -> None:
    settings = Settings(store=StoreSettings(folder=str(tmp_path)))
    edition = Edition(snapshot(), False, lambda: NOW + 600)
    site = Site(settings, sites.url_of(tmp_path), lambda: [edition], lambda: NOW + 600)
    assert lead(opened(portals, site).get("/")).startswith("It does not answer; this is how it was 10 min 0 s ago.")


# --- who sees what ----------------------------------------------------------------------------------------------------


def test_others_see_the_same_sums_and_nobody_s_name(tmp_path: Path, portals: list[Portal]) -> None:
    settings = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["root"])
    site = held(tmp_path, settings)
    everybody = opened(portals, site, **{settings.proxy_header: "carol"})
    staff = Client(portals[-1], headers={settings.proxy_header: "root"})
    bob = Client(portals[-1], headers={settings.proxy_header: "bob"})
    for form in ("/", "/index.json", "/index.csv?table=needs_a_hand"):
        assert "bob" in staff.get(form).text and "ops" in staff.get(form).text
        assert "bob" not in everybody.get(form).text and "ops" not in everybody.get(form).text
        assert "none used" in bob.get(form).text or form == "/index.json"
    assert lead(everybody.get("/")) == lead(staff.get("/"))
    for name in ("resources", "queue", "free_gpus", "can_start"):
        assert everybody.get("/index.json").json[name] == staff.get("/index.json").json[name]


def test_of_blocked_jobs_one_sees_the_own(tmp_path: Path, portals: list[Portal]) -> None:
    settings = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["root"])
    client = opened(portals, sites.site_of(tmp_path, [snapshot()], settings), **{settings.proxy_header: "alice"})
    assert client.get("/index.json").json["needs_a_hand"]["limits"] == []
    bob = Client(portals[-1], headers={settings.proxy_header: "bob"})
    (told,) = bob.get("/index.json").json["needs_a_hand"]["limits"]
    assert (told["reason"], told["tasks"], told["accounts"]) == ("AssocGrpGRES", 2, {"bio": 2})


def test_hostile_names_do_nothing(tmp_path: Path, portals: list[Portal]) -> None:
    nodes = [
        node(HOSTILE, state="DOWN", reason=HOSTILE, reason_user=HOSTILE, partitions=(HOSTILE,)),
        gpus.node("g1", partitions=(HOSTILE,), gpus={HOSTILE: 2}),
    ]
    names: dict[str, Any] = {"user": HOSTILE, "account": HOSTILE, "partition": HOSTILE}
    jobs = [waiting(1, 5, reason="AssocGrpGRES", **names), waiting(2, 5, reason=HOSTILE, **names)]
    shot = snapshot(nodes, jobs, "beta", partitions=(partition(HOSTILE),))
    found = opened(portals, sites.site_of(tmp_path, [shot, snapshot()]))
    where = "/clusters/beta"
    for address in ("/", where, f"{where}?span=30d", f"{where}/health", "/health"):
        got = found.get(address)
        assert got.status == 200
        assert "<script>alert" not in got.text
        assert "\u202e" not in got.text
    for form in (".json", ".csv", ".csv?table=waiting", ".csv?table=needs_a_hand"):
        assert found.get(where + form).status == 200


def test_it_is_told_in_french(client: Client) -> None:
    got = client.get("/", accept_language="fr")
    assert "<h1>alpha est occupée à 33 %</h1>" in got.text
    assert lead(got).startswith("3 GPU peuvent démarrer un travail maintenant, 2 sont bloqués derrière des CPU pleins.")
    assert "Ce qu&#39;il y a" in got.text
