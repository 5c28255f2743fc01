# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some cores did much more than others."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN
from findings.cores import cores, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding

RUNS = cases.life("RUNNING")
SMT = [cases.node(threads_per_core=2)]
UNEVEN = cores(1.0, 0.4, 0.3, 0.3)

TABLE = [
    ("one has most of it", cases.of(RUNS, measured(UNEVEN)), FIRES),
    ("when it has ended", cases.of(cases.life(told={"cpu_seconds": 2 * RAN}), measured(UNEVEN)), FIRES),
    ("just more than half as much again", cases.of(RUNS, measured(cores(0.91, 0.5, 0.5, 0.5))), FIRES),
    ("just less", cases.of(RUNS, measured(cores(0.89, 0.5, 0.5, 0.5))), FINE),
    ("even", cases.of(RUNS, measured(cores(0.9, 0.8, 0.9, 0.9))), FINE),
    ("none is busy", cases.of(RUNS, measured(cores(0.49, 0.1, 0.1, 0.1))), FINE),
    ("none did anything", cases.of(RUNS, measured(cores(0, 0, 0, 0))), FINE),
    ("hardly any waste", cases.of(cases.life("RUNNING", ran=1700), measured(UNEVEN), now=cases.START + 1700), FINE),
    ("too short", cases.of(cases.life(ran=500), measured(UNEVEN)), EXEMPT),
    ("interactive", cases.of(cases.life(name="bash"), measured(UNEVEN)), EXEMPT),
    ("its work is the GPU's", cases.of(cases.life(gpus={"": 1}), measured(UNEVEN)), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1), measured(cores(1.0, cpus=1))), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, measured(UNEVEN, coverage=0.4)), NO_DATA),
    ("cgroups of version 2", cases.of(RUNS, cases.summary()), NO_DATA),
    ("a CPU is one of a core's threads", cases.of(RUNS, measured(UNEVEN), nodes=SMT), NO_DATA),
    # documented as a false positive: a part that cannot be made parallel
    ("false positive: one core leads", cases.of(RUNS, measured(cores(1.0, 0.6, 0.5, 0.5))), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("core_imbalance", case), expected)


def test_it_says_how_uneven_it_was_and_what_that_cost() -> None:
    case = cases.of(RUNS, measured(UNEVEN))
    found = cases.asked("core_imbalance", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "its busiest core did 2 times as much as the mean"
    assert "for 100 % of the time, the mean of all for 50 %, the idlest for 30 %" in found.text
    assert found.waste.cpu_seconds == pytest.approx(0.5 * 4 * RAN)
    assert cases.told(case) == ["core_imbalance"]
