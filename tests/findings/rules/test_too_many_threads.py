# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A program had many more threads than there are CPUs."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary


def program(count: int, name: str = "solver", **fields: Any) -> Summary:
    return cases.summary(**({"programs": {"bash": 1, name: count}} | fields))


WIDE = (cases.node_summary("n1", cpus=16), cases.node_summary("n2", cpus=16))
TWO = cases.life(cpus=32, nodes=2, node_list="n[1-2]")
IDLE = cases.life(told={"cpu_seconds": 0.49 * 4 * RAN})

TABLE = [
    ("sixteen a CPU", cases.of(cases.life(), program(64)), FIRES),
    ("while it runs", cases.of(cases.life("RUNNING"), program(64)), FIRES),
    ("the least that is told", cases.of(cases.life(), program(16)), FIRES),
    ("few, though more than twice as many", cases.of(cases.life(), program(15)), FINE),
    ("more than twice", cases.of(TWO, program(33, nodes=WIDE)), FIRES),
    ("twice, on the node that has it", cases.of(TWO, program(32, nodes=WIDE)), FINE),
    ("nobody says which CPUs are where", cases.of(TWO, program(33, nodes=())), FIRES),
    ("most of them wait", cases.of(IDLE, program(64, cpu_seconds=0.49 * 4 * RAN)), FINE),
    ("as many as CPUs", cases.of(cases.life(), cases.summary()), FINE),
    ("too short", cases.of(cases.life(ran=500), program(64)), EXEMPT),
    ("interactive", cases.of(cases.life(name="rstudio"), program(64)), EXEMPT),
    ("the driver's own threads", cases.of(cases.life(gpus={"": 1}), program(64)), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(cases.life(), program(64, coverage=0.4)), NO_DATA),
    ("programs are hidden", cases.of(cases.life(), cases.summary(programs={})), NO_DATA),
    ("CPU time is unknown", cases.of(cases.life("RUNNING"), program(64, cpu_share=None)), NO_DATA),
    ("a Java machine: most of its threads wait", cases.of(cases.life(), program(60, "java")), FINE),
    ("a solver beside it", cases.of(cases.life(), program(60, programs={"java": 60, "solver": 20})), FIRES),
    # documented as a false positive: threads that wait for work
    ("false positive: a pool that waits", cases.of(cases.life(), program(40, "python3")), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("too_many_threads", case), expected)


def test_it_names_the_program_and_how_many() -> None:
    case = cases.of(cases.life(), program(64))
    found = cases.asked("too_many_threads", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "one program had 64 threads on 4 CPUs"
    assert found.text.startswith("A process of solver had 64 threads, 16 times as many") and "90 %" in found.text
    assert (found.changes, found.waste.cpu_seconds) == ((), 0.0)


def test_it_is_told_and_nothing_else_of_it() -> None:
    nodes = (cases.node_summary(threads_peak=70, processes_peak=2),)
    case = cases.of(cases.life(told={"cpu_seconds": 3.9 * RAN}), program(64, nodes=nodes, cpu_seconds=3.9 * RAN))
    assert isinstance(cases.asked("oversubscribed", case), Finding)
    assert cases.told(case) == ["too_many_threads"]
