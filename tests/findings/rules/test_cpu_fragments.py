# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Its CPUs would fit on fewer nodes."""

from __future__ import annotations

from typing import Any

import lives
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding, Waste
from slurmscope.life import Life

NODES = [cases.node(f"n{at}") for at in (1, 2, 3, 4)]


def spread(cpus: int = 16, nodes: int = 2, used: int = 6, told: dict[str, Any] | None = None, **fields: Any) -> Life:
    """On nodes of 16 CPUs and 64 GiB. It asks for 2 GiB for each CPU and uses so many GiB of them."""
    steps = (lives.step(memory_used=used * GIB, max_rss=used * GIB),)
    given: dict[str, Any] = {"cpus": cpus, "nodes": nodes, "node_list": f"n[1-{nodes}]", "memory": cpus * 2 * GIB}
    return cases.life(told={"steps": steps} if told is None else told, **(given | fields))


UNKNOWN: dict[str, Any] = {"steps": ()}

TABLE = [
    ("half of two nodes", cases.of(spread(), nodes=NODES), FIRES),
    ("more than half", cases.of(spread(17), nodes=NODES), FINE),
    ("an eighth of four", cases.of(spread(8, 4), nodes=NODES), FIRES),
    ("its memory just fits", cases.of(spread(used=51), nodes=NODES), FIRES),
    ("its memory does not fit", cases.of(spread(used=52), nodes=NODES), FINE),
    ("while it runs", cases.of(spread(state="RUNNING"), nodes=NODES), FIRES),
    ("what it asked for just fits", cases.of(spread(told=UNKNOWN, memory=51 * GIB), nodes=NODES), FIRES),
    ("what it asked for does not fit", cases.of(spread(told=UNKNOWN, memory=52 * GIB), nodes=NODES), FINE),
    ("one node", cases.of(nodes=NODES), EXEMPT),
    ("with GPUs", gpus.of(spread(gpus={"a100": 2}), nodes=NODES), EXEMPT),
    ("too short", cases.of(spread(ran=3599), nodes=NODES), EXEMPT),
    ("all of its nodes", cases.of(spread(32), nodes=NODES), EXEMPT),
    ("its nodes are unknown", cases.of(spread(), nodes=[]), NO_DATA),
    ("one of its nodes is unknown", cases.of(spread(), nodes=NODES[:1]), NO_DATA),
    ("their memory is unknown", cases.of(spread(), nodes=[cases.node(f"n{at}", memory=0) for at in (1, 2)]), NO_DATA),
    ("nobody knows its memory", cases.of(spread(told=UNKNOWN, memory=None), nodes=NODES), NO_DATA),
    # documented as a false positive: it needs the memory bandwidth of both
    ("false positive: bandwidth", cases.of(spread(8), nodes=NODES), FIRES),
]


def test_it_says_what_to_change() -> None:
    steps = {"steps": (cases.srun(12, 12),)}
    found = cases.asked("cpu_fragments", cases.of(spread(12, 4, told=steps), nodes=NODES))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste == Waste()
    why = "as many CPUs on fewer nodes"
    assert found.changes == (
        Change("--nodes", "4", "1", why),
        Change("--ntasks-per-node", "3", "12", why),
        Change("--mem", "6G", "8G", why),
    )
    assert found.advice.startswith("Ask for 1 node and for 12 CPUs in all")
    assert found.headline == "12 CPUs on 4 nodes, where 1 would do"
    assert "19 % of those of its 4 nodes" in found.text


def test_where_nobody_knows_of_its_tasks_it_is_told_in_words() -> None:
    found = cases.asked("cpu_fragments", cases.of(spread(12, 4), nodes=NODES))
    assert isinstance(found, Finding)
    assert found.changes == ()


def test_the_smallest_of_its_nodes_counts() -> None:
    small = [cases.node("n1"), cases.node("n2", cpus=8, cpus_effective=8)]
    assert isinstance(cases.asked("cpu_fragments", cases.of(spread(8), nodes=small)), Finding)
    assert not isinstance(cases.asked("cpu_fragments", cases.of(spread(9), nodes=small)), Finding)


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("cpu_fragments", case), expected)
