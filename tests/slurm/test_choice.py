# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which way a part is read by, which stands in, and when the better one is tried again."""

from __future__ import annotations

import asyncio
import logging

import pytest
from recorded import Recorded

from slurmscope.model import PARTS
from slurmscope.slurm.choice import PREFERENCE, Choice
from slurmscope.slurm.commands import BY_WAY, REST, WAYS, Command
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.source import Reading, SourceError, Way
from slurmscope.slurm.transport import Failed, NotFound, Output, TimedOut, Unanswered, Unreachable

PING = b'{"pings": [{"hostname": "c", "pinged": "UP", "mode": "primary"}], "meta": {"slurm": {"release": "24.11.5"}}}'


class Asked:
    """A transport that answers, or fails as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.closed = 0

    async def run(self, command: Command) -> Output:
        self.asked.append(f"{command.way} {command.part}")
        if error := self.fails.get(command.way) or self.fails.get(f"{command.way} {command.part}"):
            raise error
        if command.way == TEXT:
            return await Recorded("24.11").run(command)
        return Output(PING, (await Recorded("24.11").run(BY_WAY[TEXT]["controllers"])).marks, command.argv)

    async def close(self) -> None:
        self.closed += 1

    def since(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


class Bench:
    def __init__(self, first: str = "", ways: tuple[str, ...] = WAYS) -> None:
        self.now = 0.0
        self.commands, self.rest = Asked(), Asked()
        transports = {way: self.rest if way == REST else self.commands for way in ways}
        self.choice = Choice((Way(way, transports[way]) for way in ways), first, lambda: self.now)

    def read(self, part: str = "controllers", after: float = 0.0) -> Reading:
        self.now += after
        return asyncio.run(self.choice.read(part))

    def source(self, part: str = "controllers", after: float = 0.0) -> str:
        return self.read(part, after).source.partition(":")[0]


def test_each_part_has_an_order_and_text_can_tell_all() -> None:
    assert set(PREFERENCE) == {*PARTS, "history"}
    for part in PARTS:
        assert set(PREFERENCE[part]) == set(WAYS)
    assert {part for part in PARTS if PREFERENCE[part][0] == REST} == {
        "scheduler",
        "controllers",
        "licenses",
        "shares",
    }
    assert [way.name for way in Bench().choice.order("jobs")] == [TEXT, REST, PYSLURM, JSON]


@pytest.mark.parametrize("first", [TEXT, JSON, PYSLURM, REST])
def test_a_way_that_is_asked_for_comes_first(first: str) -> None:
    assert Bench(first).choice.order("nodes")[0].name == first


def test_slurmrestd_goes_away_text_stands_in_and_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    assert bench.source() == REST
    bench.rest.fails[REST] = Unreachable("connection refused")
    assert bench.source(after=10) == TEXT
    assert bench.source(after=10) == TEXT
    bench.rest.since()
    assert bench.source("licenses") == TEXT
    assert bench.rest.since() == []  # it is known to be away as a whole
    assert bench.choice.fallbacks == {("controllers", REST): 2, ("licenses", REST): 1}
    assert bench.source(after=20) == TEXT
    assert bench.rest.since() == ["rest controllers"]  # tried again, in vain
    bench.rest.fails.clear()
    assert bench.source(after=59) == TEXT
    assert bench.source(after=2) == REST
    said = [(record.message, record.fields["way"], record.fields["part"]) for record in caplog.records]  # type: ignore[attr-defined]
    assert said == [("a way failed, another stands in", REST, "all"), ("a way works again", REST, "all")]


def test_what_only_one_part_fails_at_costs_only_that_part() -> None:
    bench = Bench()
    bench.rest.fails["rest controllers"] = SourceError("garbage")
    assert bench.source() == TEXT
    with pytest.raises(SourceError):  # the answer of another question, from slurmrestd and by text
        bench.commands.fails["text licenses"] = SourceError("garbage")
        bench.read("licenses")
    assert bench.rest.since() == ["rest controllers", "rest licenses"]
    assert bench.source(after=10) == TEXT
    assert bench.rest.since() == []


@pytest.mark.parametrize("error", [TimedOut("killed"), Unanswered("Unable to contact slurm controller")])
def test_a_slurmctld_that_does_not_answer_is_not_asked_again_another_way(error: Exception) -> None:
    bench = Bench()
    bench.commands.fails[TEXT] = error
    with pytest.raises(type(error)):
        bench.read("jobs")
    assert bench.commands.since() == ["text jobs"]
    assert bench.rest.since() == []
    assert bench.choice.fallbacks == {}


def test_a_slurmctld_that_answers_again_is_asked_at_once() -> None:
    """Text is not left alone for what slurmctld did: there is nothing better to turn to."""
    bench = Bench(ways=(TEXT, JSON, PYSLURM))
    bench.commands.fails[TEXT] = TimedOut("killed")
    for _ in range(3):
        with pytest.raises(TimedOut):
            bench.read("controllers", after=1)
    bench.commands.fails.clear()
    assert bench.source("controllers", after=1) == TEXT


def test_it_may_be_slurmrestd_that_hangs() -> None:
    bench = Bench()
    bench.rest.fails[REST] = TimedOut("10 s")
    assert bench.source() == TEXT
    assert bench.source() == TEXT
    assert bench.rest.since() == ["rest controllers"]


def test_a_login_node_that_cannot_be_reached_is_not_tried_three_times_at_once() -> None:
    bench = Bench(ways=(TEXT, JSON, PYSLURM))
    for way in (TEXT, JSON, PYSLURM):
        bench.commands.fails[way] = Unreachable("no route to host")
    with pytest.raises(Unreachable, match="no route"):
        bench.read("jobs")
    assert bench.commands.since() == ["text jobs"]


def test_ways_that_are_not_there_are_nobody_s_loss(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.commands.fails[TEXT] = NotFound("squeue not found")
    bench.commands.fails[PYSLURM] = bench.commands.fails[JSON] = NotFound("none")
    assert bench.source("controllers") == REST
    with pytest.raises(NotFound, match="squeue not found"):
        bench.read("limits")
    assert bench.choice.fallbacks == {}
    assert not caplog.records


def test_a_way_that_was_asked_for_and_is_not_there_is_said(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(PYSLURM)
    bench.commands.fails[PYSLURM] = NotFound("PySlurm 22.5.3 is not for Slurm 24.11.5")
    assert bench.source("jobs") == TEXT
    assert bench.source("nodes") == TEXT
    assert bench.choice.fallbacks == {("jobs", PYSLURM): 1, ("nodes", PYSLURM): 1}
    assert [record.fields["part"] for record in caplog.records] == ["jobs", "nodes"]  # type: ignore[attr-defined]


def test_of_several_errors_the_one_that_is_more_than_absence_is_told() -> None:
    bench = Bench(ways=(TEXT, JSON))
    bench.commands.fails[TEXT] = NotFound("squeue not found")
    bench.commands.fails[JSON] = Failed("squeue exited with 1")
    with pytest.raises(Failed, match="exited with 1"):
        bench.read("jobs")


def test_what_every_way_has_cost_is_told_by_command() -> None:
    bench = Bench()
    bench.rest.fails[REST] = Unreachable("refused")
    bench.read()
    costs = bench.choice.costs
    assert (costs["controllers", "slurmrestd"].runs, costs["controllers", "slurmrestd"].failures) == (1, 1)
    assert (costs["controllers", "scontrol"].runs, costs["controllers", "scontrol"].failures) == (1, 0)
    assert costs["controllers", "scontrol"].bytes > 0


def test_text_and_json_of_one_command_are_counted_apart() -> None:
    bench = Bench(ways=(TEXT, JSON))
    bench.read()
    bench.commands.fails[TEXT] = SourceError("garbage")
    bench.read()
    counted = {command: (cost.runs, cost.failures) for (_, command), cost in bench.choice.costs.items()}
    assert counted == {"scontrol": (2, 1), "scontrol --json": (1, 0)}


def test_a_part_that_hangs_rests_by_itself_and_ever_longer(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(REST)
    bench.rest.fails["rest jobs"] = TimedOut("10 s")
    tries = 0
    for _ in range(60):
        assert bench.source("jobs", after=10) == TEXT
        assert bench.source("controllers") == REST
        tries += bench.rest.since().count("rest jobs")
    assert tries <= 6  # after 30, 60, 120, 240 s
    assert len([record for record in caplog.records if "failed" in record.message]) == 1


def test_a_transport_that_ways_share_is_closed_once() -> None:
    bench = Bench()
    asyncio.run(bench.choice.close())
    assert (bench.commands.closed, bench.rest.closed) == (1, 1)


def test_no_way_at_all() -> None:
    bench = Bench(ways=(REST,))
    with pytest.raises(NotFound, match="none of the ways that are set up tells limits"):
        bench.read("limits")
