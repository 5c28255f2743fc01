# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More threads than CPUs, and the CPUs had no time left."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary

FULL = cases.life(told={"cpu_seconds": 0.95 * 4 * RAN})


def threads(count: int | None, processes: int | None = 1, **fields: Any) -> Summary:
    nodes = (cases.node_summary(threads_peak=count, processes_peak=processes),)
    return cases.summary(**({"nodes": nodes, "cpu_seconds": 0.95 * 4 * RAN, "cpu_share": 0.95} | fields))


SILENT = (cases.node_summary("n1", threads_peak=40), cases.node_summary("n2", threads_peak=None))
TWO = cases.life(cpus=8, nodes=2, node_list="n[1-2]")

TABLE = [
    ("eight for four", cases.of(FULL, threads(12)), FIRES),
    ("while it runs", cases.of(cases.life("RUNNING"), threads(12)), FIRES),
    ("six work", cases.of(FULL, threads(10)), FIRES),
    ("five work", cases.of(FULL, threads(9)), FINE),
    ("many processes of one thread", cases.of(FULL, threads(10, 10)), FIRES),
    ("a shell, srun and tee beside the tasks", cases.of(FULL, threads(16, 9)), FINE),
    ("ranks with threads that watch", cases.of(FULL, threads(4 * 5 + 1, 5)), FINE),
    ("ranks that each take the whole node", cases.of(FULL, threads(4 * 16 + 1, 5)), FIRES),
    ("the CPUs have time left", cases.of(cases.life("RUNNING"), threads(12, cpu_share=0.89)), FINE),
    ("as it should be", cases.of(cases.life(), cases.summary()), FINE),
    ("too short", cases.of(cases.life(ran=500), threads(12)), EXEMPT),
    ("interactive", cases.of(cases.life(name="zsh"), threads(12)), EXEMPT),
    ("a Java machine", cases.of(FULL, threads(66, 3, programs={"java": 60, "bash": 1})), EXEMPT),
    ("nothing was measured", cases.of(FULL), NO_DATA),
    ("hardly measured", cases.of(FULL, threads(12, coverage=0.4)), NO_DATA),
    ("threads are hidden", cases.of(FULL, threads(None)), NO_DATA),
    ("processes are hidden", cases.of(FULL, threads(12, None)), NO_DATA),
    ("one node is silent", cases.of(TWO, threads(12, nodes=SILENT)), NO_DATA),
    ("CPU time is unknown", cases.of(cases.life("RUNNING"), threads(12, cpu_share=None)), NO_DATA),
    # documented as a false positive: nobody sees from outside that they wait
    ("false positive: a pool", cases.of(FULL, threads(40, programs={"python3": 36, "java": 4})), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("oversubscribed", case), expected)


def test_it_counts_those_that_seem_to_work() -> None:
    case = cases.of(FULL, threads(12))
    found = cases.asked("oversubscribed", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "about 8 threads shared its 4 CPUs"
    assert found.text.startswith("95 % of its CPU time was in use, and there were about 8 threads for 4 CPUs")
    assert found.changes == ()
    assert cases.told(case) == ["oversubscribed"]
