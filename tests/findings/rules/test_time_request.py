# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It asked for far more time than it and its like take."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding, Waste
from slurmscope.life import VANISHED, Life

DAY = 86400


def asked(limit: int | None = DAY, **fields: Any) -> Life:
    """It ran for two hours."""
    return cases.life(time_limit=limit, **fields)


def after(*earlier: Life) -> cases.Past:
    return cases.Past(works=earlier)


LONG, SHORT = cases.life(ran=50000, time_limit=DAY), cases.life(ran=3600, time_limit=DAY)

TABLE = [
    ("two hours of a day", cases.of(asked()), FIRES),
    ("just less than 30 %", cases.of(asked(RAN * 10 // 3 + 1)), FIRES),
    ("30 %", cases.of(asked(RAN * 10 // 3)), FINE),
    ("a third", cases.of(asked(3 * RAN)), FINE),
    ("all", cases.of(asked(RAN)), EXEMPT),
    ("an earlier run was long", cases.of(asked(), past=after(SHORT, LONG)), FINE),
    ("an earlier run reached its limit", cases.of(asked(), past=after(cases.life("TIMEOUT", DAY))), FINE),
    ("earlier runs were short", cases.of(asked(), past=after(SHORT, SHORT)), FIRES),
    ("that was long ago", cases.of(asked(), past=after(*[SHORT] * 10, LONG)), FIRES),
    ("that one failed", cases.of(asked(), past=after(cases.life("FAILED", 50000))), FIRES),
    ("it runs", cases.of(asked(state="RUNNING")), EXEMPT),
    ("it failed", cases.of(asked(state="FAILED")), EXEMPT),
    ("too short", cases.of(asked(ran=899)), EXEMPT),
    ("interactive", cases.of(asked(name="jupyter")), EXEMPT),
    ("no limit", cases.of(asked(None)), EXEMPT),
    ("a short limit", cases.of(asked(14399, ran=900)), EXEMPT),
    ("just long enough", cases.of(asked(14400, ran=900)), FIRES),
    ("nobody knows how it ended", cases.of(asked(state=VANISHED)), NO_DATA),
    # documented as a false positive: other inputs take longer, and no run of those is known
    ("false positive: a small input", cases.of(asked(ran=1000)), FIRES),
]


def test_it_says_what_to_change() -> None:
    found = cases.asked("time_request", cases.of(asked(), past=after(SHORT, cases.life(ran=9000))))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste == Waste()
    assert found.changes == (Change("--time", "1-00:00:00", "03:30:00", "it takes 2 h 30 min at most"),)
    assert found.headline == "it took 8 % of the time that it asked for"
    assert found.text == "It ran for 2 h 0 min of 1 d 0 h. The longest of 2 earlier runs took 2 h 30 min."


def test_it_is_never_more_than_a_note() -> None:
    found = cases.asked("time_request", cases.of(asked(ran=900)))
    assert isinstance(found, Finding)
    assert (found.severity, found.waste) == ("note", Waste())
    assert "earlier" not in found.text


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("time_request", case), expected)
