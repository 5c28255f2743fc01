# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of an older web app: what was measured, in its shape; what is not known is null, others' are not there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from findings.cases import GIB, RAN, START, gpu, life, node_summary, summary
from lives import SUBMIT
from measured.test_job import course
from msgspec.structs import replace
from web import sites
from web.client import Client

from slurmscope.life import Life
from slurmscope.settings import Portal as PortalSettings
from slurmscope.store.place import open_store
from slurmscope.store.protocol import Measured
from slurmscope.web.portal import Portal

NOW = START + RAN + 60
HOSTILE = 'x\n<b>WARNING=false\x1b[31m"\u202e'
SUMMARY = summary(
    scratch=True,
    programs={"python": 8, HOSTILE: 1},
    read_bytes=3 << 20,
    written_bytes=None,
    nodes=(
        node_summary(core_seconds={0: 9000.0, 3: 1000.0}, reads=7, user_seconds=9000.0, system_seconds=1000.0),
        node_summary("n2", core_seconds={0: 10000.0}, reads=3, open_files_peak=None),
    ),
    gpus=(gpu(0, mean=0.25, peak=0.5, memory_peak=GIB), gpu(1, mean=None, peak=None, memory_peak=None)),
)
ENDED = replace(life(gpus={"a100": 2}, name=HOSTILE), id=7)
RUNNING = replace(life("RUNNING"), id=8)
WAITING = replace(life("PENDING"), id=9)
TASKS = [replace(life(), id=id_, array_id=22, array_tasks=task) for id_, task in ((20, "1"), (21, "2"), (22, "3"))]
HIS = replace(life(user="bob", account="chemistry"), id=30)


def twin(one: Life, **fields: object) -> Life:
    return replace(one, cluster="d", **fields)


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    settings = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=["sam"])
    site = sites.site_of(tmp_path_factory.mktemp("older"), [], settings, clock=lambda: NOW)
    # 7 is bob's elsewhere, and 8 is alice's on both
    lives = [ENDED, RUNNING, WAITING, *TASKS, HIS, twin(ENDED, user="bob"), twin(RUNNING)]
    sites.keep(site, lives)
    store = open_store(site.url)
    with store.writing("c") as writer:
        writer.put_measured([Measured(7, SUBMIT, SUMMARY, course())])
    store.close()
    found = sites.portal_of(site)
    yield found
    found.close()


def as_(portal: Portal, name: str) -> Client:
    return Client(portal, headers={"x-remote-user": name})


@pytest.fixture
def alice(portal: Portal) -> Client:
    return as_(portal, "alice")


def test_what_a_job_used_in_the_older_shape(alice: Client) -> None:
    found = alice.get("/api/v1/jobs/7/usage").json
    assert found == alice.get("/jobs/7/usage.json").json
    assert {name: found[name] for name in ("jobid", "sponsor", "username", "runtime", "uses_scratch")} == {
        "jobid": 7,
        "sponsor": "physics",
        "username": "alice",
        "runtime": "02:00:00",
        "uses_scratch": "True",
    }
    assert found["alloc_tres"] == {"billing": None, "alloc_cpu": 4, "alloc_mem": 8192, "alloc_nodes": 1}
    assert found["threads"]["python"] == 8 and len(found["threads"]) == 2
    cpu = found["cpu"]
    assert cpu["available"] == {"amount": 4, "unit": "cores"}
    # 20,000 s on 4 CPUs: a core that had 80 % of its 5,000 s was used
    assert cpu["used"] == 2
    assert cpu["time_core"] == [
        {"core": "n1_core_0", "time": 9000, "unit": "s", "percent_of_total": 45},
        {"core": "n1_core_3", "time": 1000, "unit": "s", "percent_of_total": 5},
        {"core": "n2_core_0", "time": 10000, "unit": "s", "percent_of_total": 50},
    ]
    assert cpu["time_total"] == pytest.approx(0.9 * 4 * RAN)
    assert cpu["avg_usage_job"] == {"usage": pytest.approx(360), "lowest_expected_usage": 320, "unit": "%"}
    assert cpu["max_usage_job"] == {"usage": pytest.approx(400), "unit": "%"}
    # both nodes together, each at its most
    assert found["ram"]["used"] == {"amount": 12 * 1024, "unit": "MB", "usage": 150}
    assert found["ram"]["available"] == {"amount": 8192, "unit": "MB"}
    assert found["io"] == {
        "opened_files": 20,
        "read": {"amount": 3, "unit": "MB", "count": 10},
        "write": {"amount": None, "unit": "MB", "count": None},
    }
    assert found["gpu"]["alloc_gpu"] == 2
    assert found["gpu"]["metrics"] == {
        "avg_utilization": [25, None],
        "max_utilization": [50, None],
        "max_memory": [1024, None],
    }


