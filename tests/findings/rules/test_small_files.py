# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Very many files were open, and little was in each."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary


def files(count: int | None, moved: float | None = 1e9, processes: int | None = 4, **fields: Any) -> Summary:
    nodes = (cases.node_summary(open_files_peak=count, processes_peak=processes),)
    size = None if moved is None else int(moved)
    given = {"nodes": nodes, "read_bytes": size, "written_bytes": None if moved is None else 0}
    return cases.summary(**(given | fields))


RUNS = cases.life("RUNNING")

TABLE = [
    ("thousands", cases.of(RUNS, files(5000)), FIRES),
    ("when it has ended", cases.of(cases.life(), files(5000)), FIRES),
    ("just enough", cases.of(RUNS, files(1000)), FIRES),
    ("just fewer", cases.of(RUNS, files(999)), FINE),
    ("just small", cases.of(RUNS, files(1000, 4.99e9)), FIRES),
    ("just large", cases.of(RUNS, files(1000, 5e9)), FINE),
    ("many processes with a few each", cases.of(RUNS, files(1280, processes=129)), FINE),
    ("too short", cases.of(cases.life(ran=500), files(5000)), EXEMPT),
    ("interactive", cases.of(cases.life(name="vscode"), files(5000)), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, files(5000, coverage=0.4)), NO_DATA),
    ("open files are hidden", cases.of(RUNS, files(None)), NO_DATA),
    ("processes are not counted", cases.of(RUNS, files(1280, processes=None)), NO_DATA),
    ("bytes are not told", cases.of(RUNS, files(5000, None)), NO_DATA),
    # documented as a false positive: a database keeps its files open
    ("false positive: a database", cases.of(RUNS, files(2000, 5e8, programs={"postgres": 1})), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("small_files", case), expected)


def test_it_says_how_many_and_how_small() -> None:
    case = cases.of(cases.life(), files(5000, 5000 * 102400, scratch=False))
    found = cases.asked("small_files", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "it had 5,000 files open, with 100 KiB in each"
    assert found.text == "It read and wrote 488 MiB in all, and had up to 5,000 files open at once: 100 KiB a file."
    assert (found.changes, found.waste.cpu_seconds) == ((), 0.0)
    assert cases.told(case) == ["small_files"]
