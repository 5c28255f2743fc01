# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the wrapper measures, and how it sends it to servers that take it, refuse it, or come late."""

from __future__ import annotations

import ast
import json
import os
import pwd
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import until
from tracing import ABSENT, GARBAGE, REFUSING, SLOW, WAYS, WRAPPER, environment, free_port, run, server

from slurmscope.trace import body, wrapper

BURN = "import time\nwhile time.process_time() < 0.4: pass"  # however busy the machine is


def printed(*command: str, rate: str = "0.3") -> list[dict[str, Any]]:
    done = run("--dry-run", "--rate", rate, *command)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


# --- what is measured ---


def test_a_dry_run_prints_what_would_be_sent_and_it_is_as_the_schema_has_it() -> None:
    samples = printed("sleep", "1")
    assert len(samples) >= 3
    for sample in samples:
        (found,) = body.read(json.dumps(sample).encode(), time.time())
        assert (found.job_id, found.hostname, found.username) == (1, "n1", "alice")
        assert found.time is not None and found.cpu_seconds is not None
    assert samples[0]["threads"] >= 1 and samples[0]["mem"] > 100_000


def test_processor_time_of_children_grandchildren_orphans_and_those_that_have_ended(tmp_path: Path) -> None:
    burn = f"{sys.executable} -c '{BURN}'"
    script = f'{burn}; (sh -c "{burn}; touch done" &); until [ -e done ]; do sleep 0.1; done'
    samples = printed("sh", "-c", f"cd {tmp_path}; {script}")
    seconds = [sample["cpu_seconds"] for sample in samples]
    assert seconds == sorted(seconds), "a counter only grows"
    # one that ended before, and one whose parent has left it
    assert 0.75 < seconds[-1] < 3


def test_a_short_command_is_told_of_too_from_its_start_to_its_end() -> None:
    before = time.time()
    with server() as there:
        assert run(sys.executable, "-c", BURN, env=environment(there.url, SAMPLE_RATE="3600")).returncode == 0
    sample = there.samples[-1]
    assert before - 0.01 < sample["started"] < sample["time"] < time.time() + 0.01
    assert sample["time"] - sample["started"] > 0.35
    assert 0.4 <= sample["cpu_seconds"] < 2


def test_nothing_but_a_moment() -> None:
    (sample,) = printed("true", rate="3600")
    assert sample["started"] <= sample["time"] and sample["cpu_seconds"] >= 0
    assert 0 <= sample["cpus"] <= 100 * (os.cpu_count() or 1)


def test_whose_it_is_where_the_environment_does_not_tell() -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    bare = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "SAMPLE_RATE": "0.2"}
    with server() as there:
        assert run("true", env={**bare, "SLURM_EXPORTER": there.url}).returncode == 0
        assert [sample["username"] for sample in there.samples] == [name]
    assert json.loads(run("--dry-run", "true", env=bare).stderr)["username"] == name


def test_each_sample_is_newer_than_the_last_unless_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.0, 100.0, 99.9, 50.0])
    monkeypatch.setattr(time, "time", lambda: next(times))
    meter = wrapper.Meter(1, 90.0, {})
    assert [meter._time() for _ in range(4)] == [100.0, 100.001, 100.002, 50.0]


class Processes:
    """A parent, 9, with a child, 5, that it reaps as soon as somebody has looked at the child."""

    def __init__(self) -> None:
        self.reaped = False

    def stat(self, pid: int) -> wrapper.Stat | None:
        if pid == 5:
            if self.reaped:
                return None
            self.reaped = True
            return wrapper.Stat(9, 10.0, 1, 1000)
        if pid == 9:
            return wrapper.Stat(os.getpid(), 11.0 if self.reaped else 1.0, 1, 1000)
        return wrapper.Stat(1, 0.0, 1, 1000) if pid == os.getpid() else None

    def children(self, pid: int, threads: int) -> list[int]:
        return {os.getpid(): [9], 9: [] if self.reaped else [5]}.get(pid, [])


def test_a_child_that_is_reaped_meanwhile_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Processes()
    monkeypatch.setattr(wrapper, "_stat", there.stat)
    monkeypatch.setattr(wrapper, "_children", there.children)
    monkeypatch.setattr(wrapper, "_io", lambda pid: None)
    meter = wrapper.Meter(9, time.time() - 1000, {})
    assert [meter.sample(set())["cpu_seconds"] for _ in range(2)] == [11.0, 11.0]


