# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job's life: what is kept of it, and how that grows with what polls see and the accounting tells.

- A life is (cluster, job id, submit time). A requeued job has a new submit time and so a new life, as in slurmdbd; an
  id that is used again belongs to another life.
- What the accounting (`sacct`) told is final where it told an end. What a poll saw fills in what the accounting cannot
  know: why a job waited, when it was held, suspended or configured.
- A life that has ended stays so, whatever comes late.
- Every function here is pure, and does nothing the second time: stores may call them again with the same news.

Structs are written as arrays, which is what a million of them are kept as; `document()` names the fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from slurmscope.model import HOLDING_STATES, JOB_BASE_STATES, PENDING, RUNNING, SUSPENDED, WAITING_STATES, Job

ENDED_STATES = frozenset(JOB_BASE_STATES) - {PENDING, RUNNING, SUSPENDED}
# … and how else slurmdbd closes a record: the job goes on in another one.
_CLOSED_STATES = ("REQUEUED", "RESIZING", "REVOKED")
REQUEUED, COMPLETING, CONFIGURING = "REQUEUED", "COMPLETING", "CONFIGURING"
VANISHED = "VANISHED"
"""No state of Slurm's: a life that is in no queue any more, and of which nobody told how it ended."""

_ENDING_REASONS = (
    "NonZeroExitCode",
    "TimeLimit",
    "OutOfMemory",
    "RaisedSignal",
    "JobLaunchFailure",
    "NodeDown",
    "InactiveLimit",
    "SystemFailure",
    "DeadLine",
    "FailedLaunch",
)
# Reasons come and go while a job waits. This many of a life's transitions are kept, the first and the last ones.
_MOST_TRANSITIONS = 64
COUNT_EVERY = 3600
"""Seconds of a running life that usage may lag behind."""


