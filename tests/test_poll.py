# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""When the cluster is asked, and what is kept when it does not answer.

Time is not waited for: the poll's own clock is moved by hand, and the source says what the cluster would.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from slurmscope.model import PARTS, Config, Controller, Job, Snapshot
from slurmscope.poll import FAST_PARTS, Poll
from slurmscope.settings import Cluster, Slurm
from slurmscope.settings import Poll as PollSettings
from slurmscope.slurm.source import Costs, Reading, SourceError, Window
from slurmscope.slurm.transport import Failed, NotFound, TimedOut

SLOW = {"partitions", "reservations", "licenses", "shares", "limits", "accounting", "coordinators"}


class FakeSource:
    """Answers every part with something, unless told to fail."""

    def __init__(self) -> None:
        self.costs: Costs = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        self.asked: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.controller_up = True
        self.at_once = self.most_at_once = 0
        self.hold: asyncio.Event | None = None
        self.settings: dict[str, str] = {}
        self.spend: Callable[[str], None] = lambda part: None

    def fail_all(self, error: Exception) -> None:
        self.fails = dict.fromkeys(PARTS, error)

    async def read(self, part: str, window: Window | None = None) -> Reading:
        self.asked.append(part)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.hold is not None and part == "accounting":
            await self.hold.wait()
        self.spend(part)
        if part in self.fails:
            raise self.fails[part]
        value: Any = ()
        if part == "config":
            value = Config("fake", "24.11.5", None, self.settings)
        elif part == "controllers":
            value = (Controller("ctl", "primary", self.controller_up),)
        return Reading(value, "fake", rows_skipped=1)

    async def script(self, job: Job) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is kept open."""

    def since(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


class Bench:
    """A poll whose time is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: str = "") -> None:
        self.now = 1000.0
        monkeypatch.setattr("slurmscope.poll.time.monotonic", lambda: self.now)
        self.source = FakeSource()
        self.published: list[tuple[Snapshot, frozenset[str]]] = []
        settings = Cluster(poll=PollSettings(interval=10, slow_interval=60), slurm=Slurm(cluster=cluster))
        self.poll = Poll(self.source, settings, self._publish, clock=lambda: self.now)

    async def _publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self.published.append((snapshot, fresh))

    def fresh(self) -> frozenset[str]:
        """The parts that were published since the last time."""
        published, self.published = self.published, []
        return frozenset().union(*(fresh for _, fresh in published))

    def once(self, after: float = 0.0) -> list[str]:
        self.now += after
        asyncio.run(self.poll.once())
        return self.source.since()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_the_first_poll_asks_for_everything_side_by_side(bench: Bench) -> None:
    assert sorted(bench.once()) == sorted(PARTS)
    assert bench.source.most_at_once == len(PARTS)
    assert bench.poll.up
    assert bench.poll.snapshot.cluster == "fake"


def test_fast_and_slow_parts_have_their_own_intervals(bench: Bench) -> None:
    asked = Counter(bench.once())
    for _ in range(60):  # ten minutes
        asked.update(bench.once(10))
    assert {part: asked[part] for part in FAST_PARTS} == dict.fromkeys(FAST_PARTS, 61)
    assert {part: asked[part] for part in SLOW} == dict.fromkeys(SLOW, 11)
    assert asked["config"] == 1


def test_a_name_that_is_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, cluster="mine")
    bench.once()
    assert bench.poll.snapshot.cluster == "mine"


def test_never_two_polls_at_once(bench: Bench) -> None:
    async def both() -> None:
        await asyncio.gather(bench.poll.once(), bench.poll.once())

    asyncio.run(both())
    assert bench.source.most_at_once == len(PARTS)
    assert Counter(bench.source.asked)["jobs"] == 1  # the second found nothing due


