# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Very many calls that read or wrote next to nothing."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary


def storm(
    calls: int | None = 5000,
    size: float | None = 100,
    system: float | None = 0.5,
    cpus: int | None = 4,
    **fields: Any,
) -> Summary:
    """So many calls a second, of so many bytes each, and the kernel's share of the CPU time."""
    count = None if calls is None else calls * RAN
    node: dict[str, Any] = {
        "cpus": cpus,
        "reads": count,
        "writes": None if count is None else 0,
        "read_bytes": None if size is None else int(size * (count or 1)),
        "written_bytes": None if size is None else 0,
        "user_seconds": None if system is None else 1000 * (1 - system),
        "system_seconds": None if system is None else 1000 * system,
    }
    return cases.summary(**({"nodes": (cases.node_summary(**node),)} | fields))


RUNS = cases.life("RUNNING")
WIDE = cases.life("RUNNING", cpus=16)

TABLE = [
    ("a storm", cases.of(RUNS, storm()), FIRES),
    ("when it has ended", cases.of(cases.life(), storm()), FIRES),
    ("just enough", cases.of(RUNS, storm(2000)), FIRES),
    ("just fewer", cases.of(RUNS, storm(1999)), FINE),
    ("just small", cases.of(RUNS, storm(size=4095)), FIRES),
    ("just large", cases.of(RUNS, storm(size=4096)), FINE),
    ("the kernel has just enough to do", cases.of(RUNS, storm(system=0.21)), FIRES),
    ("the kernel has little to do", cases.of(RUNS, storm(system=0.19)), FINE),
    ("just enough for many CPUs", cases.of(WIDE, storm(4000, cpus=16)), FIRES),
    ("just fewer than many CPUs make", cases.of(WIDE, storm(3999, cpus=16)), FINE),
    ("its CPUs there are not told", cases.of(WIDE, storm(3999, cpus=None)), FINE),
    ("too short", cases.of(cases.life(ran=500), storm()), EXEMPT),
    ("interactive", cases.of(cases.life(name="bash"), storm()), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, storm(coverage=0.4)), NO_DATA),
    ("calls are not told", cases.of(RUNS, storm(calls=None)), NO_DATA),
    ("what the kernel did is not known", cases.of(RUNS, storm(system=None)), NO_DATA),
    ("bytes are not told", cases.of(RUNS, storm(size=None)), NO_DATA),
    # documented as a false positive: calls on pipes, of which no byte reaches a disk
    ("false positive: pipes", cases.of(RUNS, storm(size=0.0)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("metadata_storm", case), expected)


def test_it_says_how_often_and_how_small() -> None:
    case = cases.of(cases.life(), storm(scratch=False, read_bytes=100 << 30))
    found = cases.asked("metadata_storm", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "it read or wrote 5,000 times a second, 100 B each"
    assert found.text == (
        "On n1 there were up to 5,000 calls a second that moved 100 B on average, and 50 % of the CPU time was the "
        "kernel's."
    )
    assert (found.changes, found.waste.cpu_seconds) == ((), 0.0)
    assert cases.told(case) == ["metadata_storm"]
