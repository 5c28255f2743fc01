# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What Slurm's MailProg does: Slurm's words to whom the user named, with a report when the job has ended.

Slurm calls it in the moment that something happens. The store may not know of a job's end yet: that it has ended, and
how, is then taken from Slurm's words.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from slurmscope.findings.rule import Finding
from slurmscope.life import ENDED_STATES, Life
from slurmscope.mail import subject as subjects
from slurmscope.mail.address import of_recipients
from slurmscope.mail.etiquette import Wanted, exemption
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import ASKED, JOB, Entry, Notice, plain
from slurmscope.mail.office import Office, Telling
from slurmscope.mail.rounds import job_telling
from slurmscope.mail.subject import Subject
from slurmscope.reports.document import BAD, NOTE, Document
from slurmscope.settings import Mail

log = logging.getLogger(__name__)

_JUST_NOW = 900  # seconds since a job's end within which Slurm tells of it


class Known(NamedTuple):
    """What the store has of a job."""

    life: Life  # of an array, one of its tasks
    findings: Sequence[Finding]
    document: Document
    whole: bool = False  # it is told of the array, and not of this task


Look = Callable[[Subject, str], Known | None]
"""Finds a job of a cluster, which may be unknown ("")."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """As Slurm calls it."""

    words: str
    recipient: str
    cluster: str = ""
    user: str = ""


def deliver(
    call: Call, settings: Mail, ledger: Ledger, office: Office, look: Look, now: int, patience: float
) -> list[Notice]:
    """Writes down what is to be sent, and gives it. The store may take `patience` seconds to tell what it knows."""
    told = subjects.parse(call.words)
    known = None
    if told is not None and told.over:
        known = within(patience, lambda: look(told, call.cluster))
    recipients = of_recipients(call.recipient, settings)
    person = known.life.user if known is not None else call.user or call.recipient
    if not recipients:
        why = f"{plain(call.recipient)!r} is no address that could be used (mail.address)"
        ledger.write(Entry(time=now, event="not sent", person=person, kind=ASKED, why=f"{call.words}: {why}"))
        return []
    number = told.number if told is not None else "unknown"
    telling, warning = Telling(kind=ASKED, person=person, key=f"{call.cluster}.{number}", cluster=call.cluster), False
    if known is not None:
        telling, warning = _telling(known, telling, settings, ledger)
    # each call is of an event of its own
    telling = msgspec.structs.replace(telling, nonce=secrets.token_hex(16))
    return office.asked(recipients, call.words, telling, warning=warning)


def _telling(known: Known, bare: Telling, settings: Mail, ledger: Ledger) -> tuple[Telling, bool]:
    """What is told besides Slurm's words, and whether it is a warning. Who is not to be warned has the words alone."""
    life = known.life
    person, work = plain(life.user), plain(life.name)
    wanted = Wanted(kind=JOB, person=person, accounts=(life.account,), partitions=tuple(life.partition.split(",")))
    if exemption(wanted, settings) is not None or ledger.opted_out(person):
        return bare, False
    fine = ledger.fines(person)
    if known.whole:
        whole = msgspec.structs.replace(bare, document=known.document)
        # which rules an array's verdict is of is not told: what is fine of this work is so for all of it
        said = any(name == work for _, name in fine)
        return whole, known.document.verdict.level in (BAD, NOTE) and not said
    findings = [one for one in known.findings if (one.rule, work) not in fine]
    return job_telling(life, findings, known.document), bool(findings)


def meant(lives: Sequence[Life], told: Subject, user: str, now: int) -> Life | None:
    """The job that Slurm speaks of, among those of its number: numbers are used again.

    It is of the user whom Slurm names, if it names one, and has ended just now, if the store knows of its end.
    """
    number, _, task = told.number.removesuffix("_*").partition("_")
    found = [one for one in lives if not user or one.user == user]
    if told.whole_array:
        found = [one for one in found if one.array_id == int(number)]
    elif task:
        found = [one for one in found if (one.array_id, one.array_tasks) == (int(number), task)]
    else:
        found = [one for one in found if one.id == int(number)]
    return next((one for one in found if not one.ended or now - (one.end_time or 0) <= _JUST_NOW), None)


def ended(life: Life, told: Subject, now: int) -> Life:
    """The life as Slurm's words tell that it ended, where the store does not know it yet."""
    if life.ended or not life.started:
        return life
    state = told.state if told.state in ENDED_STATES else "FAILED" if told.event == subjects.FAILED else "COMPLETED"
    return msgspec.structs.replace(life, state=state, end_time=now, reason=None)


def within(seconds: float, work: Callable[[], Known | None]) -> Known | None:
    """What it gives in this time; None where it fails or takes longer, for then there are only Slurm's words."""
    found: list[Known | None] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception:  # a mail without a report is better than none
            log.exception("no report for a mail")

    thread = threading.Thread(target=run, name="look", daemon=True)  # which keeps nobody from ending
    thread.start()
    thread.join(seconds)
    return found[0] if found else None
