# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It ran into its time limit."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding, Waste
from slurmscope.life import VANISHED, Life

LIMIT = 14400


def over(**fields: Any) -> Life:
    return cases.life("TIMEOUT", LIMIT + 20, **fields)


def after(*earlier: Life) -> cases.Past:
    return cases.Past(works=earlier)


TABLE = [
    ("it did", cases.of(over()), FIRES),
    ("it did not", cases.of(), FINE),
    ("it failed", cases.of(cases.life("FAILED", LIMIT - 1)), FINE),
    ("it runs", cases.of(cases.life("RUNNING")), EXEMPT),
    ("it waits", cases.of(cases.life("PENDING")), EXEMPT),
    ("interactive", cases.of(over(name="jupyter")), EXEMPT),
    ("nobody told, but how it ended", cases.of(over(told={"steps": (), "cpu_seconds": None})), FIRES),
    ("nobody knows how it ended", cases.of(cases.life(VANISHED, LIMIT)), NO_DATA),
    # documented as a false positive: the next one goes on where this one was
    ("false positive: it goes on in the next", cases.of(over(), past=after(over(), over())), FIRES),
]


def test_it_asks_for_what_earlier_runs_took() -> None:
    earlier = [cases.life(ran=10000), cases.life(ran=18000, time_limit=30000), cases.life("FAILED", 40000)]
    found = cases.asked("timeout", cases.of(over(), past=after(*earlier)))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.waste == Waste()
    assert found.changes == (Change("--time", "04:00:00", "07:00:00", "earlier runs took up to 5 h 0 min"),)
    assert found.headline == "it was ended by its time limit of 4 h 0 min"
    assert "2 earlier runs completed, the longest after 5 h 0 min" in found.text


def test_a_run_that_is_longer_than_ever_may_have_hung() -> None:
    found = cases.asked("timeout", cases.of(over(), past=after(cases.life(ran=3600))))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert "whether it hung" in found.advice


def test_without_earlier_runs_it_makes_nothing_up() -> None:
    found = cases.asked("timeout", cases.of(over()))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert "checkpoints" in found.advice


def test_it_says_that_it_is_not_the_first() -> None:
    found = cases.asked("timeout", cases.of(over(), past=after(over(), over(), cases.life(), over())))
    assert isinstance(found, Finding)
    assert "So ended 3 runs in a row." in found.text


def test_tasks_of_one_array_are_one_run() -> None:
    array = [over(array_id=4)] * 5
    found = cases.asked("timeout", cases.of(over(array_id=5), past=after(*[over(array_id=5)] * 3, *array)))
    assert isinstance(found, Finding)
    assert "So ended 2 runs in a row." in found.text


def test_nothing_else_is_told_of_the_same_end() -> None:
    assert cases.told(cases.of(over(), past=after(over(), over(), over()))) == ["timeout"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("timeout", case), expected)
