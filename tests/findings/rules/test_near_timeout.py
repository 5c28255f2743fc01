# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It still runs, and its time limit is near."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, START

from slurmscope import life as lifes
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding, Waste
from slurmscope.life import Life

LIMIT = 14400


def runs(**fields: Any) -> Life:
    return cases.life("RUNNING", **fields)


def at(ran: int, of: Life | None = None, *earlier: Life) -> Case:
    return cases.of(of or runs(), past=cases.Past(works=earlier), now=START + ran)


DONE = cases.life(ran=13800)

TABLE = [
    ("nine tenths", at(12960), FIRES),
    ("less", at(12959), FINE),
    ("a quarter of an hour is left", at(2700, runs(time_limit=3600)), FIRES),
    ("more is left", at(2699, runs(time_limit=3600)), FINE),
    ("it was given more time", at(13000, runs(end_time=START + 86400)), FIRES),
    ("beyond its limit", at(LIMIT + 30), FIRES),
    ("earlier runs took as long", at(13000, None, DONE, DONE, DONE), FINE),
    ("it takes longer than they did", at(13801, None, DONE, DONE, DONE), FIRES),
    ("too few of them", at(13000, None, DONE, DONE), FIRES),
    ("one of them failed", at(13000, None, DONE, cases.life("FAILED"), DONE, DONE), FIRES),
    ("they had more time", at(13000, None, *[cases.life(ran=20000)] * 3), FIRES),
    ("it has ended", cases.of(cases.life(ran=LIMIT - 10)), EXEMPT),
    ("it waits", cases.of(cases.life("PENDING")), EXEMPT),
    ("interactive", at(13000, runs(name="jupyter")), EXEMPT),
    ("no limit", at(13000, runs(time_limit=None)), EXEMPT),
    ("a short limit", at(3500, runs(time_limit=3599)), EXEMPT),
    ("it may be gone", at(13000, lifes.unseen(runs(), START + 12000)), NO_DATA),
    ("nobody has looked since it must have ended", at(LIMIT + 3601), NO_DATA),
    # documented as a false positive: it is about to end
    ("false positive: almost done", at(14300), FIRES),
]


@pytest.mark.parametrize("ran", [LIMIT, LIMIT + 30])
def test_when_its_time_is_over(ran: int) -> None:
    found = cases.asked("near_timeout", at(ran))
    assert isinstance(found, Finding)
    assert found.headline == "its time limit is over, and may end it now"
    assert "Slurm may end it at any time since 2023-11-15" in found.text
    assert found.figures["left"] == 0


def test_where_no_earlier_run_is_asked_for() -> None:
    assert isinstance(cases.asked("near_timeout", at(13000), runs=0), Finding)


def test_it_says_when() -> None:
    found = cases.asked("near_timeout", at(13200))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste == Waste()
    assert found.changes == ()
    assert found.headline == "its time limit ends it in 20 min 0 s"
    assert found.text == ("It has run for 3 h 40 min of 4 h 0 min (92 %). Slurm ends it at 2023-11-15 02:15:00 UTC.")


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("near_timeout", case), expected)