def test_a_part_that_fails_keeps_its_value_and_grows_old(bench: Bench) -> None:
    bench.once()
    good = bench.poll.snapshot.jobs
    bench.source.fails["jobs"] = TimedOut("squeue was killed")
    bench.once(10)
    part = bench.poll.snapshot.jobs
    assert (part.value, part.time, part.error) == (good.value, good.time, "squeue was killed")
    assert not bench.poll.up
    assert bench.poll.snapshot.nodes.time == bench.now
    del bench.source.fails["jobs"]
    bench.once(10)
    assert bench.poll.snapshot.jobs.good
    assert bench.poll.up


def test_a_part_that_fails_alone_is_asked_for_ever_less_often(bench: Bench) -> None:
    bench.once()
    bench.source.fails["jobs"] = SourceError("nonsense")
    tries = [bench.now for _ in range(120) if "jobs" in bench.once(10)]
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps[:5] == [10, 20, 40, 80, 160]
    assert max(gaps) == 300
    assert bench.poll.snapshot.jobs.failures == len(tries)


def test_while_nothing_answers_only_ping_is_run(bench: Bench) -> None:
    bench.once()
    before = bench.poll.snapshot
    bench.source.fail_all(TimedOut("killed"))
    assert set(FAST_PARTS) <= set(bench.once(10))
    for _ in range(30):
        assert bench.once(10) == ["controllers"]
        assert not bench.poll.up
    after = bench.poll.snapshot
    assert all(after.part(part).value == before.part(part).value for part in PARTS)
    assert all(after.part(part).time == before.part(part).time for part in PARTS)
    assert all(after.part(part).error for part in FAST_PARTS)
    assert bench.published[-1][0] is after, "readers are told each time, so that they see it age"


def test_when_it_answers_again_everything_is_asked_at_once(bench: Bench) -> None:
    bench.once()
    bench.source.fail_all(TimedOut("killed"))
    for _ in range(20):
        bench.once(10)
    bench.source.fails = {}
    assert sorted(bench.once(10)) == sorted((*PARTS, "controllers"))
    assert bench.poll.up
    assert all(bench.poll.snapshot.part(part).good for part in PARTS)


def test_a_ping_that_says_down_is_no_answer(bench: Bench) -> None:
    bench.once()
    bench.source.fail_all(TimedOut("killed"))
    bench.once(10)
    bench.source.fails.pop("controllers")
    bench.source.controller_up = False
    assert bench.once(10) == ["controllers"]
    assert not bench.poll.up


def test_a_ping_that_says_down_is_enough_to_stop_asking(bench: Bench) -> None:
    """A controller that is not there is told at once by ping, while the others take their time to fail."""
    bench.once()
    bench.source.fail_all(Failed("Unable to contact slurm controller"))
    bench.source.fails.pop("controllers")
    bench.source.controller_up = False
    bench.once(10)
    assert bench.once(10) == ["controllers"]
    bench.source.fails, bench.source.controller_up = {}, True
    assert set(bench.once(10)) == set(PARTS)


def test_a_slurmctld_that_pings_but_answers_nothing_else_is_spared(bench: Bench) -> None:
    bench.once()
    bench.source.fails = dict.fromkeys(("jobs", "nodes", "scheduler"), TimedOut("killed"))
    asked = Counter(part for _ in range(30) for part in bench.once(10))
    assert asked["controllers"] == 30
    assert asked["jobs"] < 8


def test_without_slurm_here_ping_would_tell_nothing(bench: Bench) -> None:
    """Commands that are not there are looked for again, with back-off, each on its own."""
    bench.source.fail_all(NotFound("squeue not found in PATH"))
    bench.once()
    assert "jobs" in bench.once(10)
    bench.source.fails = {}
    for _ in range(3):
        bench.once(300)
    assert bench.poll.up


def test_a_ping_that_hangs_on_a_dead_primary_is_not_down(bench: Bench) -> None:
    bench.once()
    bench.source.fails["controllers"] = TimedOut("scontrol was killed")
    bench.once(10)
    assert bench.poll.up


def test_a_fault_of_ours_costs_one_part(bench: Bench) -> None:
    bench.once()
    bench.source.fails["jobs"] = ZeroDivisionError("oops")
    bench.once(10)
    assert bench.poll.snapshot.jobs.error == "ZeroDivisionError: oops"
    assert bench.poll.snapshot.nodes.good


