# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""On a node of the job no CPU time was used at all."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN
from findings.several import life, measured, node

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

NOTHING = {"cpu_seconds": 1.0, "steps": ()}
IDLE = measured(node("n1", 0.9), node("n2", 0.0))
GPUS = (cases.gpu(0, mean=0.8), cases.gpu(1, node="n2", mean=0.0, peak=0.0))

TABLE = [
    ("nothing on the second", cases.of(life(), IDLE), FIRES),
    ("when it has ended", cases.of(life("COMPLETED"), IDLE), FIRES),
    (
        "no process ever was there",
        cases.of(life(), measured(node("n1", 0.9), node("n2", None, processes_peak=0))),
        FIRES,
    ),
    ("as good as nothing", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.9, cpu_seconds=3.5))), FIRES),
    ("next to nothing", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.9, cpu_seconds=3.7))), FINE),
    ("all work", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.9))), FINE),
    ("its only node, by sacct", cases.of(cases.life(told=NOTHING)), FIRES),
    ("its only node, while it runs", cases.of(cases.life("RUNNING"), cases.summary(cpu_share=0.0)), FIRES),
    ("its only node works", cases.of(), FINE),
    ("a node with GPUs", cases.of(life(gpus={"": 2}), measured(*IDLE.nodes, gpus=GPUS)), FIRES),
    ("no node with GPUs did anything", cases.of(life(gpus={"": 2}), measured(node("n1", 0), node("n2", 0))), FINE),
    ("two hours of one CPU", cases.of(cases.life(cpus=1, told=NOTHING)), FINE),
    ("two hours of two CPUs", cases.of(cases.life(cpus=2, told=NOTHING)), FIRES),
    ("too short", cases.of(cases.life(ran=3000, told=NOTHING)), EXEMPT),
    ("interactive", cases.of(cases.life(name="salloc", told=NOTHING)), EXEMPT),
    ("GPUs on its only node", cases.of(cases.life(gpus={"": 1}, told=NOTHING)), EXEMPT),
    ("nothing was measured of two", cases.of(life("COMPLETED", told=NOTHING)), NO_DATA),
    ("hardly measured", cases.of(life(), measured(*IDLE.nodes, coverage=0.4)), NO_DATA),
    ("one node is silent", cases.of(life(), measured(node("n1", 0.9))), NO_DATA),
    ("nobody told", cases.of(cases.life(told={"cpu_seconds": None, "steps": ()})), NO_DATA),
    ("it was killed, and sacct may not know", cases.of(cases.life("TIMEOUT", told=NOTHING)), NO_DATA),
    ("it runs, and no agent is there", cases.of(cases.life("RUNNING")), NO_DATA),
    # documented as a false positive: a job that waits for an event
    ("false positive: it waits on purpose", cases.of(cases.life(name="listen", told=NOTHING)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("zero_cpu", case), expected)


def test_it_names_the_nodes_and_says_what_to_change() -> None:
    case = cases.of(life(), IDLE)
    found = cases.asked("zero_cpu", case)
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.headline == "1 of its 2 nodes did nothing"
    assert found.text == "It held them for 2 h 0 min, and nothing ran on n2."
    assert found.waste.cpu_seconds == 4 * RAN
    assert found.changes == (Change("--nodes", "2", "1", "nothing ran on the others"),)
    assert cases.told(case) == ["zero_cpu"]


def test_of_a_job_that_did_nothing_nothing_is_to_be_changed() -> None:
    case = cases.of(cases.life(told=NOTHING))
    found = cases.asked("zero_cpu", case)
    assert isinstance(found, Finding)
    assert (found.headline, found.changes) == ("it used no CPU time at all", ())
    assert found.waste.cpu_seconds == 4 * RAN
    assert cases.told(case) == ["zero_cpu"]


@pytest.mark.parametrize("rule", ["zero_cpu", "idle_node"])
def test_unused_gpus_of_the_other_nodes_are_told_beside(rule: str) -> None:
    used = 0.0 if rule == "zero_cpu" else 0.01
    nodes = (node("n1", 0.9), node("n2", used))
    told = [cases.gpu(at, node=f"n{1 + at // 2}", uuid=f"g{at}", mean=0.0, peak=0.0) for at in range(4)]
    for busy, expected in ((1, {rule, "unused_gpus"}), (2, {rule})):
        some = (*(cases.gpu(at, uuid=f"g{at}") for at in range(busy)), *told[busy:])
        case = cases.of(life(gpus={"": 4}), measured(*nodes, gpus=some, gpu=cases.figures(0.4, 0.5)))
        assert expected <= set(cases.told(case)) <= expected | {"low_gpu"}


def test_gpus_of_the_node_are_wasted_too() -> None:
    case = cases.of(life(gpus={"": 2}), measured(*IDLE.nodes, gpus=GPUS, gpu=cases.figures(0.4, 1.0)))
    found = cases.asked("zero_cpu", case)
    assert isinstance(found, Finding)
    assert found.waste.gpu_seconds == RAN
    assert "zero_cpu" in cases.told(case) and "unused_gpus" not in cases.told(case)
