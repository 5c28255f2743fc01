# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot be, and what is told of nodes that the job does not have, costs nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from measured.agents import MIB
from measured.test_courses import T0, C, Scene, running
from store.made import life

from slurmscope.course import TRACE, Sample
from slurmscope.measure import GpuUse
from slurmscope.measured import courses as module
from slurmscope.measured import service
from slurmscope.measured.plausible import node_of, plausible
from slurmscope.measured.service import Measuring
from slurmscope.settings import Settings
from slurmscope.settings import Trace as TraceSettings
from slurmscope.store.protocol import Measured, Store, StoreError, Writer
from slurmscope.store.sqlite import SqliteStore


def traced(node: str = "n1", at: int = 0, **more: Any) -> Sample:
    told: dict[str, Any] = {"cpu_seconds": 1.0, "memory": MIB, "part": "7"} | more
    return Sample(node=node, start=float(T0 + at), end=float(T0 + at + 5), source=TRACE, **told)


WRONG: list[dict[str, Any]] = [
    {"anonymous": 1 << 60, "shared": 0},
    {"peak": 1 << 60},
    {"limit": 1 << 60},
    {"threads": 1 << 60},
    {"throttled_seconds": float(1 << 60)},
    {"gpus": (GpuUse(uuid="a", index=0, memory_used=1 << 60),)},
    {"gpus": (GpuUse(uuid="a", index=0, power=float(1 << 60)),)},
    {"gpus": tuple(GpuUse(uuid=str(at), index=at) for at in range(300))},
]


@pytest.mark.parametrize("wrong", WRONG, ids=[next(iter(one)) + str(at) for at, one in enumerate(WRONG)])
def test_numbers_that_cannot_be_are_not_counted(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running(1, node_list="n[1-16]", nodes=16), running(2))
        for node in range(1, 17):
            await scene.tell(T0, 0, 15, node=f"n{node}", **wrong)
        scene.courses.add(1, traced(at=20, memory=1 << 63))
        await scene.tell(T0, 0, 15, id_=2)
        await scene.courses.flush()
        assert (scene.tally.ignored, scene.tally.dropped) == ({"number": 17}, 0)
        await scene.archive.close()
        return scene

    scene = asyncio.run(what())
    assert scene.summary(1) is None and scene.summary(2) is not None


def test_a_job_that_cannot_be_packed_costs_no_other_in_any_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "plausible", lambda sample: True)

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(*(running(id_) for id_ in range(1, 302)))
        scene.now += 60
        scene.courses.add(1, traced(memory=1 << 63))
        scene.courses.add(2, traced(memory=1 << 90))
        scene.courses.add(3, traced(limit=1 << 70))
        for id_ in range(4, 302):
            await scene.tell(T0, 0, 15, id_=id_)
        await scene.courses.flush()
        assert (scene.tally.written, scene.tally.dropped, scene.courses.waiting) == (298, 3, 0)
        assert not scene.courses.failing
        await scene.archive.close()
        return scene

    assert asyncio.run(what()).summary(301) is not None


def refusing(monkeypatch: pytest.MonkeyPatch, *ids: int) -> None:
    """A store that does not take some jobs, for whatever reason."""
    writing = SqliteStore.writing

    @contextmanager
    def found(self: SqliteStore, cluster: str) -> Iterator[Writer]:
        with writing(self, cluster) as writer:
            put = writer.put_measured

            def put_measured(measured: Sequence[Measured]) -> None:
                if any(one.id in ids for one in measured):
                    raise StoreError("it cannot keep this")
                put(measured)

            monkeypatch.setattr(writer, "put_measured", put_measured, raising=False)
            yield writer

    monkeypatch.setattr(SqliteStore, "writing", found)


def test_what_a_store_refuses_is_tried_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, 7)

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(*(running(id_) for id_ in range(1, 21)))
        for id_ in range(1, 21):
            await scene.tell(T0, 0, 15, id_=id_)
        await scene.courses.flush()
        assert (scene.tally.written, scene.tally.dropped) == (19, 1)
        await scene.archive.close()
        return scene

    scene = asyncio.run(what())
    assert [id_ for id_ in range(1, 21) if scene.summary(id_) is None] == [7]


def test_a_store_that_takes_nothing_is_told_of_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(*(running(id_) for id_ in range(1, 151)))
        for id_ in range(1, 151):
            await scene.tell(T0, 0, 15, id_=id_)
        with monkeypatch.context() as patch:
            refusing(patch, *range(1, 101))
            with pytest.raises(StoreError):
                await scene.courses.flush()
            assert scene.courses.failing
            assert (scene.tally.written, scene.courses.waiting) == (50, 100), "those of the next hundred are written"
        await scene.courses.flush()
        assert (scene.courses.failing, scene.courses.waiting, scene.tally.dropped) == (False, 0, 0)
        await scene.archive.close()
        return scene

    assert asyncio.run(what()).summary(5) is not None


def test_one_clusters_failure_does_not_keep_the_others_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        measuring = Measuring(Settings(trace=TraceSettings(enabled=True)), list, scene.archive)
        flushed = []

        class Failing:
            cluster, waiting, failing = "beta", 3, True

            async def flush(self) -> None:
                flushed.append(self.cluster)
                raise StoreError("no")

        monkeypatch.setitem(measuring.courses, "beta", Failing())
        measuring.courses[C] = scene.courses
        await scene.see(running())
        await scene.tell(T0, 0, 15)
        assert measuring.failing
        await measuring.close()
        assert flushed == ["beta"]
        await scene.archive.close()
        return scene

    with caplog.at_level("WARNING", service.__name__):
        assert asyncio.run(what()).summary() is not None
    assert "what was measured last is not written" in caplog.text


