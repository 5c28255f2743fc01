# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What only the store in a file has to keep: its layout, its ways through the tables, a backup beside a writer."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lives import SUBMIT, accounted, job
from store.made import kept_measured, measured, summed

from slurmscope import life as lives
from slurmscope.life import Life, Step, Transition
from slurmscope.store import migrations, schema
from slurmscope.store.measured import COLUMNS
from slurmscope.store.protocol import Lives, Sight, StoreError, UsageAsked
from slurmscope.store.recorder import rebuild, tell, wrong_usage
from slurmscope.store.sqlite import SqliteStore
from slurmscope.usage import DAY

# A row is its fields in this order, without their names. Whoever adds one adds it at the end of Life, and whoever adds
# one to Job, or moves one, writes a migration that writes all rows anew.
LAYOUT = (
    "id array_id array_tasks tasks name user account partition qos state reason priority submit_time eligible_time "
    "start_time end_time time_limit cpus memory gpus nodes node_list reservation dependency features licenses "
    "login_node restarts exit_code cluster changed_time counted_time gone_time accounted suspended_seconds "
    "cpu_seconds max_rss memory_used energy derived_exit_code cancelled_by transitions steps gpu_share guess "
    "submit_line work_dir"
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
    assert row[-6][1] == [SUBMIT + 100, "RUNNING", None]
    assert row[-5][0][:3] == ["batch", "batch", "COMPLETED"]
    older = msgspec.msgpack.encode(row[:-4])
    assert msgspec.msgpack.decode(older, type=Life) == life, "a row without what came later"


def older_file(path: Path, version: int = 1, **fields: Any) -> Life:
    """A file as an earlier version made it, with a job in it and what that adds to the sums of its day."""
    life = lives.told(None, "alpha", accounted(job(7, "COMPLETED", end_time=SUBMIT + 300, **fields)), SUBMIT)
    packed = msgspec.msgpack.encode(msgspec.msgpack.decode(msgspec.msgpack.encode(life))[:-2])
    with closing(sqlite3.connect(path)) as db:
        db.create_function("name_of", 1, lambda life: "")
        for script in schema.MIGRATIONS[:version]:
            migrations.run(db, script)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("INSERT INTO clusters VALUES (1, 'alpha')")
        row: tuple[Any, ...] = (1, 7, SUBMIT, None, "alice", "physics", "main", "COMPLETED", SUBMIT + 300, packed)
        row += (life.name,) if version > 2 else ()
        db.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(row))})", row)
        for key, amounts in summed([life]).items():
            values = (key.day, 1, *key[2:], *(amounts if version > 2 else amounts[:-2]))
            db.execute(f"INSERT INTO usage VALUES ({', '.join('?' * len(values))})", values)
        db.commit()
    return life


def test_a_file_of_the_first_schema_is_taken_over(tmp_path: Path) -> None:
    life = older_file(tmp_path / "old.db")
    store, other = SqliteStore(tmp_path / "old.db"), SqliteStore(tmp_path / "old.db")
    assert store.stats().schema == len(schema.MIGRATIONS) == 4
    assert store.life("alpha", 7, SUBMIT) == life and store.summary("alpha", 7, SUBMIT) is None
    with store.writing("alpha") as writer:
        writer.put_measured([measured(7, SUBMIT)])
    assert kept_measured(other, "alpha") == [measured(7, SUBMIT)]
    assert other.check() == []
    other.close()
    store.close()


@pytest.mark.parametrize("name", ["train", "", "a'b\n\x1b[31m\0ü"])
def test_a_file_of_the_second_schema_is_taken_over(tmp_path: Path, name: str) -> None:
    life = older_file(tmp_path / "old.db", 2, gpus={"a100": 2}, name=name)
    store = SqliteStore(tmp_path / "old.db")
    assert store.stats().schema == 4
    assert store.lives(Lives(user="alice", name=name)) == store.lives(Lives(ended_since=SUBMIT)) == [life]
    assert wrong_usage(store, "alpha") == [] and store.check() == []
    (sums,) = store.usage(UsageAsked(since=0, until=1 << 30))
    assert (sums.amounts.gpu_seconds, sums.amounts.gpu_used_ms, sums.amounts.gpu_known_seconds) == (400, 0, 0)
    with store.writing("alpha") as writer:  # which the older one did, and counted nothing
        writer.put_measured([used := measured(7, SUBMIT, gpus=2)])
    rebuild(store, "alpha")
    assert used.summary.gpu is not None
    (sums,) = store.usage(UsageAsked(since=0, until=1 << 30))
    assert sums.amounts.gpu_used_ms == round(used.summary.gpu.mean * 400_000)
    assert sums.amounts.gpu_known_seconds == 400 and wrong_usage(store, "alpha") == []
    store.close()


def test_a_file_of_the_third_schema_is_taken_over(tmp_path: Path) -> None:
    fields = {"name": "Train", "gpus": {"a100": 2}, "array_id": 5, "array_tasks": "1", "qos": "high"}
    life = older_file(tmp_path / "old.db", 3, node_list="n[1-2]", **fields)
    store = SqliteStore(tmp_path / "old.db")
    assert store.stats().schema == 4 and store.check() == [] and wrong_usage(store, "alpha") == []
    for asked in (
        Lives(node="n2"),
        Lives(gpu_type="a100", qos="high", states=("COMPLETED",)),
        Lives(named="train", id=5),
        Lives(sight=Sight("nobody", frozenset({("alpha", "physics")}))),
        Lives(order="ran", user="alice", ended_since=SUBMIT + 300),
    ):
        assert store.lives(asked) == [one.life for one in store.folded(asked)] == [life], asked
    assert store.findings("alpha", [life.key]) == {} and store.judged("alpha") == 0
    assert store.names("user") == ["alice"] and store.names("name") == ["Train"]
    with store.writing("alpha") as writer:
        writer.put_findings({life.key: ("timeout",)})
    assert store.lives(Lives(finding="timeout")) == [life]
    assert store._ask("SELECT count(*) FROM sqlite_schema WHERE name = 'older_jobs'").fetchone() == (0,)
    store.close()


