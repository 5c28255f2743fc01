# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More CPUs than belong to its GPUs, and they were idle."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.life import Life


def wide(cpus: int = 32, used: float = 0.1, count: int = 1, **fields: Any) -> Life:
    """Where 16 CPUs belong to a GPU."""
    return gpus.life(count, cpus=cpus, told={"cpu_seconds": used * cpus * RAN, "steps": (cases.srun(cpus),)}, **fields)


TABLE = [
    ("twice as many", gpus.of(wide()), FIRES),
    ("some more", gpus.of(wide(18)), FIRES),
    ("about as many", gpus.of(wide(17)), FINE),
    ("just busy enough", gpus.of(wide(used=0.5)), FINE),
    ("not busy enough", gpus.of(wide(used=0.49)), FIRES),
    ("as many for each of two", gpus.of(wide(count=2)), FINE),
    ("while it runs", gpus.of(gpus.life(state="RUNNING", cpus=32), cases.summary(cpu_share=0.1)), FIRES),
    ("less than an hour of a CPU", gpus.of(wide(18, ran=3600), nodes=[gpus.node(cpus_effective=70)]), FINE),
    ("no GPU", cases.of(), EXEMPT),
    ("too short", gpus.of(wide(ran=3599)), EXEMPT),
    ("interactive", gpus.of(wide(name="jupyter")), EXEMPT),
    ("its node is unknown", gpus.of(wide(), nodes=[]), NO_DATA),
    ("its node tells of no GPU", gpus.of(wide(), nodes=[gpus.node(gpus={})]), NO_DATA),
    ("nobody told", gpus.of(gpus.life(cpus=32, told={"cpu_seconds": None, "steps": ()})), NO_DATA),
    ("it runs, and no agent is there", gpus.of(gpus.life(state="RUNNING", cpus=32)), NO_DATA),
    # documented as a false positive: all are busy, but only between two epochs
    ("false positive: in bursts", gpus.of(wide(used=0.3)), FIRES),
]


def test_it_says_what_it_cost_and_what_to_change() -> None:
    found = cases.asked("cores_per_gpu", gpus.of(wide()))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste.cpu_seconds == 16 * RAN
    assert found.changes == (
        Change("--cpus-per-task", "32", "16", "16 belong to a GPU"),
        gpus.KEPT,
    )
    assert found.headline == "32 CPUs for each GPU, and 90 % of them idle"
    assert "32 CPUs beside 1 GPU, where 16 belong to a GPU; on average 3.2 were busy" in found.text


def test_what_is_busy_is_not_taken_away() -> None:
    found = cases.asked("cores_per_gpu", gpus.of(wide(48, used=0.45)))
    assert isinstance(found, Finding)
    assert found.changes[0].after == "27"


def test_a_site_can_say_how_many_belong_to_a_gpu() -> None:
    found = cases.asked("cores_per_gpu", gpus.of(wide(), nodes=[]), cores=12)
    assert isinstance(found, Finding)
    assert found.changes[0].after == "12"


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("cores_per_gpu", case), expected)
