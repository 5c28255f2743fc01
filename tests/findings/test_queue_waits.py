# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How long jobs of a size waited lately."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lives
import pytest

from slurmscope import life as lifes
from slurmscope.findings.queue_waits import Waits, recent
from slurmscope.life import Life
from slurmscope.store.sqlite import SqliteStore

GIB = 1 << 30
HOUR = 3600


def started(id_: int, waited: int, **fields: Any) -> Life:
    start = lives.SUBMIT + waited
    return lifes.seen(None, "c", lives.job(id_, "RUNNING", start_time=start, **fields), start + 10)


def asked(waits: Waits, **fields: Any) -> float | None:
    given: dict[str, Any] = {"partition": "main", "cpus": 4, "gpus": 0, "memory": 8 * GIB, "time": HOUR}
    return waits(**(given | fields))


def test_half_of_such_jobs_waited_for_that_at_most() -> None:
    waits = Waits(started(at, 100 * at) for at in range(1, 12))
    assert asked(waits) == 600
    assert asked(waits, cpus=3, memory=5 * GIB, time=1800) == 600, "of like size"


@pytest.mark.parametrize(
    "other",
    [{"partition": "long"}, {"cpus": 64}, {"gpus": 1}, {"memory": 100 * GIB}, {"time": 9 * HOUR}, {"memory": None}],
)
def test_jobs_of_another_size_tell_nothing(other: dict[str, Any]) -> None:
    assert asked(Waits(started(at, 100 * at) for at in range(1, 12)), **other) is None


def test_a_few_jobs_tell_nothing() -> None:
    assert asked(Waits(started(at, 100) for at in range(1, 10))) is None
    assert asked(Waits([])) is None


def test_an_array_is_one_job() -> None:
    tasks = [started(100 + at, 100 + at, array_id=100, array_tasks=str(at)) for at in range(50)]
    assert asked(Waits(tasks)) is None
    assert asked(Waits([*tasks, *(started(at, 0) for at in range(1, 6)), *(started(at, 100) for at in range(6, 11))]))


def test_what_waits_or_was_reserved_is_not_counted() -> None:
    waiting = [lifes.seen(None, "c", lives.job(at), lives.SUBMIT + 10) for at in range(1, 20)]
    reserved = [started(at, 5, reservation="course") for at in range(30, 50)]
    assert asked(Waits([*waiting, *reserved])) is None


def test_time_before_it_might_start_is_no_waiting() -> None:
    eligible = lives.SUBMIT + 5000
    assert asked(Waits(started(at, 5060, eligible_time=eligible) for at in range(1, 12))) == 60


def test_from_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    with store.writing("c") as writer:
        writer.put_lives([started(at, 60) for at in range(1, 12)])
    assert asked(recent(store, "c", lives.SUBMIT + HOUR)) == 60
    assert asked(recent(store, "c", lives.SUBMIT + 30 * 86400)) is None, "that was long ago"
    assert asked(recent(store, "d", lives.SUBMIT + HOUR)) is None
    store.close()
