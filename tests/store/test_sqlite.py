# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What only the store in a file has to keep: its layout, its ways through the tables, a backup beside a writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from lives import SUBMIT, accounted, job
from store.made import kept_measured, measured

from slurmscope import life as lives
from slurmscope.life import Life, Step, Transition
from slurmscope.store import schema
from slurmscope.store.measured import COLUMNS
from slurmscope.store.protocol import Lives, StoreError
from slurmscope.store.recorder import tell
from slurmscope.store.sqlite import SqliteStore

# A row is its fields in this order, without their names. Whoever adds one adds it at the end of Life, and whoever adds
# one to Job, or moves one, writes a migration that writes all rows anew.
LAYOUT = (
    "id array_id array_tasks tasks name user account partition qos state reason priority submit_time eligible_time "
    "start_time end_time time_limit cpus memory gpus nodes node_list reservation dependency features licenses "
    "login_node restarts exit_code cluster changed_time counted_time gone_time accounted suspended_seconds "
    "cpu_seconds max_rss memory_used energy derived_exit_code cancelled_by transitions steps"
)
STEP = (
    "id name state exit_code start_time end_time nodes tasks cpus cpu_seconds max_rss memory_used energy read_bytes "
    "written_bytes"
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(tmp_path / "history.db")
    yield found
    found.close()


def test_the_layout_of_a_row_is_what_files_have() -> None:
    assert " ".join(Life.__struct_fields__) == LAYOUT
    assert " ".join(Step.__struct_fields__) == STEP
    assert Transition.__struct_fields__ == ("time", "state", "reason")
    life = lives.told(None, "alpha", accounted(job(7, "COMPLETED", end_time=SUBMIT + 300, gpus={"a100": 2})), SUBMIT)
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(life))
    assert row[:5] == [7, None, None, 1, "train"]
    assert row[29:31] == ["alpha", SUBMIT]
    assert row[-2][1] == [SUBMIT + 100, "RUNNING", None]
    assert row[-1][0][:3] == ["batch", "batch", "COMPLETED"]


def first_schema(path: Path) -> Life:
    """A file as the first version made it, with a job in it."""
    life = lives.told(None, "alpha", accounted(job(7, "COMPLETED", end_time=SUBMIT + 300)), SUBMIT)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(schema.MIGRATIONS[0])
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.execute("INSERT INTO clusters VALUES (1, 'alpha')")
        row = (1, 7, SUBMIT, None, "alice", "physics", "main", "COMPLETED", SUBMIT + 300, msgspec.msgpack.encode(life))
        db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.commit()
    return life


def test_a_file_of_the_first_schema_is_taken_over(tmp_path: Path) -> None:
    life = first_schema(tmp_path / "old.db")
    store, other = SqliteStore(tmp_path / "old.db"), SqliteStore(tmp_path / "old.db")
    assert store.stats().schema == len(schema.MIGRATIONS) == 2
    assert store.life("alpha", 7, SUBMIT) == life and store.summary("alpha", 7, SUBMIT) is None
    with store.writing("alpha") as writer:
        writer.put_measured([measured(7, SUBMIT)])
    assert kept_measured(other, "alpha") == [measured(7, SUBMIT)]
    assert other.check() == []
    other.close()
    store.close()


def test_a_file_that_cannot_be_taken_over_stays_as_it_was(tmp_path: Path) -> None:
    first_schema(tmp_path / "old.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        db.execute("CREATE TABLE series (somebody_elses)")
    with pytest.raises(StoreError, match="series already exists"):
        SqliteStore(tmp_path / "old.db")
    with closing(sqlite3.connect(tmp_path / "old.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'measured'").fetchone() == (0,)


def test_what_was_used_is_seen_without_python(store: SqliteStore, tmp_path: Path) -> None:
    one = measured(7, SUBMIT, gpus=1)
    with store.writing("alpha") as writer:
        writer.put_measured([one])
    with closing(sqlite3.connect(tmp_path / "history.db")) as db:
        db.row_factory = sqlite3.Row
        found = dict(db.execute("SELECT * FROM measured").fetchone())
    assert list(found) == ["cluster", "id", "submit", *COLUMNS, "summary"]
    assert found["cpu_share"] == one.summary.cpu_share and found["coverage"] == 1.0
    assert one.summary.gpu is not None and found["gpu_share"] == one.summary.gpu.mean


@pytest.mark.parametrize("kind", ["series", "jobs"])
def test_forgetting_does_not_look_at_all_that_was_used(store: SqliteStore, kind: str) -> None:
    with store.writing("alpha") as writer:
        writer.put_measured([measured(at, SUBMIT + at, seconds=15) for at in range(500)])
    store.forget("jobs", 1)  # which looks at the tables, too
    asked: list[str] = []
    store._writer.set_trace_callback(asked.append)
    store.forget(kind, SUBMIT + 3)
    store._writer.set_trace_callback(None)
    for query in [one for one in asked if one.startswith("DELETE")]:
        ways = [row[3] for row in store._writer.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert not any(way.startswith("SCAN") for way in ways), ways


def test_a_backup_ends_beside_a_writer(store: SqliteStore, tmp_path: Path) -> None:
    tell(store, "alpha", [accounted(job(id_, "RUNNING")) for id_ in range(8000)], SUBMIT)
    over = threading.Event()

    def write() -> None:
        other = SqliteStore(tmp_path / "history.db")
        number = 10_000
        while not over.is_set():
            number += 1
            tell(other, "alpha", [accounted(job(number, "RUNNING"))], SUBMIT)
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    told: list[int] = []
    try:
        store.backup(str(tmp_path / "copy.db"), lambda done, of: told.append(done))
    finally:
        over.set()
        writer.join()
    assert told == sorted(told), "it did not begin anew"
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.check() == []
    assert copy.count(Lives()) >= 8000
    copy.close()


@pytest.mark.parametrize(
    "asked",
    [
        Lives(id=77),
        Lives(cluster="alpha", id=77),
        Lives(user="alice"),
        Lives(account="physics"),
        Lives(cluster="alpha", open=True),
        Lives(),
    ],
)
def test_no_question_looks_at_every_job(store: SqliteStore, asked: Lives) -> None:
    tell(store, "alpha", [accounted(job(id_, "COMPLETED", end_time=SUBMIT + 500)) for id_ in range(2000)], SUBMIT)
    store.forget("jobs", 1)  # which looks at the tables, too
    plan: list[str] = []
    reader = store._reader()
    reader.set_trace_callback(plan.append)
    store.lives(asked)
    reader.set_trace_callback(None)
    (query,) = [one for one in plan if one.startswith("SELECT life")]
    ways = [row[3] for row in reader.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert not any(way == "SCAN jobs" for way in ways), ways
