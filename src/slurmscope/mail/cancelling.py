# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Cancelling a running job that never used its GPUs, after two warnings that have gone out.

Off unless `mail.cancel_zero_gpu` is set, which nothing else sets. What would be done in a dry run is written down as
such. A job is left alone where it is interactive, where its user, account or partition is exempt, where the user has
opted out (and so cannot be warned) or has said that it is fine, in quiet times, and where a warning could not be sent.
Whatever `[[rules]]` say, the rule's own thresholds must hold too, and all of the job's time must have been measured, up
to now: what was idle while nobody looked may be at work.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from slurmscope.findings.case import Case
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.rule import Finding
from slurmscope.findings.times import elapsed
from slurmscope.life import COUNT_EVERY, Life
from slurmscope.mail.etiquette import Standing, Wanted, opening, refusal
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import CANCEL, HELD, SENT, Entry, Notice, plain
from slurmscope.mail.office import Made, Office, Point, Telling
from slurmscope.reports.job import number_of
from slurmscope.settings import Mail
from slurmscope.slurm.transport import TransportError
from slurmscope.words import number

RULE = "zero_gpu"
WARNINGS = 2
CANCELLED, WOULD = "cancelled", "would cancel"
MARK = "cancel "
"""How the marks of tries begin, which end in the life's id."""
_HOUR = 3600
_RUNNING = "RUNNING"
_FRESH = 600  # seconds that the last measurement may be old
_COVERAGE = 0.95  # of its time that must have been measured, of each GPU
_SEEN = COUNT_EVERY + _FRESH  # seconds within which polls write down that a job still runs
_AGAIN = 1800  # … between two tries to cancel the same

Cancel = Callable[[Life], Awaitable[str]]
"""Cancels a job, and says by which command. Raises TransportError."""


class Canceller:
    def __init__(
        self,
        settings: Mail,
        ledger: Ledger,
        office: Office,
        cancel: Cancel,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._office = office
        self._cancel = cancel
        self._clock = clock

    async def consider(self, case: Case, finding: Finding, document: Made = None) -> str:
        """Takes the next step with a job, if there is one, and says what it was, or why there is none."""
        life, now = case.life, int(self._clock())
        if not self._settings.cancel_zero_gpu:
            return "mail.cancel_zero_gpu is off"
        if finding.rule != RULE or life.state != _RUNNING or life.ended:
            return "only a running job whose GPUs were never used is cancelled"
        if (why := "it is interactive" if case.interactive else self._objection(life, now)) is not None:
            return self._left_alone(life, now, why)
        warned = self._warnings(life)
        if (why := _doubt(case, now) or self._too_early(warned, now)) is not None:
            return why
        if len(warned) < WARNINGS:
            return self._office.tell(self._telling(life, document, len(warned) + 1))
        return await self._end(life, document, now)

    def _too_early(self, warned: list[Notice], now: int) -> str | None:
        if opening(self._settings, now) > now:
            return "it is a quiet time"
        if any(one.state not in (SENT, HELD) for one in warned):
            return "it is not certain that the last warning has arrived"
        if warned and now - _told_at(warned[-1]) < self._settings.cancel_hours * _HOUR:
            return "the last warning is not old enough"
        return None

    async def _end(self, life: Life, document: Made, now: int) -> str:
        if not self._settings.enabled:
            self._ledger.write_once(_entry(WOULD, life, now, "two warnings would have been sent"))
            return WOULD
        mark = f"{MARK}{life.document_id}"
        if now - (self._ledger.mark(mark) or 0) < _AGAIN:
            return "it was tried a short time ago"
        # before and after: whatever happens in between can be seen
        self._ledger.put_mark(mark, now)
        self._ledger.write_once(_entry("cancels", life, now, "its GPUs were never used, and its user was warned twice"))
        try:
            command = await self._cancel(life)
        except TransportError as error:
            self._ledger.write_once(_entry("not cancelled", life, now, str(error)))
            return f"not cancelled: {error}"
        self._ledger.write(_entry(CANCELLED, life, now, command))
        self._office.tell(self._telling(life, document, WARNINGS + 1))
        return CANCELLED

    def _objection(self, life: Life, now: int) -> str | None:
        person = plain(life.user)
        wanted = Wanted(
            kind=CANCEL,
            person=person,
            rule=RULE,
            work=plain(life.name),
            accounts=(life.account,),
            partitions=tuple(life.partition.split(",")),
        )
        standing = Standing(opted_out=self._ledger.opted_out(person), fine=self._ledger.fines(person))
        return refusal(wanted, standing, self._settings, now)

    def _warnings(self, life: Life) -> list[Notice]:
        """Those of this life, the first one first."""
        told = self._ledger.earlier(plain(life.user), life.submit_time or 0, dry=not self._settings.enabled)
        keys = [_key(life, at) for at in range(1, WARNINGS + 1)]
        return sorted((one for one in told if one.kind == CANCEL and one.job in keys), key=lambda one: one.job)

    def _telling(self, life: Life, document: Made, at: int) -> Telling:
        return Telling(
            kind=CANCEL,
            person=life.user,
            key=_key(life, at),
            cluster=life.cluster,
            number=number_of(life),
            work=life.name,
            accounts=(life.account,),
            partitions=tuple(life.partition.split(",")),
            points=(Point(RULE, "GPUs never used"),),
            document=document,
            more={"number": at, "hours": number(self._settings.cancel_hours), "cancelled": at > WARNINGS},
        )

    def _left_alone(self, life: Life, now: int, why: str) -> str:
        self._ledger.write_once(_entry("left alone", life, now, why))
        return why


def _doubt(case: Case, now: int) -> str | None:
    """Why it is not certain that the job runs, and that no GPU of it is in use; None: it is."""
    life, summary, rule = case.life, case.summary, catalogue()[RULE]
    if life.gone_time is not None or abs(now - life.changed_time) > _SEEN:
        return "it was not seen lately"
    if summary is None or abs(now - summary.last) > _FRESH:
        return "what it does now is not measured"
    enough = _COVERAGE * elapsed(life, now)
    whole = [one for one in summary.gpus if one.peak is not None and (one.seconds or 0.0) >= enough]
    if case.coverage < _COVERAGE or not case.gpus or len(whole) < max(case.gpus, len(summary.gpus)):
        return "not all of its time was measured"
    if not isinstance(rule.ask(case, rule.defaults), Finding):
        return f"by the thresholds of {RULE} itself its GPUs were used"
    return None


def _told_at(notice: Notice) -> int:
    """When it was sent; of one that is held, when it would have been."""
    return notice.changed if notice.state == SENT else notice.time


def _key(life: Life, at: int) -> str:
    return f"{life.document_id}#{at}"


def _entry(event: str, life: Life, now: int, why: str) -> Entry:
    return Entry(
        time=now,
        event=event,
        person=life.user,
        kind=CANCEL,
        rule=RULE,
        cluster=life.cluster,
        job=life.document_id,
        why=why,
    )
