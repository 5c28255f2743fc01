# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For most of the time no process of the job was on its GPUs."""

from __future__ import annotations

import msgspec
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary


def held(idle: float | None, share: float = 0.3, count: int = 1) -> Summary:
    """No process was there for so many seconds of each GPU; all was measured."""
    return msgspec.structs.replace(gpus.summary(share, count=count, each={"idle_seconds": idle}), coverage=1.0)


TABLE = [
    ("for most of the time", gpus.of(measured=held(5000.0)), FIRES),
    ("at the threshold", gpus.of(measured=held(3600.0)), FIRES),
    ("just below", gpus.of(measured=held(3599.0)), FINE),
    ("never", gpus.of(measured=held(0.0)), FINE),
    ("while it runs", gpus.of(gpus.life(state="RUNNING"), held(5000.0)), FIRES),
    ("less than an hour of a GPU", gpus.of(gpus.life(ran=3600), held(3500.0, 0.0)), FINE),
    ("no GPU", cases.of(measured=cases.summary()), EXEMPT),
    ("too short", gpus.of(gpus.life(ran=3599), held(3599.0)), EXEMPT),
    ("interactive", gpus.of(gpus.life(name="jupyter"), held(5000.0)), EXEMPT),
    ("nobody measured", gpus.of(), NO_DATA),
    ("hardly measured", gpus.of(measured=msgspec.structs.replace(held(5000.0), coverage=0.4)), NO_DATA),
    ("nobody knows its processes", gpus.of(measured=held(None)), NO_DATA),
    ("not of all GPUs", gpus.of(gpus.life(2), held(5000.0)), NO_DATA),
    ("its processes are not seen", gpus.of(measured=held(float(RAN), 0.8)), NO_DATA),
    # documented as a false positive: it leaves the GPU between two short tasks
    ("false positive: between tasks", gpus.of(measured=held(4000.0, 0.4)), FIRES),
]


def test_it_says_what_it_cost() -> None:
    found = cases.asked("held_gpu", gpus.of(gpus.life(2), held(5400.0, 0.2, 2)))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste.gpu_seconds == 2 * 5400
    assert found.headline == "nothing of it was on its 2 GPUs for 75 % of the time"
    assert "for 3 GPU-hours of that" in found.text
    assert found.changes == ()


def test_it_counts_over_what_was_measured() -> None:
    half = msgspec.structs.replace(held(2700.0, 0.2), coverage=0.5)
    found = cases.asked("held_gpu", gpus.of(measured=half))
    assert isinstance(found, Finding)
    assert found.figures["share"] == 0.75


def test_nothing_else_is_told_of_the_same_gpus() -> None:
    assert cases.told(gpus.of(measured=held(6500.0, 0.05))) == ["held_gpu"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("held_gpu", case), expected)
