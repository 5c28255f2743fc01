# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Processes were killed for want of memory."""

from __future__ import annotations

import lives
import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA
from findings.memory import life, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

RUNS = cases.life("RUNNING")
STEP = lives.step("0", name="solve", state="OUT_OF_MEMORY", max_rss=7 * GIB, memory_used=7 * GIB)

TABLE = [
    ("Slurm says so", cases.of(life(8, 7.9, "OUT_OF_MEMORY")), FIRES),
    ("nothing else is known", cases.of(life(8, None, "OUT_OF_MEMORY")), FIRES),
    ("within seconds", cases.of(life(8, 7.9, "OUT_OF_MEMORY", ran=5)), FIRES),
    ("a step of a job that went on", cases.of(cases.life(told={"steps": (STEP,)})), FIRES),
    ("a process of a job that runs", cases.of(RUNS, cases.summary(oom_kills=1)), FIRES),
    ("no process was killed", cases.of(RUNS, cases.summary()), FINE),
    ("it ended well, and nobody measured", cases.of(cases.life(told={"steps": ()})), FINE),
    ("it failed otherwise", cases.of(life(8, 7.9, "FAILED")), FINE),
    ("it waits", cases.of(cases.life("PENDING")), EXEMPT),
    ("it runs, and no agent is there", cases.of(RUNS), NO_DATA),
    ("kills are not told", cases.of(RUNS, cases.summary(oom_kills=None)), NO_DATA),
    # documented as a false positive: it tried how much there is
    ("false positive: a trial", cases.of(cases.life(), cases.summary(oom_kills=1)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("out_of_memory", case), expected)


def test_it_says_what_was_seen_and_what_to_change() -> None:
    case = cases.of(life(8, 7.9, "OUT_OF_MEMORY"), measured(7.9, oom_kills=1))
    found = cases.asked("out_of_memory", case)
    assert isinstance(found, Finding)
    assert found.severity == "bad"
    assert found.headline == "it ran out of memory"
    assert found.text == (
        "The kernel ended it: it had asked for 8 GiB; the most that was seen in use is 7.9 GiB; 1 process was killed."
    )
    assert found.changes == (Change("--mem", "8G", "12G", "it ran out of memory"),)
    assert cases.told(case) == ["out_of_memory"]


def test_more_is_advised_than_it_had_where_little_was_seen() -> None:
    found = cases.asked("out_of_memory", cases.of(life(8, 1, "OUT_OF_MEMORY")))
    assert isinstance(found, Finding)
    assert found.changes == (Change("--mem", "8G", "10G", "it ran out of memory"),)


def test_no_more_than_there_is_is_advised() -> None:
    found = cases.asked("out_of_memory", cases.of(life(60, 59, "OUT_OF_MEMORY")))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert "No node of its partition" in found.advice


def test_a_step_is_named() -> None:
    found = cases.asked("out_of_memory", cases.of(cases.life(told={"steps": (STEP,)})))
    assert isinstance(found, Finding)
    assert found.headline == "a part of it was killed for want of memory"
    assert "it happened in solve" in found.text
