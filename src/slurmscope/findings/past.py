# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was before a job: earlier runs of the same work, other attempts, what else its user ran, how its nodes fared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from slurmscope.life import Life


class NodeRecord(msgspec.Struct, frozen=True):
    """How a node fared in the days before."""

    node: str
    days: int
    failures: int  # jobs that ended there with NODE_FAIL
    downs: int  # times that it went down, or did not respond
    peers: float | None  # failures of a node of the cluster, on average; None: unknown
    reason: str | None  # what its operators wrote last


def same_array(one: Life, other: Life) -> bool:
    """Tasks of one array end alike: that is once."""
    return one.array_id is not None and one.array_id == other.array_id


def by_array(lives: Iterable[Life]) -> list[Life]:
    """Tasks of one array are one run: it is told by a task that completed, where there is one, else by the first."""
    found: dict[int, Life] = {}
    for at, life in enumerate(lives):
        key = -at - 1 if life.array_id is None else life.array_id
        if key not in found or (life.state == "COMPLETED" and found[key].state != "COMPLETED"):
            found[key] = life
    return list(found.values())


class Past(Protocol):
    def same_work(self, life: Life) -> Sequence[Life]:
        """Lives of the same work that were submitted before it and had ended when it did, the last to end first.

        The same work is that of the same user, account and name.
        """
        ...

    def attempts(self, life: Life) -> Sequence[Life]:
        """Lives of the same job up to this one, which is the last, by submit time: a requeued job has several."""
        ...

    def lately(self, life: Life, seconds: int) -> Sequence[Life]:
        """Lives of the same user and name that ended within so many seconds before this one, which is the last.

        Where there are many, the latest of them; where it has not ended, it alone.
        """
        ...

    def record(self, life: Life) -> Sequence[NodeRecord]:
        """How its nodes fared until it ended, its own end among it; none where nothing is kept of nodes."""
        ...
