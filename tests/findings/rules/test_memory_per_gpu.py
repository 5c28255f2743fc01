# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More memory than belongs to its GPUs, and it was not used."""

from __future__ import annotations

from typing import Any

import lives
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding
from slurmscope.life import Life


def large(asked: int = 128, used: int = 20, count: int = 1, **fields: Any) -> Life:
    """In GiB, where 64 belong to a GPU."""
    steps = (lives.step(memory_used=used * GIB, max_rss=used * GIB),)
    return gpus.life(count, memory=asked * GIB, told={"steps": steps}, **fields)


SEEN = cases.summary(memory=cases.figures(10 * GIB, 20 * GIB))
RUNS = gpus.life(state="RUNNING", memory=128 * GIB)
UNTOLD = gpus.life(memory=128 * GIB, told={"steps": ()})
TWO_NODES = gpus.life(2, nodes=2, node_list="n[1-2]", cpus=8, memory=200 * GIB, told={"steps": ()}, ran=36000)
UNEVEN = cases.summary(
    memory=cases.figures(80 * GIB, 94 * GIB),
    seconds=72000.0,
    nodes=(cases.node_summary("n1", memory_peak=90 * GIB), cases.node_summary("n2", memory_peak=4 * GIB)),
)

TABLE = [
    ("twice as much", gpus.of(large()), FIRES),
    ("some more", gpus.of(large(71)), FIRES),
    ("about as much", gpus.of(large(70)), FINE),
    ("just used enough", gpus.of(large(100, 80)), FINE),
    ("not used enough", gpus.of(large(100, 75)), FIRES),
    ("as much for each of two", gpus.of(large(count=2)), FINE),
    ("less than 10 GiB for an hour", gpus.of(large(73, ran=3600)), FINE),
    ("no GPU", cases.of(), EXEMPT),
    ("too short", gpus.of(large(ran=3599)), EXEMPT),
    ("while it runs", gpus.of(RUNS, SEEN), EXEMPT),
    ("interactive", gpus.of(large(name="jupyter")), EXEMPT),
    ("it failed", gpus.of(large(state="FAILED")), EXEMPT),
    ("a process was killed", gpus.of(large(), cases.summary(oom_kills=1)), EXEMPT),
    ("one of its nodes was full", gpus.of(TWO_NODES, UNEVEN, nodes=[gpus.node("n1"), gpus.node("n2")]), FINE),
    ("out of memory", gpus.of(large(state="OUT_OF_MEMORY")), EXEMPT),
    ("its node to itself", gpus.of(large(cpus=64)), EXEMPT),
    ("its node is unknown", gpus.of(large(), nodes=[]), NO_DATA),
    ("nobody told", gpus.of(UNTOLD), NO_DATA),
    ("hardly measured", gpus.of(UNTOLD, cases.summary(coverage=0.4)), NO_DATA),
    ("nobody knows what it asked for", gpus.of(gpus.life(memory=None)), NO_DATA),
    # documented as a false positive: others of its runs need it
    ("false positive: a small run", gpus.of(large(200, 3)), FIRES),
]


def test_it_says_what_it_cost_and_what_to_change() -> None:
    found = cases.asked("memory_per_gpu", gpus.of(large()))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste.memory_byte_seconds == 64 * GIB * RAN
    assert found.changes == (Change("--mem", "128G", "65G", "20 GiB were used at most"),)
    assert found.headline == "128 GiB of memory for each GPU, 16 % of it used"
    assert "where 64 GiB belong to a GPU, and used 20 GiB at most" in found.text


def test_what_it_used_is_not_taken_away() -> None:
    found = cases.asked("memory_per_gpu", gpus.of(large(200, 100)))
    assert isinstance(found, Finding)
    assert found.changes[0].after == "120G"


def test_a_site_can_say_how_much_belongs_to_a_gpu() -> None:
    found = cases.asked("memory_per_gpu", gpus.of(large(), nodes=[]), memory=40 * GIB)
    assert isinstance(found, Finding)
    assert found.changes[0].after == "40G"


def test_one_that_is_short_of_memory_is_not_told_to_have_less() -> None:
    close = cases.summary(memory=cases.figures(10 * GIB, 20 * GIB), memory_share=0.95)
    assert cases.told(gpus.of(large(), close)) == ["memory_close"], "on one of its nodes"
    killed = gpus.of(large(), cases.summary(memory=cases.figures(10 * GIB, 20 * GIB), oom_kills=2))
    assert cases.told(killed) == ["out_of_memory"]


def test_nothing_else_is_told_of_the_same_memory() -> None:
    assert cases.told(gpus.of(large(), gpus.summary())) == ["memory_per_gpu"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("memory_per_gpu", case), expected)
