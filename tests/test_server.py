# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope serve` as a process, over recorded answers: what a scraper, a browser and systemd see of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from recorded import read
from served import SLURMSCOPE, Served, serving

from slurmscope import connection
from slurmscope.auth import Guard, hash_password, hash_token
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import PARTS, Snapshot
from slurmscope.server import App, Receive, Scope, Send, accepts_gzip, wants_openmetrics


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("serve")) as found:
        yield found.wait()


def test_the_text_format(served: Served) -> None:
    status, headers, body = served.get()
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in read_text(body.decode())}
    assert {"slurm_up", "slurm_queue_jobs", "slurm_partition_total_cpus"} <= names


def test_openmetrics_for_who_prefers_it(served: Served) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    status, headers, body = served.get(Accept=accept)
    assert status == 200
    assert headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert body.endswith(b"# EOF\n")
    assert len(list(read_openmetrics(body.decode()))) > 150


@pytest.mark.parametrize("profile", ["slurmscope", "rivosinc", "vpenso", "sinfo"])
def test_every_profile_in_both_formats(served: Served, profile: str) -> None:
    text = served.get(f"/metrics/{profile}")[2].decode()
    opened = served.get(f"/metrics/{profile}", Accept="application/openmetrics-text")[2].decode()
    assert list(read_text(text)) and list(read_openmetrics(opened))
    assert series(text) == series(opened)


