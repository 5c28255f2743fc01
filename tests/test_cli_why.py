# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope why`, as somebody types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lives import accounted, job
from recorded import RECORDINGS, commands

from slurmscope.life import told
from slurmscope.store.sqlite import SqliteStore

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
RECORDING = str(RECORDINGS / "24.11" / "bundle.json.gz")


def why(*arguments: str, recording: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    argv = [str(SLURMSCOPE), "why", *arguments, *(["--from", RECORDING] if recording else [])]
    return subprocess.run(argv, env=given | environment, capture_output=True, text=True, check=False)


def test_a_job_that_waits() -> None:
    done = why("24")
    assert (done.returncode, done.stderr) == (0, "")
    assert "24 wide, of alice (physics), in all on lab24" in done.stdout
    assert "GrpTRES cpu of the account physics: 64 CPUs, 18 CPUs used, this job needs 64 CPUs" in done.stdout
    assert "scontrol update JobId=24 NumCPUs=N" in done.stdout


def test_for_scripts() -> None:
    (found,) = json.loads(why("22", "--json").stdout)
    assert found["explanation"]["name"] == "Licenses"
    assert found["explanation"]["facts"][0]["values"]["missing"] == 2


def test_an_array_and_its_tasks() -> None:
    whole = why("8").stdout
    assert "2 tasks of the array run of 2 that may" in whole and "besides: 2 COMPLETED, 2 RUNNING" in whole
    assert "JobArrayTaskLimit" in why("8_5").stdout
    assert why("8_3").stdout.startswith("job 8_3 sweep, of carol (bio), in main on lab24 does not wait: it is RUNNING")


def test_what_has_ended_is_said_in_one_line() -> None:
    done = why("11")
    assert done.stdout.startswith("job 11 fails, of alice (physics), in main on lab24 does not wait: it ended (FAILED)")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["999"], 1, "no job 999 is in the queue. It may have ended: `slurmscope job 999`"),
        (["8_77"], 1, "no job 8_77 is in the queue"),
        (["x"], 2, "JOBID: expected a number, or 123_4"),
        ([], 2, "expected one of a job's number (JOBID), --user NAME and --all"),
        (["1", "--all"], 2, "expected one of a job's number (JOBID), --user NAME and --all"),
        (["1", "--cluster", "other"], 2, "--cluster: expected lab24, found other"),
    ],
)
def test_what_cannot_be_told_names_the_cure(arguments: list[str], status: int, message: str) -> None:
    done = why(*arguments)
    assert done.returncode == status
    assert message in done.stderr


def test_all_that_waits_by_reason() -> None:
    lines = why("--all").stdout.splitlines()
    assert lines[1].split()[:2] == ["JobHeldUser", "430"]
    assert len(lines) == 11
    groups = json.loads(why("--user", "carol", "--json", "--cluster", "lab24").stdout)
    assert {one["reason"]: one["tasks"] for one in groups} == {
        "JobArrayTaskLimit": 2,
        "ReqNodeNotAvail": 2,
        "BeginTime": 1,
        "None": 1,
    }
    assert why("--user", "nobody").stdout == "nothing of nobody waits\n"


def test_one_that_is_only_in_the_store(tmp_path: Path) -> None:
    ended = job(4711, "FAILED", end_time=1_700_000_500)
    store = SqliteStore(tmp_path / "slurmscope.db")
    with store.writing("lab24") as writer:
        writer.put_lives([told(None, "lab24", accounted(ended), 1_700_000_600)])
    store.close()
    environment = {
        "SLURMSCOPE_STORE_URL": f"sqlite:{tmp_path / 'slurmscope.db'}",
        "SLURMSCOPE_SLURM_BIN_DIR": str(commands("24.11", tmp_path / "bin")),
    }
    done = why("4711", recording=False, **environment)
    assert done.returncode == 1
    assert "job 4711 of alice does not wait: it ended (FAILED) at 2023-11-14 22:21:40 UTC" in done.stderr
    waits = why("24", recording=False, **environment)
    assert "what similar jobs waited is not known: fewer than 10 started in all in the last 30 days" in waits.stdout


def test_several_clusters(tmp_path: Path) -> None:
    """A number may be in use on each of them."""
    sections = [
        f'[clusters.{name}]\nbin_dir = "{commands(generation, tmp_path / name)}"\n'
        for name, generation in (("lab22", "22.05"), ("lab26", "26.05"))
    ]
    config = tmp_path / "slurmscope.toml"
    config.write_text("\n".join(sections))
    given = ("--config", str(config))
    both = json.loads(why("24", "--json", *given, recording=False, SLURMSCOPE_STORE_URL="none").stdout)
    assert [one["cluster"] for one in both] == ["lab22", "lab26"]
    one = why("24", "--cluster", "lab26", *given, recording=False, SLURMSCOPE_STORE_URL="none")
    assert one.stdout.count("AssocGrpCpuLimit") == 1 and "on lab26" in one.stdout
    table = why("--all", *given, recording=False, SLURMSCOPE_STORE_URL="none").stdout
    assert table.startswith("cluster") and "lab22" in table and "lab26" in table
    wrong = why("24", "--cluster", "lab24", *given, recording=False)
    assert wrong.returncode == 2 and "expected lab22, lab26, found lab24" in wrong.stderr
