# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How slurmscope itself fares: what it reads, keeps and sends, from the very objects that /metrics is made of.

They are changed by other threads meanwhile: dictionaries are copied before they are gone through.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from slurmscope.metrics.view import View
from slurmscope.model import PARTS
from slurmscope.reports.document import FAIL, OFF, OK
from slurmscope.store.protocol import Stats

if TYPE_CHECKING:  # what is told of, and not who does it
    from slurmscope.upkeep import Upkeep

READ, FAILING, NEVER, NOT_ASKED = "read", "failing", "never read", "not asked for yet"
SHAPES = {READ: OK, FAILING: FAIL, NEVER: FAIL, NOT_ASKED: OFF}


class PartState(msgspec.Struct, frozen=True):
    cluster: str
    part: str
    state: str
    age: float | None  # of what is shown
    source: str
    seconds: float  # that the last try took
    rows_skipped: int
    failures: int  # in a row
    error: str | None


class CommandCost(msgspec.Struct, frozen=True):
    """Since the start."""

    cluster: str
    part: str
    command: str
    runs: int
    failures: int
    seconds: float
    last_seconds: float
    bytes: int
    rows_skipped: int


class Kept(msgspec.Struct, frozen=True):
    """The store, as this process has used it."""

    up: bool
    error: str | None
    calls: int
    failures: int
    seconds: float
    last_seconds: float
    jobs_written: int
    last_success: float | None
    waiting: int  # what polls saw and it has yet to take
    dropped: int


class Sent(msgspec.Struct, frozen=True):
    """A sink."""

    sink: str
    up: bool | None  # None: nothing was sent yet
    queued: int
    queued_bytes: int
    sent: int
    dropped: int
    rejected: int
    failures: int
    last_success: float | None
    error: str


class Heard(msgspec.Struct, frozen=True):
    """What agents and others told of jobs."""

    nodes: dict[str, int]  # that reported lately, by cluster
    oldest: float | None  # seconds
    reports: int
    refused: dict[str, int]
    jobs: int  # of which something is measured now
    written: int
    dropped: int
    failing: bool
    prometheus_up: bool | None  # None: it is not asked
    prometheus_failures: int


class Mailed(msgspec.Struct, frozen=True):
    rounds: int
    failures: int
    last_success: float | None
    error: str
    waiting: int | None


def parts(view: View) -> list[PartState]:
    found = []
    for name in PARTS:
        part = view.snapshot.part(name)
        if part.value is not None:
            state = READ if part.error is None else FAILING
        else:
            state = NOT_ASKED if part.error is None else NEVER
        found.append(
            PartState(
                view.snapshot.cluster,
                name,
                state,
                view.age(name),
                part.source,
                part.seconds,
                part.rows_skipped,
                part.failures,
                part.error,
            )
        )
    return found


def commands(view: View) -> list[CommandCost]:
    """Those that took the longest first."""
    found = [
        CommandCost(
            view.snapshot.cluster,
            part,
            command,
            cost.runs,
            cost.failures,
            cost.seconds,
            cost.last_seconds,
            cost.bytes,
            cost.rows_skipped,
        )
        for (part, command), cost in list(view.source.costs.items())
        if cost.runs
    ]
    return sorted(found, key=lambda one: (-one.seconds, one.part, one.command))


def fallbacks(view: View) -> list[dict[str, Any]]:
    """How often a part had to be read another way, for this one failed."""
    return [
        {"part": part, "source": source, "count": count}
        for (part, source), count in list(view.source.fallbacks.items())
    ]


def kept(upkeep: Upkeep | None) -> Kept | None:
    """None: this process keeps nothing."""
    if upkeep is None or upkeep.archive is None:
        return None
    archive, tally = upkeep.archive, upkeep.archive.tally
    return Kept(
        up=archive.error is None,
        error=archive.error,
        calls=tally.calls,
        failures=tally.failures,
        seconds=tally.seconds,
        last_seconds=tally.last_seconds,
        jobs_written=tally.lives,
        last_success=tally.last_success,
        waiting=sum(one.recorder.waiting for one in upkeep.keepers),
        dropped=sum(one.recorder.dropped for one in upkeep.keepers),
    )


def sent(upkeep: Upkeep | None) -> list[Sent]:
    return [
        Sent(
            one.name,
            one.tally.up,
            one.tally.queued,
            one.tally.queued_bytes,
            one.tally.sent,
            one.tally.dropped,
            one.tally.rejected,
            one.tally.failures,
            one.tally.last_success,
            one.tally.last_error,
        )
        for one in (() if upkeep is None else upkeep.sinks)
    ]


def heard(upkeep: Upkeep | None, now: float) -> Heard | None:
    """None: nobody is listened to."""
    measuring = None if upkeep is None else upkeep.measuring
    if measuring is None or not (measuring.enabled or measuring.courses or measuring.backfill):
        return None
    told, courses = measuring.reports.heard(), list(measuring.courses.values())
    backfill = measuring.backfill
    return Heard(
        nodes=dict(Counter(cluster for cluster, _, _ in told)),
        oldest=max((now - when for _, _, when in told), default=None),
        reports=measuring.tally.reports,
        refused=dict(measuring.tally.refused),
        jobs=sum(map(len, courses)),
        written=measuring.tally.written,
        dropped=measuring.tally.dropped,
        failing=any(one.failing for one in courses),
        prometheus_up=None if backfill is None else backfill.tally.up,
        prometheus_failures=0 if backfill is None else backfill.tally.failures,
    )


def mailed(upkeep: Upkeep | None) -> Mailed | None:
    """None: nobody is told anything."""
    if upkeep is None or upkeep.mailing is None:
        return None
    tally = upkeep.mailing.tally
    return Mailed(tally.rounds, tally.failures, tally.last_success, tally.last_error, tally.waiting)


class Workings(msgspec.Struct, frozen=True):
    """All of it, at one moment."""

    clusters: tuple[View, ...]
    parts: list[PartState]
    commands: list[CommandCost]
    kept: Kept | None
    stats: Stats
    sent: list[Sent]
    heard: Heard | None
    mailed: Mailed | None


def workings(views: tuple[View, ...], stats: Stats, now: float) -> Workings:
    upkeep = next((one.requests.upkeep for one in views), None)
    return Workings(
        clusters=views,
        parts=[part for view in views for part in parts(view)],
        commands=[cost for view in views for cost in commands(view)],
        kept=kept(upkeep),
        stats=stats,
        sent=sent(upkeep),
        heard=heard(upkeep, now),
        mailed=mailed(upkeep),
    )
