# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands, as somebody types them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded import commands

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


def run(
    folder: Path, *arguments: str, recorded: bool = True, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "POLL_", "CLI_", "LOGLEVEL"))
    }
    if recorded:
        env["SLURMSCOPE_SLURM_BIN_DIR"] = str(commands("24.11", folder / "bin"))
    return subprocess.run(
        [SLURMSCOPE, *arguments],
        env={**env, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        input=stdin,
        check=False,
    )


def test_metrics_prints_one_page(tmp_path: Path) -> None:
    done = run(tmp_path, "metrics", "--profile", "slurmscope")
    assert (done.returncode, done.stderr) == (0, "")
    assert 'slurm_up{cluster="lab24"} 1' in done.stdout
    assert "slurm_partition_total_cpus" not in done.stdout
    assert run(tmp_path, "metrics", "--openmetrics").stdout.endswith("# EOF\n")


def test_snapshot_prints_json(tmp_path: Path) -> None:
    done = run(tmp_path, "snapshot")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["cluster"] == "lab24"
    assert {job["name"] for job in found["jobs"]["value"]} >= {"vit | large", "étude π=3"}
    assert found["nodes"]["value"][0]["flags"] == []


def test_without_slurm_the_cure_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path, "metrics", recorded=False, SLURMSCOPE_SLURM_BIN_DIR=str(tmp_path / "empty"), LOGLEVEL="error")
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[-1] == "slurmscope: nothing could be read; `slurmscope doctor` says what to do"
    assert any(line.startswith("slurmscope: jobs: squeue not found in") and "slurm.bin_dir" in line for line in lines)
    assert any(line.startswith("slurmscope: config, nodes, controllers,") for line in lines), "one error is told once"


def test_a_part_that_fails_does_not_stop_the_rest(tmp_path: Path) -> None:
    bin_dir = commands("24.11", tmp_path / "bin")
    (bin_dir / "sacctmgr").write_text("#!/bin/sh\necho 'Access/permission denied' >&2; exit 1\n")
    done = run(tmp_path, "metrics", recorded=False, SLURMSCOPE_SLURM_BIN_DIR=str(bin_dir), LOGLEVEL="error")
    assert done.returncode == 0
    assert done.stderr == "slurmscope: accounting, coordinators: sacctmgr exited with 1: Access/permission denied\n"
    assert "slurm_dbd_up" not in done.stdout, "who may not ask does not know"
    assert 'slurm_part_up{cluster="lab24",part="accounting"} 0' in done.stdout


def test_garbage_is_told_and_the_rest_stands(tmp_path: Path) -> None:
    bin_dir = commands("24.11", tmp_path / "bin")
    (bin_dir / "sdiag").write_text("#!/bin/sh\nhead -c 20000 /dev/urandom\n")
    done = run(tmp_path, "metrics", recorded=False, SLURMSCOPE_SLURM_BIN_DIR=str(bin_dir), LOGLEVEL="error")
    assert done.returncode == 0
    assert "scheduler: sdiag answered something else" in done.stderr
    assert "slurm_queue_jobs" in done.stdout
    assert "slurm_scheduler_threads" not in done.stdout


@pytest.mark.parametrize("command", ["metrics", "snapshot", "config", "commands"])
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    env = {**os.environ, "SLURMSCOPE_SLURM_BIN_DIR": str(commands("24.11", tmp_path / "bin"))}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [SLURMSCOPE, command], env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "slurmscope: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_no_command_behind(tmp_path: Path, signum: signal.Signals) -> None:
    bin_dir = commands("24.11", tmp_path / "bin")
    (bin_dir / "squeue").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    env = {**os.environ, "SLURMSCOPE_SLURM_BIN_DIR": str(bin_dir)}
    process = subprocess.Popen([SLURMSCOPE, "metrics"], env=env, stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signum)
    assert process.wait(60) in (130, 143)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_config_says_where_each_setting_came_from(tmp_path: Path) -> None:
    (tmp_path / "slurmscope.toml").write_text("[poll]\ninterval = 15\n")
    (tmp_path / ".env").write_text("CLI_TIMEOUT=7.\n")
    done = run(tmp_path, "config", "--json", LOGLEVEL="WARN")
    rows = {row["key"]: row for row in json.loads(done.stdout)}
    assert rows["poll.interval"] == {"key": "poll.interval", "value": 15.0, "origin": "slurmscope.toml"}
    assert rows["slurm.timeout"]["origin"] == ".env: CLI_TIMEOUT"
    assert rows["log.level"] == {"key": "log.level", "value": "warn", "origin": "environment: LOGLEVEL"}
    assert rows["metrics.top"]["origin"] == "default"
    table = run(tmp_path, "config").stdout
    assert "poll.interval" in table and "slurmscope.toml" in table


def test_a_wrong_setting_names_file_key_and_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "slurmscope.toml").write_text('[poll]\ninterval = "often"\nintervall = 3\n')
    done = run(tmp_path, "serve")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "slurmscope: slurmscope.toml: poll.intervall: unknown setting, did you mean poll.interval?",
        'slurmscope: slurmscope.toml: poll.interval: expected a number of at least 1, found "often"',
    ]


def test_commands_prints_the_table(tmp_path: Path) -> None:
    text = run(tmp_path, "commands").stdout
    assert "scontrol show nodes" in text and "why:" in text
    rows = json.loads(run(tmp_path, "commands", "--json").stdout)
    assert {row["part"] for row in rows} >= {"jobs", "nodes", "scheduler"}
    assert all(row["why"] and row["cost"] and row["recording"] for row in rows)


def test_hash_password(tmp_path: Path) -> None:
    from slurmscope.auth import check_password, hash_token

    done = run(tmp_path, "hash-password", stdin="secret\n")
    assert check_password("secret", done.stdout.strip()) and done.stderr == ""
    done = run(tmp_path, "hash-password", "--token", stdin="let me in\r\nno more\n")
    assert (done.stdout, done.stderr) == (f"{hash_token('let me in')}\n", "")
    done = run(tmp_path, "hash-password", "--token", stdin="")
    assert (done.returncode, done.stdout) == (2, "") and "token: expected a line" in done.stderr


def test_hash_password_asks_at_a_terminal(tmp_path: Path) -> None:
    from slurmscope.auth import hash_token

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SLURMSCOPE, "hash-password", "--token"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,  # so that it asks at this terminal, and not at the one of the tests
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for question in (b"Token: ", b"confirmation: "):
            asked = b""
            while not asked.endswith(question):
                asked += process.stderr.read(1)
            time.sleep(0.2)  # what is typed before the echo is off is thrown away
            os.write(ours, b"letmein\n")
        assert process.stdout.read().decode().split()[-1] == hash_token("letmein")
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    "command", [(), ("serve",), ("metrics",), ("snapshot",), ("config",), ("commands",), ("demo",)]
)
def test_help_teaches(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run(tmp_path, *command, "--help")
    assert done.returncode == 0
    assert len(done.stdout) > 150
    assert run(tmp_path, *command, "-h").stdout == done.stdout
