# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope job`: what it prints of jobs that a store has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from measured.agents import MIB
from served import SLURMSCOPE
from store.made import life

from slurmscope import course as courses
from slurmscope.course import AGENT, Course, Sample
from slurmscope.life import Life
from slurmscope.measure import GpuUse
from slurmscope.store.protocol import Measured
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary, summary

START = 1_700_000_000


def lived(id_: int, **fields: Any) -> Life:
    told: dict[str, Any] = {
        "submit_time": START - 60,
        "start_time": START,
        "end_time": START + 7200,
        "counted_time": START + 7200,
        "state": "COMPLETED",
        "name": "train",
        "user": "alice",
        "account": "vision",
        "partition": "gpu",
        "cpus": 8,
        "memory": 4096 * MIB,
        "nodes": 2,
        "node_list": "n[1-2]",
        "time_limit": 86400,
    }
    return life(id_, "alpha", **told | fields)


def course() -> Course:
    """Two nodes; in the middle half an hour is missing, and of the first node a GPU is told."""
    found: Course | None = None
    gpu = GpuUse(uuid="a", index=0, model="H200", utilization=0.5, memory_used=64 * MIB, power=100.0, processes=0)
    for node in ("n1", "n2"):
        for at in range(0, 7200, 60):
            if not 3600 <= at < 5400:
                cores = 4.0 if at < 3600 else 1.0
                sample = Sample(
                    node=node,
                    start=START + at,
                    end=START + at + 60,
                    source=AGENT,
                    cpus=4,
                    cpu_seconds=60 * cores,
                    user_seconds=45 * cores,
                    system_seconds=15 * cores,
                    memory=512 * MIB,
                    limit=2048 * MIB,
                    read_bytes=MIB,
                    written_bytes=0,
                    gpus=(gpu,) if node == "n1" else None,
                    programs=(("py\x1b[31mthon", 4),),
                )
                found = courses.add(found, sample)
    assert found is not None
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    store = SqliteStore(tmp_path / "history.db")
    used = course()
    lives = [
        lived(7),
        lived(
            7,
            submit_time=START - 86400,
            start_time=None,
            end_time=START,
            state="CANCELLED",
            node_list="",
            name="ol\x07d",
        ),
        lived(8, start_time=START, name="unmeasured"),
        lived(9, name="forgotten"),
        lived(
            20, submit_time=START - 60, state="PENDING", start_time=None, end_time=None, counted_time=None, node_list=""
        ),
        *(lived(100 + task, array_id=100, array_tasks=str(task)) for task in range(1, 6)),
    ]
    with store.writing("alpha") as writer:
        writer.put_lives(lives)
        for id_ in (7, 9, 103):
            found = summary(used, 2, START, START + 7200)
            writer.put_measured([Measured(id_, START - 60, found, None if id_ == 9 else used)])
    with store.writing("beta") as writer:
        writer.put_lives([life(7, "beta", submit_time=START, start_time=None)])
    store.close()
    return f"sqlite:{tmp_path}/history.db"


