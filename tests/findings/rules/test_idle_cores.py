# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some cores were hardly used, though others were busy."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN
from findings.cores import cores, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

RUNS = cases.life("RUNNING")
TWO = cases.life("RUNNING", cpus=8, nodes=2, node_list="n[1-2]")
BOTH = [cases.node("n1"), cases.node("n2")]
SMT = [cases.node(threads_per_core=2)]
EVEN = cores(0.9, 0.9, 0.9, 0.9)
HALF = cores(1, 1, 0, 0)

TABLE = [
    ("two of four", cases.of(RUNS, measured(HALF)), FIRES),
    ("when it has ended", cases.of(cases.life(told={"cpu_seconds": 2 * RAN}), measured(HALF)), FIRES),
    ("one, just idle", cases.of(RUNS, measured(cores(0.9, 0.9, 0.9, 0.029))), FIRES),
    ("one, just not", cases.of(RUNS, measured(cores(0.9, 0.9, 0.9, 0.031))), FINE),
    ("none is busy", cases.of(RUNS, measured(cores(0.49, 0.49, 0.49, 0))), FINE),
    ("one is just busy", cases.of(RUNS, measured(cores(0.51, 0.49, 0.49, 0))), FIRES),
    ("even", cases.of(RUNS, measured(EVEN)), FINE),
    ("on one of two nodes", cases.of(TWO, measured(EVEN, HALF), nodes=BOTH), FIRES),
    ("it was elsewhere before it was confined", cases.of(RUNS, measured(cores(1, 1, 0, 0, 0.001))), FIRES),
    ("hardly any waste", cases.of(cases.life("RUNNING", ran=1700), measured(HALF), now=cases.START + 1700), FINE),
    ("too short", cases.of(cases.life(ran=500), measured(HALF)), EXEMPT),
    ("interactive", cases.of(cases.life(name="salloc"), measured(HALF)), EXEMPT),
    ("its work is the GPU's", cases.of(cases.life(gpus={"": 1}), measured(HALF)), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1), measured(cores(1.0, cpus=1))), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, measured(HALF, coverage=0.4)), NO_DATA),
    ("cgroups of version 2", cases.of(RUNS, cases.summary()), NO_DATA),
    ("of one node only", cases.of(TWO, measured(HALF)), NO_DATA),
    ("the other node does not tell", cases.of(TWO, measured(HALF, cases.node_summary("n2"))), NO_DATA),
    ("it is not confined", cases.of(RUNS, measured(cores(*[0.4] * 8, 0, 0))), NO_DATA),
    ("how many are its own is not known", cases.of(RUNS, measured(cores(1, 1, 0, 0, cpus=None))), NO_DATA),
    ("not all are told", cases.of(RUNS, measured(cores(1, 1))), NO_DATA),
    ("a CPU is one of a core's threads", cases.of(RUNS, measured(cores(1, 0, 1, 0)), nodes=SMT), NO_DATA),
    ("what a CPU is nobody knows", cases.of(RUNS, measured(HALF), nodes=[]), NO_DATA),
    ("… nor of one of its nodes", cases.of(TWO, measured(EVEN, HALF)), NO_DATA),
    # documented as a false positive: it has four for their memory
    ("false positive: for their memory", cases.of(RUNS, measured(cores(1, 0, 0, 0))), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("idle_cores", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    case = cases.of(RUNS, measured(HALF))
    found = cases.asked("idle_cores", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "2 of its 4 cores were hardly used"
    assert found.text == "2 cores of 4 had less than 3 % of the time to do, the busiest 100 %."
    assert found.waste.cpu_seconds == 2 * RAN
    assert found.changes == (Change("--cpus-per-task", "4", "2", "2 cores hardly used"), cases.KEPT)
    assert cases.told(case) == ["idle_cores"]


def test_of_one_it_speaks_of_one() -> None:
    found = cases.asked("idle_cores", cases.of(RUNS, measured(cores(0.9, 0.9, 0.9, 0))))
    assert isinstance(found, Finding)
    assert found.headline == "1 of its 4 cores was hardly used"
