# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""On loopback a browser that was led here by another site's name reads nothing; whoever means this machine does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served, serving

from slurmscope import listening
from slurmscope.auth import hash_token
from slurmscope.hosts import Hosts
from slurmscope.settings import Serve

TOLD = ("/metrics", "/metrics/slurmscope", "/metrics/sinfo", "/metrics/jobs", "/metrics/constants", "/constants")
OURS = ("localhost", "LOCALHOST:9092", "127.0.0.1:9092", "127.0.1.1", "[::1]:9092", "10.1.2.3", "metrics.localhost:80")
THEIRS = ("evil.example", "evil.example:9092", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", "")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("hosts"), "[agents]\nenabled = true\n") as found:
        yield found.wait()


@pytest.mark.parametrize("path", TOLD)
def test_what_names_people_is_told_to_this_machine_alone(served: Served, path: str) -> None:
    for host in (*OURS, f"localhost:{served.port}", socket.gethostname()):
        assert served.get(path, Host=host)[0] == 200, host
    for host in THEIRS:
        status, _, body = served.get(path, Host=host)
        assert status == 421 and b"slurm_" not in body and b"serve.names" in body, host


def test_the_pages_of_the_portal_too(served: Served) -> None:
    assert served.get("/jobs.json", Host="localhost")[0] == 200
    assert served.get("/jobs.json", Host="evil.example")[0] == 401


def test_health_is_told_to_everybody(served: Served) -> None:
    for path in ("/healthz", "/readyz"):
        assert served.get(path, Host="evil.example")[0] == 200


def test_pages_in_a_browser_send_nothing_to_an_agents_address(served: Served) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null", "Host": "localhost"}):
        assert served.get("/agent", "POST", **headers)[0] == 403
    # who is no browser is looked at: nothing was sent, and that is no report
    assert served.get("/agent", "POST", Host="slurmscope.example.org")[0] in (400, 415, 422)


def test_whoever_knows_the_token_may_come_by_any_name(tmp_path: Path) -> None:
    with serving(tmp_path, f'tokens = ["{hash_token("a long token")}"]\n') as closed:
        closed.wait()
        assert closed.get(Host="portal.example.org", Authorization="Bearer a long token")[0] == 200
        assert closed.get(Host="portal.example.org")[0] == 401


def test_the_names_that_people_are_told_are_ours() -> None:
    hosts = listening.hosts(Serve(listen="localhost4:9092"), "https://portal.example.org/x")
    assert hosts is not None
    assert hosts.mean("localhost4:9092") and hosts.mean("Portal.Example.org.") and hosts.mean(None)
    assert not hosts.mean("example.org") and not hosts.mean("x.portal.example.org")


def test_further_names_are_let_in_and_others_told_once(tmp_path: Path) -> None:
    with serving(tmp_path, 'names = ["host.docker.internal"]\n') as named:
        named.wait()
        assert named.get(Host="host.docker.internal:9092")[0] == 200
        for _ in range(3):
            assert named.get(Host="evil.example")[0] == 421
        assert named.log.read_text().count("host=evil.example") == 1


OTHERS = ("node1.example.org:9092", "localhost.example.org:9092", "localhost-mgmt:9092", "127.example.org:9092")


@pytest.mark.parametrize("listen", [":9092", "0.0.0.0:9092", "[::]:9092", "192.0.2.1:9092", *OTHERS])
def test_where_others_are_to_come_names_are_not_looked_at(listen: str) -> None:
    assert listening.hosts(Serve(listen=listen)) is None


@pytest.mark.parametrize("header", [*THEIRS, "[", "]", ":", "::1", "a" * 10_000, "\x00", "é"])
def test_no_header_is_a_fault(header: str) -> None:
    assert Hosts().mean(header) is False
