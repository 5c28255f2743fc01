# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of which each core's time is known, as cgroups of version 1 tell it."""

from __future__ import annotations

from typing import Any

from findings import cases
from findings.cases import RAN

from slurmscope.summary import NodeSummary, Summary


def cores(*shares: float, **fields: Any) -> NodeSummary:
    """A node with 4 CPUs for the job, each core busy for such a share of the time."""
    given: dict[str, Any] = {
        "cpus": 4,
        "core_seconds": {at: share * RAN for at, share in enumerate(shares)},
        "cpu_seconds": sum(shares) * RAN,
    }
    return cases.node_summary(**(given | fields))


def measured(*nodes: NodeSummary, **fields: Any) -> Summary:
    used = sum(node.cpu_seconds or 0.0 for node in nodes)
    given: dict[str, Any] = {
        "nodes": nodes,
        "cpu_seconds": used,
        "cpu": cases.figures(used / RAN),
        "cpu_share": used / RAN / 4,
    }
    return cases.summary(**(given | fields))
