# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A node did next to nothing while others worked; or nothing at all happens any more."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN, START
from findings.several import life, measured, node

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.summary import Moment


def stands(since: int, gpu: float | None = None, cpu: float = 0.01) -> list[Moment]:
    """Of 240 moments of 30 s, those from `since` on are idle."""
    return cases.line(cpu=lambda at: 3.6 if at < since else cpu, gpu=lambda at: 0.8 if at < since else gpu)


IDLE = measured(node("n1", 0.9), node("n2", 0.01))
BUSY_GPU = (cases.gpu(0), cases.gpu(1, node="n2"))
IDLE_GPU = (cases.gpu(0), cases.gpu(1, node="n2", mean=0.0))
HIDDEN_GPU = (cases.gpu(0), cases.gpu(1, node="n2", mean=None))
RUNS = cases.life("RUNNING")
MANY = cases.life("RUNNING", gpus={"": 8})
MANAGER = cases.life("RUNNING", ran=2 * RAN, cpus=1)
LONG = cases.line(480, cpu=lambda at: 0.01)
HEAD = cases.summary(programs={"java": 40})
SMALL = measured(node("n1", 0.9), node("n2", 0.01, cpus=3))
GAP = [*stands(0)[:130], *[Moment(START + at * 30, *[None] * 7) for at in range(130, 140)], *stands(0)[140:]]

TABLE = [
    ("one of two", cases.of(life(), IDLE), FIRES),
    ("when it has ended", cases.of(life("COMPLETED"), IDLE), FIRES),
    ("just idle", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.019))), FIRES),
    ("just not", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.021))), FINE),
    ("none works", cases.of(life(), measured(node("n1", 0.1), node("n2", 0.01))), FINE),
    ("its GPU works", cases.of(life(gpus={"": 2}), measured(*IDLE.nodes, gpus=BUSY_GPU)), FINE),
    ("its GPU is idle too", cases.of(life(gpus={"": 2}), measured(*IDLE.nodes, gpus=IDLE_GPU)), FIRES),
    ("nobody tells of its GPU", cases.of(life(gpus={"": 2}), measured(*IDLE.nodes, gpus=HIDDEN_GPU)), FINE),
    ("idle for the last hour", cases.of(RUNS, cases.summary(), moments=stands(120)), FIRES),
    ("idle for a little less", cases.of(RUNS, cases.summary(), moments=stands(121)), FINE),
    ("a little is done", cases.of(RUNS, cases.summary(), moments=stands(120, cpu=0.09)), FINE),
    ("two nodes stand still", cases.of(life(), measured(node("n1", 0.9), node("n2", 0.9)), moments=stands(100)), FIRES),
    ("a gap may hide anything", cases.of(RUNS, cases.summary(), moments=GAP), FINE),
    ("GPUs go on", cases.of(cases.life("RUNNING", gpus={"": 1}), cases.summary(), moments=stands(100, 0.5)), FINE),
    ("GPUs stand", cases.of(cases.life("RUNNING", gpus={"": 1}), cases.summary(), moments=stands(100, 0.0)), FIRES),
    ("GPUs are unknown", cases.of(cases.life("RUNNING", gpus={"": 1}), cases.summary(), moments=stands(100)), FINE),
    ("suspended", cases.of(cases.life("SUSPENDED"), cases.summary(), moments=stands(100)), EXEMPT),
    ("one node, and it has ended", cases.of(cases.life(), cases.summary(), moments=stands(100)), EXEMPT),
    ("too short", cases.of(life("COMPLETED", ran=3000), IDLE), EXEMPT),
    ("interactive", cases.of(life(name="jupyter"), IDLE), EXEMPT),
    ("nothing was measured", cases.of(life()), NO_DATA),
    ("hardly measured", cases.of(life(), measured(*IDLE.nodes, coverage=0.4)), NO_DATA),
    ("one node is silent", cases.of(life(), measured(node("n1", 0.9)), moments=stands(100)), NO_DATA),
    ("nothing is kept of its course", cases.of(RUNS, cases.summary()), NO_DATA),
    ("the agent fell silent", cases.of(RUNS, cases.summary(), moments=stands(0)[:200]), NO_DATA),
    ("one CPU for four hours", cases.of(MANAGER, cases.summary(), moments=LONG, now=START + 2 * RAN), EXEMPT),
    ("a manager with two CPUs", cases.of(cases.life("RUNNING", cpus=2, name="Nextflow-head"), HEAD), EXEMPT),
    ("a manager by its program", cases.of(RUNS, cases.summary(programs={"snakemake": 4}), moments=stands(60)), EXEMPT),
    ("many CPUs", cases.of(cases.life("RUNNING", cpus=8, name="nextflow"), HEAD, moments=stands(60)), FIRES),
    ("three CPUs for an hour", cases.of(cases.life("RUNNING", cpus=3), HEAD, moments=stands(120)), FINE),
    ("a node of four for an hour", cases.of(life("COMPLETED", ran=3599), IDLE), EXEMPT),
    ("a small node for an hour", cases.of(life("COMPLETED", ran=3600), SMALL), FINE),
    ("one of many GPUs works", cases.of(MANY, cases.summary(), moments=stands(100, 0.01)), FINE),
    # documented as a false positive: it waits for jobs that it has started, and nobody knows it for a manager
    ("false positive: a manager", cases.of(cases.life("RUNNING", name="main.sh"), HEAD, moments=stands(60)), FIRES),
    # documented as a false positive: it waits for data
    ("false positive: data that are to come", cases.of(RUNS, cases.summary(), moments=stands(60)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("idle_node", case), expected)


def test_it_names_the_nodes_and_says_what_to_change() -> None:
    case = cases.of(life(), IDLE)
    found = cases.asked("idle_node", case)
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.headline == "1 of its 2 nodes did next to nothing"
    assert found.text == "On n2 less than 2 % of what it held was in use, on the busiest node 90 %."
    assert found.waste.cpu_seconds == 4 * RAN
    assert found.changes == (Change("--nodes", "2", "1", "the others were idle"),)
    assert cases.told(case) == ["idle_node"]


def test_it_says_since_when_a_job_stands_still() -> None:
    case = cases.of(RUNS, cases.summary(), moments=stands(100))
    found = cases.asked("idle_node", case)
    assert isinstance(found, Finding)
    assert found.headline == "it has done nothing for the last 1 h 10 min"
    assert found.waste.cpu_seconds == 4 * 4200
    assert found.changes == ()
    assert cases.told(case) == ["idle_node"]
