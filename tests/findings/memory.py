# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of which the memory matters, in GiB. To their 4 CPUs 16 GiB belong on n1."""

from __future__ import annotations

from typing import Any

import lives
from findings import cases
from findings.cases import GIB

from slurmscope.life import Life
from slurmscope.summary import Summary


def life(asked: int | None, used: float | None, state: str = "COMPLETED", **fields: Any) -> Life:
    """As sacct has it."""
    size = None if used is None else int(used * GIB)
    told = {"steps": (lives.step(max_rss=size, memory_used=size),)}
    return cases.life(state, told=told, **({"memory": None if asked is None else asked * GIB} | fields))


def measured(used: float, **fields: Any) -> Summary:
    """As an agent has it."""
    nodes = (cases.node_summary(memory_peak=int(used * GIB)),)
    given = {"nodes": nodes, "memory": cases.figures(used * GIB), "memory_share": None}
    return cases.summary(**(given | fields))