def test_a_file_that_cannot_be_taken_over_stays_as_it_was(tmp_path: Path) -> None:
    older_file(tmp_path / "old.db")
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
        Lives(cluster="alpha", open=False),
        Lives(user="alice", name="train7"),
        Lives(cluster="alpha", user="alice", name="train7"),
        Lives(cluster="alpha", user="alice", account="physics", name="train7", until=SUBMIT + 9),
        Lives(cluster="alpha", user="alice", name="train7", ended_since=SUBMIT, ended_before=SUBMIT + 9),
        Lives(cluster="alpha", ended_since=SUBMIT, ended_before=SUBMIT + 9),
        Lives(ended_since=SUBMIT, ended_before=SUBMIT + 9),
        Lives(cluster="alpha", node="n1", user="alice"),
        Lives(finding="timeout"),
        Lives(states=("FAILED",), qos="normal"),
        Lives(named="AIN7", gpu_type="a100"),
        Lives(active_since=SUBMIT + 1990),
        Lives(sight=Sight("alice", frozenset({("alpha", "physics")}))),
        Lives(order="ended", user="alice"),
        Lives(order="ended"),
        Lives(order="ran", account="physics"),
        Lives(after=(SUBMIT, 50)),
        Lives(),
    ],
)
def test_no_question_looks_at_every_job(store: SqliteStore, asked: Lives) -> None:
    some = [job(at, "COMPLETED", end_time=SUBMIT + at, name=f"train{at % 500}") for at in range(2000)]
    tell(store, "alpha", list(map(accounted, some)), SUBMIT)
    store.forget("jobs", 1)  # which looks at the tables, too
    queries: list[str] = []
    reader = store._reader()
    reader.set_trace_callback(queries.append)
    store.lives(asked)
    store.count(asked)
    store.folded(asked)
    reader.set_trace_callback(None)
    ways = [row[3] for one in queries for row in reader.execute(f"EXPLAIN QUERY PLAN {one}")]
    assert not any(way.startswith("SCAN") and way.split()[1] in ("jobs", "k") for way in ways), ways
    if asked.name is not None and asked.user is not None:
        assert any("jobs_name (name=? AND cluster=? AND user=?" in way for way in ways), ways
    elif asked.ended_since is not None:
        assert any("jobs_end (cluster=? AND end>? AND end<?)" in way for way in ways), ways


@pytest.mark.parametrize(
    ("only", "way"),
    [
        ({"cluster": "alpha"}, "SEARCH usage USING PRIMARY KEY (day>? AND day<?)"),
        ({"user": "user7"}, "SEARCH usage USING INDEX usage_user (user=? AND day>? AND day<?)"),
        (
            {"cluster": "alpha", "account": "account2"},
            "SEARCH usage USING INDEX usage_account (account=? AND day>? AND day<?)",
        ),
    ],
    ids=["cluster", "user", "account"],
)
def test_usage_is_found_by_the_shortest_way(store: SqliteStore, only: dict[str, str], way: str) -> None:
    """That of a whole cluster not by its people, one after the other."""
    some = [
        job(at, "COMPLETED", user=f"user{at % 40}", account=f"account{at % 5}", submit_time=SUBMIT + at // 40 * DAY)
        for at in range(4000)
    ]
    tell(store, "alpha", list(map(accounted, some)), SUBMIT + 101 * DAY)
    store.forget("jobs", 1)  # which looks at the tables, too
    queries: list[str] = []
    reader = store._reader()
    reader.set_trace_callback(queries.append)
    first = SUBMIT // DAY
    assert store.usage(UsageAsked(since=first + 10, until=first + 40, by=("account",), only=only))
    reader.set_trace_callback(None)
    asked = next(one for one in queries if "FROM usage" in one)
    assert reader.execute(f"EXPLAIN QUERY PLAN {asked}").fetchone()[3] == way


# --- several at once --------------------------------------------------------------------------------------------------

READ = """
import sys
from slurmscope.store.protocol import Lives
from slurmscope.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
print(*[one.id for one in store.lives(Lives())])
store.close()
"""


def read_elsewhere(path: Path) -> set[int]:
    """By another process, as `slurmscope report` reads beside `serve`."""
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True, timeout=60)
    return set(map(int, done.stdout.split()))


def test_another_process_leaves_the_log_of_a_store_that_is_opened_several_times_here(tmp_path: Path) -> None:
    """As `serve` does: what is written after that must be there for all, and after a kill."""
    path = tmp_path / "history.db"
    with closing(SqliteStore(path)) as first:
        tell(first, "alpha", [accounted(job(1, "COMPLETED", end_time=SUBMIT + 300))], SUBMIT)
        with closing(SqliteStore(path)) as second:
            assert second.clusters() == ["alpha"]
        third = SqliteStore(path)
        assert read_elsewhere(path) == {1}
        assert path.with_name("history.db-wal").exists()
        tell(first, "alpha", [accounted(job(2, "COMPLETED", end_time=SUBMIT + 300))], SUBMIT)
        assert read_elsewhere(path) == {1, 2}
        assert len(third.lives(Lives())) == 2
        third.close()


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be made: Is a directory"):
        SqliteStore(tmp_path)
