# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster in a few sentences, and the figures of which they are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from slurmscope.metrics.pages import Edition
from slurmscope.metrics.view import View
from slurmscope.model import Snapshot
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Table, Verdict
from slurmscope.waiting.blocked import Blocked
from slurmscope.web import capacity, room, states, trouble
from slurmscope.web.capacity import Resource
from slurmscope.web.people.viewer import NOBODY
from slurmscope.web.queue import Queue, queue_of
from slurmscope.web.site import Site
from slurmscope.web.translation import Translation
from slurmscope.web.visit import Visit
from slurmscope.words import percent


class Ground(msgspec.Struct, frozen=True):
    """Of the nodes, the same for whoever looks."""

    resources: Sequence[Resource]
    rooms: Sequence[room.Room]
    states: Mapping[str, int]  # nodes by state and flags, the most first
    away: Sequence[trouble.Nodes]
    open_nodes: int  # on which something could start
    free_cpus: int  # there
    free_gpus: Mapping[str, room.Free]


class Outlook(msgspec.Struct, frozen=True):
    cluster: str
    edition: Edition | None  # None: it is not read any more, or has not answered yet
    snapshot: Snapshot
    ground: Ground
    queue: Queue
    troubles: trouble.Troubles

    @property
    def resources(self) -> Sequence[Resource]:
        return self.ground.resources

    @property
    def data(self) -> dict[str, Any]:
        """For scripts. Of people only what the viewer may see is in it."""
        waiting = {"running": self.queue.running, "waiting": self.queue.waiting, "partitions": self.queue.partitions}
        return {
            "cluster": self.cluster,
            "time": self.snapshot.jobs.time,
            "up": self.edition is not None and self.edition.up,
            "busy": capacity.busy(self.resources),
            "resources": [capacity.datum(one) for one in self.resources],
            "nodes": self.ground.states,
            "queue": waiting,
            "free_gpus": self.ground.free_gpus,
            "free_cpus": self.ground.free_cpus,
            "can_start": self.ground.rooms,
            "needs_a_hand": self.troubles.data,
        }


def outlook(visit: Visit, cluster: str) -> Outlook:
    """How a cluster is now, as a reader may see it."""
    site, viewer = visit.site, visit.viewer
    found = prepared(site, cluster)
    snapshot, queue, ground = found.snapshot, found.queue, found.ground
    troubles = trouble.Troubles(
        nodes=[one.seen_by(viewer) for one in ground.away],
        blocked=found.blocked if viewer.staff else trouble.held_up(queue, snapshot, viewer),
        unused=_unused(visit, cluster, queue),
    )
    return Outlook(cluster, site.edition(cluster), snapshot, ground, queue, troubles)


def _unused(visit: Visit, cluster: str, queue: Queue) -> Sequence[trouble.Unused]:
    """For those who see all it is read once a poll: it is of a hundred jobs."""
    store, now = visit.store, visit.now

    def read() -> Sequence[trouble.Unused]:
        return trouble.unused(queue, cluster, visit.viewer, now, lambda keys: store.summaries(cluster, keys))

    return visit.site.until_polled(("unused", cluster), read) if visit.viewer.staff else read()


class Prepared(msgspec.Struct, frozen=True):
    """What changes with polls alone."""

    snapshot: Snapshot
    queue: Queue
    ground: Ground
    blocked: Sequence[Blocked]  # for those who may see all


def prepared(site: Site, cluster: str) -> Prepared:
    view = site.view(cluster)
    snapshot = view.snapshot
    jobs, seen = snapshot.jobs, tuple(snapshot.part(name).time for name in ("nodes", "partitions", "reservations"))
    queue = site.remembered(("queue", cluster), jobs.time, lambda: queue_of(jobs.value or (), jobs.time or 0.0))
    ground = site.remembered(("ground", cluster), seen, lambda: _ground(view))
    times = tuple(snapshot.part(name).time for name in ("jobs", "limits", "shares", "partitions"))
    blocked = site.remembered(("held up", cluster), times, lambda: trouble.held_up(queue, snapshot, NOBODY))
    return Prepared(snapshot, queue, ground, blocked)


def _ground(view: View) -> Ground:
    open_nodes = room.whole(view)
    return Ground(
        resources=capacity.capacity(view.nodes),
        rooms=room.rooms(view),
        states=dict(Counter(map(states.node_words, view.nodes)).most_common()),
        away=trouble.needing(view.nodes),
        open_nodes=len(open_nodes),
        free_cpus=sum(one.cpus_idle for one in open_nodes),
        free_gpus=room.free_gpus(open_nodes),
    )


# --- one cluster ------------------------------------------------------------------------------------------------------


