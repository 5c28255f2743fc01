# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A running `slurmscope serve` that takes traces: honest jobs, and clients that mean no good."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import pwd
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from munged import Munged
from processes import until
from prometheus_client.parser import text_string_to_metric_families as read_text
from recorded import read
from served import SLURMSCOPE, Answer, Served, serving
from tracing import WAYS, environment, run

from slurmscope.auth import hash_token
from slurmscope.trace.body import MOST_BYTES

ALICES, BOBS = 1, 2
WAITS = next(job.id for job in read("24.11")[0].jobs.value or () if job.waiting)
ME = pwd.getpwuid(os.getuid()).pw_name
FAST = "[poll]\ninterval = 1\n"
OPEN = f"{FAST}[trace]\nenabled = true\n"
CLOSED = f'{OPEN}tokens = ["{hash_token("letmein")}"]\n'
TOKEN = {"Authorization": "Bearer letmein"}


def sample(job_id: int = ALICES, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"pid": 100, "cpus": 50.5, "threads": 2, "mem": 4096, "hostname": "n1", "username": "x"}
    return {"job_id": job_id, "read_bytes": 10, "write_bytes": 20} | given | more


def post(served: Served, body: Any, path: str = "/trace", **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.closing(connection):
        connection.request("POST", path, data, headers)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()


def page(served: Served, path: str = "/metrics") -> str:
    return served.get(path)[2].decode()


def shown(served: Served, path: str = "/metrics") -> dict[str, str]:
    lines = [line for line in page(served, path).splitlines() if re.match(r"slurm_(proc|trace|job_(cpu|mem)_a)", line)]
    return dict(line.rsplit(" ", 1) for line in lines)


def memory(served: Served) -> int:
    """Resident, in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{served.process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("trace"), OPEN) as found:
        yield found.wait()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("closed"), CLOSED) as found:
        yield found.wait()


# --- honest ones ---


def test_a_job_that_tells_of_itself_is_on_the_page_beside_what_it_was_given(tmp_path: Path) -> None:
    with serving(tmp_path, OPEN) as served:
        served.wait()
        status, headers, body = post(served, sample(), Content_Type="application/json")
        assert (status, headers["content-type"], body) == (200, "application/json", b'{"taken":1}\n')
        place = '{cluster="lab24",jobid="1",hostname="n1",username="alice"}'
        job = '{cluster="lab24",jobid="1"}'
        expected = {
            f"slurm_proc_cpu_usage{place}": "50.5",
            f"slurm_proc_mem_usage{place}": "4096.0",
            f"slurm_proc_pid{place}": "100",
            f"slurm_proc_read_bytes{place}": "10.0",
            f"slurm_proc_threadcount{place}": "2.0",
            f"slurm_proc_write_bytes{place}": "20.0",
            f"slurm_job_cpu_alloc{job}": "4",
            f"slurm_job_mem_alloc{job}": str(4000 << 20),
        }
        assert shown(served, "/metrics/rivosinc") == expected
        assert shown(served).items() >= expected.items()
        assert shown(served)['slurm_trace_samples_total{cluster="lab24"}'] == "1"
        assert shown(served)['slurm_trace_jobs{cluster="lab24"}'] == "1"
        assert shown(served)['slurm_trace_processes{cluster="lab24"}'] == "1"


def test_nothing_is_taken_or_shown_where_it_is_not_enabled(tmp_path: Path) -> None:
    with serving(tmp_path, FAST) as served:
        served.wait()
        status, _, told = post(served, sample())
        assert status == 404 and b"trace.enabled" in told
        assert served.get("/trace")[0] == 404
        assert not re.search("slurm_(proc|trace)_", page(served))


def test_only_jobs_that_run_are_shown(served: Served) -> None:
    for job_id in (WAITS, 4_000_000_000):
        assert post(served, sample(job_id))[2] == b'{"taken":1}\n'
        assert f'jobid="{job_id}"' not in page(served)


def test_several_at_once_and_a_replay(served: Served) -> None:
    now = time.time()
    samples = [sample(BOBS, time=now - at, cpus=at) for at in (1, 2, 3)]
    assert post(served, samples)[2] == b'{"taken":3}\n'
    assert post(served, samples)[2] == b'{"taken":0}\n'
    assert shown(served)['slurm_proc_cpu_usage{cluster="lab24",jobid="2",hostname="n1",username="bob"}'] == "1.0"
    assert post(served, [])[2] == b'{"taken":0}\n'


def test_the_schema_is_there_for_all_to_see(closed: Served) -> None:
    status, headers, body = closed.get("/trace")
    assert (status, headers["content-type"]) == (200, "application/schema+json")
    assert json.loads(body)["$defs"]["Body"]["properties"]["job_id"]["minimum"] == 1


def test_content_types(served: Served) -> None:
    for kind in ("application/json", "application/json; charset=utf-8", "APPLICATION/JSON"):
        assert post(served, sample(), **{"Content-Type": kind})[0] == 200
    status, _, body = post(served, sample(), **{"Content-Type": "text/xml"})
    assert (status, body) == (415, b"content-type: expected application/json\n")


def test_the_path_may_be_another(tmp_path: Path) -> None:
    with serving(tmp_path, f'{OPEN}path = "/jobs/tell"\n') as served:
        served.wait()
        assert post(served, sample(), "/jobs/tell")[0] == 200
        assert post(served, sample(), "/trace")[0] == 404


def test_promtool_has_nothing_to_say(served: Served, promtool: str) -> None:
    post(served, [sample(), sample(hostname="n2")])
    for path in ("/metrics/slurmscope", "/metrics"):
        text = page(served, path)
        assert list(read_text(text)) and "slurm_proc_pid" in text
        if path == "/metrics/slurmscope":
            done = subprocess.run(
                [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("way", WAYS)
def test_the_wrapper_is_let_in_with_its_token_and_seen(closed: Served, way: str) -> None:
    url = f"http://127.0.0.1:{closed.port}/trace"
    refused = run("--validate", by=WAYS[way], env=environment(url))
    assert refused.returncode == 1
    assert "answered 401: who are you? set SLURMSCOPE_TRACE_TOKEN to a token of trace.tokens" in refused.stderr
    env = environment(url, SLURMSCOPE_TRACE_TOKEN="letmein", SLURM_CLUSTER_NAME="lab24", SLURMD_NODENAME="n9")
    assert run("--validate", by=WAYS[way], env=env).returncode == 0
    process = subprocess.Popen([*WAYS[way], "sleep", "100"], env=env, stderr=subprocess.PIPE)
    try:
        key = 'slurm_proc_mem_usage{cluster="lab24",jobid="1",hostname="n9",username="alice"}'
        assert until(lambda: float(shown(closed).get(key, 0)) > 100_000)
    finally:
        process.terminate()
        assert process.wait() == -15


def test_over_tls_the_certificate_is_checked(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", *words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    with serving(tmp_path, f'tls_cert = "{cert}"\ntls_key = "{key}"\n{OPEN}') as served:
        served.context = ssl.create_default_context(cafile=str(cert))
        served.wait()
        url = f"https://127.0.0.1:{served.port}/trace"
        for way in WAYS.values():
            assert run("--validate", by=way, env=environment(url, SSL_CERT_FILE=str(cert))).returncode == 0
        unknown = run("sh", "-c", "exit 5", env=environment(url))
        assert unknown.returncode == 5 and "certificate verify failed" in unknown.stderr.lower()


# --- munge ---


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, munged: Munged) -> Iterator[Served]:
    """One that believes munge, and whose queue has job 1 as ours."""
    folder = tmp_path_factory.mktemp("munge")
    with serving(folder, f"{OPEN}munge = true\n", PATH=munged.path) as found:
        squeue = folder / "bin" / "squeue"
        (folder / "bin" / "recorded").write_text(squeue.read_text())
        (folder / "bin" / "recorded").chmod(0o755)
        new = folder / "bin" / "new"
        new.write_text(f'#!/bin/sh\n{folder}/bin/recorded "$@" | sed "s/^1|1|alice|/1|1|{ME}|/"\n')
        new.chmod(0o755)
        new.replace(squeue)
        found.wait()
        assert until(lambda: f'slurm_user_queue_jobs{{cluster="lab24",user="{ME}"' in page(found))
        yield found


def credential(munged: Munged, body: bytes) -> dict[str, str]:
    return {"Authorization": "Munge " + munged.sign("slurmscope-trace:" + hashlib.sha256(body).hexdigest())}


def test_munge_proves_who_sends(signed: Served, munged: Munged) -> None:
    body = json.dumps(sample(ALICES, username="somebody")).encode()
    headers = credential(munged, body)
    assert post(signed, body, **headers)[2] == b'{"taken":1}\n'
    assert f'jobid="1",hostname="n1",username="{ME}"' in page(signed)
    status, _, told = post(signed, body, **headers)
    assert (status, told) == (401, b"munge: Replayed credential: sign each body anew\n")


def test_what_munge_does_not_prove_is_not_taken(signed: Served, munged: Munged) -> None:
    body = json.dumps(sample(ALICES, pid=77)).encode()
    other = credential(munged, b"{}")
    refused: list[tuple[dict[str, str], str]] = [
        ({}, "who are you? sign with munge (--munge)"),
        ({"Authorization": "Bearer x"}, "who are you? sign with munge (--munge)"),
        ({"Authorization": "Munge"}, "munge: that is no credential of munge's"),
        ({"Authorization": "Munge MUNGE:nonsense:"}, "munge: "),
        ({"Authorization": "Munge MUNGE:" + "A" * 9000 + ":"}, "munge: that is no credential"),
        (other, "munge: the credential is of another body"),
        ({"Authorization": "Munge " + munged.sign(hashlib.sha256(body).hexdigest())}, "munge: the credential is of an"),
    ]
    for headers, said in refused:
        status, answered, told = post(signed, body, **headers)
        assert (status, answered["www-authenticate"]) == (401, "Munge")
        assert told.decode().startswith(said)
    body = json.dumps(sample(BOBS)).encode()
    status, _, told = post(signed, body, **credential(munged, body))
    assert (status, told) == (403, f"job 2 is not {ME}'s\n".encode())
    assert 'jobid="2"' not in page(signed) and " 77\n" not in page(signed)


def test_who_signs_with_nonsense_gets_no_body_read(signed: Served) -> None:
    """It is answered before the body comes, which never does."""
    with socket.create_connection(("127.0.0.1", signed.port), timeout=60) as client:
        client.sendall(b"POST /trace HTTP/1.1\r\nHost: x\r\nAuthorization: Munge x\r\nContent-Length: 100\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 401")


def test_the_wrapper_signs_with_munge(signed: Served, munged: Munged) -> None:
    env = environment(f"http://127.0.0.1:{signed.port}/trace", SLURMD_NODENAME="signed", PATH=munged.path)
    assert run("--munge", "--validate", env=env).returncode == 0
    done = run("--munge", "sleep", "1.5", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'hostname="signed"' in page(signed)


def test_where_munge_is_missing_both_sides_say_so(tmp_path: Path, munged: Munged) -> None:
    env = {"PATH": "/nonexistent", "SLURM_JOB_ID": "1", "SLURM_EXPORTER": "http://127.0.0.1:9/trace"}
    done = run("--munge", "/bin/true", env=env)
    assert done.returncode == 0
    assert "munge cannot be run" in done.stderr
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "sed"):  # which the recorded commands need
        (programs / name).symlink_to(f"/bin/{name}")
    with serving(tmp_path, f"{OPEN}munge = true\n", PATH=str(programs)) as served:
        served.wait()
        status, headers, told = post(served, b"[]", **credential(munged, b"[]"))
        assert (status, headers["retry-after"]) == (503, "30") and b"install munge here" in told
        assert "unmunge is not on the PATH" in served.log.read_text()


# --- who means no good ---


def test_nothing_is_taken_without_the_token(closed: Served) -> None:
    before = shown(closed)['slurm_trace_samples_total{cluster="lab24"}']
    wrong = ["", "Bearer", "Bearer nope", "Bearer letmein2", "Basic bGV0bWVpbg==", "Munge MUNGE:x:", "letmein"]
    for value in wrong:
        status, headers, body = post(closed, sample(), **({"Authorization": value} if value else {}))
        assert (status, headers["www-authenticate"], headers["connection"]) == (401, "Bearer", "close")
        assert b"set SLURMSCOPE_TRACE_TOKEN" in body
    assert shown(closed)['slurm_trace_samples_total{cluster="lab24"}'] == before
    assert post(closed, sample(), **TOKEN)[0] == 200


def test_it_warns_when_anybody_may_send(tmp_path: Path) -> None:
    with serving(tmp_path, OPEN) as served:
        served.wait()
        assert "can tell anything of any job" not in served.log.read_text()
    served = Served(tmp_path, OPEN)
    served.stop()
    port = served.port
    config = tmp_path / "slurmscope.toml"
    config.write_text(config.read_text().replace(f"127.0.0.1:{port}", f"0.0.0.0:{port}"))
    with (tmp_path / "open").open("wb") as log:
        process = subprocess.Popen([SLURMSCOPE, "serve", "--config", config], stderr=log)
        assert until(lambda: "trace.tokens or trace.munge closes it" in (tmp_path / "open").read_text())
        process.terminate()
        assert process.wait(15) == 0


HOSTILE = ["<script>alert(1)</script>", 'a"b', "a\nslurm_up 0", "a\\", "a\0b", "\u202eb", "{}", "\ud800", "é" * 60]


def test_hostile_names_do_no_harm(served: Served) -> None:
    for name in HOSTILE:
        for field in ("hostname", "username", "cluster"):
            raw = json.dumps(sample(3, **{field: name})).encode()
            status, headers, told = post(served, raw)
            assert status in (200, 400)
            assert headers["content-type"].startswith("text/plain" if status == 400 else "application/json")
            assert len(told) < 300
    for path in ("/metrics", "/metrics/rivosinc", "/"):
        text = page(served, path)
        assert "<script>alert" not in text and "\nslurm_up 0" not in text and "\0" not in text
    assert list(read_text(page(served)))


def test_wrong_types_deep_nesting_and_long_bodies(served: Served) -> None:
    field_wrong: list[Any] = [None, True, [], {}, "1", -1, 1e300, [[1]]]
    for field in ("job_id", "pid", "cpus", "threads", "mem", "hostname"):
        for value in field_wrong:
            if (field, value) != ("hostname", "1"):
                status, _, told = post(served, {**sample(), field: value})
                assert (status, told.decode().partition(":")[0]) == (400, field)
    for raw in (b"[" * 60_000, b'{"a":' * 12_000, b'"' + b"x" * 60_000, b"\x00" * 1000, b"", b"{", b"null"):
        assert post(served, raw)[0] == 400
    assert post(served, b"[" + b" " * MOST_BYTES)[0] == 413


def attack_with_jobs(served: Served) -> None:
    """100,000 made-up jobs."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for start in range(10_000, 110_000, 300):
        some = [
            {"job_id": start + at, "pid": 1, "cpus": 1, "threads": 1, "mem": 1, "hostname": "n1"} for at in range(300)
        ]
        connection.request("POST", "/trace", json.dumps(some))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()


def attack_with_processes(served: Served) -> None:
    """Any number of processes and hosts of a job that runs."""
    for start in range(1, 30_000, 300):
        some = [sample(4, pid=start + at, hostname=f"h{start + at}") for at in range(300)]
        status, headers, _ = post(served, some)
        assert status in (200, 429)
        assert status == 200 or headers["retry-after"] == "30"
    assert sum('jobid="4"' in key for key in shown(served) if "slurm_proc_pid" in key) == 64


def attack_with_length(served: Served) -> None:
    """10 MB, said and unsaid."""
    for _ in range(10):
        with contextlib.suppress(ConnectionError):
            assert post(served, b"x" * 10_000_000)[0] == 413
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(b"POST /trace HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(1000):
                client.sendall(b"2710\r\n" + b"x" * 10_000 + b"\r\n")


def attack_slowly(served: Served) -> None:
    """Bodies that never come: pages are served all the same."""
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            client.sendall(b"POST /trace HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 40_000)
        assert served.get()[0] == 200


@pytest.mark.parametrize("attack", [attack_with_jobs, attack_with_processes, attack_with_length, attack_slowly])
def test_memory_is_bounded_and_honest_jobs_stay(attack: Callable[[Served], None], tmp_path: Path) -> None:
    with serving(tmp_path, OPEN) as served:
        served.wait()
        honest = [sample(job_id) for job_id in (1, 2, 3)]
        assert post(served, honest)[2] == b'{"taken":3}\n'
        page(served)
        before = memory(served)
        attack(served)
        assert memory(served) - before < 40
        assert until(lambda: post(served, honest)[2] == b'{"taken":3}\n')
        found = page(served)
        assert all(f'jobid="{job_id}"' in found for job_id in (1, 2, 3))
        assert not re.search(r'jobid="1\d{4,}"', found)
        assert list(read_text(found))
