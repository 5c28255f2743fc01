# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope report`, as somebody types it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import lives
import pytest
from disks import mounted
from findings import cases

from slurmscope.store.protocol import KeptNode, Point
from slurmscope.store.recorder import tell
from slurmscope.store.sqlite import SqliteStore

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
DAY = 86400
TODAY = int(time.time()) // DAY * DAY
HOUR = 3600


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 days of alice's and bob's jobs, an array, a job that waits, nodes and totals."""
    path = tmp_path_factory.mktemp("kept") / "kept.db"
    store = SqliteStore(path)
    told = []
    for day in range(40):
        start = TODAY - day * DAY - 12 * HOUR
        for at, (user, account) in enumerate((("alice", "physics"), ("bob", "biology"))):
            job = lives.job(
                100 + 2 * day + at,
                "FAILED" if day % 10 == 9 else "COMPLETED",
                user=user,
                account=account,
                submit_time=start - 600,
                eligible_time=start - 600,
                start_time=start,
                end_time=start + 2 * HOUR,
                gpus={"a100": 2} if at else {},
                time_limit=8 * HOUR,
            )
            told.append(lives.accounted(job, cpu_seconds=0.5 * 4 * 2 * HOUR))
    for task in range(6):
        start = TODAY - 3 * DAY
        job = lives.job(
            500 + task,
            "TIMEOUT" if task == 5 else "COMPLETED",
            array_id=500,
            array_tasks=str(task),
            submit_time=start,
            start_time=start,
            end_time=start + 600 * (task + 1),
        )
        told.append(lives.accounted(job, cpu_seconds=2000.0 * (task + 1)))
    waits = lives.job(900, submit_time=TODAY, eligible_time=TODAY, reason="Priority")
    tell(store, "c", [*told, lives.accounted(waits)], TODAY)
    with store.writing("c") as writer:
        writer.put_nodes([KeptNode("c", cases.node("n1"), TODAY, 0)])
        values = {"cpus": 16.0, "cpus_allocated": 8.0, "gpus": 4.0, "gpus_allocated": 2.0}
        writer.put_points([Point("c", "", 3600, TODAY - hour * HOUR, 12, values) for hour in range(24 * 40)])
    store.close()
    return path


def report(kept: Path | None, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    given = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    if kept is not None:
        given["SLURMSCOPE_STORE_URL"] = f"sqlite:{kept}"
    argv = [str(SLURMSCOPE), "report", *arguments]
    return subprocess.run(argv, env=given | environment, capture_output=True, check=False)


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_job_in_every_form(kept: Path, tmp_path: Path) -> None:
    text = said(report(kept, "job", "100"))
    assert "100 train" in text and "50 %" in text
    page = said(report(kept, "job", "100", "--format", "html"))
    assert page.startswith("<!doctype html>") and "100 train" in page
    found = json.loads(said(report(kept, "job", "100", "--format", "json")))
    assert found["efficiency"]["cpu"]["share"] == 0.5
    rows = list(csv.DictReader(io.StringIO(said(report(kept, "job", "100", "--format", "csv")))))
    assert rows[0]["share"] == "0.5"
    done = report(kept, "job", "100", "-o", str(tmp_path / "job.pdf"))
    assert done.returncode == 0
    assert (tmp_path / "job.pdf").read_bytes().startswith(b"%PDF-")


def test_the_ending_of_the_file_says_the_form(kept: Path, tmp_path: Path) -> None:
    for ending, begins in (("html", "<!doctype"), ("json", "{"), ("csv", "resource"), ("txt", "100 train")):
        path = tmp_path / f"job.{ending}"
        assert report(kept, "job", "100", "-o", str(path)).returncode == 0
        assert path.read_text().startswith(begins)


def test_an_array_and_one_of_its_tasks(kept: Path) -> None:
    whole = said(report(kept, "job", "500"))
    assert "5 of 6 tasks completed" in whole and "1 ran out of time" in whole
    rows = list(csv.DictReader(io.StringIO(said(report(kept, "job", "500", "--format", "csv")))))
    assert [row["task"] for row in rows] == [f"500_{task}" for task in range(6)]
    assert [int(row["ran"]) for row in rows] == [600 * (task + 1) for task in range(6)]
    assert "500_5 train" in said(report(kept, "job", "500_5"))


def test_one_that_waits(kept: Path) -> None:
    text = said(report(kept, "job", "900"))
    assert "it waits" in text and "Priority" in text


def test_a_user_against_the_time_before(kept: Path) -> None:
    found = json.loads(said(report(kept, "user", "alice", "--days", "20", "--format", "json")))
    # the first is of yesterday, and the array was alice's too
    assert found["used"]["cpu_seconds"] == 4 * (19 * 2 * HOUR + 600 * 21)
    assert found["before"]["cpu_seconds"] == 4 * 20 * 2 * HOUR
    assert (found["used"]["failed"], found["used"]["timed_out"]) == (1, 1)
    text = said(report(kept, "user", "alice", "--days", "20"))
    assert "alice used" in text and "more than in the 20 days before" in text


def test_an_account_against_its_allocation(kept: Path, tmp_path: Path) -> None:
    settings = tmp_path / "slurmscope.toml"
    year = time.gmtime(TODAY).tm_year
    settings.write_text(
        f'[[allocations]]\naccount = "biology"\nresource = "gpu"\namount = 0.1\nstart = {year - 1}-01-01\n'
        f"end = {year + 1}-01-01\n"
    )
    text = said(report(kept, "account", "biology", "--config", str(settings)))
    assert "Against what is allocated" in text and "GPU-years" in text
    assert "Against what is allocated" not in said(report(kept, "account", "physics", "--config", str(settings)))


def test_a_cluster_over_a_month_and_over_days(kept: Path) -> None:
    last = time.strftime("%Y-%m", time.gmtime(TODAY - 20 * DAY))
    month = json.loads(said(report(kept, "cluster", "--month", last, "--format", "json")))
    assert month["kind"] == "month" and month["gpus_allocated"] == 0.5
    text = said(report(kept, "cluster", "--days", "30"))
    assert "c had 50 % of its GPUs and 50 % of its cores allocated" in text
    rows = list(csv.DictReader(io.StringIO(said(report(kept, "cluster", "--days", "30", "--format", "csv")))))
    assert sum(int(row["gpu_seconds"]) for row in rows) == 29 * 2 * 2 * HOUR
    days = [row["day"] for row in rows]
    assert days == sorted(days) and len(set(days)) == 30


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["job", "99"], 1, "no job 99 is kept: `slurmscope store stats` says since when"),
        (["job", "twelve"], 1, "'twelve' is no job: a number is, and 123_4"),
        (["job", "500_77"], 1, "no job 500_77 is kept"),
        (["job", "100", "--cluster", "x"], 2, "--cluster: expected one of c, found x"),
        (["user", "nobody"], 1, "nothing is kept of user nobody in "),
        (["account", "\x1b[31mred"], 1, "nothing is kept of account  [31mred"),
        (["cluster", "--month", "2999-01"], 2, "January 2999 has not begun"),
        (["cluster", "--month", "1999-01"], 1, "nothing is kept of c in January 1999"),
        (["cluster", "--month", "soon"], 2, "expected a month such as 2026-10, found 'soon'"),
        (["user", "alice", "--days", "3", "--month", "2026-01"], 2, "expected one of --month, --days and --since"),
        (["user", "alice", "--until", "2026-01-01"], 2, "expected one of --month, --days and --since"),
        (["job", "100", "-o", "/nonexistent/job.pdf"], 1, "/nonexistent/job.pdf: cannot be written: No such file"),
        (["job", "100", "-o", "/proc/job.pdf"], 1, "/proc/job.pdf: cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_and_what_to_do(
    kept: Path, arguments: list[str], status: int, message: str
) -> None:
    done = report(kept, *arguments)
    assert (done.returncode, done.stdout) == (status, b"")
    assert message in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_what_is_written_keeps_its_mode_and_follows_a_link(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "real.html").chmod(0o600)
    (tmp_path / "link.html").symlink_to("real.html")
    assert report(kept, "job", "100", "-o", str(tmp_path / "link.html")).returncode == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "real.html").stat().st_mode & 0o777 == 0o600


def test_a_number_of_two_clusters(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "two.db")
    for cluster in ("alpha", "beta"):
        tell(store, cluster, [lives.accounted(lives.job(7, "COMPLETED", end_time=lives.SUBMIT + 900))], TODAY)
    store.close()
    done = report(tmp_path / "two.db", "job", "7")
    assert done.returncode == 1
    assert "7 is a job of alpha and beta: --cluster says which is meant" in done.stderr.decode()
    assert report(tmp_path / "two.db", "job", "7", "--cluster", "beta").returncode == 0


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    done = report(tmp_path / "none.db", "job", "1")
    assert done.returncode == 1
    assert "is not there" in done.stderr.decode()


def test_a_store_that_is_empty(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    for asked in (["cluster"], ["user", "alice"], ["job", "1"]):
        done = report(tmp_path / "new.db", *asked)
        assert done.returncode == 1
        assert done.stderr.decode().startswith("slurmscope: nothing is kept yet: ")


def test_rules_of_the_settings_that_are_wrong(kept: Path, tmp_path: Path) -> None:
    settings = tmp_path / "slurmscope.toml"
    settings.write_text('[[rules]]\nrule = "low_cpus"\n')
    done = report(kept, "job", "100", "--config", str(settings))
    assert done.returncode == 2
    assert "did you mean low_cpu?" in done.stderr.decode()


def test_a_full_disk_leaves_what_was_there(kept: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 1) as disk:
        (disk / "job.pdf").write_bytes(b"the old one")
        (disk / "rest").write_bytes(b"x" * (1020 << 10))
        done = report(kept, "job", "100", "-o", str(disk / "job.pdf"))
        assert done.returncode == 1
        assert "cannot be written: No space left on device" in done.stderr.decode()
        assert (disk / "job.pdf").read_bytes() == b"the old one"
        assert sorted(path.name for path in disk.iterdir()) == ["job.pdf", "rest"]
