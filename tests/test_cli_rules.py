# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope rules`: what it prints, and of a store's jobs."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from findings import cases
from findings.cases import RAN
from msgspec.structs import replace
from served import SLURMSCOPE

from slurmscope.findings.catalogue import catalogue
from slurmscope.life import Life
from slurmscope.store.protocol import KeptNode, Measured
from slurmscope.store.sqlite import SqliteStore

ONLY_LOW_CPU = "".join(f'[[rules]]\nrule = "{name}"\nenabled = false\n' for name in catalogue() if name != "low_cpu")


def run(folder: Path, *arguments: str, settings: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "given.toml").write_text(f'{settings}\n[store]\nurl = "sqlite:{folder / "store.db"}"\n')
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    return subprocess.run(
        [SLURMSCOPE, "rules", *arguments, "--config", "given.toml"],
        env={**env, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(folder: Path, *arguments: str, settings: str = "") -> str:
    done = run(folder, *arguments, settings=settings)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def lately(id_: int, share: float, **fields: Any) -> Life:
    """A job that ended an hour ago, and of which that share of the CPU time was idle."""
    cpus = fields.get("cpus", 4)
    life = cases.life(told={"cpu_seconds": (1 - share) * cpus * RAN}, **fields)
    by = int(time.time()) - 3600 - (life.end_time or 0)
    times = {name: (getattr(life, name) or 0) + by for name in ("submit_time", "start_time", "end_time")}
    return replace(life, id=id_, **times)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of alice two jobs that were idle, of bob one with a name that would do harm, of carol none."""
    store = SqliteStore(tmp_path / "store.db")
    with store.writing("c") as writer:
        writer.put_nodes([KeptNode("c", cases.node(), 1, 1)])
        bob = lately(3, 0.9, user="bob", cpus=16, name='=cmd|"x"\x1b[31m\n')
        lives = [lately(1, 0.8), lately(2, 0.5), bob, lately(4, 0.0, user="carol", array_id=4, array_tasks="9")]
        writer.put_lives(lives)
        writer.put_measured([Measured(2, lives[1].key[1], cases.summary(cpu_share=0.5), None)])
    store.close()
    return tmp_path


# --- what rules there are ---------------------------------------------------------------------------------------------


def test_list_says_which_are_on(tmp_path: Path) -> None:
    lines = printed(tmp_path, "list").splitlines()
    assert lines[0].split() == ["rule", "what", "it", "finds", "severity", "state"]
    assert [line.split()[0] for line in lines[1:]] == list(catalogue())
    assert all(line.endswith(" on") for line in lines[1:])


def test_list_knows_what_is_off_and_where(tmp_path: Path) -> None:
    settings = (
        '[[rules]]\nrule = "zero_gpu"\nenabled = false\n'
        '[[rules]]\nrule = "low_cpu"\npartition = "io"\nenabled = false\n'
        '[[rules]]\nrule = "serial"\ncluster = "c"\nleast_seconds = 100\n'
    )
    found = {one["name"]: one for one in json.loads(printed(tmp_path, "list", "--json", settings=settings))}
    states = {name: found[name]["state"] for name in ("zero_gpu", "low_cpu", "serial")}
    assert states == {"zero_gpu": "off", "low_cpu": "in part", "serial": "on"}
    assert found["zero_gpu"] == {"name": "zero_gpu", "title": "GPUs never used", "severity": "bad", "state": "off"}


def test_show_says_everything(tmp_path: Path) -> None:
    rule = catalogue()["zero_gpu"]
    text = " ".join(printed(tmp_path, "show", "zero_gpu").split())
    for told in (rule.title, rule.about, rule.needs, rule.exempt, rule.cure, rule.false_positives, "low_gpu"):
        assert told in text
    assert "No GPU of the job was ever used." in text
    assert "least_seconds 1800 30 min default" in text


def test_show_says_where_a_threshold_was_changed(tmp_path: Path) -> None:
    settings = (
        '[[rules]]\nrule = "low_cpu"\nshare = 0.4\n'
        '[[rules]]\nrule = "low_cpu"\ncluster = "c"\npartition = "io"\nshare = 0.1\nenabled = true\n'
    )
    lines = printed(tmp_path, "show", "low_cpu", settings=settings).splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("share "))
    assert lines[at].split()[1:4] == ["0.4", "40", "%"] and "given.toml: [[rules]] 1" in lines[at]
    assert lines[at + 1].split()[:3] == ["0.1", "10", "%"] and "on c in io" in lines[at + 1]
    assert lines[-1] == "turned on: on c in io, by given.toml: [[rules]] 2"
    found = json.loads(printed(tmp_path, "show", "low_cpu", "--json", settings=settings))
    assert found["settings"][0]["thresholds"] == {"share": 0.4}
    assert found["thresholds"][0]["default"] == 0.6


@pytest.mark.parametrize(
    ("arguments", "settings", "told"),
    [
        (("show", "low_cpuu"), "", "NAME: expected the name of a rule, found low_cpuu, did you mean low_cpu?"),
        (("replay", "--rule", "x"), "", "--rule: expected the name of a rule, found x"),
        (("list",), '[[rules]]\nrule = "low_cpu"\nshar = 1\n', "low_cpu has no such threshold, did you mean share?"),
        (("replay",), '[[rules]]\nrule = "none"\n', "rule: expected the name of a rule, found none"),
        (("replay", "--json", "--csv"), "", "--json and --csv: expected one of them"),
        (("replay", "--cluster", "d"), "", "--cluster: expected one of c, found d"),
        (("test", "--cluster", "d"), "", "--cluster: expected one of c, found d"),
        (("test", "--job", "x\x1b"), "", "--job: expected a number, or 123_4 for the task of an array, found 'x '"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, arguments: tuple[str, ...], settings: str, told: str) -> None:
    done = run(folder, *arguments, settings=settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and done.stderr.startswith("slurmscope: ")


# --- one job ----------------------------------------------------------------------------------------------------------


def test_test_says_what_each_rule_says_of_a_job(folder: Path) -> None:
    lines = printed(folder, "test", "--job", "2").splitlines()
    assert lines[0] == "job 2 train, of alice, on c: COMPLETED"
    said = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[3:]}
    assert list(said) == list(catalogue())
    assert said["low_cpu"] == "fires note: 50 % of its cores' time was idle"
    assert said["zero_gpu"] == "does not apply it has no GPU"
    assert said["timeout"].startswith("fine") or said["timeout"].startswith("does not apply")
    other = {
        line.split()[0]: " ".join(line.split()[1:]) for line in printed(folder, "test", "--job", "1").splitlines()[3:]
    }
    assert other["metadata_storm"].startswith("no verdict not known: ")


def test_test_of_one_rule_says_all_that_is_told(folder: Path) -> None:
    settings = '[cost]\ncurrency = "EUR"\ncore_hour = 1.0\n'
    text = printed(folder, "test", "low_cpu", "--job", "1", settings=settings)
    assert "low_cpu  fires  bad: 80 % of its cores' time was idle" in text
    assert "  #SBATCH --cpus-per-task=1: 0.8 of 4 cores were busy" in text
    assert "  #SBATCH --mem=8G: in place of --mem-per-cpu" in text
    assert "It cost 6.4 core-hours, about 0.045 kWh, 6.40 EUR." in text
    assert "serial" not in text
    found = json.loads(printed(folder, "test", "low_cpu", "--job", "1", "--json"))
    assert found["outcomes"]["low_cpu"]["outcome"] == "fires"
    assert found["outcomes"]["low_cpu"]["waste"]["cpu_seconds"] == pytest.approx(0.8 * 4 * RAN)
    off = printed(folder, "test", "low_cpu", "--job", "1", settings='[[rules]]\nrule = "low_cpu"\nenabled = false\n')
    assert off.splitlines()[-1] == "low_cpu: off for c, partition main"


def test_test_knows_what_is_hidden(folder: Path) -> None:
    """A job that kept one of 16 CPUs busy."""
    store = SqliteStore(folder / "store.db")
    with store.writing("c") as writer:
        writer.put_lives([lately(9, 15 / 16, cpus=16)])
    store.close()
    text = printed(folder, "test", "--job", "9")
    said = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()[3:]}
    assert said["serial"].startswith("fires bad: ")
    assert said["low_cpu"].startswith("fires, hidden bad: ")


def test_test_finds_the_job(folder: Path) -> None:
    assert printed(folder, "test", "--job", "4_9").startswith("job 4 train, of carol")
    assert "job 3 =cmd|" in printed(folder, "test", "--job", "3") and "\x1b" not in printed(
        folder, "test", "--job", "3"
    )
    assert printed(folder, "test").startswith("job 4 "), "the latest"
    done = run(folder, "test", "--job", "4_8")
    assert done.returncode == 1 and "no job 4_8 is kept" in done.stderr


# --- all jobs ---------------------------------------------------------------------------------------------------------


def test_replay_says_who_would_have_been_told_what(folder: Path) -> None:
    lines = printed(folder, "replay", settings=ONLY_LOW_CPU).splitlines()
    assert lines[0].split() == ["user", "rule", "jobs", "it", "cost", "the", "worst", "job"]
    assert lines[1].split()[:4] == ["bob", "low_cpu", "bad", "1"]
    assert lines[2].split()[:4] == ["alice", "low_cpu", "bad", "2"]
    assert "1: 80 % of its cores' time was idle" in lines[2]
    assert "4 jobs judged, 1 of them measured. 2 people would have been told of 3 jobs." in lines[4]
    assert lines[5].startswith("All of them held 56 core-hours, about ")


def test_what_nodes_lost_is_told_apart(folder: Path) -> None:
    store = SqliteStore(folder / "store.db")
    with store.writing("c") as writer:
        writer.put_lives([lately(9, 0.0, state="NODE_FAIL", user="dave")])
    store.close()
    told = printed(folder, "replay", "--user", "dave", "--rule", "node_failure")
    assert "lost by nodes: 8 core-hours" in told.splitlines()[1]
    assert "wasted were nothing" in told and "Lost by nodes were 8 core-hours" in told
    assert "Lost by nodes: 8 core-hours" in printed(folder, "test", "node_failure", "--job", "9")
    row = next(csv.DictReader(io.StringIO(printed(folder, "replay", "--csv", "--rule", "node_failure"))))
    assert (row["cpu_seconds"], row["lost_cpu_seconds"]) == ("0.0", str(4.0 * RAN))


def test_replay_for_scripts(folder: Path) -> None:
    found = json.loads(printed(folder, "replay", "--json", settings=ONLY_LOW_CPU))
    assert (found["judged"], found["people"]) == (4, 2)
    assert [row["user"] for row in found["rows"]] == ["bob", "alice"]
    rows = list(csv.DictReader(io.StringIO(printed(folder, "replay", "--csv", settings=ONLY_LOW_CPU))))
    assert [row["jobs"] for row in rows] == ["1", "2"]
    assert float(rows[0]["cpu_seconds"]) == pytest.approx(0.9 * 16 * RAN)
    assert rows[0]["money"] == "", "no price, no money"
    assert rows[0]["worst_name"] == '\'=cmd|"x" [31m ', "no spreadsheet calculates it"


def test_replay_of_some(folder: Path) -> None:
    assert [row["user"] for row in _rows(folder, "--user", "alice")] == ["alice"]
    assert [row["user"] for row in _rows(folder, "--least-jobs", "2")] == ["alice"]
    assert [row["user"] for row in _rows(folder, "--least-core-hours", "20")] == ["bob"]
    assert [row["user"] for row in _rows(folder, "--least-core-hours", "20", "--least-gpu-hours", "1")] == ["bob"]
    assert _rows(folder, "--least-gpu-hours", "1") == []
    assert _rows(folder, "--rule", "zero_gpu") == []
    told = printed(folder, "replay", "--least-jobs", "2", settings=ONLY_LOW_CPU)
    assert "1 row below what --least-… says is not shown." in told


def _rows(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed(folder, "replay", "--json", *arguments, settings=ONLY_LOW_CPU))[
        "rows"
    ]
    return rows
