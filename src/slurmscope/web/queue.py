# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits, where, why and for how long. Arrays count as their tasks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate

import msgspec

from slurmscope.metrics.view import reason_label
from slurmscope.model import HOLDING_STATES, PENDING, WAITING_STATES, Job
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Table
from slurmscope.store.protocol import Store, UsageAsked
from slurmscope.usage import DAY
from slurmscope.waiting.blocked import by_limit
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.web.translation import Translation

_REASONS_SHOWN = 3  # of one partition
_MOST_REASONS = 12
_Since = dict[int, int]  # how many tasks became eligible when


class Waiting(msgspec.Struct, frozen=True):
    """Tasks that wait. Times are since they became eligible: who is held, depends on another or is for later does not
    count in them, as in the metrics."""

    tasks: int
    eligible: int  # of these
    median: float | None
    ninetieth: float | None
    longest: float | None
    reasons: Mapping[str, int]  # tasks by why, the most first


class Queue(msgspec.Struct, frozen=True):
    running: int
    waiting: Waiting
    partitions: Mapping[str, Waiting]  # those with the most first; who waits in two counts in both
    limited: tuple[Job, ...]  # that wait for a limit: one for all that are alike, with the tasks of all
    with_gpus: tuple[Job, ...]  # that hold them now


_Reasons = dict[tuple[str, str | None], int]  # tasks by partitions, as a job has them, and reason


def queue_of(jobs: Iterable[Job], now: float) -> Queue:
    """As of `now`, which is when they were seen. One pass, for there may be a hundred thousand."""
    counts: _Reasons = {}
    since: dict[str, _Since] = {}
    waiting, with_gpus, running = [], [], 0
    for job in jobs:
        state = job.state
        if state in HOLDING_STATES:
            running += job.tasks
            if job.gpus:
                with_gpus.append(job)
        elif state in WAITING_STATES:
            waiting.append(job)
            key = job.partition, job.reason
            counts[key] = counts.get(key, 0) + job.tasks
            eligible = job.eligible_time
            if state == PENDING and eligible is not None and eligible <= now:
                here = since.get(job.partition)
                if here is None:
                    here = since[job.partition] = {}
                here[eligible] = here.get(eligible, 0) + job.tasks
    whole = _waiting(counts, _together(since.values()), now)
    return Queue(running, whole, _by_partition(counts, since, now), _limited(waiting, counts), tuple(with_gpus))


def _together(all_of: Iterable[_Since]) -> _Since:
    found: _Since = {}
    for one in all_of:
        for when, tasks in one.items():
            found[when] = found.get(when, 0) + tasks
    return found


def _limited(waiting: Iterable[Job], counts: _Reasons) -> tuple[Job, ...]:
    reasons = {reason for _, reason in counts if by_limit(reason_of(parse(reason)))}
    groups: dict[tuple[object, ...], tuple[Job, list[int]]] = {}
    for job in waiting:
        if job.reason in reasons:
            key = job.reason, job.user, job.account, job.qos, job.partition, *job.gpus
            found = groups.get(key)
            if found is None:
                found = groups[key] = job, []
            found[1].append(job.tasks)
    return tuple(msgspec.structs.replace(job, tasks=sum(tasks)) for job, tasks in groups.values())


def _by_partition(counts: _Reasons, since: Mapping[str, _Since], now: float) -> dict[str, Waiting]:
    of: dict[str, _Reasons] = {}
    for (names, reason), tasks in counts.items():
        for name in names.split(","):
            of.setdefault(name, {})[names, reason] = tasks
    found = {
        name: _waiting(some, _together(one for names, one in since.items() if name in names.split(",")), now)
        for name, some in of.items()
    }
    return dict(sorted(found.items(), key=lambda one: (-one[1].tasks, one[0])))


def _waiting(counts: _Reasons, since: _Since, now: float) -> Waiting:
    reasons: dict[str, int] = {}
    for (_, reason), tasks in counts.items():
        name = reason_label(reason)
        reasons[name] = reasons.get(name, 0) + tasks
    latest = sorted(since, reverse=True)
    until = list(accumulate(since[when] for when in latest))

    def at(share: float) -> float | None:
        """The least time that so many of them have waited no longer than."""
        return now - latest[bisect_left(until, share * until[-1])] if until else None

    return Waiting(
        tasks=sum(counts.values()),
        eligible=until[-1] if until else 0,
        median=at(0.5),
        ninetieth=at(0.9),
        longest=at(1.0),
        reasons=dict(sorted(reasons.items(), key=lambda one: (-one[1], one[0]))),
    )


# --- those that have started ------------------------------------------------------------------------------------------


class Started(msgspec.Struct, frozen=True):
    """Of one partition, since yesterday began."""

    tasks: int
    wait_seconds: int

    @property
    def mean(self) -> float | None:
        return self.wait_seconds / self.tasks if self.tasks else None


def started(store: Store, cluster: str, now: int) -> dict[str, Started]:
    """By partition: what started today and yesterday, by days of UTC."""
    today = now // DAY
    asked = UsageAsked(since=today - 1, until=today + 1, by=("partition",), only={"cluster": cluster})
    return {
        str(one.key[0]): Started(one.amounts.started, one.amounts.wait_seconds)
        for one in store.usage(asked)
        if one.amounts.started
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def waiting_table(queue: Queue, since: Mapping[str, Started], cluster: str, t: Translation) -> Table:
    columns = (
        Column("partition", "partition"),
        Column("waiting", "jobs that wait", True),
        Column("median_seconds", "half wait at most", True),
        Column("ninetieth_seconds", "9 of 10 at most", True),
        Column("longest_seconds", "the longest", True),
        Column("reasons", "why"),
        Column("started", "started since yesterday", True),
        Column("mean_wait_seconds", "waited on average", True),
    )
    names = [*queue.partitions, *sorted(since.keys() - queue.partitions.keys())]
    none = Waiting(0, 0, None, None, None, {})
    rows = []
    for name in names:
        waits, begun = queue.partitions.get(name, none), since.get(name)
        rows.append(
            (
                cells.words(name, f"waiting:{cluster}/{name}"),
                cells.count(waits.tasks),
                cells.seconds(waits.median),
                cells.seconds(waits.ninetieth),
                cells.seconds(waits.longest),
                cells.words(_reasons_told(waits)),
                cells.count(None if begun is None else begun.tasks),
                cells.seconds(None if begun is None else begun.mean),
            )
        )
    note = t("Times are since a job could have started; who is held or depends on another does not count in them.")
    return Table("waiting", columns, tuple(rows), note if queue.waiting.tasks else "", t("Nobody waits."))


def _reasons_told(waits: Waiting) -> str:
    named = list(waits.reasons.items())[:_REASONS_SHOWN]
    return ", ".join(f"{name} {count:,}" for name, count in named)


def reasons_table(waits: Waiting, t: Translation) -> Table:
    columns = (Column("reason", "reason"), Column("jobs", "jobs", True), Column("decides", "what lets them go on"))
    rows = [
        (cells.words(name), cells.count(count), Cell(t(decides), decides))
        for name, count in waits.reasons.items()
        for decides in [reason_of(parse(name)).decides]
    ]
    left = len(rows) - _MOST_REASONS
    note = t("and {count} other reasons", count=left) if left > 0 else ""
    return Table("reasons", columns, tuple(rows[:_MOST_REASONS]), note, t("Nobody waits."))
