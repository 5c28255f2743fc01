# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs were idle for most of the time."""

from __future__ import annotations

import msgspec
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

LOW = gpus.summary(0.2)

TABLE = [
    ("a fifth", gpus.of(measured=LOW), FIRES),
    ("just below", gpus.of(measured=gpus.summary(0.249)), FIRES),
    ("at the threshold", gpus.of(measured=gpus.summary(0.25)), FINE),
    ("busy", gpus.of(measured=gpus.summary()), FINE),
    ("while it runs", gpus.of(gpus.life(state="RUNNING"), LOW), FIRES),
    ("less than an hour of a GPU", gpus.of(gpus.life(ran=4400), LOW), FINE),
    ("no GPU", cases.of(measured=cases.summary()), EXEMPT),
    ("too short", gpus.of(gpus.life(ran=1799), LOW), EXEMPT),
    ("interactive", gpus.of(gpus.life(name="jupyter"), LOW), EXEMPT),
    ("interactive, for a whole day", gpus.of(gpus.life(name="jupyter", ran=28800), LOW), FIRES),
    ("nobody measured", gpus.of(), NO_DATA),
    ("its GPUs were not measured", gpus.of(measured=cases.summary()), NO_DATA),
    ("hardly measured", gpus.of(measured=msgspec.structs.replace(LOW, coverage=0.4)), NO_DATA),
    ("nobody knows how much was measured", gpus.of(measured=msgspec.structs.replace(LOW, gpus=())), NO_DATA),
    # documented as a false positive: it is as fast as it can be, and needs the GPU all the same
    ("false positive: bound by its CPUs", gpus.of(measured=gpus.summary(0.2)), FIRES),
]


def test_it_says_what_it_cost_and_what_to_change() -> None:
    found = cases.asked("low_gpu", gpus.of(gpus.life(4), gpus.summary(0.2, count=4)))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste.gpu_seconds == pytest.approx(0.8 * 4 * RAN)
    assert found.changes == (
        Change("--gpus-per-node", "a100:4", "a100:2", "20 % busy on average, in place of --gres or --gpus"),
        gpus.KEPT,
    )
    assert found.headline == "its 4 GPUs were busy for 20 % of the time"
    assert "It held 4 GPUs for 2 h 0 min, busy for 20 % of that on average" in found.text


@pytest.mark.parametrize(("share", "severity"), [(0.149, "bad"), (0.15, "note")])
def test_how_bad(share: float, severity: str) -> None:
    found = cases.asked("low_gpu", gpus.of(measured=gpus.summary(share)))
    assert isinstance(found, Finding)
    assert found.severity == severity
    assert found.changes == ()


@pytest.mark.parametrize(("used", "advice"), [(0.95, "Its CPUs were busy"), (0.3, "a larger batch")])
def test_what_it_waits_for(used: float, advice: str) -> None:
    found = cases.asked("low_gpu", gpus.of(gpus.life(state="RUNNING"), msgspec.structs.replace(LOW, cpu_share=used)))
    assert isinstance(found, Finding)
    assert advice in found.advice


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("low_gpu", case), expected)
