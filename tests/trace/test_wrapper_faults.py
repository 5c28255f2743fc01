# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with the wrapper itself, for want of descriptors, memory or processes, is no harm to the command."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import until
from tracing import WAYS, WRAPPER, environment, run, server

HERE = "/usr/bin/python3"  # where every user can run it


def started(*command: str, env: dict[str, str], by: list[str] | None = None, **more: Any) -> subprocess.Popen[str]:
    argv = [*(by or WAYS["wrapper.py"]), *command]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_no_descriptors_are_left_while_it_runs() -> None:
    with server() as there:
        process = started("sh", "-c", "sleep 2.5; exit 9", env=environment(there.url))
        assert until(lambda: bool(there.samples))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, 3))
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (9, "")
    assert all(sample["threads"] for sample in there.samples), "nothing is told of processes that could not be seen"
    failed = [line for line in said.splitlines() if "tracing has failed" in line]
    assert len(failed) == 1 and "Too many open files" in failed[0] and "Traceback" not in said


def test_no_thread_can_be_started() -> None:
    patched = (
        "import sys, threading\n"
        f"sys.path.insert(0, {str(WRAPPER.parent)!r})\n"
        'def start(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
        "import wrapper\n"
        "sys.exit(wrapper.main(sys.argv[1:]))"
    )
    with server() as there:
        done = run("sh", "-c", "sleep 0.5; exit 9", by=[sys.executable, "-c", patched], env=environment(there.url))
    assert done.returncode == 9
    assert done.stderr == "slurmscope: tracing has failed (can't start new thread); the command goes on\n"


@pytest.mark.parametrize("megabytes", [16, 20, 24, 28, 32, 36, 40, 48, 64, 128])
def test_however_little_memory_it_may_take(megabytes: int) -> None:
    """If a Python can be started at all, the command is run, and its end is ours."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    with server() as there:
        done = run("sh", "-c", "sleep 0.3; exit 9", env=environment(there.url), preexec_fn=limit)
        if done.returncode != 9:
            assert run("--help", preexec_fn=limit).returncode != 0, done.stderr
            pytest.skip("no Python can be started with so little")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become a user without processes")
@pytest.mark.skipif(not os.access(HERE, os.X_OK), reason=f"needs {HERE}")
def test_no_process_can_be_made(tmp_path: Path) -> None:
    def limit() -> None:
        os.setgid(54321)
        os.setuid(54321)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

    copy = shutil.copy(WRAPPER, tmp_path / "wrapper.py")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    show = ["grep", "-E", "^(Pid|Sig(Blk|Ign)):", "/proc/self/status"]
    with server() as there:
        process = started(*show, by=[HERE, str(copy)], env=environment(there.url), preexec_fn=limit)
        out, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    lines = dict(line.split(":\t") for line in out.splitlines())
    assert int(lines["Pid"]) == process.pid, "it took our place"
    assert int(lines["SigBlk"], 16) == 1 << (signal.SIGUSR2 - 1)
    # beyond 31 are those that the C library keeps for itself, which whoever started us may have had ignored
    assert int(lines["SigIgn"], 16) & ((1 << 31) - 1) == 1 << (signal.SIGCHLD - 1)
    assert said.count("\n") == 1 and "the command is run untraced" in said


# --- stops ---

STOPS = """
import os, signal, subprocess, sys, time
helper = subprocess.Popen(["sh", "-c", "sleep 0.7; kill -CONT %d" % os.getpid()])
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.NAME)
helper.wait()
sys.exit(5)
"""


@pytest.mark.parametrize("name", ["SIGTSTP", "SIGSTOP"])
def test_a_command_that_stops_itself_does_not_stop_us(name: str) -> None:
    with server() as there:
        # not in an orphaned process group, where a SIGTSTP does nothing
        script = STOPS.replace("NAME", name)
        process = started(sys.executable, "-c", script, env=environment(there.url), preexec_fn=os.setpgrp)
        assert process.stdout is not None
        command = int(process.stdout.readline())
        assert until(lambda: state(command) == "T")
        try:
            assert process.wait(20) == 5
        finally:
            process.kill()


# --- signals of a group ---

COUNTS = (
    "import signal, time; hits = []\n"
    "signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))\n"
    "print('ready', flush=True); end = time.time() + 2\n"
    "while time.time() < end: time.sleep(0.05)\n"
    "print(len(hits), flush=True)"
)


@pytest.mark.parametrize("flags", [[], ["--foreground"]])
def test_timeout_signals_the_command_and_none_is_lost(flags: list[str]) -> None:
    """It signals its child, and then its group: twice if it were not for the little time between them."""
    argv = ["timeout", "-k", "30", *flags, "-s", "USR1", "1"]
    ways = [argv, [*argv, *WAYS["wrapper.py"]]]
    with server() as there:
        found = []
        for by in ways:
            # a leader of its group, as an interactive shell makes it, also in the foreground
            done = run(sys.executable, "-c", COUNTS, by=by, env=environment(there.url), preexec_fn=os.setpgrp)
            found.append(int(done.stdout.split()[-1]))
    assert found[1] == 1 and found[0] >= 1


def test_a_parent_of_our_group_that_signals_us_alone_is_heard() -> None:
    script = '"$@" & sleep 1; kill -USR1 $!; wait $!'
    with server() as there:
        by = ["sh", "-c", script, "sh", *WAYS["wrapper.py"]]
        done = run(sys.executable, "-c", COUNTS, by=by, env=environment(there.url), preexec_fn=os.setpgrp)
    assert done.stdout.split() == ["ready", "1"]


# --- names ---


@pytest.mark.parametrize("env", [environment(), environment("http://127.0.0.1:9/trace")])
@pytest.mark.parametrize("way", WAYS)
def test_an_empty_name_is_not_found(way: str, env: dict[str, str]) -> None:
    done = run("", by=WAYS[way], env=env)
    assert done.returncode == 127
    assert done.stderr.endswith("slurmscope: '': No such file or directory\n") and "Traceback" not in done.stderr


def test_too_many_words_are_said_to_be() -> None:
    env = environment("http://127.0.0.1:9/trace")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))

    patched = (
        f"import sys; sys.path.insert(0, {str(WRAPPER.parent)!r}); import wrapper; "
        "sys.exit(wrapper.main(['true', *['x' * 100000] * 60]))"
    )
    done = run(by=[sys.executable, "-c", patched], env=env, preexec_fn=limit)
    assert done.returncode == 126
    assert done.stderr == "slurmscope: true: Argument list too long\n"
