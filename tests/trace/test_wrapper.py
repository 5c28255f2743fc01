# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whoever starts a command through the wrapper sees what he would see without it, whatever server there is."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from processes import gone, until
from pythons import python
from tracing import KINDS, WAYS, WRAPPER, environment, run, server

MEGABYTE = bytes(range(256)) * 4096


class Seen(NamedTuple):
    """By whoever waits for the command."""

    status: int
    out: bytes


def started(argv: list[str], env: dict[str, str], **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def seen(process: subprocess.Popen[bytes], sent: bytes = b"") -> Seen:
    out, _ = process.communicate(sent, timeout=60)
    return Seen(process.returncode, out)


def plain(*command: str, sent: bytes = b"", **more: Any) -> Callable[[list[str], dict[str, str]], Seen]:
    return lambda by, env: seen(started([*by, *command], env, **more), sent)


def signalled(script: str, number: int) -> Callable[[list[str], dict[str, str]], Seen]:
    """The wrapper alone is sent a signal, when the command is ready for it."""

    def act(by: list[str], env: dict[str, str]) -> Seen:
        process = started([*by, "sh", "-c", script], env)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        return seen(process)

    return act


def stopped(by: list[str], env: dict[str, str]) -> Seen:
    # a group of its own within our session, as a shell makes it: in an orphaned one nobody can be stopped so
    process = started([*by, "sh", "-c", "echo $$; sleep 0.2; read word; exit 5"], env, preexec_fn=os.setpgrp)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert found is not None and found.si_pid == process.pid
    assert state(child) == "T", "the command is stopped, and so is the wrapper"
    process.send_signal(signal.SIGCONT)
    assert until(lambda: state(child) in "SR")
    return seen(process, b"go\n")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


LOOP = "echo ready; while :; do sleep 0.05; done"
NO_TERMINAL = "import os, sys; sys.exit(0 if os.getsid(0) == os.getppid() == os.getpgrp() else 1)"
CASES: dict[str, tuple[Callable[[list[str], dict[str, str]], Seen], Seen]] = {
    "0": (plain("true"), Seen(0, b"")),
    "3": (plain("sh", "-c", "echo out; exit 3"), Seen(3, b"out\n")),
    "255": (plain("sh", "-c", "exit 255"), Seen(255, b"")),
    "killed": (plain("sh", "-c", "kill -9 $$"), Seen(-9, b"")),
    "crashed": (plain("sh", "-c", "kill -SEGV $$"), Seen(-11, b"")),
    "terminated": (signalled(LOOP, signal.SIGTERM), Seen(-15, b"")),
    "terminated, and says so": (signalled(f"trap 'exit 7' TERM; {LOOP}", signal.SIGTERM), Seen(7, b"")),
    "told to save": (signalled(f"trap 'echo saved; exit 0' USR1; {LOOP}", signal.SIGUSR1), Seen(0, b"saved\n")),
    "hung up": (signalled(LOOP, signal.SIGHUP), Seen(-1, b"")),
    "realtime": (signalled(LOOP, signal.SIGRTMIN + 3), Seen(-(signal.SIGRTMIN + 3), b"")),
    "not there": (plain("no-such-command"), Seen(127, b"")),
    "not executable": (plain("/etc/passwd"), Seen(126, b"")),
    "options of its own": (plain("--", "printf", "%s", "--url"), Seen(0, b"--url")),
    "a megabyte": (plain("cat", sent=MEGABYTE), Seen(0, MEGABYTE)),
    "no terminal": (plain(sys.executable, "-c", NO_TERMINAL, start_new_session=True), Seen(0, b"")),
    "stopped and continued": (stopped, Seen(5, b"")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_the_end_is_the_commands_own(way: str, kind: str) -> None:
    with server(kind) as there, ThreadPoolExecutor(4) as side_by_side:
        found = {name: side_by_side.submit(act, WAYS[way], environment(there.url)) for name, (act, _) in CASES.items()}
        assert {name: one.result() for name, one in found.items()} == {name: end for name, (_, end) in CASES.items()}


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_an_older_and_a_newer_python(version: str) -> None:
    by = [python(version), str(WRAPPER)]
    with server() as there, ThreadPoolExecutor(4) as side_by_side:
        found = {name: side_by_side.submit(act, by, environment(there.url)) for name, (act, _) in CASES.items()}
        assert {name: one.result() for name, one in found.items()} == {name: end for name, (_, end) in CASES.items()}
        assert there.samples
    assert run("--help", by=by, env={"LC_ALL": "C"}).returncode == 0


def test_without_an_address_it_becomes_the_command() -> None:
    process = started([*WAYS["wrapper.py"], "sh", "-c", "echo $$; exit 6"], environment())
    out, complaint = process.communicate()
    assert (process.returncode, int(out)) == (6, process.pid)
    assert complaint == b"slurmscope: SLURM_EXPORTER is not set: the command is run untraced\n"
    outside = run("sh", "-c", "exit 6", env={"PATH": os.environ["PATH"], "SLURM_EXPORTER": "http://x/trace"})
    assert outside.returncode == 6
    assert outside.stderr == "slurmscope: this is no job (no SLURM_JOB_ID): the command is run untraced\n"
    for name, end in (("not there", 127), ("not executable", 126)):
        assert CASES[name][0](WAYS["wrapper.py"], environment()).status == end


def test_a_script_whose_interpreter_is_missing_is_there_and_not_executable(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for env in (environment(), environment("http://127.0.0.1:9/trace")):
        assert run(str(script), env=env).returncode == 126


@pytest.mark.parametrize("way", WAYS)
def test_what_a_command_inherits(way: str, tmp_path: Path) -> None:
    """Signals, environment, limits, mask, folder, descriptors: as without it."""
    show = (
        "umask; nice; pwd; ulimit -a; cat <&9; env | sort | grep -v ^_=; "
        "grep -E '^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp):' /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat"
    )

    def look(by: list[str], env: dict[str, str], changed: bool) -> bytes:
        read, write = os.pipe()
        os.write(write, b"through nine\n")
        os.close(write)

        def prepare() -> None:
            os.dup2(read, 9)
            if changed:
                os.umask(0o27)
                os.nice(3)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

        process = started([*by, "sh", "-c", show], env, cwd=tmp_path, preexec_fn=prepare, close_fds=False)
        os.close(read)
        return seen(process).out

    with server() as there:
        for changed in (False, True):
            # in the C locale, where Python would set a variable of its own
            env = environment(there.url)
            assert look(WAYS[way], env, changed) == look([], env, changed)


def test_stdin_may_be_closed_and_so_may_stderr() -> None:
    with server() as there:
        script = f"{sys.executable} {WRAPPER} sh -c 'exit 4' <&- 2>&-"
        assert subprocess.run(["sh", "-c", script], env=environment(there.url), check=False).returncode == 4
        assert there.samples


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_is_delivered_once(way: str) -> None:
    script = (
        "import signal, time; hits = []\n"
        "signal.signal(signal.SIGINT, lambda *_: hits.append(1))\n"
        "print('ready', flush=True); end = time.time() + 1.5\n"
        "while time.time() < end: time.sleep(0.05)\n"
        "print('hits', len(hits), flush=True)"
    )
    with server() as there:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(WAYS[way][0], [*WAYS[way], sys.executable, "-c", script], environment(there.url))
        out = b""
        while b"ready" not in out:
            out += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        while b"hits" not in out:
            out += os.read(terminal, 1000)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.close(terminal)
        assert b"hits 1" in out


COUNTING = (
    "import signal, time, os; hits = []\n"
    "signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))\n"
    "print(os.getpid(), flush=True); end = time.time() + 1.5\n"
    "while time.time() < end: time.sleep(0.05)\n"
    "print(len(hits), flush=True)"
)


@pytest.mark.parametrize(
    ("sender", "receivers", "more"),
    [
        ("sh", "wrapper", {}),
        ("slurmstepd", "both", {"SLURM_STEP_ID": "0"}),  # which signals every process of a step
        ("slurmstepd", "wrapper", {"SLURM_TASK_PID": "own"}),  # … or a batch script alone, if we are that
    ],
)
def test_a_signal_is_delivered_once_whoever_sends_it(
    sender: str, receivers: str, more: dict[str, str], tmp_path: Path
) -> None:
    program = shutil.copy("/bin/sh", tmp_path / sender)
    with server() as there:
        env = environment(there.url, **more)
        argv = [*WAYS["wrapper.py"], sys.executable, "-c", COUNTING]
        if more.get("SLURM_TASK_PID"):
            argv = ["sh", "-c", 'export SLURM_TASK_PID=$$; exec "$@"', "sh", *argv]
        process = started(argv, env)
        assert process.stdout is not None
        child = int(process.stdout.readline())
        targets = [process.pid, child] if receivers == "both" else [process.pid]
        subprocess.run([program, "-c", f"kill -USR1 {' '.join(map(str, targets))}; sleep 0.3"], check=True)
        assert seen(process) == Seen(0, b"1\n")


def test_a_wrapper_that_is_killed_leaves_the_command() -> None:
    with server() as there:
        process = started([*WAYS["wrapper.py"], "sh", "-c", "echo $$; exec sleep 100"], environment(there.url))
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        assert process.wait() == -9
        assert state(child) in "SR"
        os.kill(child, signal.SIGKILL)
        assert gone(child)


def test_what_a_command_leaves_in_the_background_is_left_alone() -> None:
    with server() as there:
        done = run("sh", "-c", "sleep 100 >/dev/null 2>&1 & echo $!", env=environment(there.url))
        child = int(done.stdout)
        assert state(child) in "SR"
        os.kill(child, signal.SIGKILL)
        assert gone(child)


def test_orphans_are_reaped() -> None:
    script = "for i in 1 2 3; do (sh -c 'exit 0' &) ; done; sleep 1; ps -o stat= --ppid $PPID"
    with server() as there:
        done = run("sh", "-c", script, env=environment(there.url))
        assert done.returncode == 0
        assert "Z" not in done.stdout


def test_no_core_of_the_wrappers_own(tmp_path: Path) -> None:
    def allow() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with server() as there:
        script = "ulimit -c 0; kill -QUIT $$"
        done = run("sh", "-c", script, env=environment(there.url), cwd=tmp_path, preexec_fn=allow)
        assert done.returncode == -signal.SIGQUIT
        assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_costs_two_seconds_at_most() -> None:
    with server("slow") as there:
        started_at = time.monotonic()
        assert run("sleep", "1.5", env=environment(there.url)).returncode == 0
        assert time.monotonic() - started_at < 20, "it is not waited for"
        assert len(there.requests) == 1


def test_help_teaches() -> None:
    for way in WAYS.values():
        done = run("--help", by=way)
        assert done.returncode == 0
        for word in ("--url", "--rate", "--munge", "--dry-run", "--validate", "SLURM_EXPORTER", "#SBATCH", "srun"):
            assert word in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command is given"),
        (["--rate", "0", "true"], "expected seconds from 0.1 to 3600, found '0'"),
        (["--rate", "nan", "true"], "found 'nan'"),
        (["--rat", "5", "true"], "--rat"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_run(words: list[str], said: str) -> None:
    for way in WAYS.values():
        done = run(*words, by=way)
        assert done.returncode == 2
        assert said in done.stderr


def test_it_runs_alone_wherever_it_is_copied(tmp_path: Path) -> None:
    copy = shutil.copy(WRAPPER, tmp_path / "wrapper.py")
    with server() as there:
        done = run("sh", "-c", "exit 3", by=[sys.executable, "-I", "-S", str(copy)], env=environment(there.url))
        assert done.returncode == 3 and there.samples
