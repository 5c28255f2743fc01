# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How nodes fared: how often each went down or was drained, and how many jobs died with it, beside its peers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.store.protocol import Lives, NodeChange, Store
from slurmscope.usage import DAY
from slurmscope.web.inventory import names_of
from slurmscope.web.map import Stretch
from slurmscope.web.site import Site

DAYS = 90
_FRESH = 600  # seconds for which what was counted is good enough: it is of months
_MOST_DIED = 2000  # jobs that are looked at
_FEW = 2  # peers that are too few to compare with
_TIMES, _LEAST = 3, 2  # so much more than its peers, and so often, is worth a word

DOWN, DRAINED, PLANNED, GONE, FINE = "down", "drained", "planned", "gone", ""
_DOWN_STATES = frozenset({"DOWN", "ERROR"})
_DOWN_FLAGS = frozenset({"NOT_RESPONDING", "FAIL", "INVALID_REG"})
_PLANNED_FLAGS = frozenset(
    {"MAINT", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED"}
)


class Record(msgspec.Struct, frozen=True):
    """Of one node in DAYS."""

    downs: int = 0  # times that it went down, or did not answer any more
    drains: int = 0  # times that it was drained while it was well
    died: int = 0  # jobs that ended with NODE_FAIL while they held it


class Compared(msgspec.Struct, frozen=True):
    own: Record
    peers: int  # how many there are
    alike: str  # in what, in words
    downs: float | None  # of one of them, on average; None: there are none
    drains: float | None
    died: float | None

    @property
    def stands_out(self) -> bool:
        """It went down, or lost jobs, far more often than others of its kind."""
        pairs = ((self.own.downs, self.downs), (self.own.died, self.died))
        return any(mean is not None and own >= _LEAST and own >= _TIMES * mean for own, mean in pairs)


def kind(change: NodeChange) -> str:
    """What a change brought: FINE, DOWN, DRAINED, PLANNED or GONE."""
    flags = frozenset(change.flags)
    if not change.state:
        return GONE
    if not flags.isdisjoint(_PLANNED_FLAGS):
        return PLANNED
    if change.state in _DOWN_STATES or not flags.isdisjoint(_DOWN_FLAGS):
        return DOWN
    return DRAINED if "DRAIN" in flags else FINE


def counted(changes: Iterable[NodeChange], died: Iterable[Life], since: int) -> dict[str, Record]:
    """By node; `changes` are in the order of time."""
    before: dict[str, str] = {}
    sums: dict[str, list[int]] = {}
    for one in changes:
        now, was = kind(one), before.get(one.node)
        before[one.node] = now
        # the first that is known of a node may have begun long before: then Slurm has an older time for it
        if now == was or (was is None and one.reason_time is not None and one.reason_time < since):
            continue
        if now == DOWN:
            sums.setdefault(one.node, [0, 0, 0])[0] += 1
        elif now == DRAINED and was != DOWN:
            sums.setdefault(one.node, [0, 0, 0])[1] += 1
    for life in died:
        for name in names_of(life):
            sums.setdefault(name, [0, 0, 0])[2] += 1
    return {name: Record(*row) for name, row in sums.items()}


def read(store: Store, cluster: str, now: int) -> dict[str, Record]:
    since = now - DAYS * DAY
    died = Lives(cluster=cluster, states=("NODE_FAIL",), ended_since=since, limit=_MOST_DIED)
    return counted(store.node_changes(cluster, since, now + 1), store.lives(died), since)


def records(site: Site, cluster: str) -> Mapping[str, Record]:
    """Those of a cluster's nodes of which there is anything to tell. Raises StoreError."""
    return site.for_a_while(("failures", cluster), _FRESH, lambda: read(site.store, cluster, site.now))


def compared(node: Node, nodes: Collection[Node], found: Mapping[str, Record]) -> Compared:
    """With others of the same partitions and hardware; where these are few, of the same partitions."""
    own = found.get(node.name, Record())
    others = [one for one in nodes if one.name != node.name and set(one.partitions) == set(node.partitions)]
    same = [one for one in others if one.cpus == node.cpus and one.gpus == node.gpus]
    peers, alike = (same, "partitions, CPUs and GPUs") if len(same) >= _FEW else (others, "partitions")
    if len(peers) < _FEW:
        return Compared(own, len(peers), alike, None, None, None)
    theirs = [found.get(one.name, Record()) for one in peers]
    return Compared(
        own,
        len(peers),
        alike,
        sum(one.downs for one in theirs) / len(theirs),
        sum(one.drains for one in theirs) / len(theirs),
        sum(one.died for one in theirs) / len(theirs),
    )


def stretches(changes: Sequence[NodeChange], start: int, end: int) -> list[Stretch]:
    """What a node was from `start` to `end`, as far as it is known; `changes` are its own, earlier ones too."""
    found = []
    for at, one in enumerate(changes):
        until = changes[at + 1].time if at + 1 < len(changes) else end
        if until > start and one.time < end:
            now = kind(one)
            found.append(Stretch(max(start, one.time), min(end, until), now, (one.reason or "") if now else ""))
    return found
