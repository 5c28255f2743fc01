# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs on two nodes, n1 and n2, with 4 CPUs on each."""

from __future__ import annotations

from typing import Any

from findings import cases
from findings.cases import RAN

from slurmscope.life import Life
from slurmscope.summary import NodeSummary, Summary


def node(name: str, share: float | None, **fields: Any) -> NodeSummary:
    """On which such a share of the CPU time was in use."""
    return cases.node_summary(name, **({"cpu_seconds": None if share is None else share * 4 * RAN} | fields))


def measured(*nodes: NodeSummary, **fields: Any) -> Summary:
    used = sum(one.cpu_seconds or 0.0 for one in nodes)
    given = {"nodes": nodes, "cpu_seconds": used, "cpu": cases.figures(used / RAN), "cpu_share": used / RAN / 8}
    return cases.summary(**(given | fields))


def life(state: str = "RUNNING", **fields: Any) -> Life:
    given: dict[str, Any] = {"cpus": 8, "memory": 16 * cases.GIB, "nodes": 2, "node_list": "n[1-2]"}
    return cases.life(state, **(given | fields))
