# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Courses over a real store, at a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from measured.agents import measure, report
from store.made import job, life

from slurmscope.keeper import Archive
from slurmscope.measure import GpuUse
from slurmscope.measured import courses as module
from slurmscope.measured.courses import MOST_JOBS, Courses
from slurmscope.measured.tally import Tally
from slurmscope.model import Job, Part, Snapshot
from slurmscope.store.protocol import Store, Unreachable, UsageAsked
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary

T = TypeVar("T")
T0 = 1_700_000_000
C = "alpha"


def running(id_: int = 1, **fields: Any) -> Job:
    told = {"state": "RUNNING", "submit_time": T0 - 10, "start_time": T0, "node_list": "n1", "nodes": 1}
    return job(id=id_, **told | fields)


class Scene:
    """A cluster of which the test says what there is."""

    def __init__(self, path: Path, archive: Archive | None = None) -> None:
        self.path = path
        self.now = float(T0)
        self.tally = Tally(refused={})
        self.archive = archive or Archive(f"sqlite:{path}", quiet=True)
        self.courses = Courses(C, self.archive, self.tally, clock=lambda: self.now)

    async def see(self, *jobs: Job) -> None:
        await self.courses.see(Snapshot(cluster=C, jobs=Part(jobs, self.now)))

    async def tell(self, since: int, *times: int, id_: int = 1, node: str = "n1", **more: Any) -> None:
        for at in times:
            self.now = max(self.now, float(since + at))
            await self.courses.take(report(node, float(since + at), measure(id_, at, **more), cluster=C))

    async def beat(self, what: Callable[[], bool] = lambda: False) -> None:
        """What it does every few seconds, once."""
        task = asyncio.create_task(self.courses.run())
        for _ in range(500):
            await asyncio.sleep(0.01)
            if what() or (self.archive.tally.calls and not self.courses.waiting):
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def summary(self, id_: int = 1, submit: int = T0 - 10) -> Summary | None:
        store = SqliteStore(self.path)
        try:
            return store.summary(C, id_, submit)
        finally:
            store.close()


Play = Callable[[Scene], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[Play], Scene]]:
    def run(what: Play) -> Scene:
        async def played() -> Scene:
            scene = Scene(tmp_path / "history.db")
            await what(scene)
            await scene.archive.close()
            return scene

        return asyncio.run(played())

    yield run


