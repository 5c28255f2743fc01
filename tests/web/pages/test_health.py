# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmscope's own page: what /metrics says at the same moment, and what is only for the staff."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Served, serving
from waiting.snapshots import node
from web import sites
from web.client import Client

from slurmscope.keeper import Archive
from slurmscope.mail.tally import Tally as MailTally
from slurmscope.metrics.pages import Edition, Pages
from slurmscope.metrics.view import Requests, View
from slurmscope.model import PARTS, Part, Snapshot
from slurmscope.settings import Mail, Settings, Slurm
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Store as StoreSettings
from slurmscope.sinks.sink import Tally as SinkTally
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode
from slurmscope.upkeep import Upkeep
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site

NOW = sites.NOW
SECRET = "hunter2"
PROXY = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["root"])
HEADER = PROXY.proxy_header
ERROR = "squeue: error: slurmctld on ctl.example.org did not answer (/etc/slurm/slurm.conf)"


class Sink:
    name = "elasticsearch"

    def __init__(self) -> None:
        self.tally = SinkTally(queued=3, queued_bytes=2048, sent=7, failures=2, up=False, last_error=f"away: {ERROR}")

    async def run(self) -> None:
        """Sends nothing."""

    async def close(self) -> None:
        """Has nothing."""


class Mailing:
    tally = MailTally(rounds=4, failures=1, last_success=NOW - 60.0, last_error=f"locked: {ERROR}", waiting=2)

    async def run(self) -> None:
        """Tells nobody."""

    async def close(self) -> None:
        """Has nothing."""


def snapshot() -> Snapshot:
    return Snapshot("alpha").replaced(
        jobs=Part((), NOW - 5.0, "text", 0.25),
        nodes=Part((node("n1"),), NOW - 30.0, "json", 0.5, rows_skipped=2, error=ERROR, failures=3),
        limits=Part(None, None, "", 0.1, error=ERROR, failures=1),
    )


def site_of(folder: Path, *, up: bool = True, upkeep: Upkeep | None = None) -> Site:
    folder.mkdir(exist_ok=True)
    settings = Settings(
        portal=PROXY,
        store=StoreSettings(folder=str(folder)),
        slurm=Slurm(rest_token=SECRET),
        mail=Mail(password=SECRET),
    )
    edition = Edition(snapshot(), up, lambda: NOW)
    requests = Requests(total={200: 5}, upkeep=upkeep)

    def views() -> list[View]:
        return [Pages(cluster="alpha", clock=lambda: NOW).view(edition, requests)]

    return Site(settings, f"sqlite:{folder / 'slurmscope.db'}", lambda: [edition], lambda: NOW, views)


@pytest.fixture
def troubled(tmp_path: Path) -> Upkeep:
    archive = Archive(f"sqlite:{tmp_path / 'slurmscope.db'}")
    archive.error = f"sqlite:/var/lib: {ERROR}"
    archive.tally.calls, archive.tally.lives, archive.tally.last_success = 12, 345, NOW - 90.0
    upkeep = Upkeep(archive)
    upkeep.sinks = [Sink()]
    upkeep.mailing = Mailing()
    return upkeep


@pytest.fixture
def portal(tmp_path: Path, troubled: Upkeep) -> Iterator[Portal]:
    made = sites.portal_of(site_of(tmp_path, upkeep=troubled))
    yield made
    made.close()


def seen_by(portal: Portal, name: str) -> Client:
    return Client(portal, headers={HEADER: name})


def test_the_staff_sees_each_part_with_what_is_wrong(portal: Portal) -> None:
    found = seen_by(portal, "root").get("/health.csv")
    rows = {row["part"]: row for row in csv.DictReader(io.StringIO(found.text))}
    assert tuple(rows) == PARTS
    assert (rows["jobs"]["state"], float(rows["jobs"]["age_seconds"]), rows["jobs"]["source"]) == ("read", 5.0, "text")
    assert (rows["nodes"]["state"], rows["nodes"]["rows_skipped"], rows["nodes"]["failures"]) == ("failing", "2", "3")
    assert rows["nodes"]["error"] == ERROR
    assert (rows["limits"]["state"], rows["limits"]["age_seconds"]) == ("never read", "")
    assert rows["shares"]["state"] == "not asked for yet"


def test_it_says_first_what_needs_a_look(portal: Portal) -> None:
    page = seen_by(portal, "root").get("/health").text
    assert "4 things need a look" in page
    assert (
        "The store cannot be used; what is seen waits in memory. Not all of alpha can be read: nodes and limits. "
        "elasticsearch does not take what it is sent. The last round of mail came to nothing."
    ) in page
    assert ERROR in page


def test_a_cluster_that_is_silent_is_said_first(tmp_path: Path) -> None:
    portal = sites.portal_of(site_of(tmp_path, up=False))
    assert "alpha does not answer; what is shown is 5 s old." in seen_by(portal, "root").get("/health").text
    portal.close()


def test_numbers_are_those_of_the_objects_that_are_measured(portal: Portal, troubled: Upkeep) -> None:
    found = seen_by(portal, "root").get("/health.json").json
    assert troubled.archive is not None
    assert (found["store"]["calls"], found["store"]["jobs_written"], found["store"]["up"]) == (12, 345, False)
    assert (found["sinks"][0]["queued"], found["sinks"][0]["queued_bytes"], found["sinks"][0]["sent"]) == (3, 2048, 7)
    assert (found["mail"]["rounds"], found["mail"]["waiting"]) == (4, 2)
    assert found["kept"]["counts"]["jobs"] == 0


