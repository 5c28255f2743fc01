# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The last runs of the same work, from a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from findings import cases
from msgspec.structs import replace

from slurmscope.findings.cost import Prices
from slurmscope.findings.request import next_request
from slurmscope.findings.runs import last_runs
from slurmscope.life import Life
from slurmscope.store.protocol import Measured, Store
from slurmscope.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = SqliteStore(tmp_path / "store.db")
    yield found
    found.close()


def run(id_: int, state: str = "COMPLETED", **fields: Any) -> Life:
    life = cases.life(state, **fields)
    return replace(life, id=id_, submit_time=(life.submit_time or 0) + id_)


def test_the_latest_first_with_what_was_measured(store: Store) -> None:
    others = [run(6, name="other"), run(7, user="bob"), run(8, account="math"), run(9, nodes=2, node_list="n[1-2]")]
    open_ones = [run(10, "RUNNING"), run(11, "PENDING")]
    same = [run(1, name="train-1"), run(2, name="train-2"), run(3, "FAILED", name="train-3")]
    with store.writing("c") as writer:
        writer.put_lives([*others, *open_ones, *same])
        writer.put_measured([Measured(*same[1].key, cases.summary(), None)])
    found = last_runs(store, same[0])
    assert [(life.id, summary is not None) for life, summary in found] == [(1, False), (3, False), (2, True)]
    assert [life.id for life, _ in last_runs(store, open_ones[0])] == [10, 3, 2, 1], "it runs"
    assert [life.id for life, _ in last_runs(store, open_ones[1], most=2)] == [3, 2], "it has not run"


def test_the_next_request_is_made_from_them(store: Store) -> None:
    lives = [run(at, memory=64 * cases.GIB, name=f"train-{at}") for at in range(1, 7)]
    with store.writing("c") as writer:
        writer.put_lives(lives)
    found = next_request(cases.of(lives[0]), last_runs(store, lives[0]), Prices(), lambda *asked: None)
    assert found is not None and found.runs == 6
    assert [(one.option, one.after) for one in found.changes] == [("--mem", "8G"), ("--time", "02:30:00")]