def series(page: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")}


def test_compressed(served: Served) -> None:
    status, headers, body = served.get(Accept_Encoding="gzip")
    assert (status, headers["content-encoding"]) == (200, "gzip")
    page = gzip.decompress(body).decode()
    assert "slurm_up" in page
    assert len(body) < len(page) / 4


def test_ages_are_of_the_moment_and_the_rest_is_of_the_poll(served: Served) -> None:
    def ages_and_rest() -> tuple[str, str]:
        lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
        return (
            next(line for line in lines if line.startswith("slurm_part_age_seconds") and "jobs" in line),
            "\n".join(line for line in lines if line.startswith(("slurm_node_", "slurm_queue_"))),
        )

    first = ages_and_rest()
    time.sleep(0.05)
    second = ages_and_rest()
    assert first[0] != second[0]
    assert first[1] == second[1]


def test_head_and_other_methods(served: Served) -> None:
    status, headers, body = served.get(method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000
    assert served.get(method="POST")[0] == 405


def test_the_first_page(served: Served) -> None:
    status, headers, body = served.get("/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert "lab24" in body.decode() and "/health" in body.decode()
    assert "/metrics/rivosinc" in served.get("/health")[2].decode()


def test_an_unknown_address_says_what_there_is(served: Served) -> None:
    status, _, body = served.get("/metrics/else")
    assert status == 404
    assert b"/metrics/vpenso" in body
    assert served.get("/nonsense")[0] == 404


def test_health(served: Served) -> None:
    assert served.get("/healthz")[0] == 200
    assert served.get("/readyz")[0] == 200


def test_requests_are_counted(served: Served) -> None:
    def count() -> int:
        page = served.get("/metrics/slurmscope")[2].decode()
        found = re.search(r'slurm_scrapes_total{cluster="lab24",code="200"} (\d+)', page)
        return int(found[1]) if found else 0

    assert count() + 1 == count()


def test_before_anything_was_read(tmp_path: Path) -> None:
    with serving(tmp_path, "[poll]\ninterval = 60\nslow_interval = 60") as served:
        (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\necho slow >&2; exit 1\n")
        for _ in range(1200):
            with contextlib.suppress(OSError):
                if b"squeue exited with 1: slow" in served.get("/health")[2]:
                    break
            time.sleep(0.05)
        status, _, body = served.get("/readyz")
        assert (status, body) == (503, b"not read yet: jobs\n")
        assert b"squeue exited with 1: slow" in served.get("/health")[2]
        page = served.get("/metrics/slurmscope")[2].decode()
        assert 'slurm_up{cluster="lab24"} 0' in page
        assert "slurm_queue_jobs" not in page, "what was never read is not told as 0"
        assert served.get("/healthz")[0] == 200


def test_passwords_and_tokens(tmp_path: Path) -> None:
    settings = f'users = {{ prom = "{hash_password("secret")}" }}\ntokens = ["{hash_token("letmein")}"]'
    with serving(tmp_path, settings) as served:
        served.wait()
        status, headers, body = served.get()
        assert status == 401 and "Basic" in headers["www-authenticate"]
        assert b"slurm_" not in body
        basic = "Basic " + base64.b64encode(b"prom:secret").decode()
        assert served.get(Authorization=basic)[0] == 200
        assert served.get(Authorization="Bearer letmein")[0] == 200
        for wrong in ("Basic " + base64.b64encode(b"prom:wrong").decode(), "Bearer nope", "Basic !!", "Bearer"):
            assert served.get(Authorization=wrong)[0] == 401
        assert served.get("/")[0] == 401
        assert served.get("/healthz")[0] == 200
        assert served.get("/readyz")[0] == 200


def test_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    with serving(tmp_path, f'tls_cert = "{cert}"\ntls_key = "{key}"') as served:
        served.context = ssl.create_default_context(cafile=str(cert))
        served.wait()
        assert served.get()[0] == 200


def test_a_key_that_does_not_fit_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nonsense")
    served = Served(tmp_path, f'tls_cert = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/cert.pem"')
    assert served.process.wait(10) == 1
    assert served.log.read_text().startswith("slurmscope: serve.tls_cert, serve.tls_key: cannot be used")


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        served = Served(tmp_path, "")
        served.stop()
        config = tmp_path / "slurmscope.toml"
        port = taken.getsockname()[1]
        done = subprocess.run(
            [SLURMSCOPE, "serve", "--config", config, "--listen", f"127.0.0.1:{port}"], capture_output=True, check=False
        )
        assert done.returncode == 1
        assert (
            done.stderr.decode()
            .splitlines()[-1]
            .startswith(f"slurmscope: cannot listen on 127.0.0.1:{port}: Address already in use")
        )


def test_systemd_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(path))
        told.settimeout(60)
        with serving(tmp_path, "", NOTIFY_SOCKET=str(path), WATCHDOG_USEC="400000") as served:
            served.wait()
            seen = {told.recv(100) for _ in range(4)}
            assert seen == {b"READY=1", b"WATCHDOG=1", f"STATUS=serving http://127.0.0.1:{served.port}".encode()}
        while told.recv(100) != b"STOPPING=1":
            pass


def test_a_scrape_in_flight_is_answered_before_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.wait()
        with socket.create_connection(("127.0.0.1", served.port)) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            served.process.send_signal(signal.SIGTERM)
            scraper.settimeout(60)
            assert scraper.recv(100).startswith(b"HTTP/1.1 200")


def test_a_client_that_sends_no_request_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": False})

    async def talk() -> None:
        config = uvicorn.Config(app, http=connection.Connection, lifespan="off", log_config=None, port=0)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        for words in (b"", b"GET / HTTP/1.1\r\nHost:"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(words)
            assert await asyncio.wait_for(reader.read(), 60) == b""
        # one that asks again after its first answer, and then no further
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await reader.readuntil(b"ok")
        writer.write(b"GET / HT")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        server.should_exit = True
        await task

    asyncio.run(talk())


def test_there_is_a_bound_on_headers(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.sendall(b"X-Long: " + b"x" * 10_000 + b"\r\n")
            assert client.recv(100) == b""
    assert served.get("/healthz")[0] == 200


def test_there_is_a_bound_on_connections(tmp_path: Path) -> None:
    with serving(tmp_path) as served, contextlib.ExitStack() as stack:
        served.wait()
        many = [stack.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in range(260)]
        time.sleep(0.5)
        closed = 0
        for one in many:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                closed += one.recv(1) == b""
        assert 50 <= closed <= 70
        for one in many:
            one.close()
        time.sleep(0.2)
        assert served.get()[0] == 200


def test_urllib_reads_it_too(served: Served) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics/sinfo") as answer:
        assert b"slurm_cpus_alloc" in answer.read()


def ask(clusters: list[Pages], *paths: str) -> list[tuple[int, str]]:
    """Status and body of each, of an application that serves these clusters."""
    app = App(Book(clusters), Guard({}, []))
    answers: list[tuple[int, str]] = []

    async def one(path: str) -> None:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(dict(message))

        await app({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)
        answers.append((sent[0]["status"], b"".join(piece["body"] for piece in sent[1:]).decode()))

    for path in paths:
        asyncio.run(one(path))
    return answers


def without(pages: Pages, *parts: str) -> Pages:
    """The same cluster, of which some parts were never read."""
    fewer = Pages()
    parted = Snapshot(cluster=pages.snapshot.cluster)
    kept = {part: pages.snapshot.part(part) for part in PARTS if part not in parts}
    asyncio.run(fewer.publish(parted.replaced(**kept), frozenset(kept)))
    return fewer


def test_several_clusters_are_ready_when_one_is() -> None:
    whole, other = read("24.11")[1], read("22.05")[1]
    partly = without(other, "jobs", "nodes", "shares")
    assert ask([whole, other], "/readyz") == [(200, "ready\n")]
    assert ask([partly, whole], "/readyz") == [(200, "ready\nnot read yet: lab22 (jobs, nodes)\n")]
    silent = Pages(cluster="far")
    told = "not read yet: lab22 (jobs, nodes), far (jobs, nodes, scheduler, controllers)\n"
    assert ask([partly, silent], "/readyz", "/healthz") == [(503, told), (200, "ok\n")]
    assert ask([partly], "/readyz") == [(503, "not read yet: jobs, nodes\n")]


def test_several_clusters_are_on_one_page_and_requests_are_counted_once() -> None:
    clusters = [read("24.11")[1], read("22.05")[1]]
    (_, first), (_, second), (_, page) = ask(clusters, "/metrics", "/metrics/else", "/metrics/slurmscope")
    assert 'slurm_up{cluster="lab24"} 1\nslurm_up{cluster="lab22"} 1\n' in first
    assert second.startswith("not here")
    counts = [line for line in page.splitlines() if line.startswith("slurm_scrapes_total")]
    assert counts == ['slurm_scrapes_total{cluster="",code="200"} 1', 'slurm_scrapes_total{cluster="",code="404"} 1']


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; q=0.5, text/plain; q=0.4", True),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.9", False),
        ("application/openmetrics-text;q=x", True),
        (";;,,q=", False),
    ],
)
def test_which_format(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted


@pytest.mark.parametrize(
    ("encoding", "taken"), [("", False), ("gzip", True), ("gzip;q=0", False), ("br, gzip;q=0.5", True), ("*", True)]
)
def test_which_encoding(encoding: str, taken: bool) -> None:
    assert accepts_gzip(encoding) is taken
