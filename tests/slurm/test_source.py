# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A way of reading parts: what it costs, what it says it was, and what it makes of answers that are none."""

from __future__ import annotations

import asyncio
import logging

import pytest
from recorded import MARKS, Recorded

from slurmscope.slurm.commands import BY_PART, Command
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.source import SourceError, Way
from slurmscope.slurm.transport import Failed, Output


class Saying:
    """A transport that says one thing."""

    def __init__(self, data: bytes, warnings: str = "") -> None:
        self.output = Output(data, MARKS, (), warnings)

    async def run(self, command: Command) -> Output:
        return self.output

    async def close(self) -> None:
        """Nothing is kept open."""


class Failing(Saying):
    async def run(self, command: Command) -> Output:
        raise Failed("no")


def test_what_it_costs_is_counted_by_part_and_command() -> None:
    way = Way(TEXT, Recorded("24.11"))
    for _ in range(2):
        asyncio.run(way.read("jobs"))
    asyncio.run(way.read("nodes"))
    cost = way.costs["jobs", "squeue"]
    assert (cost.runs, cost.failures, cost.rows_skipped) == (2, 0, 0)
    assert cost.bytes > 1000 and cost.seconds >= cost.last_seconds > 0
    assert set(way.costs) == {("jobs", "squeue"), ("nodes", "scontrol")}


def test_a_failure_is_counted() -> None:
    way = Way(TEXT, Failing(b""))
    with pytest.raises(Failed):
        asyncio.run(way.read("jobs"))
    assert (way.costs["jobs", "squeue"].runs, way.costs["jobs", "squeue"].failures) == (1, 1)


def test_an_answer_that_is_none_is_told_with_what_was_asked() -> None:
    way = Way(TEXT, Saying(b"Maintenance until 5 pm\n"))  # as a recording made by hand, without its arguments
    with pytest.raises(SourceError, match=r"^scontrol show nodes answered something else: expected NodeName=…, found"):
        asyncio.run(way.read("nodes"))
    assert way.costs["nodes", "scontrol"].failures == 1


def test_what_is_said_at_every_poll_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    data = b"LicenseName=a Total=1 Used=0 Free=1\nLicenseName=b Total=many\n"
    way = Way(TEXT, Saying(data, "slurm_load_licenses: careful"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert asyncio.run(way.read("licenses")).rows_skipped == 1
    assert [record.message for record in caplog.records] == [
        "a command warned",
        "a row could not be read and is left out",
    ]
    assert way.costs["licenses", "scontrol"].rows_skipped == 3


def test_the_source_names_the_way_and_what_was_asked() -> None:
    assert asyncio.run(Way(TEXT, Recorded("24.11")).read("jobs")).source == "text:squeue"
    assert (
        asyncio.run(Way(TEXT, Saying(b"Slurmctld(primary) at c is UP\n")).read("controllers")).source == "text:scontrol"
    )
    assert BY_PART["jobs"].program == "squeue"