def verdict(found: Outlook, t: Translation) -> Verdict:
    """What a person would say who has looked at the page."""
    cluster, busy = found.cluster, capacity.busy(found.resources)
    if found.edition is None:
        return Verdict(
            "",
            t("{cluster} is not read now", cluster=cluster),
            t("What is kept of it is below. Health says what is being tried."),
        )
    if busy is None:
        return Verdict(
            "",
            t("{cluster} has not been read yet", cluster=cluster),
            t("It is tried again and again. Health says what slurmctld answers."),
        )
    said = [
        _silent(found, t),
        _startable([found.ground], found.resources, t),
        _queued(found.queue, t),
        _broken(found.troubles.node_count, t),
    ]
    headline = t("{cluster} is {share} busy", cluster=cluster, share=percent(busy))
    return Verdict("", headline, " ".join(filter(None, said)))


def _silent(found: Outlook, t: Translation) -> str:
    edition, when = found.edition, found.snapshot.jobs.time
    if edition is None or edition.up or when is None:
        return ""
    return t("It does not answer; this is how it was {span} ago.", span=t.span(max(0.0, edition.clock() - when)))


def _startable(grounds: Sequence[Ground], resources: Sequence[Resource], t: Translation) -> str:
    if not any(one.kind == "gpu" for one in resources):
        cpus, nodes = (sum(getattr(one, name) for one in grounds) for name in ("free_cpus", "open_nodes"))
        if not cpus:
            return t("No CPU can start work now.")
        if nodes == 1:
            return t("{cpus} CPUs on one node can start work now.", cpus=f"{cpus:,}")
        return t("{cpus} CPUs on {nodes} nodes can start work now.", cpus=f"{cpus:,}", nodes=f"{nodes:,}")
    free = sum(one.total for ground in grounds for one in ground.free_gpus.values())
    stranded = int(capacity.stranded_gpus(resources))
    if not free:
        said = t("No GPU can start work now")
    else:
        said = t("One GPU can start work now") if free == 1 else t("{count} GPUs can start work now", count=f"{free:,}")
    if not stranded:
        return f"{said}."
    if stranded == 1:
        return f"{said}, {t('one is stranded behind full CPUs.')}"
    return f"{said}, {t('{count} are stranded behind full CPUs.', count=f'{stranded:,}')}"


def _queued(queue: Queue, t: Translation) -> str:
    tasks, median = queue.waiting.tasks, queue.waiting.median
    if not tasks:
        return t("Nobody waits.")
    if tasks == 1:
        return t("One job waits.") if median is None else t("One job waits, for {span} so far.", span=t.span(median))
    if median is None:
        return t("{count} jobs wait.", count=f"{tasks:,}")
    return t("{count} jobs wait, half of them for {span} or less.", count=f"{tasks:,}", span=t.span(median))


def _broken(nodes: int, t: Translation) -> str:
    if not nodes:
        return ""
    return t("One node needs a hand.") if nodes == 1 else t("{count} nodes need a hand.", count=f"{nodes:,}")


# --- all of them ------------------------------------------------------------------------------------------------------


def over_all(each: Sequence[Outlook], resources: Sequence[Resource], t: Translation) -> Verdict:
    said = [_startable([one.ground for one in each], resources, t)]
    waiting = sum(one.queue.waiting.tasks for one in each)
    said.append(_waiting(waiting, t))
    said.append(_broken(sum(one.troubles.node_count for one in each), t))
    if silent := [one.cluster for one in each if one.edition is None or not one.edition.up]:
        said.append(t("Not answering: {names}.", names=", ".join(silent)))
    busy = capacity.busy(resources)
    headline = t("{count} clusters are {share} busy", count=len(each), share=percent(busy))
    if busy is None:
        headline, said = t("No cluster has been read yet"), [t("Health says what is being tried.")]
    return Verdict("", headline, " ".join(filter(None, said)))


def _waiting(tasks: int, t: Translation) -> str:
    if not tasks:
        return t("Nobody waits.")
    return t("One job waits.") if tasks == 1 else t("{count} jobs wait.", count=f"{tasks:,}")


def clusters_table(each: Sequence[Outlook]) -> Table:
    columns = (
        Column("cluster", "cluster"),
        Column("busy", "CPUs in use"),
        Column("free_gpus", "GPUs that can start", True),
        Column("free_cpus", "CPUs that can start", True),
        Column("waiting", "jobs that wait", True),
        Column("median_seconds", "half wait at most", True),
        Column("nodes_in_need", "nodes that need a hand", True),
        Column("age_seconds", "seen", True),
    )
    return Table("clusters", columns, tuple(map(_row, each)))


def _row(one: Outlook) -> tuple[Cell, ...]:
    edition, when = one.edition, one.snapshot.jobs.time
    age = None if edition is None or when is None else max(0.0, edition.clock() - when)
    known = bool(one.resources)
    has_gpus = any(resource.kind == "gpu" for resource in one.resources)
    return (
        cells.words(one.cluster, f"cluster:{one.cluster}"),
        cells.meter(capacity.busy(one.resources), judged=False),
        cells.count(sum(free.total for free in one.ground.free_gpus.values()) if has_gpus else None),
        cells.count(one.ground.free_cpus if known else None),
        cells.count(one.queue.waiting.tasks if one.snapshot.jobs.value is not None else None),
        cells.seconds(one.queue.waiting.median),
        cells.count(one.troubles.node_count if known else None),
        cells.seconds(age),
    )
