# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""So much memory was asked for and not used that CPUs beside it could not be given to anybody."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN
from findings.memory import life, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

TABLE = [
    ("twice its share", cases.of(life(32, 8)), FIRES),
    ("its use is beyond its share too", cases.of(life(60, 20)), FIRES),
    ("a little more than its share", cases.of(life(18, 2)), FIRES),
    ("as good as its share", cases.of(life(17, 2)), FINE),
    ("less than its share", cases.of(life(8, 1)), FINE),
    ("just less than 70 %", cases.of(life(40, 27.9)), FIRES),
    ("just 70 %", cases.of(life(40, 28.1)), FINE),
    ("by an agent, where sacct knows less", cases.of(life(32, None), measured(8)), FIRES),
    ("an agent saw more than sacct", cases.of(life(32, 8), measured(30)), FINE),
    ("its time was up", cases.of(life(32, 8, "TIMEOUT")), FIRES),
    ("hardly any waste", cases.of(life(32, 8, ran=800)), FINE),
    ("enough waste", cases.of(life(32, 8, ran=1000)), FIRES),
    ("whole nodes", cases.of(life(64, 1, cpus=16)), EXEMPT),
    ("memory goes by GPUs", cases.of(life(32, 8, gpus={"": 1})), EXEMPT),
    ("it ran out of memory", cases.of(life(32, 8, "OUT_OF_MEMORY")), EXEMPT),
    ("it still runs", cases.of(cases.life("RUNNING", memory=32 * GIB), measured(8)), EXEMPT),
    ("it failed", cases.of(life(32, 8, "FAILED")), EXEMPT),
    ("interactive", cases.of(life(32, 8, name="rstudio")), EXEMPT),
    ("too short", cases.of(life(32, 8, ran=500)), EXEMPT),
    ("nobody told", cases.of(life(32, None)), NO_DATA),
    ("hardly measured", cases.of(life(32, None), measured(8, coverage=0.4)), NO_DATA),
    ("what it asked for is not known", cases.of(life(None, 8)), NO_DATA),
    ("nodes are not known", cases.of(life(32, 8), nodes=[]), NO_DATA),
    # documented as a false positive: other tasks of the array need more
    ("false positive: a small task", cases.of(life(32, 2, array_id=6, array_tasks="1")), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("memory_request", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    case = cases.of(life(32, 8))
    found = cases.asked("memory_request", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "its memory kept 4 other CPUs from being used"
    assert found.text.startswith("It asked for 32 GiB and used 8 GiB at most. 16 GiB belong to its 4 CPUs;")
    assert "within the share of its CPUs" in found.advice
    assert found.waste.memory_byte_seconds == 22 * GIB * RAN
    assert found.changes == (Change("--mem", "32G", "10G", "8 GiB used at most"),)
    assert cases.told(case) == ["memory_request"]


def test_one_that_needs_more_than_its_share_may_have_it() -> None:
    found = cases.asked("memory_request", cases.of(life(60, 20)))
    assert isinstance(found, Finding)
    assert found.headline == "its memory kept 8.8 other CPUs from being used"
    assert "within the share" not in found.advice
    assert found.changes == (Change("--mem", "60G", "25G", "20 GiB used at most"),)
