# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Why a job waits, in words, with the facts behind it and an estimate. Pure: from a snapshot and a record of starts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import msgspec

from slurmscope.model import Job, Snapshot
from slurmscope.waiting import causes, limits, room
from slurmscope.waiting.case import Case, Fact, id_of
from slurmscope.waiting.reason import ACCOUNT, CLUSTER, JOBS, QOS, QUEUE, TIME, Reason
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.waiting.record import DAYS, LEAST, StartRecord
from slurmscope.words import amount, listed, moment, span

_OLD = 300  # seconds; what is older than that is told with its age
# What lets these go on is in the queue: a guess of their start, and what others waited, say something.
_GUESSED = frozenset({QUEUE, ACCOUNT, QOS, JOBS, CLUSTER})


class Estimate(msgspec.Struct, frozen=True):
    start: int | None  # slurmctld's guess
    words: tuple[str, ...]  # the guess, how good guesses were, and what similar jobs waited
    record: StartRecord | None = None


class Explanation(msgspec.Struct, frozen=True):
    job: str
    reason: str  # as Slurm printed it
    name: str  # as the table has it
    words: str
    decides: str
    actions: tuple[str, ...]
    facts: tuple[Fact, ...]
    estimate: Estimate
    never: bool  # as it is, it can never start


_Maker = Callable[[Case], Iterator[Fact]]
# What makes each kind of fact that a row of the table may name, and the parts of a snapshot that it is made of.
MAKERS: dict[str, tuple[_Maker, tuple[str, ...]]] = {
    "ahead": (room.ahead_facts, ("jobs",)),
    "array": (causes.array_facts, ("jobs",)),
    "begin": (causes.begin_facts, ()),
    "dependency": (causes.dependency_facts, ("jobs",)),
    "licenses": (causes.license_facts, ("licenses", "jobs")),
    "limit": (limits.limit_facts, ("limits", "jobs")),
    "limits": (limits.all_limit_facts, ("limits", "jobs")),
    "nodes": (causes.node_facts, ("nodes",)),
    "partition": (room.partition_facts, ("partitions",)),
    "reservation": (causes.reservation_facts, ("reservations", "jobs")),
    "reserved": (causes.reserved_facts, ("reservations", "nodes")),
    "restarts": (causes.restart_facts, ()),
    "room": (room.room_facts, ("nodes", "jobs")),
    "share": (causes.share_facts, ("shares",)),
}


def explain(
    job: Job, snapshot: Snapshot, record: StartRecord | None, now: float, *, discreet: bool = False
) -> Explanation:
    """Why it waits. What the snapshot does not know is said to be unknown.

    `discreet`: other people are not named, and errors, which may name hosts and paths, are not told.
    """
    told = parse(job.reason)
    reason = reason_of(told)
    case = Case(job, snapshot, told, reason, now, discreet=discreet)
    facts = list(room.never_facts(case))
    parts: dict[str, None] = {}
    for kind in reason.facts:
        maker, needs = MAKERS[kind]
        facts += maker(case)
        parts |= dict.fromkeys(needs)
    facts += _gaps(case, parts)
    never = reason.never or any(fact.name == "never" for fact in facts)
    return Explanation(
        job=id_of(job),
        reason=job.reason or "None",
        name=told.name,
        words=reason.words,
        decides=reason.decides,
        actions=tuple(_filled(action, job) for action in reason.actions),
        facts=tuple(facts),
        estimate=_estimate(job, reason, record, now, never=never),
        never=never,
    )


def _filled(action: str, job: Job) -> str:
    names = {"job": id_of(job), "user": job.user, "account": job.account, "qos": job.qos}
    for name, value in names.items():
        action = action.replace(f"{{{name}}}", shlex.quote(value))
    return action


def _gaps(case: Case, parts: dict[str, None]) -> Iterator[Fact]:
    """What is behind the reason and could not be read, or is old."""
    now = case.now
    for name in parts:
        part = case.snapshot.part(name)
        if part.value is None:
            why = f": {part.error}" if part.error and not case.discreet else ""
            yield Fact("unknown", f"{name} could not be read{why}", {"part": name})
        elif part.time is not None and now - part.time > _OLD:
            age = now - part.time
            yield Fact("old", f"what is said of {name} is {span(age)} old", {"part": name, "seconds": age})


# --- when -------------------------------------------------------------------------------------------------------------


def _estimate(job: Job, reason: Reason, record: StartRecord | None, now: float, *, never: bool) -> Estimate:
    if never:
        return Estimate(None, ("none: as it is, it does not start",))
    if reason.decides == TIME:
        return Estimate(None, ("none: it waits for a time, and after that for its turn",))
    if reason.decides not in _GUESSED:
        return Estimate(None, (f"none: that is up to {reason.decides}, not to the queue",))
    words = [_guess(job, now)]
    if record is not None:
        words += _of_record(record, guessed=job.start_time is not None)
    return Estimate(job.start_time, tuple(words), record)


def _guess(job: Job, now: float) -> str:
    if job.start_time is None:
        return "slurmctld has no guess of its start: it makes some for the first jobs of the queue"
    if job.start_time <= now:
        return f"slurmctld guessed {moment(job.start_time)}, which is past"
    tasks = "its first task starts " if job.tasks > 1 else ""
    return (
        f"slurmctld guesses that {tasks or 'it starts '}at {moment(job.start_time)} (in {span(job.start_time - now)})"
    )


def _of_record(record: StartRecord, *, guessed: bool) -> Iterator[str]:
    where = listed(list(record.partitions))
    of = f"in {where} in the last {DAYS} days"
    if record.read < record.kept:
        of += f" (of a sample of {record.read:,} of {record.kept:,})"
    if guessed and record.guesses is not None:
        one = record.guesses
        yield (
            f"against the first guess jobs started {_off(one.median)} in the middle, and 8 of 10 between "
            f"{_off(one.low)} and {_off(one.high)}: {amount(one.jobs, 'job')} {of}"
        )
    elif guessed:
        yield f"how good its guesses are is not known: fewer than {LEAST} jobs {of} had one"
    if record.waits is not None:
        waits = record.waits
        yield (
            f"similar jobs ({waits.alike}) waited {span(waits.median)} in the middle, and 9 of 10 no longer than "
            f"{span(waits.ninetieth)}: {amount(waits.jobs, 'job')} {of}"
        )
    else:
        yield f"what similar jobs waited is not known: fewer than {LEAST} started {of}"


def _off(seconds: float) -> str:
    if abs(seconds) < 1:
        return "on time"
    return f"{span(abs(seconds))} {'late' if seconds > 0 else 'early'}"
