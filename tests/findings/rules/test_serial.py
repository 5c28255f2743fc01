# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One core was busy, and several were asked for."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.summary import Figures


def busy(cores: float) -> dict[str, Any]:
    return {"cpu_seconds": cores * RAN}


SMT = [cases.node(threads_per_core=2)]
ONE = cases.summary(cpu=cases.figures(1.0), cpu_share=0.25, cpu_seconds=1.0 * RAN)
UNEVEN = cases.summary(cpu=Figures(1.0, 4.0, 0, 0, 0.2, 0.5, 3.9), cpu_share=0.25, cpu_seconds=1.0 * RAN)

TABLE = [
    ("one of four", cases.of(cases.life(told=busy(1.0))), FIRES),
    ("the least", cases.of(cases.life(told=busy(0.8501))), FIRES),
    ("a little less: it waits", cases.of(cases.life(told=busy(0.84))), FINE),
    ("the most", cases.of(cases.life(told=busy(1.0499))), FIRES),
    ("a little more", cases.of(cases.life(told=busy(1.06))), FINE),
    ("while it runs", cases.of(cases.life("RUNNING"), ONE), FIRES),
    ("one on average, and all of them at times", cases.of(cases.life("RUNNING"), UNEVEN), FINE),
    ("busy", cases.of(), FINE),
    ("hardly any waste", cases.of(cases.life(ran=1199, told={"cpu_seconds": 1199.0})), FINE),
    ("enough waste", cases.of(cases.life(ran=1200, told={"cpu_seconds": 1200.0})), FIRES),
    ("too short", cases.of(cases.life(ran=500, told={"cpu_seconds": 500.0})), EXEMPT),
    ("interactive", cases.of(cases.life(name="bash", told=busy(1.0))), EXEMPT),
    ("its work is the GPU's", cases.of(cases.life(gpus={"": 1}, told=busy(1.0))), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1, told=busy(1.0))), EXEMPT),
    ("several nodes", cases.of(cases.life(nodes=2, node_list="n[1-2]", told=busy(1.0))), EXEMPT),
    ("nobody told", cases.of(cases.life(told={"cpu_seconds": None, "steps": ()})), NO_DATA),
    ("it runs, and no agent is there", cases.of(cases.life("RUNNING")), NO_DATA),
    ("hardly measured", cases.of(cases.life("RUNNING"), cases.summary(cpu_share=0.25, coverage=0.2)), NO_DATA),
    ("it asked for one CPU, and got a core", cases.of(cases.life(cpus=2, told=busy(1.0)), nodes=SMT), EXEMPT),
    ("one of two cores", cases.of(cases.life(told=busy(1.0)), nodes=SMT), FIRES),
    # documented as a false positive: it asked for one, and got a core, but nobody knows that this has two threads
    ("false positive: a whole core", cases.of(cases.life(cpus=2, told=busy(1.0)), nodes=[]), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("serial", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    case = cases.of(cases.life(told=busy(1.0)))
    found = cases.asked("serial", case)
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.headline == "it kept one of its 4 cores busy"
    assert found.text.startswith("On average 1 cores were in use") and "6 core-hours" in found.text
    assert found.waste.cpu_seconds == 3 * RAN
    why = "one was busy"
    assert found.changes == (Change("--ntasks", None, "1", why), Change("--cpus-per-task", None, "1", why), cases.KEPT)


def test_it_is_told_and_nothing_else_of_it() -> None:
    cores = {0: 1.0 * RAN, 1: 10.0, 2: 10.0, 3: 10.0}
    nodes = (cases.node_summary(core_seconds=cores, threads_peak=2, cpu_seconds=1.0 * RAN),)
    measured = cases.summary(cpu=cases.figures(1.0), cpu_share=0.25, cpu_seconds=1.0 * RAN, nodes=nodes)
    case = cases.of(cases.life(told=busy(1.0)), measured)
    assert cases.told(case) == ["serial"]


def test_threads_that_may_be_bound_to_one_core_are_named() -> None:
    for threads, named in ((3, False), (8, True)):
        measured = cases.summary(
            cpu=cases.figures(1.0), cpu_share=0.25, cpu_seconds=RAN, nodes=(cases.node_summary(threads_peak=threads),)
        )
        found = cases.asked("serial", cases.of(cases.life(told=busy(1.0)), measured))
        assert isinstance(found, Finding)
        assert (f"It had {threads} threads" in found.advice) == named
