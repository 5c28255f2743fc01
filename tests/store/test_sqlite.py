# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What only the store in a file has to keep: its layout, its ways through the tables, a backup beside a writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lives import SUBMIT, accounted, job

from slurmscope import life as lives
from slurmscope.life import Life, Step, Transition
from slurmscope.store.protocol import Lives
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
