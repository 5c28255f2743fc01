# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Its GPUs would fit on fewer nodes."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change, Finding, Waste
from slurmscope.life import Life

NODES = [gpus.node(f"n{at}") for at in (1, 2, 3, 4)]


def spread(count: int = 4, nodes: int = 2, **fields: Any) -> Life:
    """On nodes of 64 CPUs, 256 GiB and 4 GPUs."""
    given: dict[str, Any] = {"cpus": 16, "nodes": nodes, "node_list": f"n[1-{nodes}]"}
    return gpus.life(count, **(given | fields))


TABLE = [
    ("half of two nodes", gpus.of(spread(), nodes=NODES), FIRES),
    ("more than one has", gpus.of(spread(5), nodes=NODES), FINE),
    ("one of each of four", gpus.of(spread(4, 4), nodes=NODES), FIRES),
    ("while it runs", gpus.of(spread(state="RUNNING"), nodes=NODES), FIRES),
    ("its CPUs just fit", gpus.of(spread(cpus=64), nodes=NODES), FIRES),
    ("its CPUs do not fit", gpus.of(spread(cpus=65), nodes=NODES), FINE),
    ("its memory does not fit", gpus.of(spread(state="RUNNING", memory=300 * GIB), nodes=NODES), FINE),
    (
        "the type that it asked for",
        gpus.of(spread(), nodes=[gpus.node(f"n{at}", gpus={"a100": 2, "t4": 2}) for at in (1, 2)]),
        FINE,
    ),
    ("no GPU", cases.of(cases.life(nodes=2, node_list="n[1-2]"), nodes=NODES), EXEMPT),
    ("one node", gpus.of(gpus.life(2), nodes=NODES), EXEMPT),
    ("too short", gpus.of(spread(ran=3599), nodes=NODES), EXEMPT),
    ("its nodes are unknown", gpus.of(spread(), nodes=[]), NO_DATA),
    ("one of its nodes is unknown", gpus.of(spread(), nodes=NODES[:1]), NO_DATA),
    ("they tell of no GPU", gpus.of(spread(), nodes=[gpus.node(f"n{at}", gpus={}) for at in (1, 2)]), NO_DATA),
    ("nobody knows its memory", gpus.of(spread(state="RUNNING", memory=None), nodes=NODES), NO_DATA),
    # documented as a false positive: its GPUs do not talk to each other
    ("false positive: each by itself", gpus.of(spread(2), nodes=NODES), FIRES),
]


def test_it_says_what_to_change() -> None:
    ranks = {"steps": (cases.srun(18, 6),)}
    found = cases.asked("gpu_fragments", gpus.of(spread(6, 3, cpus=18, told=ranks), nodes=NODES))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste == Waste()
    why = "as many GPUs on fewer nodes"
    assert found.changes == (
        Change("--nodes", "3", "2", why),
        Change("--ntasks-per-node", "2", "3", why),
        Change("--mem", "2731M", "4G", why),
        Change("--gpus-per-node", "a100:2", "a100:3", f"{why}, in place of --gres or --gpus"),
    )
    assert found.headline == "6 GPUs on 3 nodes, where 2 would do"
    assert "It had 2 GPUs on each of 3 nodes" in found.text


@pytest.mark.parametrize(
    ("what", "life"),
    [
        ("nobody knows of its tasks", spread(6, 3)),
        ("its tasks cannot be dealt out", spread(6, 3, cpus=18, told={"steps": (cases.srun(18, 9),)})),
        ("its GPUs cannot", spread(5, 4, cpus=18, told={"steps": (cases.srun(18, 6),)})),
        ("GPUs of two types", spread(gpus={"a100": 3, "h100": 3}, nodes=3, cpus=18, node_list="n[1-3]")),
    ],
)
def test_what_no_line_asks_for_is_told_in_words(what: str, life: Life) -> None:
    found = cases.asked("gpu_fragments", gpus.of(life, nodes=NODES))
    assert isinstance(found, Finding)
    assert found.changes == ()
    assert found.advice.startswith("Ask for 2 nodes and for ")


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("gpu_fragments", case), expected)