def test_who_has_ended_is_written_with_its_end_and_forgotten(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see(running())
        await scene.tell(T0, 0, 15, 30, 45, start_time=T0)
        scene.now = T0 + 50
        await scene.see(running(state="COMPLETED", end_time=T0 + 60))
        assert list(scene.courses.ended) == [(1, T0 - 10)]
        await scene.beat()
        assert len(scene.courses) == 1, "somebody may tell of it late"
        await scene.tell(T0, 60)
        scene.now += 100
        await scene.beat(lambda: not len(scene.courses))
        assert len(scene.courses) == 0

    found = play(what).summary()
    assert found is not None
    assert (found.coverage, found.seconds, found.cpu_seconds) == (1.0, 60.0, 120.0)


def test_a_job_is_counted_from_its_start_though_its_processes_were_not_told_it(play: Callable[[Play], Scene]) -> None:
    """One look is enough: what it used until then, it used since it started."""

    async def what(scene: Scene) -> None:
        await scene.see(running())
        await scene.tell(T0, 15)
        scene.now = T0 + 100
        await scene.see(running(state="COMPLETED", end_time=T0 + 20))
        scene.now += 100
        await scene.beat(lambda: not len(scene.courses))

    found = play(what).summary()
    assert found is not None
    assert (found.coverage, found.seconds, found.cpu_seconds) == (0.75, 15.0, 30.0)


def test_a_job_that_no_poll_has_seen_waits(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see()
        await scene.tell(T0, 0, 15, 30)
        assert len(scene.courses) == 0
        await scene.see(running())
        assert len(scene.courses) == 1
        await scene.tell(T0, 45)
        await scene.courses.flush()

    found = play(what).summary()
    assert found is not None and found.seconds == 45.0


def test_one_that_is_never_seen_is_given_up(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see()
        await scene.tell(T0, 0, 15, 30)
        scene.now += 1000
        await scene.courses.flush()
        await scene.see(running())
        assert (len(scene.courses), scene.tally.dropped) == (0, 1)

    assert play(what).summary() is None


def test_what_is_told_late_goes_to_the_life_that_it_is_of(play: Callable[[Play], Scene]) -> None:
    """The job was requeued while its agent could not send."""

    async def what(scene: Scene) -> None:
        first = life(1, C, submit_time=T0 - 10, start_time=T0, end_time=T0 + 600, state="NODE_FAIL", node_list="n1")

        def put(store: Store) -> None:
            with store.writing(C) as writer:
                writer.put_lives([first])

        await scene.archive.call(put)
        scene.now = T0 + 2000
        await scene.see(running(submit_time=T0 + 600, start_time=T0 + 1000))
        await scene.tell(T0, 0, 300, 600)
        await scene.tell(T0 + 1000, 100, 200)
        scene.now += 100
        await scene.courses.flush()
        await scene.courses.flush()

    scene = play(what)
    old, new = scene.summary(), scene.summary(1, T0 + 600)
    assert old is not None and (old.seconds, old.coverage) == (600.0, 1.0)
    assert new is not None and new.seconds == 100.0


def test_a_clock_that_is_behind_costs_the_first_looks_alone(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see(running())
        await scene.tell(T0 - 120, 0, 15, 30, 45, 60, 75, 90, 105, 120)
        scene.now = T0 + 200.0
        await scene.courses.flush()
        await scene.courses.flush()
        await scene.tell(T0 - 120, 135)
        await scene.courses.flush()

    found = play(what).summary()
    assert found is not None and found.seconds == 75.0


def test_the_store_is_not_asked_again_and_again_for_jobs_that_nobody_knows(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see()
        for id_ in range(1, 301):
            await scene.tell(T0, 0, id_=id_)
        scene.now += 70
        for _ in range(50):
            await scene.courses.flush()
        assert scene.archive.tally.calls == 3, "a hundred at a time, and each once"

    play(what)


def test_what_nobody_looked_at_is_a_gap(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see(running())
        await scene.tell(T0, 0, 15, 30, 3630, 3645)
        await scene.courses.flush()

    found = play(what).summary()
    assert found is not None
    assert (found.seconds, found.cpu_seconds) == (45.0, 90.0)
    assert found.last == T0 + 3645


def test_a_counter_that_began_anew(play: Callable[[Play], Scene]) -> None:
    async def what(scene: Scene) -> None:
        await scene.see(running())
        await scene.tell(T0, 0, 15)
        await scene.tell(T0, 30, cpu_seconds=4.0, read_bytes=10)
        await scene.courses.flush()

    found = play(what).summary()
    assert found is not None and (found.cpu_seconds, found.read_bytes) == (34.0, 15_010)


def test_a_store_that_took_it_and_did_not_say_so(tmp_path: Path) -> None:
    """An archive that loses the store's word stands for a server that dies after it has written."""

    class Forgetful(Archive):
        deaf = 0

        async def call(self, work: Callable[[Store], T]) -> T:
            found = await super().call(work)
            if self.deaf:
                self.deaf -= 1
                raise Unreachable("it went away")
            return found

    async def what() -> Scene:
        archive = Forgetful(f"sqlite:{tmp_path}/history.db", quiet=True)
        scene = Scene(tmp_path / "history.db", archive)
        await scene.see(running())
        for times in ((0, 15, 30), (45, 60), (75, 90), (105,)):
            await scene.tell(T0, *times)
            archive.deaf = 1
            with pytest.raises(Unreachable):
                await scene.courses.flush()
            assert scene.courses.waiting == 1
        await scene.tell(T0, 120)
        await scene.courses.flush()
        assert scene.courses.waiting == 0
        await archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None and (found.seconds, found.cpu_seconds, found.read_bytes) == (120.0, 240.0, 120_000)


def test_a_writing_that_is_cut_short_counts_once(tmp_path: Path) -> None:
    """`serve` stops while the store's thread is at it."""

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running())
        await scene.tell(T0, 0, 15, 30)
        for _ in range(3):
            task = asyncio.create_task(scene.courses.run())
            await asyncio.sleep(0)  # it has begun
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await scene.courses.flush()
        await scene.archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None and (found.seconds, found.cpu_seconds) == (30.0, 60.0)


def test_numbers_that_no_store_can_hold_cost_their_own_job_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "plausible", lambda sample: True)

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running(1), running(2), running(3))
        for id_ in (1, 2, 3):
            await scene.tell(T0, 0, id_=id_)
        most = GpuUse(uuid="a", index=0, utilization=1.0, power=float(1 << 60))
        await scene.tell(T0, 15, id_=1)
        await scene.tell(T0, 15, id_=2, gpus=(most,))
        await scene.tell(T0, 15, id_=3)
        await scene.courses.flush()
        assert (scene.courses.waiting, scene.tally.dropped) == (0, 1)
        await scene.archive.close()
        return scene

    scene = asyncio.run(what())
    assert [scene.summary(id_) is not None for id_ in (1, 2, 3)] == [True, False, True]


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def what() -> None:
        scene = Scene(tmp_path / "history.db")
        jobs = [running(id_) for id_ in range(1, MOST_JOBS + 2001)]
        await scene.see(*jobs)
        scene.now += 15
        for at in (1.0, 15.0):
            for some in range(0, len(jobs), 10_000):
                told = [measure(one.id, at) for one in jobs[some : some + 10_000]]
                await scene.courses.take(report(f"n{some}", T0 + at, *told, cluster=C))
        assert (len(scene.courses), scene.tally.dropped) == (MOST_JOBS, 2000)
        await scene.see(*jobs[2000:])
        assert len(scene.courses) == MOST_JOBS, "those that have ended made room"
        monkeypatch.setattr(module, "_MOST_BUCKETS", 10_000)
        monkeypatch.setattr(scene.courses, "_due", list)
        await scene.beat(lambda: len(scene.courses) <= 10_000)
        assert len(scene.courses) <= 10_000
        await scene.archive.close()

    asyncio.run(what())


def test_what_the_gpus_of_a_job_did_is_counted_once_it_has_ended(tmp_path: Path) -> None:
    gpus = (GpuUse(uuid="a", index=0, utilization=0.25), GpuUse(uuid="b", index=1, utilization=0.75))
    over = life(
        1,
        C,
        state="COMPLETED",
        submit_time=T0 - 10,
        start_time=T0,
        end_time=T0 + 600,
        counted_time=T0 + 600,
        node_list="n1",
        gpus={"a100": 2},
    )

    def end(store: Store) -> None:
        with store.writing(C) as writer:
            writer.put_lives([over])

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running(gpus={"a100": 2}))
        await scene.tell(T0, *range(0, 601, 15), gpus=gpus)
        await scene.courses.flush()
        assert await scene.archive.call(lambda store: store.life(C, *over.key)) is None
        await scene.archive.call(end)
        await scene.see()
        scene.now += 120
        await scene.beat(lambda: not len(scene.courses))
        await scene.archive.close()
        return scene

    store = SqliteStore(asyncio.run(what()).path)
    found = store.life(C, *over.key)
    assert found is not None and found.gpu_share == pytest.approx(0.5)
    assert (found.state, found.end_time) == ("COMPLETED", T0 + 600)
    (sums,) = store.usage(UsageAsked(since=0, until=1 << 30))
    assert (sums.amounts.gpu_used_ms, sums.amounts.gpu_known_seconds) == (600_000, 1200)
    store.close()