def asked(url: str, *arguments: str, status: int = 0) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "STATE"))}
    done = subprocess.run(
        [SLURMSCOPE, "job", *arguments],
        env=kept | {"SLURMSCOPE_STORE_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
    return done.stdout if status == 0 else done.stderr


def test_a_job_and_what_it_used(url: str) -> None:
    said = asked(url, "7", "--cluster", "alpha")
    newest, oldest = said.split("\n\njob ", 1)
    for line in (
        "train, of alice (vision), on alpha",
        "2023-11-14 22:13:20 UTC, ended 2023-11-15 00:13:20 UTC: 2 h 0 min",
        "8 CPUs, 4 GiB, 2 nodes (n[1-2]), for 1 d 0 h at most",
        "75 % of its time, by the agent",
        "6.0 cores, at most 8.0, 75 % of what it could use; 9.0 CPU hours, 25 % of it in the kernel",
        "1 GiB, at most 1 GiB, 25 % of its limit",
        "50 %, at most 50 %; memory at most 64 MiB; 0.15 kWh",
        "180 MiB read, 0 B written",
        "py [31mthon (4 threads)",
        "0 to 8.0 cores",
        "0 to 1 GiB",
    ):
        assert line in newest, line
    drawn = next(line for line in newest.splitlines() if line.startswith("CPU over time")).split()[3]
    # of what is drawn half is at the top, a quarter is missing, a quarter is low
    assert len(drawn) == 60
    assert (drawn[:29], set(drawn[31:44]), set(drawn[47:])) == ("█" * 29, {"·"}, {"▂", "▃"} & set(drawn[47:]))
    table = [line.split() for line in newest.splitlines() if line.startswith(("n1", "n2"))]
    assert table[0][:7] == ["n1", "1", "h", "30", "min", "3.0", "4.0"]
    assert "H200" in newest and "1 h 30 min" in newest
    assert "ol d" in oldest and "CANCELLED" in oldest
    assert "measured" not in oldest, "it never ran"
    assert "\x1b" not in said and "\x07" not in said


def test_of_one_that_was_not_measured_it_says_what_to_do(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none of agents.enabled, trace.enabled and prometheus.url is set" in asked(url, "8")
    assert "measured" not in asked(url, "20"), "it has not started"
    forgotten = asked(url, "9")
    assert "9.0 CPU hours" in forgotten
    assert "not kept any more (store.series_days)" in forgotten
    (Path(url.removeprefix("sqlite:")).parent / "slurmscope.toml").write_text("[agents]\nenabled = true\n")
    monkeypatch.chdir(Path(url.removeprefix("sqlite:")).parent)
    assert "nobody told of it. Was it shorter than agent.interval" in asked(url, "8")


def seen(seconds: float, cpu_seconds: float | None = None) -> Summary:
    sample = Sample(
        node="n1",
        start=START,
        end=START + seconds,
        source=AGENT,
        cpus=1,
        cpu_seconds=cpu_seconds,
        memory=512 * MIB,
        programs=(("python3", 1),),
    )
    found = courses.add(None, sample)
    assert found is not None
    return summary(found, 1, START, START + 7200)


@pytest.mark.parametrize(
    ("used", "told", "not_told"),
    [
        (seen(0), ["for less than a second: what it used"], ["CPU  ", "over time", "series_days", "0 %"]),
        (seen(0.4, 0.0), ["for less than a second, by the agent", "python3 (1 thread)"], ["cores", "over time"]),
        (seen(60, 12.0), ["less than 1 % of its time", "0.2 cores, at most 0.2", "; 12.0 CPU seconds"], ["hours"]),
        (seen(1800, 900.0), ["25 % of its time", "; 15.0 CPU minutes"], ["hours"]),
        (seen(7200, 3600.0), ["; 1.0 CPU hours", "1 CPU, "], ["1 CPUs"]),
    ],
)
def test_little_is_told_as_little(tmp_path: Path, used: Summary, told: list[str], not_told: list[str]) -> None:
    store = SqliteStore(tmp_path / "history.db")
    with store.writing("alpha") as writer:
        writer.put_lives([lived(1, cpus=1, nodes=1)])
        writer.put_measured([Measured(1, START - 60, used, None)])
    store.close()
    said = asked(f"sqlite:{tmp_path}/history.db", "1")
    for words in told:
        assert words in said, said
    for words in not_told:
        assert words not in said, said


def test_arrays(url: str) -> None:
    rows = asked(url, "100").splitlines()
    assert len(rows) == 6
    assert next(row for row in rows if "100_3 (103)" in row).split()[-6:] == ["75", "%", "75", "%", "25", "%"]
    assert "9.0 CPU hours" in asked(url, "100_3")
    assert asked(url, "103") == asked(url, "100_3")


def test_for_scripts(url: str) -> None:
    found = json.loads(asked(url, "7", "--json"))
    assert [one["job"]["cluster"] for one in found] == ["beta", "alpha", "alpha"]
    used = found[1]["summary"]
    assert (used["cpu_seconds"], used["memory"]["peak"], used["coverage"]) == (32_400.0, 1 << 30, 0.75)
    assert None in [one["cpu"] for one in found[1]["moments"]]
    assert (found[2]["summary"], found[2]["moments"]) == (None, [])


def test_what_is_not_there(url: str, tmp_path: Path) -> None:
    assert "no job 4711 is kept" in asked(url, "4711", status=1)
    assert "no job 7_1 is kept" in asked(url, "7_1", status=1)
    assert "--cluster: expected one of alpha, beta, found gamma" in asked(url, "7", "--cluster", "gamma", status=2)
    assert "JOBID: expected a number" in asked(url, "seven", status=2)
    assert "is not there" in asked(f"sqlite:{tmp_path}/none.db", "7", status=1)
