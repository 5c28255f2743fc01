# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs were used, and then no more."""

from __future__ import annotations

import msgspec
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN, START

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Figures, Moment

SOME = gpus.summary(0.4)
HALF = msgspec.structs.replace(SOME, gpu=Figures(0.45, 0.9, 0.0, 0.0, 0.0, 0.9, 0.9))  # idle for half of its time
RUNS = gpus.life(state="RUNNING")
LONG = cases.line(1440, 60, gpu=lambda at: 0.9 if at < 1360 else 0.0)  # idle for the last 80 minutes of a day


def gap(at: int) -> float | None:
    return 0.9 if at < 40 else None if at < 70 else 0.0


def stopped(minute: int) -> list[Moment]:
    return gpus.line(lambda at: 0.9 if at < minute else 0.0)


TABLE = [
    ("an hour ago", gpus.of(RUNS, SOME, moments=stopped(60)), FIRES),
    ("less than an hour ago", gpus.of(RUNS, SOME, moments=stopped(61)), FINE),
    ("it works", gpus.of(RUNS, SOME, moments=gpus.line(lambda at: 0.9)), FINE),
    ("it worked again", gpus.of(RUNS, SOME, moments=gpus.line(lambda at: 0.9 if at in (10, 100) else 0.0)), FINE),
    ("it never worked: that is another rule's", gpus.of(RUNS, SOME, moments=stopped(0)), FINE),
    ("it has ended so", gpus.of(measured=HALF, moments=stopped(60)), FIRES),
    ("it has ended, and was never idle for long", gpus.of(measured=SOME), FINE),
    ("it has ended, and nobody kept when it was idle", gpus.of(measured=HALF), NO_DATA),
    ("a short end of a long job", gpus.of(gpus.life(ran=86400), HALF, moments=LONG, now=START + 86400), FINE),
    ("no GPU", cases.of(measured=cases.summary()), EXEMPT),
    ("too short", gpus.of(gpus.life(ran=1700), SOME, moments=stopped(60)), EXEMPT),
    ("interactive", gpus.of(gpus.life(name="jupyter"), SOME, moments=stopped(60)), EXEMPT),
    ("nobody measured", gpus.of(RUNS, moments=stopped(60)), NO_DATA),
    ("hardly measured", gpus.of(RUNS, msgspec.structs.replace(SOME, coverage=0.4), moments=stopped(60)), NO_DATA),
    ("its line is not kept", gpus.of(RUNS, SOME), NO_DATA),
    ("its line is not of GPUs", gpus.of(RUNS, SOME, moments=cases.line()), NO_DATA),
    ("its agent is silent", gpus.of(RUNS, SOME, moments=stopped(60), now=START + RAN + 901), NO_DATA),
    ("its agent is late", gpus.of(RUNS, SOME, moments=stopped(60), now=START + RAN + 900), FIRES),
    ("a gap is not idle", gpus.of(RUNS, SOME, moments=gpus.line(gap)), FINE),
    # documented as a false positive: it computes on its CPUs between two times on the GPU
    ("false positive: between two epochs", gpus.of(RUNS, SOME, moments=stopped(30)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("stopped_gpu", case), expected)


def test_it_says_what_it_cost_while_it_runs() -> None:
    found = cases.asked(
        "stopped_gpu", gpus.of(gpus.life(2, "RUNNING"), gpus.summary(0.4, count=2), moments=stopped(45))
    )
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.waste.gpu_seconds == 2 * 75 * 60
    assert found.headline == "its 2 GPUs did nothing for the last 1 h 15 min"
    assert found.text.startswith("Its 2 GPUs were in use before")
    assert found.changes == ()


def test_what_has_ended_is_worth_a_look() -> None:
    found = cases.asked("stopped_gpu", gpus.of(measured=HALF, moments=stopped(60)))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "its GPU did nothing in the last 1 h 0 min"
    assert "(50 %)" in found.text


def test_nothing_else_is_told_of_the_same_gpus() -> None:
    held = gpus.summary(0.1, each={"idle_seconds": 6000.0, "memory_peak": 1 << 30})
    assert cases.told(gpus.of(RUNS, held, moments=stopped(20))) == ["stopped_gpu"]