def test_where_the_kernel_does_not_tell_children_all_of_proc_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import subprocess, sys; subprocess.run(['sh', '-c', 'echo; read x; :'], stdout=1)"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        told, whole = wrapper.processes(process.pid)
        monkeypatch.setattr(wrapper, "_tells_children", lambda: False)
        read, _ = wrapper.processes(process.pid)
        process.communicate("\n")
    assert whole and len(told) == 1 and set(told) == set(read)


def test_children_of_every_thread_are_found() -> None:
    script = (
        "import subprocess, sys, threading\n"
        "def act(): print(subprocess.Popen(['sleep', '1']).pid, flush=True); sys.stdin.read()\n"
        "threading.Thread(target=act).start()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert set(wrapper.processes(process.pid)[0]) == {child}
        process.communicate("")


def test_no_more_time_than_all_cores_can_have_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapper, "processes", lambda root: ({9: wrapper.Stat(root, 1e6, 1, 1000)}, True))
    sample = wrapper.Meter(9, time.time() - 10, {}).sample(set())
    cores = os.cpu_count() or 1
    assert 10 * cores <= sample["cpu_seconds"] < 15 * cores
    assert sample["cpus"] <= 100 * cores


def test_looks_that_cost_much_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def costly(others: set[int]) -> dict[str, Any]:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        return {"username": "alice"}

    meter = wrapper.Meter(1, time.time(), {})
    monkeypatch.setattr(meter, "sample", costly)
    tracing = wrapper.Tracing(meter, 0.1, None)
    time.sleep(0.11)
    assert tracing.look() > 4.5, "a hundred times what it took"


def test_memory_and_threads_of_all_processes() -> None:
    script = "import threading, time\nx = b'x' * (60 << 20)\n" + (
        "for _ in range(3): threading.Thread(target=time.sleep, args=(1.2,)).start()"
    )
    one = f'{sys.executable} -c "{script}"'
    samples = printed("sh", "-c", f"{one} & {one} & wait")
    assert max(sample["mem"] for sample in samples) > 120 << 20
    assert max(sample["threads"] for sample in samples) >= 9


def test_what_was_written_by_a_child_that_has_ended(tmp_path: Path) -> None:
    if (
        subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout.strip()
        == "tmpfs"
    ):
        pytest.skip("what is written to memory is not written to storage")
    write = f"dd if=/dev/zero of={tmp_path}/file bs=1M count=8 conv=fsync 2>/dev/null"
    samples = printed("sh", "-c", f"({write}; true); ({write} &) ; sleep 1")
    assert samples[-1]["write_bytes"] >= 16 << 20


def test_it_is_python_3_6_and_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(WRAPPER.read_text(), feature_version=(3, 6))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add((node.module or "").partition(".")[0])
    assert names <= sys.stdlib_module_names


# --- how it is sent ---


def test_samples_are_sent_while_the_command_runs_and_one_more_at_its_end() -> None:
    with server() as there:
        env = environment(there.url, SLURM_CLUSTER_NAME="lab24", SLURMSCOPE_TRACE_TOKEN="letmein")
        assert run("sleep", "1.2", env=env).returncode == 0
    assert len(there.requests) >= 3
    for request in there.requests:
        assert (request.method, request.path) == ("POST", "/trace")
        assert request.headers["content-type"] == "application/json"
        assert request.headers["authorization"] == "Bearer letmein"
    assert {sample["cluster"] for sample in there.samples} == {"lab24"}
    assert len({sample["pid"] for sample in there.samples}) == 1


def test_a_token_may_be_in_a_file_and_a_proxy_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("letmein\n")
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    with server() as there:
        run("true", env=environment(there.url, SLURMSCOPE_TRACE_TOKEN_FILE=str(tmp_path / "token"), **proxies))
        assert [request.headers["authorization"] for request in there.requests] == ["Bearer letmein"]
        done = run("true", env=environment(there.url, SLURMSCOPE_TRACE_TOKEN_FILE=str(tmp_path / "none")))
        assert done.returncode == 0 and "SLURMSCOPE_TRACE_TOKEN_FILE" in done.stderr
        done = run("true", env=environment(there.url, SLURMSCOPE_TRACE_TOKEN="a\nb"))
        assert done.returncode == 0 and len(done.stderr.splitlines()) == 1
    assert len(there.requests) == 1


