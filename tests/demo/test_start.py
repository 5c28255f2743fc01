# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The demo is started: once with a past to be made, and again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slurmscope.demo import past, start
from slurmscope.store.protocol import MIDDLE, Lives
from slurmscope.store.recorder import tell, wrong_usage
from slurmscope.store.sqlite import SqliteStore

NOW = 1_769_490_000.0


def test_a_demo_starts_and_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "DAYS", 8)
    for function in (past.make, past.needed):
        monkeypatch.setattr(function, "__defaults__", (*(function.__defaults__ or ())[:-1], 8))
    made: list[tuple[int, int]] = []
    url, source = start.begin(tmp_path, 3, lambda *done: made.append(done), lambda: NOW)
    assert made
    assert url == f"sqlite:{tmp_path}/demo-3.db"
    store = SqliteStore(tmp_path / "demo-3.db")
    count = store.count(Lives())
    assert count > 5000
    history = asyncio.run(source.read("history", (int(NOW) - 86400, int(NOW)))).value
    tell(store, "demo", history, int(NOW))
    assert wrong_usage(store, "demo") == []
    for late in (Lives(states=("RUNNING",)), Lives(ended_since=int(NOW) - 3600, states=("COMPLETED",))):
        keys = [one.key for one in store.lives(late) if (one.end_time or NOW) - (one.start_time or NOW) >= 60]
        assert len(store.summaries("demo", keys)) == len(keys) > 20, "agents have seen what runs, and what ended lately"
    assert store.count(Lives(open=True)) > 100, "what runs and waits now"
    assert store.points("demo", "", MIDDLE, int(NOW) - 7200, int(NOW)), "no gap between the past and now"
    store.close()
    made.clear()
    start.begin(tmp_path, 3, lambda *done: made.append(done), lambda: NOW + 60)
    assert not made, "the same story goes on"
    start.begin(tmp_path, 3, lambda *done: made.append(done), lambda: NOW + 86400)
    assert made, "another story has another past"
