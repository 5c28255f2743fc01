# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of real jobs under a running `serve`: what is kept of each is what sacct tells, and none is missing."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from lab.cluster import Lab
from lab.page import SLURMSCOPE
from lab.served import serving

from slurmscope.life import Life
from slurmscope.slurm import values
from slurmscope.store.protocol import Lives
from slurmscope.store.recorder import wrong_usage
from slurmscope.store.sqlite import SqliteStore

FIELDS = [
    "JobIDRaw",
    "Submit",
    "Start",
    "End",
    "State",
    "ExitCode",
    "Partition",
    "User",
    "Account",
    "NodeList",
    "AllocTRES",
    "ReqTRES",
    "TotalCPU",
    "MaxRSS",
    "Suspended",
    "JobName",
]
STATES = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"

# Everything is small and short, so that hundreds pass through four nodes within a minute.
SUBMIT = r"""
sub() { sbatch --parsable -o /dev/null --mem=50 -p all "$@"; }
for i in $(seq 10); do sub -J killed$i -t 5 --wrap "sleep 600"; done >/tmp/$who.killed
redo='[ "$SLURM_RESTART_COUNT" ] || sleep 600'
for i in $(seq 10); do sub -J again$i -t 5 --requeue --wrap "$redo"; done >/tmp/$who.again
for i in $(seq 45); do sub -J done$i -t 5 --wrap "sleep 0.$((i % 10))" >/dev/null; done
for i in $(seq 20); do sub -J fail$i -t 5 --wrap "exit $((i % 7 + 1))" >/dev/null; done
for i in 1 2; do sub -J late$i -t 0:01 --wrap "sleep 600" >/dev/null; done
for i in $(seq 12); do sub -J held$i -H -t 5 --wrap "true"; done >/tmp/$who.held
for i in $(seq 8); do sub -J never$i -H -t 5 --wrap "true"; done >/tmp/$who.never
for i in $(seq 10); do sub -J unwanted$i -t 5 --begin=now+1hour --wrap "true"; done >/tmp/$who.unwanted
for i in 1 2; do sub -J many$i -t 5 --array=1-12%6 --wrap 'exit $((SLURM_ARRAY_TASK_ID % 3))' >/dev/null; done
for i in 1 2 3; do sub -J both$i -t 5 -n1 : -n1 --mem=50 -p all --wrap "sleep 1" >/dev/null; done
sub -J steps -t 5 -n2 --wrap 'srun -n1 true; srun -n2 sleep 3; srun -n1 false' >/dev/null
"""
# What becomes of them: some are let go, some cancelled, some requeued.
DISTURB = r"""
run=$(paste -sd, /tmp/$who.killed /tmp/$who.again | paste -sd,)
for try in $(seq 240); do [ $(squeue -h -t running -j "$run" | wc -l) -ge 20 ] && break; sleep 0.5; done
scontrol release $(paste -sd, /tmp/$who.held)
scancel $(cat /tmp/$who.never /tmp/$who.unwanted /tmp/$who.killed)
for id in $(cat /tmp/$who.again); do scontrol requeue $id; done
"""


def submit(lab: Lab, who: str) -> None:
    lab.run("env", f"who={who}", "bash", "-c", SUBMIT, user=who)


def disturb(lab: Lab, who: str) -> None:
    lab.run("env", f"who={who}", "bash", "-c", DISTURB)


def accounted(lab: Lab, since: int) -> dict[tuple[int, int], list[dict[str, str]]]:
    """What sacct tells, by job and submit time: the allocation's row, then its steps'."""
    mark = "@slurmscope@"
    argv = ["sacct", "--duplicates", "-a", "-n", "-p", "--noconvert", f"--delimiter={mark}", "-s", STATES]
    argv += ["-S", f"uts{since}", "-E", "now", "-o", ",".join(FIELDS)]
    out = subprocess.run(
        [lab.bin / argv[0], *argv[1:]], env={"SLURM_TIME_FORMAT": "%s"}, capture_output=True, check=True
    ).stdout
    found: dict[tuple[int, int], list[dict[str, str]]] = {}
    rows: list[dict[str, str]] = []
    for line in out.decode().splitlines():
        row = dict(zip(FIELDS, line.split(mark), strict=False))
        if "." not in row["JobIDRaw"]:
            rows = found.setdefault((int(row["JobIDRaw"]), int(row["Submit"])), [])
        rows.append(row)
    return found


