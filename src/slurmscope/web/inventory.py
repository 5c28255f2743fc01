# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cluster as they were last seen, and which of them somebody may open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slurmscope.model import Job, Node
from slurmscope.slurm.values import hosts
from slurmscope.store.protocol import Lives
from slurmscope.web.memory import Same
from slurmscope.web.site import Site
from slurmscope.web.tree import Tree
from slurmscope.web.visit import Visit

_LATELY = 300  # lives of a viewer whose nodes are linked to

Openable = Callable[[str, str], bool]
"""Whether a link leads to a node's page: of a cluster, and a name."""


class Seen(msgspec.Struct, frozen=True):
    cluster: str
    nodes: Sequence[Node] = ()
    time: float | None = None  # None: they never were
    live: bool = True  # by the last polls; else as they are kept
    error: str | None = None  # of the last try to read them
    jobs: Mapping[str, int] | None = None  # how many hold each now; None: unknown


def names_of(job: Job) -> tuple[str, ...]:
    """The nodes that it holds, or held; none where what Slurm told is no list of hosts."""
    listed = job.node_list
    if "[" not in listed and "," not in listed:
        return (listed,) if listed else ()
    try:
        return hosts(listed)
    except ValueError:
        return ()


def seen(visit: Visit, cluster: str) -> Seen:
    """Raises StoreError."""
    snapshot = visit.site.snapshot(cluster)
    part = snapshot.nodes
    if part.value is not None:
        jobs = held(visit.site, cluster, snapshot.jobs.value)
        return Seen(cluster, _discreet(visit, part.value), part.time, True, part.error, jobs)
    kept = visit.store.nodes(cluster)
    if not kept:
        return Seen(cluster, error=part.error)
    found = _discreet(visit, [one.node for one in kept])
    return Seen(cluster, found, max(one.time for one in kept), False, part.error)


def _discreet(visit: Visit, nodes: Sequence[Node]) -> Sequence[Node]:
    """Without the names of those who gave a reason, for viewers who do not see them."""
    if visit.viewer.staff:
        return nodes
    return [
        one
        if one.reason_user is None or visit.viewer.sees_user(one.reason_user)
        else msgspec.structs.replace(one, reason_user=None)
        for one in nodes
    ]


def held(site: Site, cluster: str, jobs: Sequence[Job] | None) -> Mapping[str, int] | None:
    """Counted once a poll: there may be as many jobs as there are CPUs."""
    if jobs is None:
        return None

    def count() -> Mapping[str, int]:
        return Counter(name for job in jobs if job.holding for name in names_of(job))

    return site.remembered(("held", cluster), Same(jobs), count)


def openable(visit: Visit, clusters: Sequence[str]) -> Openable:
    """For lists: the staff may open any; others are led to nodes that hold a job of theirs, or did so lately.

    Raises StoreError.
    """
    viewer = visit.viewer
    if viewer.staff:
        return lambda cluster, name: True
    found: set[tuple[str, str]] = set()
    for cluster in clusters:
        mine = [job for job in Tree(visit.site, cluster, viewer).jobs_seen() if job.holding]
        lives = visit.store.lives(Lives(cluster=cluster, sight=viewer.sight, limit=_LATELY))
        found.update((cluster, name) for job in (*mine, *lives) for name in names_of(job))
    return lambda cluster, name: (cluster, name) in found


def may_open(visit: Visit, cluster: str, name: str) -> bool:
    """Who has or had a job there that they may see, and the staff. Raises StoreError."""
    if visit.viewer.staff:
        return True
    return bool(visit.store.lives(Lives(cluster=cluster, node=name, sight=visit.viewer.sight, limit=1)))
