# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What serve keeps, for how long, and what becomes of jobs that nobody tells of any more."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lives import SUBMIT, accounted, job
from store.made import measured

from slurmscope import keeper
from slurmscope.keeper import Archive, Keeper, forget
from slurmscope.life import VANISHED
from slurmscope.model import Job, Part, Snapshot
from slurmscope.settings import Accounting
from slurmscope.settings import Store as StoreSettings
from slurmscope.slurm.source import Costs, Reading, Window
from slurmscope.slurm.transport import Failed
from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Lives, NodeChange, Point, Unreachable
from slurmscope.store.recorder import tell, wrong_usage
from slurmscope.store.sqlite import SqliteStore

DAY = 86400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    found = SqliteStore(tmp_path / "history.db")
    yield found
    found.close()


class NoSlurmdbd:
    def __init__(self) -> None:
        self.costs: Costs = {}
        self.fallbacks: dict[tuple[str, str], int] = {}

    async def read(self, part: str, window: Window | None = None) -> Reading:
        raise Failed("sacct exited with 1: Slurm accounting storage is disabled")

    async def script(self, job: Job) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is kept open."""


def test_each_kind_is_forgotten_in_its_own_time(store: SqliteStore) -> None:
    now = SUBMIT + 100 * DAY
    with store.writing("alpha") as writer:
        points = [
            Point("alpha", "", step, now - age * DAY, 1, {"cpus": 1})
            for step in (FINE, MIDDLE, COARSE)
            for age in (1, 5, 50)
        ]
        writer.put_points(points)
        writer.add_node_changes(
            [NodeChange("alpha", "n1", now - age * DAY, "IDLE", (), None, None, None) for age in (1, 50)]
        )
    tell(store, "alpha", [accounted(job(1, "COMPLETED", end_time=SUBMIT + 500)), accounted(job(2, "RUNNING"))], SUBMIT)
    settings = StoreSettings(
        jobs_days=30, node_changes_days=10, totals_fine_days=2, totals_middle_days=10, totals_coarse_days=0
    )
    assert forget(store, settings, now) == {
        "jobs": 1,
        "series": 0,
        "node_changes": 1,
        "totals_fine": 2,
        "totals_middle": 1,
    }
    assert [life.id for life in store.lives(Lives())] == [2], "who has not ended stays"
    assert store.stats().counts["usage"] > 0, "0 days: for ever"


@pytest.mark.parametrize(("days", "left"), [(7, 1), (0, 2)])
def test_courses_are_forgotten_before_their_jobs_or_with_them(store: SqliteStore, days: int, left: int) -> None:
    old, new = measured(1, SUBMIT), measured(2, SUBMIT + 8 * DAY)
    with store.writing("alpha") as writer:
        writer.put_measured([old, new])
    tell(store, "alpha", [accounted(job(one.id, "RUNNING", submit_time=one.submit_time)) for one in (old, new)], SUBMIT)
    forget(store, StoreSettings(series_days=days), SUBMIT + 10 * DAY)
    counts = store.stats().counts
    assert (counts["series"], counts["measured"]) == (left, 2)


def test_what_was_forgotten_and_is_told_again_is_not_counted_twice(store: SqliteStore) -> None:
    told = [accounted(job(id_, "COMPLETED", end_time=SUBMIT + 500)) for id_ in range(1, 10)]
    tell(store, "alpha", told, SUBMIT)
    before = store.stats().counts["usage"]
    assert store.forget("jobs", SUBMIT + 1000) == 9
    assert tell(store, "alpha", told, SUBMIT) == 0
    late = accounted(job(1, "COMPLETED", end_time=SUBMIT + 2000))
    assert tell(store, "alpha", [late], SUBMIT) == 1
    assert store.stats().counts["usage"] == before
    assert wrong_usage(store, "alpha") == []


@pytest.mark.parametrize("enabled", [True, False])
def test_lost_jobs_are_closed_when_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    """Where there is an accounting it is waited for."""
    monkeypatch.setattr(keeper, "_GIVE_UP_EVERY", 0.05)
    path = tmp_path / "history.db"
    clock = [float(SUBMIT + 200)]

    async def main() -> None:
        archive = Archive(f"sqlite:{path}", lambda: clock[0])
        one = Keeper(archive, NoSlurmdbd(), Accounting(enabled=enabled), clock=lambda: clock[0])
        task = asyncio.create_task(one.run())
        everything = frozenset({"jobs"})
        await one.publish(Snapshot("alpha", jobs=Part((job(1, "RUNNING"), job(2)), clock[0])), everything)
        await asyncio.sleep(0.2)
        clock[0] += 10
        await one.publish(Snapshot("alpha", jobs=Part((job(2),), clock[0])), everything)
        await asyncio.sleep(0.3)
        clock[0] += 3600
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await one.flush()
        await archive.close()

    asyncio.run(main())
    store = SqliteStore(path)
    found = {life.id: life.state for life in store.lives(Lives())}
    assert found == {1: "RUNNING" if enabled else VANISHED, 2: "PENDING"}
    store.close()


def test_sinks_are_told_before_it_is_kept(tmp_path: Path) -> None:
    """So that none is missed, whatever ends us in between."""
    taken: list[tuple[list[int], bool]] = []
    path = tmp_path / "history.db"

    class Taker:
        async def take(self, jobs: Any, nodes: Any = (), changes: Any = ()) -> None:
            other = SqliteStore(path)
            taken.append(([life.id for life in jobs], other.count(Lives()) > 0))
            other.close()

    async def main() -> None:
        archive = Archive(f"sqlite:{path}")
        one = Keeper(archive, NoSlurmdbd(), Accounting(enabled=False), [Taker()])
        await one.publish(Snapshot("alpha", jobs=Part((job(1), job(2)), SUBMIT + 10)), frozenset({"jobs"}))
        await one.flush()
        await archive.close()

    asyncio.run(main())
    assert taken == [([1, 2], False)]


def test_a_store_that_comes_later(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    folder.write_text("in the way")

    async def main() -> None:
        archive = Archive(f"sqlite:{folder}/history.db")
        await archive.open()
        assert archive.error is not None
        with pytest.raises(Unreachable):
            await archive.call(lambda store: None)
        folder.unlink()
        folder.mkdir()
        await archive.call(lambda store: None)
        assert archive.error is None
        assert archive.tally.failures == 2
        await archive.close()

    asyncio.run(main())
    assert stat.S_IMODE((folder / "history.db").stat().st_mode) == 0o600, "it tells of people"
