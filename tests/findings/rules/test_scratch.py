# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Much was read and written, and none of it on scratch."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.summary import Summary


def moved(read: float | None, written: float | None, **fields: Any) -> Summary:
    """In GiB, of a job that never had a file on scratch open."""
    sizes = {"read_bytes": read, "written_bytes": written}
    given = {name: None if size is None else int(size * GIB) for name, size in sizes.items()}
    return cases.summary(**(given | {"scratch": False} | fields))


RUNS = cases.life("RUNNING")

TABLE = [
    ("much", cases.of(RUNS, moved(60, 20)), FIRES),
    ("when it has ended", cases.of(cases.life(), moved(60, 20)), FIRES),
    ("just enough", cases.of(RUNS, moved(30, 20)), FIRES),
    ("just less", cases.of(RUNS, moved(30, 19.9)), FINE),
    ("only what it read is known", cases.of(RUNS, moved(60, None)), FIRES),
    ("it was on scratch", cases.of(RUNS, moved(60, 20, scratch=True)), FINE),
    ("too short", cases.of(cases.life(ran=500), moved(60, 20)), EXEMPT),
    ("interactive", cases.of(cases.life(name="bash"), moved(60, 20)), EXEMPT),
    ("nothing was measured", cases.of(), NO_DATA),
    ("hardly measured", cases.of(RUNS, moved(60, 20, coverage=0.4)), NO_DATA),
    ("open files are hidden", cases.of(RUNS, moved(60, 20, scratch=None)), NO_DATA),
    ("bytes are not told", cases.of(RUNS, moved(None, None)), NO_DATA),
    # documented as a false positive: nobody told the agent what scratch is called here
    ("false positive: a scratch of another name", cases.of(RUNS, moved(500, 500)), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("scratch", case), expected)


def test_it_says_how_much() -> None:
    case = cases.of(cases.life(), moved(60, 20))
    found = cases.asked("scratch", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "it moved 80 GiB, and never used scratch"
    assert found.text == "It read 60 GiB and wrote 20 GiB, and no file of a scratch file system was ever open."
    assert (found.changes, found.waste.cpu_seconds) == ((), 0.0)
    assert cases.told(case) == ["scratch"]
