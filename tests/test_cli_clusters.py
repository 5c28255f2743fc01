# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The command line with several clusters, and with recordings in place of one."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import GENERATIONS, RECORDINGS, commands

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURMSCOPE", "POLL", "CLI_"))}
    return subprocess.run(
        [SLURMSCOPE, *arguments], cwd=folder, env={**kept, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder whose settings name two recorded clusters and one that is not there."""
    lines = []
    for name, generation in (("old", "22.05"), ("new", "26.05")):
        lines.append(f"[clusters.{name}]\nbin_dir = '{commands(generation, tmp_path / name)}'\n")
    (tmp_path / "empty").mkdir()
    lines.append(f"[clusters.gone]\nbin_dir = '{tmp_path / 'empty'}'\n")
    (tmp_path / "slurmscope.toml").write_text("".join(lines))
    return tmp_path


def test_metrics_of_several_clusters_are_on_one_page(two: Path, promtool: str) -> None:
    done = run(two, "metrics", "--profile", "slurmscope")
    assert done.returncode == 0
    assert 'slurm_up{cluster="old"} 1' in done.stdout
    assert 'slurm_up{cluster="new"} 1' in done.stdout
    assert 'slurm_up{cluster="gone"} 0' in done.stdout
    assert 'slurm_version_info{cluster="old",version="22.05.8"} 1' in done.stdout
    assert 'slurmscope_info{cluster="",version=' in done.stdout
    assert "slurmscope: gone: " in done.stderr and "squeue not found" in done.stderr
    assert "slurmscope: old: " not in done.stderr
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=done.stdout, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_snapshots_of_several_clusters_are_a_list(two: Path) -> None:
    done = run(two, "snapshot")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [one["cluster"] for one in found] == ["old", "new", "gone"]
    assert found[0]["config"]["value"]["version"].startswith("22.05")


def test_config_lists_what_each_cluster_has_of_its_own(two: Path) -> None:
    rows = json.loads(run(two, "config", "--json").stdout)
    found = {row["key"]: row["origin"] for row in rows if row["key"].startswith("clusters.")}
    assert found == dict.fromkeys(
        ("clusters.old.bin_dir", "clusters.new.bin_dir", "clusters.gone.bin_dir"), "slurmscope.toml"
    )


def test_the_doctor_tells_of_each_cluster_and_its_status_says_the_worst(two: Path) -> None:
    done = run(two, "doctor", "--json")
    assert done.returncode == 2
    found = {(one["subject"], one["check"]): one["status"] for one in json.loads(done.stdout)}
    assert found["old", "slurmctld"] == found["new", "slurmctld"] == "ok"
    assert found["gone", "commands"] == "failed"
    text = run(two, "doctor").stdout
    assert "cluster old" in text and "next: " in text


def test_capture_asks_which_of_several(two: Path) -> None:
    done = run(two, "capture", "a.gz")
    assert (done.returncode, (two / "a.gz").exists()) == (2, False)
    assert "--cluster: expected one of old, new, gone, found none" in done.stderr
    done = run(two, "capture", "a.gz", "--cluster", "new", "--ways", "text")
    assert done.returncode == 0, done.stderr
    assert "13 of 13 questions answered" in done.stderr
    assert 'cluster="lab26"' in run(two, "metrics", "--from", "a.gz").stdout


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_command_reads_a_recording(tmp_path: Path, generation: str) -> None:
    path = str(RECORDINGS / generation / "bundle.json.gz")
    name = f"lab{generation[:2]}"
    page = run(tmp_path, "metrics", "--profile", "slurmscope", "--from", path)
    assert (page.returncode, page.stderr) == (0, "")
    assert f'slurm_up{{cluster="{name}"}} 1' in page.stdout
    # as of its own moment
    ages = [line for line in page.stdout.splitlines() if line.startswith("slurm_part_age_seconds{")]
    assert ages and all(float(line.rpartition(" ")[2]) == 0 for line in ages)
    assert json.loads(run(tmp_path, "snapshot", "--from", path).stdout)["cluster"] == name
    assert f"cluster {name}" in run(tmp_path, "doctor", "--from", path).stdout
    again = run(tmp_path, "capture", "again.gz", "--from", path, "--anonymise")
    assert again.returncode == 0, again.stderr
    assert name.encode() not in gzip.decompress((tmp_path / "again.gz").read_bytes())
    assert (tmp_path / "again.gz").stat().st_mode & 0o077 == 0


def test_the_same_page_by_every_way_of_a_recording(tmp_path: Path) -> None:
    path = str(RECORDINGS / "26.05" / "bundle.json.gz")

    def counts(source: str) -> set[str]:
        settings = {"SLURMSCOPE_SLURM_SOURCE": source, "SLURMSCOPE_SLURM_REST_URL": "unix:/not/asked"}
        done = run(tmp_path, "metrics", "--profile", "slurmscope", "--from", path, **settings)
        wanted = ("slurm_queue_", "slurm_cluster_", "slurm_node_", "slurm_partition_", "slurm_account_", "slurm_user_q")
        return {line for line in done.stdout.splitlines() if line.startswith(wanted)}

    text = counts("text")
    assert len(text) > 500
    assert counts("json") == counts("rest") == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no document of probe.py or `slurmscope capture` is in it"),
        (b"hello", "no document"),
        (gzip.compress(b"hello"), "no document"),
        (gzip.compress(b'{"format": "slurmscope bundle", "version": 99, "time": 1}'), "update it"),
        (gzip.compress(b'{"format": "slurmscope bundle", "version": 1, "time": 1}')[:-9], "cut"),
    ],
)
def test_a_recording_that_is_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "file").write_bytes(content)
    for command in ("metrics", "snapshot", "doctor", "serve"):
        done = run(tmp_path, command, "--from", "file")
        assert (done.returncode, done.stdout) == (2 if command == "doctor" else 1, "")
        assert done.stderr.startswith("slurmscope: file: ") and words in done.stderr


def test_a_recording_that_is_not_there_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    done = run(tmp_path, "metrics", "--from", "nowhere")
    assert done.stderr == "slurmscope: nowhere: cannot be read: No such file or directory\n"
    path = str(RECORDINGS / "26.05" / "bundle.json.gz")
    done = run(tmp_path, "capture", "no/such/folder.gz", "--from", path)
    assert done.returncode == 1
    assert done.stderr == "slurmscope: no/such/folder.gz: cannot be written: No such file or directory\n"
    done = run(tmp_path, "capture", "/dev/full", "--from", path)
    assert done.returncode == 1
    assert done.stderr == "slurmscope: /dev/full: cannot be written: No space left on device\n"
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    path = str(RECORDINGS / "26.05" / "bundle.json.gz")
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    assert run(tmp_path, "capture", "link", "--from", path).returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes()[:2] == b"\x1f\x8b"
    with (tmp_path / "plain").open("wb") as file:
        subprocess.run(
            [SLURMSCOPE, "capture", "out", "--from", path], cwd=tmp_path, stdout=file, capture_output=False, check=True
        )
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "plain").read_bytes()[:2] == b"\x1f\x8b"


def test_whoever_has_read_enough_is_no_error(tmp_path: Path) -> None:
    path = str(RECORDINGS / "26.05" / "bundle.json.gz")
    line = f"{SLURMSCOPE} metrics --from {path} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("141", "")


def test_capture_where_there_is_no_slurm(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path, "capture", "a.gz", SLURMSCOPE_SLURM_BIN_DIR=str(tmp_path / "empty"))
    assert done.returncode == 1
    assert not (tmp_path / "a.gz").exists()
    assert done.stderr.endswith(
        "slurmscope: nothing was answered, and nothing is written; `slurmscope doctor` says what to do\n"
    )
    done = run(tmp_path, "capture", "a.gz", "--ways", "telepathy")
    assert (done.returncode, done.stderr) == (
        2,
        "slurmscope: --ways: 'telepathy' is none of text, json, rest, pyslurm\n",
    )