def test_a_server_that_comes_late_gets_what_was_before() -> None:
    port = free_port()
    process = subprocess.Popen(
        [*WAYS["wrapper.py"], "sleep", "7"],
        env=environment(f"http://127.0.0.1:{port}/trace"),
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)
    with server(port=port) as there:
        assert until(lambda: any(len(request.samples) > 1 for request in there.requests))
        assert process.wait() == 0
        times = [sample["time"] for sample in there.samples]
    assert times == sorted(set(times)), "each once, and in their order"
    assert process.stderr is not None
    (said,) = process.stderr.read().splitlines()
    assert "cannot be reached" in said and "the command goes on" in said


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        ("400 Bad Request", ""),
        ("401 Unauthorized", ""),
        ("301 x", ""),
        ("403 Forbidden", " (trace jobs as the user whose they are)"),
        ("404 Not Found", " (no traces are taken there: is trace.enabled set, and is the path right?)"),
        ("405 No", " (no traces are taken there: is trace.enabled set, and is the path right?)"),
        ("413 Long", " (it takes less than 64 KiB: raise the limit of the proxy before it)"),
        ("415 What", " (it takes no JSON: is it slurmscope's?)"),
    ],
)
def test_one_that_refuses_is_told_of_once_and_left_alone(status: str, cure: str) -> None:
    with server() as there:
        there.answers = [f"HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\nthe why".encode()]
        done = run("sh", "-c", "sleep 1.5; exit 9", env=environment(there.url))
    assert done.returncode == 9
    (said,) = done.stderr.splitlines()
    assert f"answered {status[:3]}: the why{cure}; nothing more is sent" in said
    assert len(there.requests) == 1


def refusal(status: str, words: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(words)}\r\n\r\n{words}".encode()


CLOCK = refusal("400 Bad Request", "[0].time: 90 s in the future: set the clock of the host that sent it")


def test_a_clock_that_is_ahead_may_be_set_meanwhile() -> None:
    with server() as there:
        there.answers = [CLOCK, *there.answers]
        done = run("sleep", "3", env=environment(there.url))
    assert "samples are sent later" in done.stderr and len(done.stderr.splitlines()) == 1
    assert len(there.requests) >= 2


def test_a_credential_that_has_expired_is_signed_anew(tmp_path: Path) -> None:
    munge = tmp_path / "munge"
    munge.write_text("#!/bin/sh\ncat >/dev/null; echo MUNGE:$$:\n")
    munge.chmod(0o755)
    with server() as there:
        there.answers = [refusal("401 No", "munge: Expired credential: sign each body anew"), *there.answers]
        env = environment(there.url, PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert run("--munge", "sleep", "3", env=env).returncode == 0
    signed = [request.headers["authorization"] for request in there.requests]
    assert len(signed) >= 2 and len(set(signed)) == len(signed)


def test_what_may_pass_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapper, "_LEAST_PAUSE", 0.01)
    monkeypatch.setattr(wrapper, "_MOST_PAUSE", 0.01)
    with server() as there:
        there.answers = [CLOCK]
        sender = wrapper.Sender(wrapper.Endpoint(there.url, munge=False))
        sender.start()
        sender.give({"time": time.time(), "username": "alice"})
        assert until(lambda: sender.given_up)
    assert len(there.requests) == 6


def test_samples_of_a_clock_that_was_ahead_hold_up_no_others() -> None:
    with server() as there:
        sender = wrapper.Sender(wrapper.Endpoint(there.url, munge=False))
        for at in (time.time() + 90, time.time(), time.time() - 4000):
            sender.give({"time": at, "username": "alice"})
        sender.start()
        sender.finish()
    assert len(there.samples) == 1 and abs(there.samples[0]["time"] - time.time()) < 30


