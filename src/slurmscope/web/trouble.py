# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What needs a hand: nodes that take no work, accounts that a limit holds up, GPUs that are held and not used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from slurmscope.model import Job, Node, Part, Snapshot
from slurmscope.reports import cells
from slurmscope.reports.document import FAIL, OFF, WAIT, Cell, Column, Table
from slurmscope.store.protocol import JobKey
from slurmscope.summary import Summary
from slurmscope.waiting.blocked import Blocked, blocked
from slurmscope.web import states
from slurmscope.web.hostlist import folded
from slurmscope.web.people.viewer import Viewer
from slurmscope.web.queue import Queue
from slurmscope.web.translation import Translation

_MOST_ROWS = 12  # of each kind
MOST_HOLDERS = 100
"""Jobs whose GPUs are looked at, those with the most of them."""
IDLE_SECONDS = 3600
_IDLE = 0.005  # of a GPU's time: one that was never busier than this was not used
_RECENT = 900  # seconds after which what was measured says nothing of now

_SHAPES = {states.DOWN: FAIL, states.DRAINED: WAIT, states.DRAINING: WAIT, states.UNKNOWN: OFF}


class Nodes(msgspec.Struct, frozen=True):
    """That take no work, all for one reason."""

    condition: str  # of states.condition
    names: tuple[str, ...]
    reason: str | None
    user: str | None  # who took them out
    since: int | None  # the first of them

    def seen_by(self, viewer: Viewer) -> Nodes:
        """Without the name of somebody whom the viewer does not see."""
        hidden = self.user is not None and not viewer.sees_user(self.user)
        return msgspec.structs.replace(self, user=None) if hidden else self


class Unused(msgspec.Struct, frozen=True):
    """GPUs of one person that nothing has used since the jobs began."""

    user: str
    gpus: Mapping[str, int]  # by type
    jobs: tuple[int, ...]
    seconds: float  # that were measured, of the job of which the least were

    @property
    def count(self) -> int:
        return sum(self.gpus.values())


class Troubles(msgspec.Struct, frozen=True):
    nodes: Sequence[Nodes]
    blocked: Sequence[Blocked]
    unused: Sequence[Unused]

    @property
    def node_count(self) -> int:
        return sum(len(one.names) for one in self.nodes)

    @property
    def data(self) -> dict[str, Any]:
        """For scripts."""
        limits = [
            {"reason": one.reason, "limit": one.limit, "tasks": one.tasks, "accounts": one.accounts}
            for one in self.blocked
        ]
        return {"nodes": self.nodes, "limits": limits, "unused_gpus": self.unused}


def needing(nodes: Iterable[Node]) -> list[Nodes]:
    """Grouped by what is wrong, the worst first. What may become a node one day needs nothing."""
    groups: dict[tuple[str, str | None, str | None], list[Node]] = {}
    for node in nodes:
        condition = states.condition(node)
        if condition != states.UP and node.state != "FUTURE":
            groups.setdefault((condition, node.reason, node.reason_user), []).append(node)
    found = [
        Nodes(
            condition,
            tuple(sorted(one.name for one in some)),
            reason,
            user,
            min((one.reason_time for one in some if one.reason_time is not None), default=None),
        )
        for (condition, reason, user), some in groups.items()
    ]
    order = list(_SHAPES)
    return sorted(found, key=lambda one: (order.index(one.condition), -len(one.names), one.names))


def held_up(queue: Queue, snapshot: Snapshot, viewer: Viewer) -> list[Blocked]:
    """Limits for which jobs wait, of jobs that the viewer may see."""
    alike = snapshot.replaced(jobs=Part(queue.limited, snapshot.jobs.time))
    return blocked(alike, lambda job: viewer.sees_job(snapshot.cluster, job.user, job.account))


