# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The CPUs were idle for much of the time."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

SMT = [cases.node(threads_per_core=2)]
UNKNOWN = [cases.node(threads_per_core=None)]
HALF = {"cpu_seconds": 0.5 * 4 * RAN}
FIFTH = {"cpu_seconds": 0.2 * 4 * RAN}

TABLE = [
    ("half idle", cases.of(cases.life(told=HALF)), FIRES),
    ("busy", cases.of(), FINE),
    ("while it runs, as the agent sees it", cases.of(cases.life("RUNNING"), cases.summary(cpu_share=0.3)), FIRES),
    ("too short", cases.of(cases.life(ran=500, told={"cpu_seconds": 1.0})), EXEMPT),
    ("interactive", cases.of(cases.life(name="jupyter-lab", told=HALF)), EXEMPT),
    ("its work is the GPU's", cases.of(cases.life(gpus={"a100": 1}, told=HALF)), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1, told={"cpu_seconds": 10.0})), EXEMPT),
    ("nobody told", cases.of(cases.life(told={"cpu_seconds": None, "steps": ()})), NO_DATA),
    ("it runs, and no agent is there", cases.of(cases.life("RUNNING")), NO_DATA),
    ("hardly measured", cases.of(cases.life("RUNNING"), cases.summary(cpu_share=0.3, coverage=0.2)), NO_DATA),
    ("hardly any waste", cases.of(cases.life(cpus=2, ran=1200, told={"cpu_seconds": 1000.0})), FINE),
    ("one thread on each core", cases.of(cases.life(cpus=8, told={"cpu_seconds": 3.9 * RAN}), nodes=SMT), FINE),
    ("both threads of each core", cases.of(cases.life(cpus=8, told={"cpu_seconds": 7.9 * RAN}), nodes=SMT), FINE),
    ("half of the cores", cases.of(cases.life(cpus=8, told={"cpu_seconds": 2 * RAN}), nodes=SMT), FIRES),
    ("one core of two threads", cases.of(cases.life(cpus=2, told={"cpu_seconds": 10.0}), nodes=SMT), EXEMPT),
    # documented as a false positive: one thread on each core, and nobody knows that a core has two
    ("false positive", cases.of(cases.life(cpus=8, told={"cpu_seconds": 4 * RAN}), nodes=UNKNOWN), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("low_cpu", case), expected)


def test_it_says_what_it_cost_and_what_to_change() -> None:
    found = cases.asked("low_cpu", cases.of(cases.life(told=FIFTH)))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.waste.cpu_seconds == pytest.approx(0.8 * 4 * RAN)
    why = "0.8 of 4 cores were busy"
    assert found.changes == (Change("--ntasks", None, "1", why), Change("--cpus-per-task", None, "1", why), cases.KEPT)
    assert found.headline == "80 % of its cores' time was idle"


def test_of_hardware_threads_it_speaks_of_cores_and_counts_cpus() -> None:
    told = {"cpu_seconds": 1.0 * RAN, "steps": (cases.srun(8),)}
    found = cases.asked("low_cpu", cases.of(cases.life(cpus=8, told=told), nodes=SMT))
    assert isinstance(found, Finding)
    assert found.text == "On average 1 of its 4 cores were busy."
    assert found.waste.cpu_seconds == pytest.approx(0.75 * 8 * RAN)
    assert found.changes == (Change("--cpus-per-task", "8", "4", "1 of 4 cores were busy"), cases.KEPT)
