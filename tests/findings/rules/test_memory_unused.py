# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Most of the memory was never used."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN
from findings.memory import life, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

TABLE = [
    ("a tenth of it", cases.of(life(17, 1.7)), FIRES),
    ("just less than half", cases.of(life(17, 8.4)), FIRES),
    ("just half", cases.of(life(17, 8.6)), FINE),
    ("all of it", cases.of(life(17, 16)), FINE),
    ("by an agent, where sacct knows less", cases.of(life(17, None), measured(1.7)), FIRES),
    ("an agent saw more than sacct", cases.of(life(17, 1.7), measured(12)), FINE),
    ("its time was up", cases.of(life(17, 1.7, "TIMEOUT")), FIRES),
    ("just enough waste", cases.of(life(17, 1.7, ran=2600)), FIRES),
    ("hardly any waste", cases.of(life(17, 1.7, ran=2300)), FINE),
    ("what belongs to its CPUs", cases.of(life(16, 1.6)), EXEMPT),
    ("whole nodes", cases.of(life(64, 1.0, cpus=16)), EXEMPT),
    ("memory goes by GPUs", cases.of(life(17, 1.7, gpus={"": 1})), EXEMPT),
    ("it ran out of memory", cases.of(life(17, 1.7, "OUT_OF_MEMORY")), EXEMPT),
    ("a process was killed", cases.of(life(17, 1.7), measured(1.7, oom_kills=1)), EXEMPT),
    ("it still runs", cases.of(cases.life("RUNNING", memory=17 * GIB), measured(1.7)), EXEMPT),
    ("it failed", cases.of(life(17, 1.7, "FAILED")), EXEMPT),
    ("it was cancelled", cases.of(life(17, 1.7, "CANCELLED")), EXEMPT),
    ("interactive", cases.of(life(17, 1.7, name="jupyter")), EXEMPT),
    ("too short", cases.of(life(17, 1.7, ran=500)), EXEMPT),
    ("nobody told", cases.of(life(17, None)), NO_DATA),
    ("hardly measured", cases.of(life(17, None), measured(1.7, coverage=0.4)), NO_DATA),
    ("what it asked for is not known", cases.of(life(None, 1.7)), NO_DATA),
    ("nodes are not known", cases.of(life(17, 1.7), nodes=[]), NO_DATA),
    # documented as a false positive: other tasks of the array need more
    ("false positive: a small task", cases.of(life(17, 2, array_id=6, array_tasks="1")), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("memory_unused", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    case = cases.of(life(17, 1.7))
    found = cases.asked("memory_unused", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "it used 10 % of its memory"
    assert found.text == "It asked for 17 GiB, and never used more than 1.7 GiB."
    assert found.waste.memory_byte_seconds == 14 * GIB * RAN
    assert found.changes == (Change("--mem", "17G", "3G", "1.7 GiB used at most"),)
    assert cases.told(case) == ["memory_unused"]


def test_memory_is_asked_for_by_node_and_so_by_the_fullest() -> None:
    nodes = (cases.node_summary("n1", memory_peak=6 * GIB), cases.node_summary("n2", memory_peak=GIB))
    two = life(40, None, cpus=8, nodes=2, node_list="n[1-2]")
    ground = [cases.node("n1"), cases.node("n2")]
    found = cases.asked("memory_unused", cases.of(two, measured(7, nodes=nodes), nodes=ground))
    assert isinstance(found, Finding)
    assert found.changes == (Change("--mem", "20G", "8G", "7 GiB used at most"),)
    assert found.waste.memory_byte_seconds == 24 * GIB * RAN
