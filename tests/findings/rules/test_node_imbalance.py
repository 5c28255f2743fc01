# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some nodes did much more than others."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN
from findings.several import life, measured, node

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding

UNEVEN = measured(node("n1", 0.9), node("n2", 0.2))

TABLE = [
    ("one has most of it", cases.of(life(), UNEVEN), FIRES),
    ("when it has ended", cases.of(life("COMPLETED"), UNEVEN), FIRES),
    ("just less than half", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.44))), FIRES),
    ("just half", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.46))), FINE),
    ("even", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.8))), FINE),
    ("fewer CPUs on one of them", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.45, cpus=2))), FINE),
    ("neither does much", cases.of(life(), measured(node("n1", 0.19), node("n2", 0.01))), FINE),
    ("hardly any waste", cases.of(life(ran=1200), UNEVEN, now=cases.START + 1200), FINE),
    ("too short", cases.of(life("COMPLETED", ran=500), UNEVEN), EXEMPT),
    ("interactive", cases.of(life(name="bash"), UNEVEN), EXEMPT),
    ("its work is the GPU's", cases.of(life(gpus={"": 2}), UNEVEN), EXEMPT),
    ("one node", cases.of(cases.life(), cases.summary()), EXEMPT),
    ("nothing was measured", cases.of(life()), NO_DATA),
    ("hardly measured", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.2), coverage=0.4)), NO_DATA),
    ("one node is silent", cases.of(life(), measured(node("n1", 0.9))), NO_DATA),
    ("one was hardly measured", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.2, seconds=9.0))), NO_DATA),
    ("one does not tell its CPU time", cases.of(life(), measured(node("n1", 0.9), node("n2", None))), NO_DATA),
    # documented as a false positive: a node for the one that deals the work out
    ("false positive: one that deals out", cases.of(life(), measured(node("n1", 0.05), node("n2", 0.95))), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("node_imbalance", case), expected)


def test_it_names_the_nodes_and_says_what_it_cost() -> None:
    case = cases.of(life(), UNEVEN)
    found = cases.asked("node_imbalance", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "1 of its 2 nodes did much less than others"
    assert found.text.startswith("The CPUs of n1 were in use for 90 % of the time, those of n2 for 20 %.")
    assert found.waste.cpu_seconds == pytest.approx(0.7 * 4 * RAN)
    assert cases.told(case) == ["node_imbalance"]