class Transition(msgspec.Struct, frozen=True, gc=False, array_like=True):
    time: int  # as Slurm told it; else when a poll saw it
    state: str
    reason: str | None = None


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What `sacct` tells of a step. Amounts by TRES are in base units: seconds, bytes, joules, counts."""

    id: str  # batch, extern, interactive, or a number
    name: str
    state: str
    exit_code: str | None
    start_time: int | None
    end_time: int | None
    nodes: int | None
    tasks: int | None
    cpus: int | None
    cpu_seconds: float | None  # user and system
    max_rss: int | None  # of the task that used the most
    memory_used: int | None  # of all its tasks, each at its most
    energy: int | None  # joules
    read_bytes: int | None
    written_bytes: int | None


class Accounted(msgspec.Struct, frozen=True, gc=False):
    """What the accounting tells of one life."""

    job: Job
    steps: tuple[Step, ...]
    suspended_seconds: int | None
    cpu_seconds: float | None
    energy: int | None
    derived_exit_code: str | None
    cancelled_by: str | None  # a user's number or name
    submit_line: str | None = None
    work_dir: str | None = None


class Life(Job, frozen=True, gc=False, array_like=True, kw_only=True):
    cluster: str
    changed_time: int  # when this was last changed here
    # The time until which usage counts a life that still runs; of one that has ended, its end.
    counted_time: int | None = None
    gone_time: int | None = None  # when it was first missing in the queue, before anybody told how it ended
    accounted: bool = False  # the accounting has told its end
    suspended_seconds: int | None = None
    cpu_seconds: float | None = None
    max_rss: int | None = None
    memory_used: int | None = None  # of steps that ran at the same time, together
    energy: int | None = None
    derived_exit_code: str | None = None
    cancelled_by: str | None = None
    transitions: tuple[Transition, ...] = ()
    steps: tuple[Step, ...] = ()
    # Of one that has ended: the share of the time of its GPUs that they were in use, as far as that was measured.
    gpu_share: float | None = None
    guess: tuple[int, int] | None = None  # when slurmctld first told when it might start, and that start
    submit_line: str | None = None  # the command that it was submitted by, as far as the accounting keeps it
    work_dir: str | None = None

    @property
    def ended(self) -> bool:
        return self.accounted or self.state in ENDED_STATES or self.state in (REQUEUED, VANISHED)

    @property
    def started(self) -> bool:
        """It has, or had, an allocation. (In one go: it is asked of thousands for one page.)"""
        if self.start_time is None:
            return False
        return self.state in HOLDING_STATES or (bool(self.node_list) and self.ended)

    @property
    def eligible(self) -> int | None:
        """Since when it could start, as far as that was its own matter; None: nothing is known of it."""
        return max(self.eligible_time or 0, self.submit_time or 0) or None

    def waited(self, now: int) -> int | None:
        """Seconds, up to now of one that still waits; one that ended and never started has none."""
        until = self.start_time if self.started else None if self.ended else now
        since = self.eligible
        return None if until is None or since is None else max(0, until - since)

    @property
    def document_id(self) -> str:
        """The identity of a life in every store and sink."""
        return document_id(self.cluster, self.id, self.submit_time)


def document_id(cluster: str, id_: int, submit_time: int | None) -> str:
    return f"{cluster}.{id_}.{submit_time or 0}"


# --- from polls -----------------------------------------------------------------------------------------------------


def seen(life: Life | None, cluster: str, job: Job, at: int) -> Life:
    """A life after a poll saw the job so, at `at`."""
    if life is not None and life.ended and life.state != VANISHED:
        return life  # polls come late, or see what is being cleaned up
    job = _waiting_again(job)
    if (
        life is not None
        and life.transitions
        and at < life.transitions[-1].time
        and _rank(job.state) < _rank(life.state)
    ):
        return life  # a poll that is older than what is known
    news = _news(life, cluster, job, _MAY_VANISH | _MAY_BE_TAKEN_BACK)
    news["gone_time"] = None
    if job.waiting and job.start_time is not None and job.start_time > at and news.get("guess") is None:
        news["guess"] = at, job.start_time
    over = job.state in ENDED_STATES
    if over:
        news["reason"] = _ending(job.reason)
    line = list(life.transitions) if life is not None else []
    if life is not None and life.state == VANISHED:
        del line[-1]
        news["gpu_share"] = None
    _begin(line, job, over=over)
    last = line[-1] if line else None
    if last is None or job.state != last.state or (job.waiting and job.reason not in (None, last.reason)):
        told_end = job.end_time if over or job.state == COMPLETING else None
        if over and told_end is not None:
            line = _until(line, told_end)
        _append(line, told_end or at, job.state, news["reason"])
    news["transitions"] = _thinned(line)
    if over:
        news["end_time"] = job.end_time or line[-1].time
        _settle(news, job)
    elif _holds(job):
        news["counted_time"] = _counted(life, job, at)
    return _changed(life, news, at)


def unseen(life: Life, at: int) -> Life:
    """A life after a poll that did not see it any more."""
    return life if life.ended or life.gone_time is not None else replace(life, gone_time=at, changed_time=at)


def succeeded(life: Life, submit_time: int) -> Life:
    """A life whose job was submitted again: it was requeued, if nobody told how else it ended."""
    return life if life.ended else _closed(life, REQUEUED, submit_time, submit_time)


def given_up(life: Life, at: int) -> Life:
    """A life that is in no queue, and of which no accounting told how it ended.

    It counts until it was missed, and not beyond its limit.
    """
    if life.ended or life.gone_time is None:
        return life
    end = life.gone_time
    if life.holding and life.start_time is not None and life.time_limit is not None:
        end = min(end, life.start_time + life.time_limit)
    return _closed(life, VANISHED, end, at)


def measured(life: Life, gpu_share: float, at: int) -> Life:
    """A life after it was measured how much its GPUs were in use: that counts once it has ended."""
    gpu_share = min(1.0, gpu_share)  # a driver's may be a little more than all of it
    if not life.ended or not life.gpus or life.gpu_share == gpu_share:
        return life
    return replace(life, gpu_share=gpu_share, changed_time=at)


def _closed(life: Life, state: str, end: int, at: int) -> Life:
    line = list(life.transitions)
    _append(line, end, state, None)
    end = line[-1].time
    started = life.start_time if life.holding else None
    return replace(
        life,
        state=state,
        reason=None,
        start_time=started,
        end_time=end,
        counted_time=None if started is None else end,
        changed_time=at,
        transitions=_thinned(line),
    )


# --- from the accounting --------------------------------------------------------------------------------------------


def told(life: Life | None, cluster: str, accounted: Accounted, at: int) -> Life:
    """A life after the accounting told this of it, at `at`."""
    job = accounted.job
    over = job.end_time is not None and (job.state in ENDED_STATES or job.state in _CLOSED_STATES)
    if life is not None and life.ended and not over:
        return life  # slurmdbd lags behind
    if not over:
        job = _waiting_again(job)
    if job.start_time is not None and job.submit_time is not None and job.start_time < job.submit_time:
        # what follows on a resize is a record that was submitted then, of a job that had started before
        job = replace(job, start_time=job.submit_time)
    newer = life is None or over or _rank(job.state) > _rank(life.state)
    news = _news(life, cluster, job, _MAY_VANISH) if life is None or newer else asdict(life)
    if over:
        # slurmdbd keeps few of them
        news["reason"] = _ending(job.reason) or (life.reason if life is not None and life.ended else None)
    news["steps"] = accounted.steps
    _figures(news, accounted)
    line = list(life.transitions) if life is not None else []
    if over:
        if life is not None and life.ended and line:
            del line[-1]  # how it ended is now known better
        _begin(line, job, over=True)
        end = job.end_time or at
        line = _until(line, end)
        _append(line, end, job.state, news["reason"])
        news.update(accounted=True, gone_time=None)
        _settle(news, job)
    else:
        _begin(line, job, over=False)
        if not line or _rank(job.state) > _rank(line[-1].state):
            _append(line, at, job.state, job.reason)
        if _holds(job) and (life is None or life.gone_time is None):
            # slurmdbd may go on telling of one that ran away
            most = at if job.time_limit is None else (job.start_time or 0) + job.time_limit + COUNT_EVERY
            news["counted_time"] = _counted(life, job, min(at, most))
    news["transitions"] = _thinned(line)
    return _changed(life, news, at)


def _settle(news: dict[str, Any], job: Job) -> None:
    """Of one that has ended: all of it counts, or nothing where it never ran."""
    if not _held(job):
        news["start_time"] = None  # Slurm has the time of its end here, or none
    news["counted_time"] = news["end_time"] if _held(job) else None


_AS_TOLD = (
    *("suspended_seconds", "cpu_seconds", "energy", "derived_exit_code", "cancelled_by"),
    *("submit_line", "work_dir"),
)


def _figures(news: dict[str, Any], accounted: Accounted) -> None:
    """What was measured. What is not told this time stays as it was."""
    for name in _AS_TOLD:
        if (value := getattr(accounted, name)) is not None:
            news[name] = value
    if sizes := [step.max_rss for step in accounted.steps if step.max_rss is not None]:
        news["max_rss"] = max(sizes)
    if (memory_used := _together(accounted.steps)) is not None:
        news["memory_used"] = memory_used


def _together(steps: Iterable[Step]) -> int | None:
    """The largest sum of what steps used that ran at the same time. One whose times nobody told may have run at any."""
    told = [step for step in steps if step.memory_used is not None]
    changes: list[tuple[float, int, int]] = []
    for step in told:
        start = -math.inf if step.start_time is None else step.start_time
        end = math.inf if step.end_time is None else max(start, step.end_time)
        size = step.memory_used or 0
        # within a second: what ended gives way to what begins, and what began and ended then was there
        changes += [(start, 1, size), (end, 0 if end > start else 2, -size)]
    return max(accumulate(size for _, _, size in sorted(changes))) if told else None


# --- the parts ------------------------------------------------------------------------------------------------------

# A reason is over when it is not told any more; a time that was guessed may be withdrawn.
_MAY_VANISH = frozenset({"reason", "start_time", "end_time", "eligible_time"})
# What `scontrol update` takes from a job is seen by polls; the accounting has these as they were asked for, or not.
_MAY_BE_TAKEN_BACK = frozenset({"dependency", "reservation", "time_limit"})


def _news(life: Life | None, cluster: str, job: Job, may_vanish: frozenset[str]) -> dict[str, Any]:
    """What the job is now. What is not told this time stays as it was: each way knows things that others do not."""
    fields = asdict(job)
    if life is None:
        fields["cluster"] = cluster
        return fields
    return asdict(life) | {name: value for name, value in fields.items() if value is not None or name in may_vanish}


def _changed(before: Life | None, news: dict[str, Any], at: int) -> Life:
    news["changed_time"] = at if before is None else before.changed_time
    life = Life(**news)
    if before is None:
        return life
    return before if life == before else replace(life, changed_time=at)


def _holds(job: Job) -> bool:
    return job.holding and job.start_time is not None


def _waiting_again(job: Job) -> Job:
    """Of a life that has ended REQUEUED says how; of one in the queue, only that it is not the first."""
    return replace(job, state=PENDING) if job.state == REQUEUED else job


def _held(job: Job) -> bool:
    """It had an allocation. Slurm gives a job that was cancelled while it waited a start time too, that of its end."""
    return job.start_time is not None and bool(job.node_list)


def _counted(life: Life | None, job: Job, at: int) -> int | None:
    """Usage counts a life that runs from time to time, and not at each poll."""
    before = None if life is None else life.counted_time
    return at if before is None or at - before >= COUNT_EVERY else before


def _rank(state: str) -> int:
    """States follow each other in this order."""
    if state in WAITING_STATES:
        return 0
    return 2 if state in ENDED_STATES or state in (COMPLETING, VANISHED) else 1


def _begin(line: list[Transition], job: Job, *, over: bool) -> None:
    """The transitions that follow from the job's own times: it was submitted, and started."""
    waits = job.waiting and not over
    if not line and job.submit_time is not None:
        line.append(Transition(job.submit_time, job.state if waits else PENDING, job.reason if waits else None))
    if not (_held(job) if over else _holds(job)):
        return
    start = job.start_time or 0
    at = next((at for at, one in enumerate(line) if _rank(one.state) > 0), None)
    if at is None:
        # a poll may have been under way, and have seen it waiting, after it started
        line[:] = _until(line, start)
        line.append(Transition(start, job.state if job.state in (RUNNING, CONFIGURING) else RUNNING))
    elif line[at].time != start and line[at].state in (RUNNING, CONFIGURING):
        line[at] = Transition(start, line[at].state, line[at].reason)
        line.sort(key=lambda one: one.time)