def unused(
    queue: Queue, cluster: str, viewer: Viewer, now: int, read: Callable[[list[JobKey]], Mapping[JobKey, Summary]]
) -> list[Unused]:
    """People whose running jobs hold GPUs that were not used for an hour or more; of jobs that the viewer may see.

    `read` gives what was measured of jobs. What was not, or not of each GPU, or not lately, is not known.
    """
    there = [
        job
        for job in queue.with_gpus
        if job.start_time is not None
        and now - job.start_time >= IDLE_SECONDS
        and viewer.sees_job(cluster, job.user, job.account)
    ]
    there.sort(key=lambda job: (-sum(job.gpus.values()), job.id))
    there = there[:MOST_HOLDERS]
    summaries = read([job.key for job in there])
    held: dict[str, list[tuple[Job, float]]] = {}
    for job in there:
        seconds = _idle(job, summaries.get(job.key), now)
        if seconds is not None:
            held.setdefault(job.user, []).append((job, seconds))
    found = [
        Unused(user, _sum(job.gpus for job, _ in some), tuple(job.id for job, _ in some), min(idle for _, idle in some))
        for user, some in held.items()
    ]
    return sorted(found, key=lambda one: (-one.count, one.user))


def _idle(job: Job, summary: Summary | None, now: int) -> float | None:
    """For how long none of its GPUs was used; None: one was, or that is not known, or it is not for long."""
    if summary is None or now - summary.last > _RECENT or len(summary.gpus) < sum(job.gpus.values()):
        return None
    if any(one.peak is None or one.peak > _IDLE for one in summary.gpus):
        return None
    seconds = min(one.seconds or 0.0 for one in summary.gpus)
    return seconds if seconds >= IDLE_SECONDS else None


def _sum(all_of: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in all_of:
        for kind, count in one.items():
            found[kind] = found.get(kind, 0) + count
    return found


# --- the table --------------------------------------------------------------------------------------------------------


def table(found: Troubles, cluster: str, viewer: Viewer, t: Translation) -> Table:
    """Names of people only for those who may know them."""
    columns = (Column("what", ""), Column("state", "state"), Column("since", "since"), Column("why", "why"))
    rows = [_of_nodes(one, cluster, viewer, t) for one in found.nodes[:_MOST_ROWS]]
    rows += [_of_limit(one, cluster, viewer, t) for one in found.blocked[:_MOST_ROWS]]
    rows += [_of_user(one, t) for one in found.unused[:_MOST_ROWS]]
    left = sum(max(0, len(some) - _MOST_ROWS) for some in (found.nodes, found.blocked, found.unused))
    note = t("and {count} more of the kind", count=left) if left else ""
    return Table("needs_a_hand", columns, tuple(rows), note, t("Nothing does."))


def _of_nodes(one: Nodes, cluster: str, viewer: Viewer, t: Translation) -> tuple[Cell, ...]:
    names = folded(one.names)
    link = f"nodes:{cluster}/{one.condition}"
    if len(one.names) == 1:
        link = f"node:{cluster}/{one.names[0]}" if viewer.staff else ""
    why = one.reason or t("no reason is given")
    if one.user:
        why = t("{reason}, by {user}", reason=why.rstrip("."), user=one.user)
    return (
        Cell(names, names, link=link),
        Cell(t(one.condition), one.condition, level=_SHAPES[one.condition]),
        cells.moment(one.since),
        Cell(why),
    )


def _of_limit(one: Blocked, cluster: str, viewer: Viewer, t: Translation) -> tuple[Cell, ...]:
    accounts = list(one.accounts)
    link = f"account:{cluster}/{accounts[0]}" if viewer.sees_account(cluster, accounts[0]) else ""
    what = t("account {name}", name=accounts[0])
    if len(accounts) > 1:
        what = t("account {name} and {count} more", name=accounts[0], count=len(accounts) - 1)
    said = t("one job blocked") if one.tasks == 1 else t("{count} jobs blocked", count=f"{one.tasks:,}")
    return Cell(what, accounts[0], link=link), Cell(said, one.tasks), cells.words(None), Cell(one.said(t))


def _of_user(one: Unused, t: Translation) -> tuple[Cell, ...]:
    held = ", ".join(f"{count:,} {kind or 'GPU'}" for kind, count in sorted(one.gpus.items()))
    said = t("one GPU not used") if one.count == 1 else t("{count} GPUs not used", count=f"{one.count:,}")
    why = t("{held} held, none used for {span}", held=held, span=t.span(one.seconds))
    return Cell(one.user, one.user, link=f"user:{one.user}"), Cell(said, one.count), cells.words(None), Cell(why)
