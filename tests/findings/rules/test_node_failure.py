# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A node failed under it."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.past import NodeRecord
from slurmscope.findings.rule import Change, Finding, Waste
from slurmscope.life import VANISHED, Life

LOST = cases.life("NODE_FAIL")


def record(
    node: str = "n1", failures: int = 1, downs: int = 1, peers: float | None = 0.25, **fields: Any
) -> NodeRecord:
    return NodeRecord(node, 30, failures, downs, peers, **({"reason": None} | fields))


def on(*records: NodeRecord, life: Life = LOST) -> Case:
    return cases.of(life, past=cases.Past(records=records))


TABLE = [
    ("it did", cases.of(LOST), FIRES),
    ("it did not", cases.of(), FINE),
    ("it failed", cases.of(cases.life("FAILED")), FINE),
    ("it could not boot", cases.of(cases.life("BOOT_FAIL")), FINE),
    ("interactive jobs are lost as well", cases.of(cases.life("NODE_FAIL", name="jupyter")), FIRES),
    ("it runs", cases.of(cases.life("RUNNING")), EXEMPT),
    ("nothing is kept of its node", on(), FIRES),
    ("nobody knows how it ended", cases.of(cases.life(VANISHED)), NO_DATA),
    # documented as a false positive: it used up the node's memory
    ("false positive: it was the cause", cases.of(LOST, cases.summary(memory=cases.figures(63 * GIB))), FIRES),
]


def test_it_says_what_it_cost_and_whose_fault_it_is_not() -> None:
    found = cases.asked("node_failure", on(record()))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert (found.waste, found.lost) == (Waste(), Waste(4 * RAN, 0, 8 * GIB * RAN))
    assert found.changes == ()
    assert found.headline == "a node failed under it"
    assert found.text == (
        "Slurm ended it because node n1 failed; it had taken 8 core-hours. On n1 1 job ended so within 30 days "
        "(0.2 on a node of this cluster, on average), and it went down 1 time."
    )
    assert "no fault of the job" in found.advice


def test_a_node_that_fails_more_often_than_others_is_to_be_left_out() -> None:
    both = cases.life("NODE_FAIL", nodes=2, node_list="n[1-2]", gpus={"a100": 2})
    found = cases.asked("node_failure", on(record(), record("n2", 4, 2, 0.5, reason="bad\n fan"), life=both))
    assert isinstance(found, Finding)
    assert found.changes == (Change("--exclude", None, "n2", "failed more often than others"),)
    assert "one of its 2 nodes failed; it had taken 4 GPU-hours. On n2 4 jobs ended so" in found.text
    assert 'its operators say "bad fan"' in found.text
    assert "Leave n2 out" in found.advice


@pytest.mark.parametrize(
    ("failures", "downs", "peers", "left_out"),
    [(3, 2, 0.9, True), (3, 1, 0.9, False), (2, 2, 0.0, False), (3, 2, 1.0, False), (3, 2, None, True)],
)
def test_when_it_is(failures: int, downs: int, peers: float | None, left_out: bool) -> None:
    found = cases.asked("node_failure", on(record("n1", failures, downs, peers)))
    assert isinstance(found, Finding)
    assert bool(found.changes) is left_out


def test_it_comes_before_what_the_job_wasted() -> None:
    idle = cases.life("NODE_FAIL", told={"cpu_seconds": 0.2 * 4 * RAN})
    assert cases.told(cases.of(idle))[0] == "node_failure"


def test_nothing_is_made_up_of_a_node_that_nobody_knows() -> None:
    found = cases.asked("node_failure", on())
    assert isinstance(found, Finding)
    assert found.text == "Slurm ended it because node n1 failed; it had taken 8 core-hours."


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("node_failure", case), expected)