def compared(life: Life, rows: list[dict[str, str]]) -> None:
    """A life and its figures are what sacct tells, and its transitions follow from that."""
    row, steps = rows[0], rows[1:]
    ran = row["NodeList"] != "None assigned"
    state = row["State"].partition(" ")[0]
    assert (life.state, life.exit_code) == (state, row["ExitCode"])
    assert (life.user, life.account, life.partition) == (row["User"], row["Account"], row["Partition"])
    assert life.name == row["JobName"]
    assert life.start_time == (int(row["Start"]) if ran else None)
    assert life.end_time == int(row["End"])
    held = values.tres(row["AllocTRES"] or row["ReqTRES"])
    assert (life.cpus, life.memory, life.nodes) == (held["cpu"], held["mem"], held["node"])
    minutes, _, seconds = row["TotalCPU"].rpartition(":")
    used = float(seconds) + (values.duration(f"{minutes}:00" if ":" not in minutes else f"0-{minutes}") or 0)
    assert (life.cpu_seconds or 0.0) == pytest.approx(used, abs=0.0005)
    assert [step.id for step in life.steps] == [one["JobIDRaw"].partition(".")[2] for one in steps]
    assert [step.exit_code for step in life.steps] == [one["ExitCode"] for one in steps]
    assert life.max_rss == max((int(one["MaxRSS"]) for one in steps if one["MaxRSS"]), default=None)
    line = life.transitions
    assert line[0].time == int(row["Submit"])
    assert line[0].state == "PENDING"
    assert (line[-1].time, line[-1].state) == (int(row["End"]), state)
    assert [one.time for one in line] == sorted(one.time for one in line)
    began = [one.time for one in line if one.state == "RUNNING"][:1]
    # one that was requeued in the second in which it began need not have been seen to run
    assert began == ([int(row["Start"])] if ran else []) or (not began and row["Start"] == row["End"])
    assert life.accounted
    assert life.gone_time is None


def ended(lab: Lab, since: int) -> bool:
    """Every job that was submitted since then has ended, in the accounting too."""
    squeue = lab.run("squeue", "-h", "-t", "pending,running,suspended,completing,configuring", "-o", "%V %i")
    waiting = [line for line in squeue.stdout.decode().splitlines() if int(time.mktime(_local(line))) >= since]
    return not waiting and all(rows[0]["End"].isdigit() for rows in accounted(lab, since).values() if _new(rows, since))


def _local(line: str) -> time.struct_time:
    return time.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S")


def _new(rows: list[dict[str, str]], since: int) -> bool:
    return int(rows[0]["Submit"]) >= since


def test_jobs_are_kept_as_sacct_tells_them(lab: Lab, tmp_path: Path) -> None:
    """… also when slurmscope was stopped for half of it."""
    settings = {
        "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
        "SLURMSCOPE_STORE_FOLDER": str(tmp_path),
        "SLURMSCOPE_ACCOUNTING_INTERVAL": "10",
        "POLL_LIMIT": "1",
    }
    since = int(time.time())
    time.sleep(1)
    with serving(tmp_path, 1, **settings):
        submit(lab, "alice")
        time.sleep(4)
        disturb(lab, "alice")
        time.sleep(4)
    # nobody looks
    for who in ("bob", "dana.o-neil"):
        submit(lab, who)
    time.sleep(2)
    for who in ("bob", "dana.o-neil"):
        disturb(lab, who)
    time.sleep(2)
    with serving(tmp_path, 1, **settings) as served:
        submit(lab, "carol")
        time.sleep(4)
        disturb(lab, "carol")
        lab.wait_for(lambda: ended(lab, since), 400)
        page = served.page()
        passes = page.sum("slurm_command_runs_total", part="history")
        served.wait(lambda page: page.sum("slurm_command_runs_total", part="history") >= passes + 2)

    told = {key: rows for key, rows in accounted(lab, since).items() if _new(rows, since)}
    assert len(told) > 520
    states = {rows[0]["State"].partition(" ")[0] for rows in told.values()}
    assert states >= {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "REQUEUED"}
    store = SqliteStore(tmp_path / "slurmscope.db")
    kept = {life.key: life for life in store.lives(Lives(cluster=lab.cluster, since=since, limit=None))}
    assert kept.keys() == told.keys()
    for key, rows in told.items():
        try:
            compared(kept[key], rows)
        except AssertionError as error:
            error.add_note(f"{key}: {rows}\n{kept[key]}")
            raise
    held = [life for life in kept.values() if life.name.startswith("held") and life.user == "alice"]
    assert len(held) == 12
    assert all(life.transitions[0].reason == "JobHeldUser" for life in held)
    assert store.check() == []
    assert wrong_usage(store, lab.cluster) == []
    store.close()


def test_an_import_of_the_same_is_the_same(lab: Lab, tmp_path: Path) -> None:
    """By text and by JSON, from nothing; and once more, which changes nothing."""
    found = []
    for way in ("text", "json"):
        environment = {
            "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
            "SLURMSCOPE_SLURM_SOURCE": way,
            "SLURMSCOPE_STORE_URL": f"sqlite:{tmp_path}/{way}.db",
        }
        for again in ("", "--again"):
            argv = [str(SLURMSCOPE), "import", "--since", "1d", *filter(None, [again])]
            subprocess.run(argv, env=environment, check=True, capture_output=True)
        store = SqliteStore(tmp_path / f"{way}.db")
        found.append({life.key: life for life in store.lives(Lives(limit=None, open=False))})
        assert wrong_usage(store, lab.cluster) == []
        store.close()
    by_text, by_json = found
    assert by_text.keys() == by_json.keys()
    assert by_text
    for key, life in by_text.items():
        assert (life.state, life.start_time, life.end_time) == (
            by_json[key].state,
            by_json[key].start_time,
            by_json[key].end_time,
        )
        assert len(life.steps) == len(by_json[key].steps)
