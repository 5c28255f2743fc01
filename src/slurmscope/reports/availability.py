# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How much of the machine could be used, and why the rest could not: from the changes of nodes' conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from slurmscope.store.protocol import KeptNode, NodeChange

_LOOK_BACK = 400 * 86400  # seconds before a period: what condition a node was in when it began
_DOWN, _DRAIN = ("DOWN", "ERROR", "UNKNOWN"), ("DRAIN", "FAIL", "INVALID_REG")


class Availability(msgspec.Struct, frozen=True):
    node_seconds: int  # of all nodes that were there
    lost: Mapping[str, int]  # node-seconds by why: "maintenance", "drained: disk", …

    @property
    def share(self) -> float | None:
        return 1 - sum(self.lost.values()) / self.node_seconds if self.node_seconds else None


def look_back(start: int) -> int:
    """From when on changes must be read for a period."""
    return max(0, start - _LOOK_BACK)


def availability(nodes: Iterable[KeptNode], changes: Sequence[NodeChange], start: int, end: int) -> Availability:
    """From `start` to `end`; `changes` are those from `look_back(start)` on, in the order of time."""
    by_node = {
        name: list(some)
        for name, some in groupby(sorted(changes, key=lambda one: (one.node, one.time)), lambda one: one.node)
    }
    kept = {one.node.name: one for one in nodes}
    total = 0
    lost: dict[str, int] = {}
    for name in kept.keys() | by_node.keys():
        for since, until, why in _spans(kept.get(name), by_node.get(name, []), start, end):
            total += until - since
            if why:
                lost[why] = lost.get(why, 0) + until - since
    return Availability(total, dict(sorted(lost.items(), key=lambda one: (-one[1], one[0]))))


def _spans(kept: KeptNode | None, changes: Sequence[NodeChange], start: int, end: int) -> list[tuple[int, int, str]]:
    """(since, until, why it could not be used), "" where it could. Times in which it was not there are left out, and so
    is the time before anything is known of it."""
    earlier = [one for one in changes if one.time <= start]
    now: str | None = None
    if earlier:
        now = _why(earlier[-1])
    elif kept is not None and kept.since <= start:
        now = _named(kept.node.state, kept.node.flags, kept.node.reason)
    found = []
    at = start
    for change in [one for one in changes if start < one.time < end]:
        if now is not None:
            found.append((at, change.time, now))
        now, at = _why(change), change.time
    return [*found, (at, end, now)] if now is not None else found


def _why(change: NodeChange) -> str | None:
    """None: the node is not there any more."""
    return _named(change.state, frozenset(change.flags), change.reason) if change.state else None


def _named(state: str, flags: frozenset[str], reason: str | None) -> str:
    told = f": {reason}" if reason else ""
    if "MAINT" in flags:
        return f"maintenance{told}"
    if state in _DOWN or "NOT_RESPONDING" in flags:
        return f"down{told}"
    if not flags.isdisjoint(_DRAIN):
        return f"drained{told}"
    if not flags.isdisjoint({"REBOOT_ISSUED", "POWERING_DOWN", "POWER_DOWN", "BLOCKED"}):
        return "rebooting or powering down"
    return "" if state != "FUTURE" else "not in service"