@pytest.mark.parametrize(("job", "runtime"), [("8", "02:01:00"), ("9", None)])
def test_what_is_not_known_is_null(alice: Client, job: str, runtime: str | None) -> None:
    """Of jobs that have not ended, and that nobody measured."""
    found = alice.get(f"/api/v1/jobs/{job}/usage?cluster=c").json
    assert found["runtime"] == runtime
    assert found["uses_scratch"] is None and found["threads"] is None and found["gpu"]["metrics"] is None
    cpu = found["cpu"]
    assert (cpu["used"], cpu["time_core"], cpu["time_total"]) == (None, None, None)
    assert cpu["avg_usage_job"]["usage"] is None and cpu["max_usage_job"]["usage"] is None
    assert found["ram"]["used"] == {"amount": None, "unit": "MB", "usage": None}
    assert found["io"]["opened_files"] is None and found["io"]["read"]["amount"] is None


def test_the_last_line_of_a_text_tells_whether_something_was_found(portal: Portal, alice: Client) -> None:
    got = alice.get("/mail/7")
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    found = alice.get("/clusters/c/jobs/7.json").json["findings"]
    assert found, "its GPUs were idle"
    assert got.text.splitlines()[-1] == "WARNING=true"
    assert not any(char in got.text for char in "\x1b\u202e")
    assert alice.get("/mail/9").text.splitlines()[-1] == "WARNING=false"
    fine = as_(portal, "bob").get("/mail/30")
    assert as_(portal, "bob").get("/clusters/c/jobs/30.json").json["findings"] == []
    assert fine.text.splitlines()[-1] == "WARNING=false"
    assert alice.get("/mail/22").text.splitlines()[-1].startswith("WARNING=")


def test_pdf(alice: Client) -> None:
    got = alice.get("/pdf/7")
    assert (got.status, got.headers["content-type"]) == (200, "application/pdf") and got.body.startswith(b"%PDF")


def size_of(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.mark.parametrize(
    ("metric", "older"),
    [("cpu", "jobs_cpu_percent"), ("memory", "jobs_rss"), ("read", "jobs_read_mb"), ("written", "jobs_write_mb")],
)
def test_pictures_by_either_name(alice: Client, metric: str, older: str) -> None:
    got = alice.get(f"/plot/7/{metric}", accept_encoding="gzip")
    assert (got.status, got.headers["content-type"]) == (200, "image/png") and "content-encoding" not in got.headers
    assert size_of(got.body)[0] > 500
    assert alice.get(f"/plot/7/{older}").body == got.body
    # nothing was measured: a picture that says so
    nothing = alice.get(f"/plot/9/{metric}")
    assert nothing.status == 200 and size_of(nothing.body) and nothing.body != got.body
    assert alice.get("/plot/7/none").status == 400


def test_user_and_system_time(alice: Client) -> None:
    told = alice.get("/pie/7/")
    assert size_of(told.body) and told.body == alice.get("/pie/7").body
    assert size_of(alice.get("/pie/9/").body)


ALL = ("/api/v1/jobs/{}/usage", "/mail/{}", "/pdf/{}", "/plot/{}/cpu", "/pie/{}/")


@pytest.mark.parametrize("address", ALL)
def test_which_job_is_meant(portal: Portal, alice: Client, address: str) -> None:
    def status(who: Client, job: str) -> int:
        return who.get(address.format(job.partition("?")[0]) + ("?" + job.partition("?")[2])).status

    # 7 is hers on one cluster alone; sam sees both, and says which
    assert status(alice, "7") == 200 and status(alice, "7?cluster=c") == 200
    assert status(alice, "7?cluster=d") == 404
    sam = as_(portal, "sam")
    assert status(sam, "7") == 400 and status(sam, "7?cluster=d") == 200
    assert "c and d" in sam.get(address.format(7)).text
    assert status(alice, "8") == 400
    # what is his is not there for her, as what is nobody's
    assert status(sam, "30") == 200
    assert [status(alice, one) for one in ("30", "30?cluster=c", "31", "7?cluster=none")] == [404] * 4
    assert [status(alice, one) for one in ("x", "1_", "12345678901")] == [400] * 3
    # tasks of an array
    assert status(alice, "22_1") == 200 and status(alice, "22") == 200 and status(alice, "22_9") == 404


def test_an_array_is_not_one_job(portal: Portal, tmp_path: Path) -> None:
    site = sites.site_of(tmp_path)
    sites.keep(site, TASKS[:2])
    found = sites.portal_of(site)
    try:
        got = Client(found).get("/api/v1/jobs/22/usage")
        assert got.status == 400 and "22_1" in got.json["cure"]
        assert Client(found).get("/mail/22").status == 200
    finally:
        found.close()


@pytest.mark.parametrize("address", ALL)
def test_who_has_not_signed_in(portal: Portal, address: str) -> None:
    stranger = Client(portal)
    got = stranger.get(address.format(7))
    assert got.status == 401 and "www-authenticate" in got.headers
    person = stranger.get(address.format(7), accept="text/html,*/*")
    assert person.status == (401 if address.startswith("/api") else 303)


def test_a_persons_jobs(portal: Portal, alice: Client) -> None:
    found = alice.get("/api/v1/users/alice").json
    assert found["user"] == {"username": "alice"}
    assert sorted(found["jobs"]) == [7, 8, 8, 9, 20, 21, 22]
    assert as_(portal, "bob").get("/api/v1/users/alice").status == 404
