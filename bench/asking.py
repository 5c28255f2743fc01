# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages wait for when they ask a store of a million jobs.

    python bench/asking.py [--jobs 1000000] [--folder DIR] [--keep]

The jobs are of 90 days, in one of ten something was found, and the last of all is an array of 100,000. Two times are
told: the median, and the first, for which SQLite has nothing in its own memory. Writing is told against putting the
same lives into a table without indexes.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import msgspec
from million import CLUSTER, DAY, END, accounted, jobs
from msgspec.structs import replace

from slurmscope.life import Life, told
from slurmscope.store.protocol import Lives, Sight
from slurmscope.store.sqlite import SqliteStore

DAYS = 90
ARRAY = 100_000
BATCH = 10_000
TIMES = 7
RULES = ("low_cpu", "memory_request", "time_request", "timeout")


def lives(count: int) -> Iterator[list[Life]]:
    """Some at a time, as an import writes them."""
    batch = []
    for job in jobs(count, DAYS):
        state = "NODE_FAIL" if job.id % 5000 == 0 else job.state
        batch.append(told(None, CLUSTER, accounted(replace(job, state=state)), END))
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def array(first: Life) -> list[Life]:
    states = ("COMPLETED",) * 9 + ("FAILED",)
    common = replace(first, array_id=50_000_000, submit_time=END, user="user3", account="account3", steps=())
    return [
        replace(common, id=50_000_000 + at, array_tasks=str(at), state=states[at % 10], end_time=END + at)
        for at in range(ARRAY)
    ]


def fill(store: SqliteStore, folder: Path, count: int) -> None:
    bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("CREATE TABLE jobs (id INTEGER, submit INTEGER, life BLOB)")
    encode = msgspec.msgpack.Encoder().encode
    took = judging = without = 0.0
    last: list[Life] = []
    for some in lives(count):
        last = some or last
        began = time.perf_counter()
        with store.writing(CLUSTER) as writer:
            writer.put_lives(some)
        took += time.perf_counter() - began
        began = time.perf_counter()
        with store.writing(CLUSTER) as writer:
            writer.put_findings({one.key: (RULES[one.id // 10 % 4],) if one.id % 10 == 0 else () for one in some})
        judging += time.perf_counter() - began
        began = time.perf_counter()
        bare.execute("BEGIN")
        bare.executemany("INSERT INTO jobs VALUES (?, ?, ?)", [(one.id, one.submit_time, encode(one)) for one in some])
        bare.execute("COMMIT")
        without += time.perf_counter() - began
    bare.close()
    with store.writing(CLUSTER) as writer:
        writer.put_lives(array(last[0]))
    size = (store.stats().bytes or 0) / (count + ARRAY)
    print(f"{count:,} jobs of {DAYS} days, and an array of {ARRAY:,}; {size:.0f} bytes a job")
    print(f"  written at {count / took:,.0f} jobs/s, {took / without:.1f} x bare SQLite without indexes")
    print(f"  findings at {count / judging:,.0f} jobs/s")


def timed(what: Callable[[], object]) -> tuple[float, float]:
    found = []
    for _ in range(TIMES):
        began = time.perf_counter()
        what()
        found.append((time.perf_counter() - began) * 1000)
    return found[0], median(found)


def asked(store: SqliteStore) -> dict[str, Callable[[], object]]:
    three = frozenset((CLUSTER, f"account{at}") for at in (7, 50, 119))
    sight = Sight("user799", three)
    before = Lives(cluster=CLUSTER, until=END)
    failed = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT")
    return {
        "newest 50": lambda: store.lives(before),
        "… folded, behind an array of 100,000": lambda: store.folded(Lives(cluster=CLUSTER)),
        "… folded, of its user": lambda: store.folded(Lives(cluster=CLUSTER, user="user3")),
        "… folded, those of it that failed": lambda: store.folded(Lives(cluster=CLUSTER, states=failed)),
        "… folded, without the array": lambda: store.folded(before),
        "… folded, active for a day": lambda: store.folded(Lives(cluster=CLUSTER, active_since=END - DAY)),
        "… those of a user's": lambda: store.folded(Lives(cluster=CLUSTER, active_since=END - DAY, user="user5")),
        "… those that failed": lambda: store.folded(replace(before, active_since=END - DAY, states=failed)),
        "… the thousandth page": lambda: store.folded(replace(before, after=(END - 5 * DAY, 0))),
        "by user": lambda: store.folded(replace(before, user="user3")),
        "by user, few jobs": lambda: store.folded(replace(before, user="user799")),
        "by node": lambda: store.folded(replace(before, node="node77")),
        "by a rare state": lambda: store.folded(replace(before, states=("NODE_FAIL",))),
        "by four states": lambda: store.folded(replace(before, states=failed)),
        "by GPU type": lambda: store.folded(replace(before, gpu_type="a100")),
        "by finding": lambda: store.folded(replace(before, finding="timeout")),
        "by finding and user": lambda: store.folded(replace(before, finding="timeout", user="user799")),
        "by rare state and partition": lambda: store.folded(
            replace(before, states=("NODE_FAIL",), partition="debug", user="user3")
        ),
        "sight of three accounts": lambda: store.folded(replace(before, sight=sight)),
        "… those of them that failed": lambda: store.folded(replace(before, sight=sight, states=failed)),
        "… how many, up to 10,000": lambda: store.count(replace(before, sight=sight), 10_000),
        "named, many": lambda: store.folded(replace(before, named="RUN-5")),
        "named, few": lambda: store.folded(replace(before, named="un-996")),
        "named, none": lambda: store.folded(replace(before, named="nothing of that name")),
        "sorted by ran": lambda: store.lives(replace(before, order="ran")),
        "sorted by end": lambda: store.lives(Lives(cluster=CLUSTER, order="ended")),
        "sorted by end, of a user": lambda: store.lives(replace(before, order="ended", user="user3")),
        "sorted by memory, of a user": lambda: store.lives(replace(before, order="memory", user="user3")),
        "how many, up to 10,000": lambda: store.count(before, 10_000),
        "how many of a user": lambda: store.count(replace(before, user="user3")),
        "how many failed, up to 10,000": lambda: store.count(replace(before, states=failed), 10_000),
        "users by their beginning": lambda: store.names("user", "user7", CLUSTER),
        "names by their beginning": lambda: store.names("name", "run-9", CLUSTER),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many the store holds (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the files are made; default: a temporary folder")
    parser.add_argument("--keep", action="store_true", help="do not delete them, and take those that are there")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="slurmscope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        store = SqliteStore(folder / "asking.db")
        if not store.clusters():
            fill(store, folder, options.jobs)
        store.close()
        for name in asked(store):
            store = SqliteStore(folder / "asking.db")  # with nothing in memory
            first, middle = timed(asked(store)[name])
            print(f"  {name:40}{middle:8.1f} ms   (the first time {first:.1f} ms)")
            store.close()
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
