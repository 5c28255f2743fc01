# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""No GPU of the job was ever used."""

from __future__ import annotations

import msgspec
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

NEVER = gpus.summary(0.0, 0.0)

TABLE = [
    ("never used", gpus.of(measured=NEVER), FIRES),
    ("as good as never", gpus.of(measured=gpus.summary(0.001, 0.005)), FIRES),
    ("used a little", gpus.of(measured=gpus.summary(0.001, 0.006)), FINE),
    ("used", gpus.of(measured=gpus.summary()), FINE),
    ("while it runs", gpus.of(gpus.life(state="RUNNING"), NEVER), FIRES),
    ("no GPU", cases.of(measured=cases.summary()), EXEMPT),
    ("too short", gpus.of(gpus.life(ran=1799), NEVER), EXEMPT),
    ("just long enough", gpus.of(gpus.life(ran=1800), NEVER), FIRES),
    ("it waits", gpus.of(gpus.life(state="PENDING")), EXEMPT),
    ("interactive", gpus.of(gpus.life(name="interactive", ran=28799), NEVER), EXEMPT),
    ("interactive, for a whole day", gpus.of(gpus.life(name="interactive", ran=28800), NEVER), FIRES),
    ("nobody measured", gpus.of(), NO_DATA),
    ("its GPUs were not measured", gpus.of(measured=cases.summary()), NO_DATA),
    ("hardly measured", gpus.of(measured=msgspec.structs.replace(NEVER, coverage=0.4)), NO_DATA),
    # documented as a false positive: it prepares its data first, and has not come to the GPU yet
    ("false positive: still preparing", gpus.of(gpus.life(state="RUNNING", ran=2000), NEVER), FIRES),
]


def test_it_says_what_it_cost_and_what_to_change() -> None:
    found = cases.asked("zero_gpu", gpus.of(gpus.life(2), gpus.summary(0.0, 0.0, 2)))
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.waste.gpu_seconds == 2 * RAN
    assert found.changes == (Change("--gpus-per-node", "a100:2", None, "never used"), gpus.KEPT)
    assert found.headline == "its 2 GPUs were never used"
    assert "2 h 0 min" in found.text


def test_nothing_else_is_told_of_the_same_gpus() -> None:
    idle = gpus.summary(0.0, 0.0, 2, {"idle_seconds": float(RAN), "memory_peak": 0})
    assert cases.told(gpus.of(gpus.life(2), idle, moments=gpus.line(lambda at: 0.0))) == ["zero_gpu"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("zero_gpu", case), expected)
