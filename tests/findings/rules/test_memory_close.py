# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The memory was nearly all used."""

from __future__ import annotations

import pytest
from findings import cases
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA
from findings.memory import life, measured

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding

CLOSE = cases.summary(memory_share=0.95)
RUNS = cases.life("RUNNING")

TABLE = [
    ("nearly all", cases.of(life(8, 7.6)), FIRES),
    ("just 90 %", cases.of(life(10, 9)), FIRES),
    ("just less", cases.of(life(10, 8.9)), FINE),
    ("enough is left", cases.of(), FINE),
    ("more than it asked for", cases.of(life(8, 9)), FIRES),
    ("while it runs", cases.of(RUNS, measured(7.6)), FIRES),
    ("on one of its nodes", cases.of(RUNS, CLOSE), FIRES),
    ("interactive ones are killed too", cases.of(life(8, 7.6, name="jupyter")), FIRES),
    ("what little was measured was close", cases.of(RUNS, measured(7.6, coverage=0.1)), FIRES),
    ("sacct saw a peak that no agent did", cases.of(life(8, 7.6), measured(5, read_bytes=GIB)), FIRES),
    ("that peak may be file cache", cases.of(life(8, 7.6), measured(5, read_bytes=2 * GIB, written_bytes=GIB)), FINE),
    ("cache beside memory that is nearly full", cases.of(life(8, 8), measured(7.5, read_bytes=GIB)), FIRES),
    ("it ran out of memory", cases.of(life(8, 8, "OUT_OF_MEMORY")), EXEMPT),
    ("a process was killed", cases.of(RUNS, measured(7.9, oom_kills=2)), EXEMPT),
    ("too short", cases.of(life(8, 7.6, ran=500)), EXEMPT),
    ("nobody told", cases.of(life(8, None)), NO_DATA),
    ("what it asked for is not known", cases.of(life(None, 7.6)), NO_DATA),
    ("hardly measured", cases.of(RUNS, measured(5, coverage=0.4)), NO_DATA),
    ("full to the brim, and not killed: it is file cache", cases.of(life(8, 8)), NO_DATA),
    ("cache, and hardly measured", cases.of(life(8, 7.6), measured(5, read_bytes=9 * GIB, coverage=0.4)), NO_DATA),
    ("it runs, and no agent is there", cases.of(RUNS), NO_DATA),
    # documented as a false positive: a heap of the job's size
    ("false positive: it takes what there is", cases.of(life(8, 7.9, name="java")), FIRES),
]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("memory_close", case), expected)


def test_it_says_how_close_it_was_and_what_to_change() -> None:
    case = cases.of(life(8, 7.6))
    found = cases.asked("memory_close", case)
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.headline == "its memory came to 95 % of its limit"
    assert found.text == "It used 7.6 GiB at most, and had asked for 8 GiB. A little more, and it is killed."
    assert found.changes == (Change("--mem", "8G", "10G", "7.6 GiB used at most"),)
    assert found.waste.memory_byte_seconds == 0
    assert cases.told(case) == ["memory_close"]


def test_no_more_than_there_is_is_asked_for() -> None:
    found = cases.asked("memory_close", cases.of(life(60, 58, cpus=8)))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert found.advice.startswith("No node of its partition has a quarter more")
    just = cases.asked("memory_close", cases.of(life(52, 51, cpus=8)))
    assert isinstance(just, Finding)
    assert [one.after for one in just.changes] == ["64G"], "65 GiB as people write it, and no more than there is"


def test_a_node_that_is_close_asks_for_more_on_each() -> None:
    nodes = (cases.node_summary("n1", memory_peak=int(3.9 * GIB)), cases.node_summary("n2", memory_peak=GIB))
    two = life(8, None, nodes=2, node_list="n[1-2]")
    found = cases.asked("memory_close", cases.of(two, measured(4.9, nodes=nodes, memory_share=0.97)))
    assert isinstance(found, Finding)
    assert found.headline == "its memory came to 97 % of its limit"
    assert found.changes == (Change("--mem", "4G", "5G", "7.8 GiB used at most"),)


def test_file_cache_is_not_what_it_used() -> None:
    found = cases.asked("memory_close", cases.of(life(8, 8), measured(7.5, read_bytes=9 * GIB)))
    assert isinstance(found, Finding)
    assert found.text == "It used 7.5 GiB at most, and had asked for 8 GiB. A little more, and it is killed."
