# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of the job was moved to disk."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.summary import Summary

MIB = 1 << 20


def swapped(count: int | None, used: float = 6.0, **fields: Any) -> Summary:
    nodes = (cases.node_summary(swap_peak=count, memory_peak=int(used * GIB)),)
    return cases.summary(**({"nodes": nodes, "memory": cases.figures(used * GIB), "memory_share": None} | fields))


RUNS = cases.life("RUNNING")

TABLE = [
    ("a GiB", cases.of(RUNS, swapped(GIB)), FIRES),
    ("when it has ended", cases.of(cases.life(), swapped(GIB)), FIRES),
    ("just enough", cases.of(RUNS, swapped(256 * MIB)), FIRES),
    ("just less", cases.of(RUNS, swapped(255 * MIB)), FINE),
    ("none", cases.of(RUNS, swapped(0)), FINE),
    ("what little was measured was in swap", cases.of(RUNS, swapped(GIB, coverage=0.1)), FIRES),
    ("too short", cases.of(cases.life(ran=500), swapped(GIB)), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, swapped(0, coverage=0.4)), NO_DATA),
    ("swap is not told", cases.of(RUNS, swapped(None)), NO_DATA),
    # documented as a false positive: pages that nobody touches again
    ("false positive: what is never touched", cases.of(cases.life(memory=64 * GIB), swapped(300 * MIB)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("swap", case), expected)


def test_it_says_how_much_and_what_to_change() -> None:
    case = cases.of(cases.life(), swapped(2 * GIB, used=7.9))
    found = cases.asked("swap", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "2 GiB of its memory was moved to disk"
    assert found.text.startswith("On n1 up to 2 GiB were in swap.")
    assert found.changes == (Change("--mem", "8G", "12G", "2 GiB were in swap"),)
    assert cases.told(case) == ["swap"]


def test_no_more_than_there_is_is_asked_for() -> None:
    found = cases.asked("swap", cases.of(cases.life(memory=60 * GIB), swapped(10 * GIB, used=58)))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert "no node of this one has as much" in found.advice


def test_one_that_asked_for_enough_is_not_to_ask_for_more() -> None:
    found = cases.asked("swap", cases.of(cases.life(memory=64 * GIB), swapped(GIB)))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert "help desk" in found.advice
