# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How good guesses were, and what similar jobs waited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import SUBMIT, job
from msgspec.structs import replace

from slurmscope.life import Life, seen
from slurmscope.store.sqlite import SqliteStore
from slurmscope.waiting.record import LEAST, quantile, size_class, starts, starts_of

DAY = 86400
MAIN = ("main",)


def started(id_: int, wait: int, guess: int | None = None, **fields: Any) -> Life:
    """A life that runs, after so long; it was guessed to start `guess` seconds after its submission."""
    life = seen(None, "lab", job(id_, "RUNNING", start_time=SUBMIT + wait, **fields), SUBMIT + wait)
    return replace(life, guess=None if guess is None else (SUBMIT, SUBMIT + guess))


def test_figures_are_of_those_that_started() -> None:
    lives = [started(at, wait=100 * at, guess=100 * at - 60) for at in range(1, 12)]
    lives.append(seen(None, "lab", job(99), SUBMIT))  # which still waits
    found = starts_of(lives, MAIN, SUBMIT - DAY, len(lives)).of(job(1))
    assert found.guesses is not None and found.waits is not None
    assert (found.guesses.jobs, found.guesses.median, found.guesses.low, found.guesses.high) == (11, 60, 60, 60)
    assert (found.waits.jobs, found.waits.median, found.waits.ninetieth) == (11, 600, 1000)
    assert (found.read, found.kept) == (12, 12)


def test_of_few_jobs_nothing_is_told() -> None:
    lives = [started(at, wait=10, guess=5) for at in range(LEAST - 1)]
    found = starts_of(lives, MAIN, SUBMIT - DAY, len(lives)).of(job(1))
    assert found.guesses is None and found.waits is None


def test_jobs_of_another_size_are_not_alike() -> None:
    lives = [started(at, wait=10, cpus=64) for at in range(20)]
    lives += [started(at, wait=99, gpus={"a100": 2}) for at in range(20, 40)]
    assert starts_of(lives, MAIN, SUBMIT - DAY, 40).of(job(1)).waits is None
    wide = starts_of(lives, MAIN, SUBMIT - DAY, 40).of(job(1, cpus=40)).waits
    fast = starts_of(lives, MAIN, SUBMIT - DAY, 40).of(job(1, gpus={"": 4})).waits
    assert wide is not None and wide.median == 10
    assert fast is not None and fast.median == 99 and fast.alike == "2 to 4 GPUs"


def test_what_started_before_the_time_does_not_count() -> None:
    lives = [started(at, wait=10) for at in range(20)]
    assert starts_of(lives, MAIN, SUBMIT + 11, 20).of(job(1)).waits is None


def test_a_wait_begins_when_the_job_could_have_started() -> None:
    lives = [started(at, wait=500, eligible_time=SUBMIT + 450) for at in range(20)]
    waits = starts_of(lives, MAIN, SUBMIT - DAY, 20).of(job(1)).waits
    assert waits is not None and waits.median == 50


@pytest.mark.parametrize(
    ("fields", "class_"),
    [
        ({"cpus": 1}, "1 CPU and no GPU"),
        ({"cpus": 4}, "2 to 4 CPUs and no GPU"),
        ({"cpus": 5000}, "4,097 CPUs or more and no GPU"),
        ({"cpus": 5000, "gpus": {"a": 1}}, "1 GPU"),
        ({"gpus": {"a": 100, "": 100}}, "129 GPUs or more"),
    ],
)
def test_classes_of_size(fields: dict[str, Any], class_: str) -> None:
    assert size_class(job(1, **fields)) == class_


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_among_the_values(found: list[float], share: float) -> None:
    ranked = sorted(found)
    assert ranked[0] - 1e-3 <= quantile(ranked, share) <= ranked[-1] + 1e-3


def test_it_is_read_from_the_store_by_partition(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    lives = [started(at, wait=10 * at, guess=0) for at in range(1, 31)]
    lives += [started(at, wait=9999, partition="gpu") for at in range(31, 61)]
    with store.writing("lab") as writer:
        writer.put_lives(lives)
    now = SUBMIT + DAY
    main = starts(store, "lab", MAIN, now).of(job(1))
    both = starts(store, "lab", ("main", "gpu"), now).of(job(1))
    old = starts(store, "lab", MAIN, now + 40 * DAY).of(job(1))
    store.close()
    assert main.waits is not None and main.waits.median == 155 and main.read == 30
    assert main.guesses is not None and main.guesses.median == 155
    assert both.waits is not None and both.waits.jobs == 60
    assert old.waits is None and old.read == 0
    assert (main.kept, both.kept, old.kept) == (30, 60, 0)


def test_of_many_jobs_some_are_read_from_all_of_the_time(tmp_path: Path) -> None:
    """Those that were submitted early waited long, and the latest not at all."""
    store = SqliteStore(tmp_path / "store.db")
    lives = []
    for at in range(7000):
        submit = SUBMIT + at * 20 * DAY // 7000
        wait = 5000 if at < 4200 else 1
        lives.append(seen(None, "lab", job(at + 1, "RUNNING", submit_time=submit, start_time=submit + wait), submit))
    with store.writing("lab") as writer:
        writer.put_lives([replace(life, eligible_time=life.submit_time) for life in lives])
    found = starts(store, "lab", MAIN, SUBMIT + 20 * DAY).of(job(1))
    store.close()
    assert found.kept == 7000 and found.read == 3500
    assert found.waits is not None and found.waits.median == 5000