@pytest.mark.parametrize(
    "url",
    ["http://user:secret@HOST/trace", "user:secret@HOST", "http://user:se/secret@HOST/", "https://u:secret@[HOST"],
)
@pytest.mark.parametrize("option", [[], ["--validate"]])
def test_a_password_in_the_address_is_refused_and_never_printed(url: str, option: list[str]) -> None:
    with server() as there:
        host = there.url.split("/")[2]
        done = run(*option, "sh", "-c", "exit 8", env=environment(url.replace("HOST", host)))
        assert done.returncode == (1 if option else 8)
        assert not there.requests
    assert "secret" not in done.stderr and host in done.stderr
    assert "no user and password are taken in an address" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("status", ["429 Too Many", "503 Unavailable", "500 Oh"])
def test_one_that_is_busy_is_asked_again_later(status: str) -> None:
    with server() as there:
        good = there.answers[0]
        there.answers = [f"HTTP/1.1 {status}\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".encode(), good]
        done = run("sleep", "4", env=environment(there.url))
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert len(there.requests[1].samples) > 1, "what it did not take comes together with the next"
    times = [sample["time"] for request in there.requests[1:] for sample in request.samples]
    assert times == sorted(set(times))
    assert there.requests[0].samples[0]["time"] == times[0]


@pytest.mark.parametrize(
    "url", ["localhost:9092", "ftp://x/trace", "http://", "http://x:port/", "http://[/", "http://a\u0000b/"]
)
def test_an_address_that_is_none_does_no_harm(url: str) -> None:
    done = run("--url", url.replace("\0", "%00"), "sh", "-c", "exit 8")
    assert done.returncode == 8
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_sample_rate_does_no_harm() -> None:
    with server() as there:
        done = run("sh", "-c", "exit 8", env=environment(there.url, SAMPLE_RATE="often"))
        assert done.returncode == 8 and there.samples
        assert (
            done.stderr == "slurmscope: SAMPLE_RATE: expected seconds from 0.1 to 3600, found 'often'; it is 5 then\n"
        )


def test_a_server_that_never_ends_its_answer() -> None:
    with server() as there:
        there.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 5_000_000]
        assert run("sh", "-c", "sleep 1.5; exit 9", env=environment(there.url)).returncode == 9


def test_many_tasks_at_once_are_told_apart() -> None:
    with server() as there:
        threads = [
            threading.Thread(target=run, args=("sleep", "0.5"), kwargs={"env": environment(there.url)})
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({sample["pid"] for sample in there.samples}) == 4


# --- whether it would work ---


SCHEMA = json.dumps(body.schema()).encode()


def schema_answer(status: str = "200 OK", content: bytes = SCHEMA, kind: str = "application/schema+json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize("way", WAYS)
def test_validate_says_that_all_is_well_and_tells_of_no_job(way: str) -> None:
    with server() as there:
        there.answers = [schema_answer(), *there.answers]
        done = run("--validate", by=WAYS[way], env=environment(there.url))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"slurmscope: {there.url} is there, takes what we send, and lets us in\n"
    assert [(one.method, one.body) for one in there.requests] == [("GET", b""), ("POST", b"[]")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (schema_answer("404 Not Found"), "set trace.enabled there"),
        (schema_answer(kind="text/html"), "no schema: is it slurmscope's?"),
        (schema_answer(content=b"{}"), "another version"),
        (schema_answer(content=b"[" * 1000), "another version"),
        (schema_answer("500 Oh"), "answered 500"),
    ],
)
def test_validate_names_what_is_wrong(answer: bytes, said: str) -> None:
    with server() as there:
        there.answers = [answer]
        done = run("--validate", env=environment(there.url))
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "said"),
    [(ABSENT, "cannot be reached"), (GARBAGE, "does not answer in HTTP"), (SLOW, "timed out"), (REFUSING, "401")],
)
def test_validate_names_a_server_that_is_none(kind: str, said: str) -> None:
    with server(kind) as there:
        done = run("--validate", env=environment(there.url))
    assert done.returncode == 1 and said in done.stderr


def test_validate_without_an_address_or_a_job() -> None:
    done = run("--validate", env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1 and "set SLURM_EXPORTER" in done.stderr
    with server() as there:
        there.answers = [schema_answer(), *there.answers]
        done = run("--validate", "--url", there.url, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0 and "this is no job" in done.stderr
