# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""There were fewer threads than cores."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.life import Life
from slurmscope.summary import Summary


def threads(count: int | None, cores: float, **fields: Any) -> Summary:
    nodes = (cases.node_summary(cpus=8, threads_peak=count, cpu_seconds=cores * RAN),)
    given: dict[str, Any] = {"cpu": cases.figures(cores), "cpu_share": cores / 8, "cpu_seconds": cores * RAN}
    return cases.summary(**(given | {"nodes": nodes} | fields))


def ended(cores: float, **fields: Any) -> Life:
    given: dict[str, Any] = {"cpus": 8, "told": {"cpu_seconds": cores * RAN, "steps": (cases.srun(8),)}}
    return cases.life(**(given | fields))


SMT = [cases.node(threads_per_core=2)]
TWO = (cases.node_summary("n1", threads_peak=2, cpu_seconds=RAN), cases.node_summary("n2", threads_peak=2))
SILENT = (TWO[0], cases.node_summary("n2", threads_peak=None))

TABLE = [
    ("four for eight", cases.of(ended(3.6), threads(4, 3.6)), FIRES),
    ("while it runs", cases.of(cases.life("RUNNING", cpus=8), threads(4, 3.6)), FIRES),
    ("five for eight", cases.of(ended(4.5), threads(5, 4.5)), FIRES),
    ("three quarters", cases.of(ended(4.5), threads(6, 4.5)), FINE),
    ("over all nodes", cases.of(ended(3.0, nodes=2, node_list="n[1-2]"), threads(4, 3.0, nodes=TWO)), FIRES),
    ("busy all the same", cases.of(ended(4.8), threads(5, 4.8)), FINE),
    ("more are busy than were seen", cases.of(ended(3.0), threads(2, 3.0)), FINE),
    ("hardly any waste", cases.of(ended(3.0, ran=700, told={"cpu_seconds": 2100.0}), threads(4, 3.0)), FINE),
    ("too short", cases.of(ended(3.0, ran=500), threads(4, 3.0)), EXEMPT),
    ("interactive", cases.of(ended(3.0, name="jupyter"), threads(4, 3.0)), EXEMPT),
    ("its work is the GPU's", cases.of(ended(3.0, gpus={"": 1}), threads(4, 3.0)), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1), threads(1, 1.0)), EXEMPT),
    ("nothing was measured", cases.of(ended(3.0)), NO_DATA),
    ("hardly measured", cases.of(ended(3.0), threads(4, 3.0, coverage=0.4)), NO_DATA),
    ("threads are hidden", cases.of(ended(3.0), threads(None, 3.0)), NO_DATA),
    ("one node is silent", cases.of(ended(3.0, nodes=2, node_list="n[1-2]"), threads(4, 3.0, nodes=SILENT)), NO_DATA),
    ("CPU time is unknown", cases.of(cases.life("RUNNING", cpus=8), threads(4, 3.0, cpu=None)), NO_DATA),
    ("one for each core", cases.of(ended(3.6), threads(4, 3.6), nodes=SMT), FINE),
    ("two for four cores", cases.of(ended(1.9), threads(2, 1.9), nodes=SMT), FIRES),
    # documented as a false positive: there were more, too short-lived to be seen; few cores were busy all the same
    ("false positive: short-lived ones", cases.of(ended(2.9), threads(3, 2.9)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("few_threads", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    case = cases.of(ended(3.6), threads(4, 3.6))
    found = cases.asked("few_threads", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "it had 4 threads for 8 cores"
    assert "3.6 of its 8 cores were busy" in found.text
    assert found.waste.cpu_seconds == 4 * RAN
    assert found.changes == (Change("--cpus-per-task", "8", "4", "it had 4 threads"), cases.KEPT)
    assert cases.told(case) == ["few_threads"]


def test_it_is_bad_where_most_of_the_cores_cannot_be_used() -> None:
    found = cases.asked("few_threads", cases.of(ended(0.5), threads(1, 0.5)))
    assert isinstance(found, Finding)
    assert (found.severity, found.headline) == ("bad", "it had 1 thread for 8 cores")


def test_of_hardware_threads_it_advises_whole_cores() -> None:
    found = cases.asked("few_threads", cases.of(ended(1.9), threads(2, 1.9), nodes=SMT))
    assert isinstance(found, Finding)
    assert found.headline == "it had 2 threads for 4 cores"
    assert found.waste.cpu_seconds == 4 * RAN
    assert found.changes == (Change("--cpus-per-task", "8", "4", "it had 2 threads"), cases.KEPT)
