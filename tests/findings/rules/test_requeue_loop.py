# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It is started again and again."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN, START

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding, Waste
from slurmscope.life import REQUEUED, VANISHED, Life


def tried(state: str = REQUEUED, **fields: Any) -> Life:
    given: dict[str, Any] = {"start_time": START, "node_list": "n1"}
    return cases.life(state, **(given | fields))


def after(life: Life, *earlier: Life) -> Case:
    return cases.of(life, past=cases.Past(tries=[*earlier, life]))


TABLE = [
    ("for the third time", after(tried(), tried(), tried()), FIRES),
    ("for the second time", after(tried(), tried()), FINE),
    ("once", after(tried()), FINE),
    ("it runs for the third time", after(cases.life("RUNNING"), tried(), tried("FAILED")), FIRES),
    ("nodes failed under it", after(tried(), tried("NODE_FAIL"), tried("BOOT_FAIL")), FINE),
    ("a node failed this time", after(tried("NODE_FAIL"), tried(), tried(), tried()), FINE),
    ("each ran up to its limit", after(cases.life("RUNNING"), *[tried(ran=12960)] * 9), FINE),
    ("each ran nearly as long", after(cases.life("RUNNING"), *[tried(ran=12950)] * 2), FIRES),
    ("it has no limit", after(cases.life("RUNNING"), *[tried(ran=12960, time_limit=None)] * 2), FIRES),
    ("it failed for the third time", after(tried("FAILED"), tried(), tried()), FIRES),
    ("it got through", after(cases.life(), tried(), tried(), tried()), FINE),
    ("put aside for others", after(tried(), tried("PREEMPTED"), tried("PREEMPTED")), FINE),
    ("put aside itself", after(tried("PREEMPTED"), tried(), tried(), tried()), FINE),
    ("one never began", after(tried(), tried(), tried("CANCELLED", node_list="")), FINE),
    ("one was requeued at once", after(tried(), tried(), tried(start_time=None)), FIRES),
    ("it waits", after(cases.life("PENDING"), tried(), tried(), tried()), EXEMPT),
    ("nobody knows how it ended", after(cases.life(VANISHED), tried(), tried()), NO_DATA),
    # documented as a false positive: it requeues itself every two hours of four, and goes on from a checkpoint
    ("false positive: on purpose", after(tried(), *[tried()] * 9), FIRES),
]


def test_it_says_what_it_cost() -> None:
    found = cases.asked("requeue_loop", after(tried(gpus={"a100": 1}), tried(), tried(ran=3600)))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    # of this attempt: the others tell of themselves
    assert found.waste == Waste(4 * RAN, RAN, 8 * GIB * RAN)
    assert found.changes == ()
    assert found.headline == "it was started 3 times"
    assert "since 2023-11-14 22:15:00 UTC; all attempts together took 20 core-hours" in found.text
    assert "--no-requeue" in found.advice


def test_what_it_does_now_is_not_lost_yet() -> None:
    found = cases.asked("requeue_loop", after(cases.life("RUNNING"), tried(), tried()))
    assert isinstance(found, Finding)
    assert found.waste == Waste()


def test_nothing_else_is_told_of_the_same_attempts() -> None:
    earlier = [tried("FAILED")] * 3
    life = tried("FAILED")
    assert cases.told(cases.of(life, past=cases.Past(tries=[*earlier, life], works=earlier))) == ["requeue_loop"]


def test_a_node_that_fails_under_it_again_and_again_is_told_as_that() -> None:
    earlier = [tried("NODE_FAIL")] * 3
    life = tried("NODE_FAIL")
    assert cases.told(cases.of(life, past=cases.Past(tries=[*earlier, life], works=earlier))) == ["node_failure"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("requeue_loop", case), expected)