def test_hosts_that_are_none_of_the_jobs_nodes_are_not_counted(tmp_path: Path) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running(node_list="n[1-2]", nodes=2))
        for node in ("n1", "n2", "n3", "elsewhere"):
            await scene.tell(T0, 0, 15, 30, node=node)
        for at in range(100):
            scene.courses.add(1, traced(f"made-up-{at}", 40))
        scene.courses.add(1, traced("n2.example.org", 40))
        await scene.courses.flush()
        assert scene.tally.ignored == {"host": 106}
        await scene.archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None
    assert [one.node for one in found.nodes] == ["n1", "n2"]


NAMES = [
    ("n[1-2]", "n1", "n1"),
    ("n[1-2]", "n2.example.org", "n2"),
    ("n[1-2]", "n3", None),
    ("n1.a.org,n2.a.org", "n2", "n2.a.org"),
    ("n1.a.org,n2.a.org", "n2.a.org", "n2.a.org"),
    ("n1.a.org", "whatever", "n1.a.org"),
    ("n1", "whatever", "n1"),
    ("", "whatever", "whatever"),
    ("n[1-", "whatever", "whatever"),
]


@pytest.mark.parametrize(("node_list", "host", "node"), NAMES)
def test_which_node_a_host_is(node_list: str, host: str, node: str | None) -> None:
    assert node_of(running(node_list=node_list), host) == node


def test_of_a_job_with_one_node_agent_and_trace_are_of_that_node(tmp_path: Path) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running())
        scene.courses.add(1, traced("cn-0001.example.org"))
        await scene.tell(T0, 5, 20, node="cn-0001")
        await scene.courses.flush()
        await scene.archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None and [(one.node, one.seconds) for one in found.nodes] == [("n1", 20.0)]


def test_nodes_processes_and_what_the_store_may_have_are_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def what() -> None:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running(1, node_list="n[1-500]", nodes=500), running(2))
        scene.now += 10
        for node in range(1, 501):
            for pid in range(5):
                scene.courses.add(1, traced(f"n{node}", part=str(pid)))
        scene.courses.add(2, traced())
        monkeypatch.setattr(module, "_MOST_BUCKETS", 2000)
        monkeypatch.setattr(scene.courses, "_due", list)
        await scene.beat(lambda: len(scene.courses) < 2)
        assert (len(scene.courses), scene.tally.dropped) == (1, 1)
        await scene.archive.close()

    asyncio.run(what())


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ({"user_seconds": 15.0 * 16384}, True),
        ({"user_seconds": 15.0 * 16384, "system_seconds": 1.0}, False),
        ({"core_seconds": {0: 15.0, 16383: 1.0}}, True),
        ({"core_seconds": {16384: 1.0}}, False),
        ({"core_seconds": {0: 15.0 * 16385}}, False),
        ({"swap": 1 << 48}, True),
        ({"swap": (1 << 48) + 1}, False),
        ({"reads": 15 << 32, "writes": 15 << 32}, True),
        ({"reads": (15 << 32) + 1}, False),
        ({"writes": (15 << 32) + 1}, False),
    ],
)
def test_where_numbers_begin_that_cannot_be(told: dict[str, Any], counts: bool) -> None:
    assert plausible(Sample(node="n1", start=float(T0), end=T0 + 15.0, source=TRACE, **told)) == counts


def test_a_summary_is_not_replaced_by_one_of_less(tmp_path: Path) -> None:
    """The course was forgotten (store.series_days) while the job ran on."""

    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running())
        await scene.tell(T0, *range(0, 3601, 15))
        await scene.courses.flush()
        await scene.archive.call(lambda store: store.forget("series", T0 + 90_000))
        scene.now = T0 + 2.0 * 86400
        later = 2 * 86400
        await scene.tell(T0, *range(later, later + 61, 15))
        await scene.courses.flush()
        found = scene.summary()
        assert found is not None and (found.seconds, found.cpu_seconds) == (3600.0, 7200.0)
        assert found.last == T0 + later + 60
        assert found.coverage == pytest.approx(3600 / later, rel=0.01)
        await scene.tell(T0, *range(later + 75, later + 7201, 15))
        await scene.courses.flush()
        await scene.archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None and found.seconds == 7200.0, "what is more than was known is kept"


def test_an_end_of_which_nothing_is_new_leaves_the_summary(tmp_path: Path) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        await scene.see(running())
        await scene.tell(T0, *range(0, 601, 15))
        await scene.courses.flush()
        await scene.archive.call(lambda store: store.forget("series", T0 + 90_000))
        scene.now = T0 + 2.0 * 86400
        await scene.see()
        scene.now += 120
        await scene.beat(lambda: not len(scene.courses))
        await scene.archive.close()
        return scene

    found = asyncio.run(what()).summary()
    assert found is not None and found.seconds == 600.0


def test_the_task_of_a_large_array_that_has_the_arrays_number_is_found(tmp_path: Path) -> None:
    async def what() -> Scene:
        scene = Scene(tmp_path / "history.db")
        times: dict[str, Any] = {"submit_time": T0 - 10, "start_time": T0, "end_time": T0 + 600}
        tasks = [life(1000 + at, C, array_id=1000, array_tasks=str(at), **times) for at in range(1500)]

        def put(store: Store) -> None:
            with store.writing(C) as writer:
                writer.put_lives(tasks)

        await scene.archive.call(put)
        await scene.see()
        await scene.tell(T0, 0, 15, 30, id_=1000)
        scene.now += 100
        await scene.courses.flush()
        await scene.archive.close()
        return scene

    assert asyncio.run(what()).summary(1000) is not None
