# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The memory in use grew all the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, START

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Moment


def grows(size: Callable[[float], float | None], count: int = 240) -> list[Moment]:
    """Memory in GiB, as a function of the hours since it began."""

    def at(number: int) -> int | None:
        found = size(number * 30 / 3600)
        return None if found is None else int(found * GIB)

    return cases.line(count, memory=at)


def of(moments: list[Moment], state: str = "RUNNING", **fields: Any) -> Case:
    return cases.of(cases.life(state, **fields), cases.summary(), moments=moments)


noise = random.Random(7)
STEADY = grows(lambda hours: 1 + 3 * hours)

TABLE = [
    ("without a pause", of(STEADY), FIRES),
    ("when it has ended", of(STEADY, "COMPLETED"), FIRES),
    ("with noise", of(grows(lambda hours: 1 + 3 * hours + noise.uniform(-0.3, 0.3))), FIRES),
    ("just enough since the middle", of(grows(lambda hours: 4 + 1.8 * hours)), FIRES),
    ("just too little", of(grows(lambda hours: 4 + 1.7 * hours)), FINE),
    ("by half, of a large limit", of(grows(lambda hours: 0.1 + 1.5 * hours), memory=100 * GIB), FIRES),
    ("by half, and still small", of(grows(lambda hours: 0.01 + 0.5 * hours), memory=100 * GIB), FINE),
    ("by less, of a large limit", of(grows(lambda hours: 6 + 1.5 * hours), memory=100 * GIB), FINE),
    ("level", of(grows(lambda hours: 5)), FINE),
    ("up and down", of(grows(lambda hours: 4 + 3 * (int(hours * 20) % 2))), FINE),
    ("it shrinks", of(grows(lambda hours: 7 - 3 * hours)), FINE),
    ("it comes to rest", of(grows(lambda hours: min(1 + 4 * hours, 5.8))), FINE),
    ("a jump", of(grows(lambda hours: 1 if hours < 1 else 6)), FINE),
    ("only while it starts", of(grows(lambda hours: min(40 * hours, 6))), FINE),
    ("too short", of(STEADY, "COMPLETED", ran=3000), EXEMPT),
    ("interactive", of(STEADY, name="jupyter"), EXEMPT),
    ("nothing is kept of its course", cases.of(cases.life("RUNNING"), cases.summary()), NO_DATA),
    ("a few moments", of(STEADY[:39]), NO_DATA),
    ("memory was not measured", of(grows(lambda hours: None)), NO_DATA),
    ("hardly measured", of(grows(lambda hours: 1 + 3 * hours if int(hours * 120) % 3 == 0 else None)), NO_DATA),
    # documented as a false positive: it gathers its results, and ends as it should
    ("false positive: results in memory", of(grows(lambda hours: 0.5 + 2.5 * hours), "COMPLETED"), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("memory_growth", case), expected)


def test_of_one_that_runs_it_says_when_its_limit_is_reached() -> None:
    found = cases.asked("memory_growth", of(STEADY))
    assert isinstance(found, Finding)
    assert found.headline == "its memory grew all the time, by 3.0 GiB an hour"
    assert found.text == (
        "It grew by 3.0 GiB an hour without a pause, and came to 7.0 GiB, 87 % of what it has. "
        "At that pace its limit is reached in 20 min 0 s."
    )
    assert found.severity == "bad"
    assert found.figures["seconds_left"] == pytest.approx(1200, abs=1)


def test_it_is_no_harm_where_its_time_is_up_before() -> None:
    case = cases.of(cases.life("RUNNING", time_limit=8000), cases.summary(), moments=STEADY, now=START + 7200)
    found = cases.asked("memory_growth", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"


def test_of_one_that_has_ended_nothing_is_foretold() -> None:
    case = of(STEADY, "COMPLETED")
    found = cases.asked("memory_growth", case)
    assert isinstance(found, Finding)
    assert found.text == "It grew by 3.0 GiB an hour without a pause, and came to 7.0 GiB, 87 % of what it has."
    assert (found.severity, found.changes) == ("note", ())
    assert cases.told(case) == ["memory_growth"]
