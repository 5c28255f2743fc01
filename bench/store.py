# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What keeping history costs: reading the accounting, and a store of a million jobs and more.

    python bench/store.py [--jobs 1000000] [--folder DIR] [--keep]

Reading is measured on text as sacct prints it, made here, with two steps for each job; its bare cost is that of
splitting the text into fields. Writing is measured against bare SQLite: the same rows in the same tables, without
making or merging anything. Ratios to those are what holds on other machines.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from million import CLUSTER, DAY, END, USERS, YEARS, accounted, jobs

from slurmscope.keeper import Archive
from slurmscope.life import Accounted
from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.slurm import aside, probe
from slurmscope.slurm.commands import BY_PART
from slurmscope.slurm.history import parse_history
from slurmscope.slurm.source import Costs, Reading, Window
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Output
from slurmscope.store.accountant import Accountant
from slurmscope.store.protocol import Lives, UsageAsked
from slurmscope.store.recorder import Recorder, tell
from slurmscope.store.sqlite import SqliteStore

DAYS = 10
POLL = 20_000
MARKS = Marks("@Xq3vTz", "@end")


def text(found: list[Accounted]) -> bytes:
    """As sacct prints them."""
    rows = []
    empty = dict.fromkeys(probe.HISTORY_FIELDS, "")
    for one in found:
        job = one.job
        gpus = f"gres/gpu:a100={job.gpus['a100']},gres/gpu={job.gpus['a100']}," if job.gpus else ""
        held = f"billing={job.cpus},cpu={job.cpus},{gpus}mem={(job.memory or 0) >> 20}M,node=1"
        times = {"Submit": job.submit_time, "Eligible": job.eligible_time, "Start": job.start_time, "End": job.end_time}
        common = {name: str(value) for name, value in times.items()} | {"State": job.state, "ExitCode": "0:0"}
        common |= {"Suspended": "00:00:00", "AllocTRES": held, "TotalCPU": f"{job.id % 24:02}:{job.id % 60:02}:17"}
        rows.append(
            empty
            | common
            | {"JobIDRaw": str(job.id), "JobID": str(job.id), "User": job.user, "Account": job.account}
            | {"Partition": job.partition, "QOS": job.qos, "Reason": "None", "Priority": "1000", "ReqTRES": held}
            | {"TimelimitRaw": "240", "NodeList": job.node_list, "DerivedExitCode": "0:0", "JobName": job.name}
        )
        for step in one.steps:
            used = f"cpu=00:{job.id % 60:02}:17,energy=0,fs/disk={job.id},mem={1 << 30},pages=3,vmem={job.id << 20}"
            rows.append(
                empty
                | common
                | {"JobIDRaw": f"{job.id}.{step.id}", "JobID": f"{job.id}.{step.id}", "JobName": step.name}
                | {"NTasks": "1", "TRESUsageInMax": used, "TRESUsageInTot": used, "ConsumedEnergyRaw": "0"}
                | {"TRESUsageOutTot": f"energy=0,fs/disk={job.id}"}
            )
    return "".join("".join(value + MARKS.field for value in row.values()) + "\n" for row in rows).encode()


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Sacct:
    """A source that answers as sacct would, a tenth of the text for each day that is asked for."""

    def __init__(self, found: list[Accounted]) -> None:
        self.costs: Costs = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        size = len(found) // DAYS
        self._texts = [text(found[at : at + size]) for at in range(0, len(found), size)]

    async def read(self, part: str, window: Window | None = None) -> Reading:
        # as a Way does it
        parsed = await aside.parse(BY_PART["history"], Output(self._texts.pop(), MARKS))
        return Reading(parsed.value, "text:sacct")

    async def script(self, job: Job) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is kept open."""


def reading(folder: Path) -> None:
    """From text to the store."""
    count = 300_000  # what an import asks for at a time, ten times
    found = [accounted(job) for job in jobs(count, days=DAYS)]
    data = text(found[: count // 6])
    part = count // 6
    bare = min(timed(lambda: data.decode().split(MARKS.field)) for _ in range(3))
    parse = min(timed(lambda: parse_history(data, MARKS)) for _ in range(3))
    print(f"accounting, jobs with 2 steps each, {len(data) / part:,.0f} bytes of text a job")
    print(f"  read                 {part / parse:9,.0f} jobs/s   {parse / bare:5.1f} x splitting the text")

    async def imported(name: str) -> float:
        archive = Archive(f"sqlite:{folder / 'reading.db'}")
        source = Sacct(found)
        started = time.perf_counter()
        done = await Accountant(source, CLUSTER, archive.call).read(END - DAYS * DAY, END, again=True)
        took = time.perf_counter() - started
        assert done.jobs == count, done
        await archive.close()
        print(f"  {name:21}{count / took:9,.0f} jobs/s   {took / count / (parse / part):5.1f} x reading")
        return took

    asyncio.run(imported("imported"))
    asyncio.run(imported("again, nothing new"))


def filled(store: SqliteStore, count: int) -> float:
    started = time.perf_counter()
    some: list[Accounted] = []
    for job in jobs(count):
        some.append(accounted(job))
        if len(some) == 10_000:
            tell(store, CLUSTER, some, END)
            some = []
    tell(store, CLUSTER, some, END)
    return time.perf_counter() - started


def bare_rows(path: Path, folder: Path) -> tuple[int, float]:
    """The last jobs of a store into an empty one by SQLite alone: how many, and how long that took."""
    source = sqlite3.connect(path)
    rows = source.execute("SELECT * FROM jobs ORDER BY rowid DESC LIMIT 50000").fetchall()
    source.close()
    SqliteStore(folder / "bare.db").close()
    target = sqlite3.connect(folder / "bare.db")
    marks = ", ".join("?" * len(rows[0]))

    def write() -> None:
        target.executemany(f"INSERT INTO jobs VALUES ({marks})", rows)
        target.commit()

    took = timed(write)
    target.close()
    return len(rows), took


def poll_of(store: SqliteStore) -> list[float]:
    """A poll of so many jobs, all of them new to the store, then the same with every one changed, then unchanged."""
    waiting = [
        Job(
            **{name: getattr(job, name) for name in Job.__struct_fields__}
            | {"id": 50_000_000 + at, "state": "PENDING", "start_time": None, "end_time": None, "node_list": ""}
            | {"submit_time": END + at, "reason": "Priority"}
        )
        for at, job in enumerate(jobs(POLL))
    ]
    running = [
        Job(
            **{name: getattr(job, name) for name in Job.__struct_fields__}
            | {"state": "RUNNING", "start_time": END + POLL, "node_list": "node1", "reason": None}
        )
        for job in waiting
    ]
    recorder = Recorder()
    times = []
    nodes: Part[tuple[Node, ...]] = Part()
    for at, found in enumerate((waiting, running, running)):
        snapshot = Snapshot(CLUSTER, jobs=Part(tuple(found), END + POLL + at * 10), nodes=nodes)

        def whole(snapshot: Snapshot = snapshot) -> None:
            recorder.notice(snapshot, frozenset({"jobs"}))
            recorder.write(store)

        times.append(timed(whole))
    return times


def asking(store: SqliteStore) -> None:
    month = END // DAY - 40
    day = Lives(cluster=CLUSTER, ended_since=month * DAY, ended_before=(month + 1) * DAY, limit=None)
    asked: dict[str, Callable[[], object]] = {
        "a user's last 50 jobs": lambda: store.lives(Lives(user="user3")),
        "… of one name, 20": lambda: store.lives(Lives(user="user3", name="run-5", limit=20)),
        "all that ended on a day": lambda: store.lives(day),
        "a cluster's last 50": lambda: store.lives(Lives(cluster=CLUSTER, open=False)),
        "an account's last 50": lambda: store.lives(Lives(account="account5")),
        "failed jobs, last 50": lambda: store.lives(Lives(states=("FAILED",))),
        "a month's usage by account": lambda: store.usage(UsageAsked(since=month, until=month + 31, by=("account",))),
        "a year's usage by user": lambda: store.usage(UsageAsked(since=month - 334, until=month + 31, by=("user",))),
    }
    for name, ask in asked.items():
        first = timed(ask)
        print(
            f"  {name:28}{median(timed(ask) for _ in range(9)) * 1000:8.1f} ms   (the first time {first * 1000:.1f} ms)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many the store holds (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the files are made; default: a temporary folder")
    parser.add_argument("--keep", action="store_true", help="do not delete them")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="slurmscope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        reading(folder)
        path = folder / "history.db"
        store = SqliteStore(path)
        took = filled(store, options.jobs)
        size = store.stats()
        count, bare = bare_rows(path, folder)
        rate = options.jobs / took
        size_bytes = size.bytes or 0
        print(f"SQLite, {options.jobs:,} jobs of {YEARS} years, {USERS} users")
        print(f"  filled at            {rate:9,.0f} jobs/s   {count / bare / rate:5.1f} x bare SQLite, without usage")
        print(
            f"  on disk              {size_bytes / 2**20:9,.0f} MiB      {size_bytes / options.jobs:,.0f} bytes a job"
        )
        print(f"  sums of usage        {size.counts['usage']:9,}")
        store.close()
        store = SqliteStore(path)  # with nothing in memory
        new, changed, same = poll_of(store)
        print(f"  poll of {POLL:,} new jobs     {new:8.2f} s    {new / POLL / (bare / count):5.1f} x bare SQLite")
        print(f"  … every one changed       {changed:8.2f} s")
        print(f"  … none changed            {same:8.2f} s")
        asking(store)
        store.close()
        print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
