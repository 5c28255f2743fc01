# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The cores were needed at times, and idle in between."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Figures, Summary


def bursts(mean: float = 1.2, p95: float = 3.9, **fields: Any) -> Summary:
    cpu = Figures(mean, 4.0, 0.1, 0.2, 0.4, 1.0, p95)
    return cases.summary(cpu=cpu, cpu_share=mean / 4, cpu_seconds=mean * RAN, **fields)


def ended(mean: float = 1.2) -> dict[str, Any]:
    return {"cpu_seconds": mean * RAN}


SMT = [cases.node(threads_per_core=2)]
TABLE = [
    ("at times", cases.of(cases.life(told=ended()), bursts()), FIRES),
    ("while it runs", cases.of(cases.life("RUNNING"), bursts()), FIRES),
    ("just below the share", cases.of(cases.life(told=ended(2.39)), bursts(2.39)), FIRES),
    ("just at the share", cases.of(cases.life(told=ended(2.4)), bursts(2.4)), FINE),
    ("just at the peak", cases.of(cases.life(), bursts(p95=3.2)), FIRES),
    ("just below the peak: it is idle, and not at times", cases.of(cases.life(), bursts(p95=3.19)), FINE),
    ("busy", cases.of(cases.life(), cases.summary()), FINE),
    ("hardly any waste", cases.of(cases.life(ran=1000), bursts()), FINE),
    ("too short", cases.of(cases.life(ran=500), bursts()), EXEMPT),
    ("interactive", cases.of(cases.life(name="jupyter-lab"), bursts()), EXEMPT),
    ("its work is the GPU's", cases.of(cases.life(gpus={"a100": 1}), bursts()), EXEMPT),
    ("one CPU", cases.of(cases.life(cpus=1), bursts()), EXEMPT),
    ("it waits", cases.of(cases.life("PENDING")), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(cases.life(), bursts(coverage=0.4)), NO_DATA),
    ("CPUs were not measured", cases.of(cases.life(), cases.summary(cpu=None)), NO_DATA),
    ("half of each core, and all of it at times", cases.of(cases.life(), bursts(2.0, 4.0), nodes=SMT), FINE),
    ("of both threads of a core", cases.of(cases.life(), bursts(1.0, 1.9), nodes=SMT), FIRES),
    ("of one of its nodes only", cases.of(cases.life(nodes=2, node_list="n[1-2]"), bursts()), NO_DATA),
    # documented as a false positive: the parts alternate, and cannot be split
    ("false positive: parts that alternate", cases.of(cases.life(), bursts(2.0, 4.0)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("cpu_bursts", case), expected)


def test_it_says_what_it_cost_and_how_uneven_it_was() -> None:
    case = cases.of(cases.life(told=ended()), bursts())
    found = cases.asked("cpu_bursts", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "its cores were needed at times, and 70 % idle"
    assert found.text == (
        "For a twentieth of the time 3.9 or more of its 4 cores were busy, but 1.2 on average, and for half of the "
        "time no more than 0.4."
    )
    assert found.waste.cpu_seconds == pytest.approx(0.7 * 4 * RAN)
    assert found.changes == ()
    assert cases.told(case) == ["cpu_bursts"]
