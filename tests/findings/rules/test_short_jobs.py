# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Many very short jobs of the same kind."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding, Waste
from slurmscope.life import VANISHED, Life


def short(ran: int = 20, **fields: Any) -> Life:
    return cases.life(ran=ran, **fields)


def among(others: int, of: Life | None = None, other: Life | None = None) -> Case:
    """A job, and so many others of that day."""
    life = of or short()
    return cases.of(life, past=cases.Past(late=[*[other or short()] * others, life]))


TABLE = [
    ("fifty", among(49), FIRES),
    ("fewer", among(48), FINE),
    ("each just short enough", among(49, short(59), short(59)), FIRES),
    ("each a little longer", among(49, short(60), short(60)), FINE),
    ("this one is long", among(80, short(600)), FINE),
    ("the others are long", among(80, other=short(600)), FINE),
    ("the others failed", among(80, other=short(state="FAILED")), FINE),
    ("alone", cases.of(short()), FINE),
    ("it runs", among(80, cases.life("RUNNING", 20)), EXEMPT),
    ("it failed", among(80, short(state="FAILED")), EXEMPT),
    ("it never ran", among(80, cases.life("CANCELLED", 0, node_list="")), EXEMPT),
    ("nobody knows how it ended", among(80, short(state=VANISHED)), NO_DATA),
    # documented as a false positive: steps of a workflow, by one name
    ("false positive: a workflow", among(100, short(name="snakejob.map.sh"), short(name="snakejob.map.sh")), FIRES),
]


def test_it_says_how_many() -> None:
    found = cases.asked("short_jobs", among(59, short(10), short(30)))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste == Waste()
    assert found.changes == ()
    assert found.headline == "one of 60 or more jobs that took less than 1 min 0 s"
    assert "At least 60 jobs of this name ended within 1 d 0 h" in found.text
    assert "half of them took 30 s or less" in found.text
    assert "--array" in found.advice


def test_tasks_of_an_array_are_to_be_packed() -> None:
    found = cases.asked("short_jobs", among(59, short(array_id=7, array_tasks="3")))
    assert isinstance(found, Finding)
    assert "in one task of the array" in found.advice


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("short_jobs", case), expected)