def _ending(reason: str | None) -> str | None:
    """A reason that tells of an end. Slurm goes on telling of many a job why it once waited."""
    return reason if reason is not None and reason.startswith(_ENDING_REASONS) else None


def _until(line: list[Transition], end: int) -> list[Transition]:
    """None of them later than that."""
    return [one if one.time <= end else Transition(end, one.state, one.reason) for one in line]


def _append(line: list[Transition], time: int, state: str, reason: str | None) -> None:
    if line:
        time = max(time, line[-1].time)
    line.append(Transition(time, state, reason))


def _thinned(line: list[Transition]) -> tuple[Transition, ...]:
    """Too many are thinned where a life only changed its reason, from the middle on."""
    while len(line) > _MOST_TRANSITIONS:
        middle = [at for at in range(2, len(line) - 1) if line[at].state == line[at - 1].state]
        if not middle:
            # it was suspended and resumed without end: the first ones and the last ones tell the story
            return (*line[: _MOST_TRANSITIONS // 2], *line[-_MOST_TRANSITIONS // 2 :])
        del line[middle[len(middle) // 2]]
    return tuple(line)


# --- as documents ---------------------------------------------------------------------------------------------------


def document(life: Life) -> dict[str, Any]:
    """A life by the names of its fields, for whoever is not us."""
    return asdict(life) | {
        "transitions": [asdict(one) for one in life.transitions],
        "steps": [asdict(one) for one in life.steps],
    }


def of_document(found: Mapping[str, Any]) -> Life:
    """The life that a document tells of; fields that it has beyond ours are left alone."""
    fields = {name: found[name] for name in Life.__struct_fields__ if name in found}
    fields["transitions"] = tuple(_of(Transition, one) for one in found.get("transitions", ()))
    fields["steps"] = tuple(_of(Step, one) for one in found.get("steps", ()))
    if fields.get("guess") is not None:
        fields["guess"] = tuple(fields["guess"])
    return Life(**fields)


T = TypeVar("T", bound=msgspec.Struct)


def _of(kind: type[T], found: Mapping[str, Any]) -> T:
    return kind(**{name: found[name] for name in kind.__struct_fields__ if name in found})