@pytest.mark.parametrize("address", ["/health", "/health.json", "/health.csv", "/clusters/alpha/health"])
def test_others_see_ages_and_whether_it_is_well_and_nothing_of_where(
    portal: Portal, address: str, tmp_path: Path
) -> None:
    staff, anybody = (seen_by(portal, name).get(address) for name in ("root", "carol"))
    assert staff.status == anybody.status == 200
    for hidden in ("ctl.example.org", "/etc/slurm", str(tmp_path), "slurm.rest_token", "squeue", "sqlite"):
        assert hidden not in anybody.text, hidden
    assert "failing" in anybody.text
    assert SECRET not in staff.text + anybody.text


def test_tables_of_the_staff_are_not_there_for_others(portal: Portal) -> None:
    for name in ("commands", "settings", "kept"):
        assert seen_by(portal, "root").get(f"/health.csv?table={name}").status == 200
        assert seen_by(portal, "carol").get(f"/health.csv?table={name}").status == 404


def test_settings_are_shown_as_the_command_shows_them(portal: Portal) -> None:
    rows = list(csv.DictReader(io.StringIO(seen_by(portal, "root").get("/health.csv?table=settings").text)))
    found = {row["setting"]: row["value"] for row in rows}
    assert found["slurm.rest_token"] == found["mail.password"] != '""'
    assert found["poll.interval"] == "10.0"
    assert SECRET not in json.dumps(found)


def test_it_is_there_before_any_cluster_has_answered(tmp_path: Path) -> None:
    settings = Settings(store=StoreSettings(folder=str(tmp_path)))
    edition = Edition(Snapshot(), False, lambda: NOW)
    view = Pages(clock=lambda: NOW).view(edition, Requests(total={}))
    site = Site(settings, f"sqlite:{tmp_path / 'slurmscope.db'}", lambda: [edition], lambda: NOW, lambda: [view])
    portal = sites.portal_of(site)
    try:
        got = Client(portal).get("/health")
        assert (got.status, "a cluster without a name yet has not answered yet." in got.text) == (200, True)
        assert Client(portal).get("/clusters/alpha/health").status == 404
    finally:
        portal.close()


def test_a_store_is_counted_once_a_minute(tmp_path: Path) -> None:
    clock = [float(NOW)]
    settings = Settings(store=StoreSettings(folder=str(tmp_path)))
    site = Site(settings, f"sqlite:{tmp_path / 'slurmscope.db'}", list, lambda: clock[0])
    portal = sites.portal_of(site)

    def nodes() -> int:
        return int(Client(portal).get("/health.json").json["kept"]["counts"]["nodes"])

    try:
        assert nodes() == 0
        store = open_store(site.url)
        with store.writing("alpha") as writer:
            writer.put_nodes([KeptNode("alpha", node("n1"), NOW, NOW)])
        store.close()
        assert nodes() == 0
        clock[0] += 60
        assert nodes() == 1
    finally:
        portal.close()


# --- beside /metrics --------------------------------------------------------------------------------------------------


def metrics(served: Served) -> dict[str, float]:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def health(served: Served) -> Any:
    return json.loads(served.get("/health.json")[2])


def test_it_agrees_with_the_metrics_of_the_same_moment(tmp_path: Path) -> None:
    settings = f'[poll]\ninterval = 300\nslow_interval = 300\n[store]\nurl = "sqlite:{tmp_path}/kept.db"\n'
    with serving(tmp_path, settings + "[agents]\nenabled = true\n") as served:
        served.wait()
        for _ in range(600):
            found = health(served)
            # the first poll is over, and what it saw is written
            if found["store"]["jobs_written"] and not any(
                part["state"] == "not asked for yet" for part in found["parts"]
            ):
                break
            time.sleep(0.2)
        while True:
            before, found, after = metrics(served), health(served), metrics(served)
            if before.keys() == after.keys():  # no command was run for the first time meanwhile
                break
    cluster = found["clusters"][0]["cluster"]
    label = f'cluster="{cluster}"'
    for part in found["parts"]:
        of = f'{{{label},part="{part["part"]}"}}'
        assert before[f"slurm_part_up{of}"] == (part["state"] == "read")
        assert before[f"slurm_part_rows_skipped{of}"] == part["rows_skipped"]
        age = before.get(f"slurm_part_age_seconds{of}")
        assert (age is None) == (part["age"] is None)
        assert age is None or age <= part["age"] <= after[f"slurm_part_age_seconds{of}"]
    runs = {(one["part"], one["command"]): one for one in found["commands"]}
    counted = [name for name in before if name.startswith("slurm_command_runs_total{")]
    assert len(counted) == len(runs) > 5
    for (part, command), one in runs.items():
        of = f'{{{label},part="{part}",command="{command}"}}'
        assert before[f"slurm_command_runs_total{of}"] <= one["runs"] <= after[f"slurm_command_runs_total{of}"]
        assert before[f"slurm_command_read_bytes_total{of}"] <= one["bytes"]
    store = found["store"]
    for name in ("calls", "jobs_written", "failures"):
        family = f"slurm_store_{name}_total{{{label}}}"
        assert before[family] <= store[name] <= after[family]
    assert before[f"slurm_up{{{label}}}"] == found["clusters"][0]["up"]
    assert before[f"slurm_agents{{{label}}}"] == sum(found["agents"]["nodes"].values()) == 0