def test_a_poll_that_fails_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    async def fail(snapshot: Snapshot, fresh: frozenset[str]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(bench.poll, "_publish", fail)
    assert len(_sleeps(monkeypatch, bench, 3)) == 3


def test_fresh_parts_are_named(bench: Bench) -> None:
    bench.once()
    assert bench.fresh() == frozenset(PARTS)
    bench.source.fails["nodes"] = SourceError("x")
    bench.once(10)
    assert bench.fresh() == frozenset(FAST_PARTS) - {"nodes"}


def test_jobs_are_shown_before_a_hanging_slurmdbd_is_given_up(bench: Bench) -> None:
    async def poll() -> None:
        bench.source.hold = asyncio.Event()
        task = asyncio.create_task(bench.poll.once())
        for _ in range(20):
            await asyncio.sleep(0)
        assert "jobs" in bench.fresh()
        assert not task.done()
        bench.source.hold.set()
        await task

    asyncio.run(poll())
    assert bench.fresh() == frozenset({"accounting", "coordinators", "controllers"})


def test_without_slurmdbd_it_is_not_asked_for(bench: Bench) -> None:
    bench.source.settings = {"AccountingStorageType": "accounting_storage/none"}
    bench.once()
    asked = [part for _ in range(20) for part in bench.once(60)]
    assert not {"accounting", "coordinators"} & set(asked)
    assert "shares" in asked


def test_a_slurmdbd_that_tells_nothing_does_not_make_the_cluster_be_down(bench: Bench) -> None:
    for part in ("accounting", "coordinators"):
        bench.source.fails[part] = Failed("sacctmgr exited with 1: Access/permission denied")
    bench.once()
    assert bench.poll.up
    assert bench.poll.snapshot.coordinators.value is None
    assert bench.poll.snapshot.shares.good


def test_a_name_that_could_not_be_read_is_asked_for_soon(bench: Bench) -> None:
    """Without it nothing can be shown; an hour, the interval of the part, would be long."""
    bench.source.fails["config"] = TimedOut("killed")
    bench.once()
    del bench.source.fails["config"]
    assert "config" in bench.once(10)
    assert bench.poll.snapshot.cluster == "fake"


def _sleeps(monkeypatch: pytest.MonkeyPatch, bench: Bench, polls: int) -> list[float]:
    """How long the loop sleeps after each of so many polls."""
    slept: list[float] = []
    real = asyncio.sleep

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        if seconds == 0:  # the source's own
            await real(0)
            return
        slept.append(seconds)
        bench.now += seconds
        if len(slept) == polls:
            raise Enough

    monkeypatch.setattr("slurmscope.poll.asyncio.sleep", sleep)
    with pytest.raises(Enough):
        asyncio.run(bench.poll.run())
    return slept


def _slow(bench: Bench, slow: str, seconds: float) -> None:
    def spend(part: str) -> None:
        bench.now += seconds if part == slow else 0

    bench.source.spend = spend


@pytest.mark.parametrize(("takes", "rest"), [(0.5, 9.5), (1.9, 8.1), (5.0, 20.0), (100.0, 300.0)])
def test_a_slow_slurmctld_is_given_rest(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, takes: float, rest: float
) -> None:
    _slow(bench, "jobs", takes)
    assert _sleeps(monkeypatch, bench, 3) == pytest.approx([rest] * 3)


@pytest.mark.parametrize("part", ["controllers", "accounting", "coordinators"])
def test_others_that_are_slow_are_not_taken_for_slurmctld(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, part: str
) -> None:
    _slow(bench, part, 8.0)
    assert _sleeps(monkeypatch, bench, 1) == pytest.approx([2.0])


def test_jobs_are_what_the_source_gave(bench: Bench) -> None:
    bench.once()
    value: tuple[Job, ...] | None = bench.poll.snapshot.jobs.value
    assert value == ()
    assert bench.poll.snapshot.jobs.rows_skipped == 1
