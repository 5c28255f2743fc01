# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What reports cost, on a store of a million jobs.

    python bench/reports.py [--jobs 1000000] [--folder DIR] [--keep]

The jobs are of the last 90 days, so that a month has a third of them. Each report is made in a process of its own as
well, from its start: what somebody waits for who types the command. Ratios are to reading the month's usage alone,
which no report can do without.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

from million import CLUSTER, DAY, END, accounted, jobs

from slurmscope.course import AGENT, Course, Sample, add
from slurmscope.findings.cost import Prices
from slurmscope.findings.policy import Policy
from slurmscope.findings.replay import replay
from slurmscope.life import Life
from slurmscope.measure import GpuUse
from slurmscope.reports import period as periods
from slurmscope.reports.kept import Reports
from slurmscope.reports.rendering import rendered
from slurmscope.settings import Settings
from slurmscope.store.protocol import Lives, Measured, UsageAsked
from slurmscope.store.recorder import tell
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import summary
from slurmscope.usage import KEYS

DAYS = 90
BATCH = 20_000
TIMES = 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=1_000_000)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--keep", action="store_true")
    given = arguments.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="slurmscope-bench-"))
    path = folder / "reports.db"
    try:
        store = SqliteStore(path)
        if not store.clusters():
            fill(store, given.jobs)
        measure(store, path)
    finally:
        if not given.keep:
            shutil.rmtree(folder)


def fill(store: SqliteStore, count: int) -> None:
    batch = []
    began = time.monotonic()
    for job in jobs(count, DAYS):
        batch.append(accounted(job))
        if len(batch) == BATCH:
            tell(store, CLUSTER, batch, END)
            batch.clear()
    if batch:
        tell(store, CLUSTER, batch, END)
    with store.writing(CLUSTER) as writer:
        writer.put_measured([measured(life.id, life.submit_time or 0) for life in latest(store)])
    print(f"made: {count:,} jobs of {DAYS} days in {time.monotonic() - began:.0f} s")


def latest(store: SqliteStore) -> list[Life]:
    return [life for life in store.lives(Lives(partition="gpu", limit=200)) if life.started]


def measured(id_: int, submit: int) -> Measured:
    """A course of as many buckets as there may be, with two GPUs."""
    course: Course | None = None
    for at in range(360):
        gpus = tuple(GpuUse(uuid=f"GPU-{one}", index=one, utilization=0.5, memory_used=1 << 34) for one in (0, 1))
        start = submit + at * 15
        course = add(
            course,
            Sample(
                node="node1",
                start=start,
                end=start + 15,
                source=AGENT,
                cpus=8,
                cpu_seconds=60.0,
                memory=1 << 33,
                read_bytes=1 << 20,
                written_bytes=1 << 20,
                gpus=gpus,
            ),
        )
    assert course is not None
    return Measured(id_, submit, summary(course, 1, submit, submit + 360 * 15), course)


def timed(what: Callable[[], object]) -> float:
    found = []
    for _ in range(TIMES):
        began = time.perf_counter()
        what()
        found.append(time.perf_counter() - began)
    return median(found)


def measure(store: SqliteStore, path: Path) -> None:
    month = periods.last_days(30, END - 1)

    def reports() -> Reports:
        """A new one each time: nothing is remembered from one to the next."""
        return Reports(store, Settings(), END)

    usage = UsageAsked(since=month.since, until=month.until, by=KEYS, only={"cluster": CLUSTER})
    bare = timed(lambda: store.usage(usage))
    user = store.lives(Lives(cluster=CLUSTER, limit=1))[0].user
    busiest = max(
        store.usage(UsageAsked(since=month.since, until=month.until, by=("user",))), key=lambda one: one.amounts.ended
    )
    job = next(life for life in store.lives(Lives(partition="gpu", limit=200)) if life.started)
    print(f"a month's usage, read: {bare * 1000:.0f} ms; {busiest.amounts.ended:,} jobs of the busiest user")
    rows: list[tuple[str, Callable[[], object]]] = [
        ("cluster, a month", lambda: reports().cluster(CLUSTER, month)),
        ("cluster, the two pages", lambda: reports().month(CLUSTER, month)),
        ("user", lambda: reports().user(user, month)),
        ("user, the busiest", lambda: reports().user(str(busiest.key[0]), month)),
        ("account", lambda: reports().account(job.account, month)),
        ("job", lambda: reports().life(job)),
    ]
    for name, make in rows:
        made = timed(make)
        print(f"{name:24} {made * 1000:7.0f} ms  {made / bare:5.1f} x")
    document = reports().life(job)
    for form in ("text", "html", "pdf", "json"):
        took = timed(partial(rendered, document, form))
        print(f"job as {form:17} {took * 1000:7.0f} ms  {took / bare:5.1f} x")
    for name, words in (
        ("report job, PDF", ["job", str(job.id), "--format", "pdf"]),
        ("report user", ["user", user, "--since", date.fromtimestamp(month.start).isoformat()]),
        ("report cluster", ["cluster", "--days", "30"]),
    ):
        print(f"{name:24} {timed(partial(command, path, words)) * 1000:7.0f} ms  from its start")
    began = time.perf_counter()
    found = replay(store, [CLUSTER], END - 7 * DAY, END, Policy(), Prices())
    took = time.perf_counter() - began
    print(f"rules over a week: {took:.1f} s, {found.judged / took:,.0f} jobs/s")


def command(path: Path, words: list[str]) -> None:
    environment = os.environ | {"SLURMSCOPE_STORE_URL": f"sqlite:{path}"}
    program = [str(Path(sys.executable).parent / "slurmscope"), "report", *words]
    subprocess.run(program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    main()
