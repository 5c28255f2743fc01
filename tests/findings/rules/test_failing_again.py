# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The same work fails time after time."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding, Waste
from slurmscope.life import VANISHED, Life


def ended(state: str = "FAILED", **fields: Any) -> Life:
    return cases.life(state, **fields)


def after(life: Life, *earlier: Life) -> Case:
    """The latest first."""
    return cases.of(life, past=cases.Past(works=earlier))


ALL = [ended(), ended()]

TABLE = [
    ("for the third time", after(ended(), *ALL), FIRES),
    ("for the second time", after(ended(), ended()), FINE),
    ("the first of all", after(ended()), FINE),
    ("each in its own way", after(ended(), ended("OUT_OF_MEMORY"), ended("TIMEOUT")), FIRES),
    ("it worked in between", after(ended(), ended(), cases.life(), ended()), FINE),
    ("it was cancelled in between", after(ended(), ended(), ended("CANCELLED"), ended()), FIRES),
    ("a node failed in between", after(ended(), ended(), ended("NODE_FAIL"), ended()), FIRES),
    ("cancelled, and not failed", after(ended(), *[ended("CANCELLED")] * 5), FINE),
    ("it works now", after(cases.life(), *ALL), FINE),
    ("other tasks of its array", after(ended(array_id=5), *[ended(array_id=5)] * 5), FINE),
    ("tasks of earlier arrays", after(ended(array_id=5), ended(array_id=4), ended(array_id=3)), FIRES),
    ("tasks of one earlier array", after(ended(), *[ended(array_id=4)] * 50), FINE),
    ("of two", after(ended(), *[ended(array_id=4)] * 50, *[ended(array_id=3)] * 50), FIRES),
    ("some of its tasks completed", after(ended(), ended(), ended(array_id=4), cases.life(array_id=4)), FINE),
    ("one never ran", after(ended(), ended(), ended(node_list="")), FINE),
    ("it runs", after(cases.life("RUNNING"), *ALL), EXEMPT),
    ("it never ran", after(ended("CANCELLED", node_list=""), *ALL), EXEMPT),
    ("interactive", after(ended(name="jupyter"), *ALL), EXEMPT),
    ("nobody knows how it ended", after(ended(VANISHED), *ALL), NO_DATA),
    # documented as a false positive: other work by the same name
    ("false positive: another script", after(ended(name="job.sh"), *[ended(name="job.sh")] * 2), FIRES),
]


def test_it_says_what_it_cost_and_since_when() -> None:
    life = ended(gpus={"a100": 1})
    found = cases.asked("failing_again", after(life, ended("OUT_OF_MEMORY"), ended(), cases.life()))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    # of this run: the others tell of themselves
    assert found.waste == Waste(4 * RAN, RAN, 8 * GIB * RAN)
    assert found.changes == ()
    assert found.headline == "this work failed 3 times in a row"
    assert "(2 x FAILED and 1 x OUT_OF_MEMORY), since 2023-11-15 00:15:00 UTC" in found.text
    assert "It last completed as job 7" in found.text
    assert "what has changed since" in found.advice


def test_work_that_never_completed() -> None:
    found = cases.asked("failing_again", after(ended(), *ALL))
    assert isinstance(found, Finding)
    assert "completed" not in found.text + found.advice


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("failing_again", case), expected)


@pytest.mark.parametrize(("state", "told"), [("TIMEOUT", "timeout"), ("OUT_OF_MEMORY", "out_of_memory")])
def test_a_cause_that_another_rule_knows_is_told_instead(state: str, told: str) -> None:
    assert cases.told(after(ended(state), *[ended(state)] * 3)) == [told]
