# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Decides what is told to whom, and writes it down: the notice to be sent, or why there is none.

All decisions are the same in a dry run; what would be sent is held, and never sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from slurmscope.mail.address import of_user
from slurmscope.mail.etiquette import DAY, Standing, Told, Wanted, opening, refusal
from slurmscope.mail.ladder import Rung, earlier, rungs
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.links import Links
from slurmscope.mail.message import Content, compose
from slurmscope.mail.notice import ASKED, DIGEST, ESCALATION, HELD, JOB, QUEUED, Entry, Notice, identity, plain
from slurmscope.mail.rendering import Problem, Templates
from slurmscope.reports.document import Document
from slurmscope.reports.mail import MailParts, parts
from slurmscope.settings import Mail

WOULD, SAID, ALREADY = "would send", "queued", "told already"


Made = Document | Callable[[Sequence[str]], Document | None] | None
"""A document, or who makes it once it is needed: of the jobs of these accounts, or of all where none is named."""


class Point(msgspec.Struct, frozen=True):
    """Something that a rule found."""

    rule: str
    title: str  # for people


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told to a person."""

    kind: str
    person: str
    key: str  # with the kind and the person it is what makes the notice the same: a life's id, a week
    cluster: str = ""
    number: str = ""  # the job's, for people
    work: str = ""  # the job's name
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()  # the worst first
    document: Made = None
    more: Mapping[str, Any] = {}  # that the template of this kind is given besides
    nonce: str = ""  # of what may be told more than once of the same


class Office:
    def __init__(
        self,
        settings: Mail,
        ledger: Ledger,
        links: Links | None = None,
        *,
        clock: Callable[[], float] = time.time,
        parts_of: Callable[[Document], MailParts] = parts,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._links = links if settings.url else None
        self._clock = clock
        self._parts_of = parts_of
        self._templates = Templates(settings.templates)

    @property
    def dry(self) -> bool:
        return not self._settings.enabled

    def tell(self, telling: Telling) -> str:
        """What became of it: SAID, WOULD, ALREADY, or why not."""
        now = int(self._clock())
        telling = msgspec.structs.replace(telling, person=plain(telling.person), work=plain(telling.work))
        told = self._earlier(telling.person, now)
        standing = self._standing(telling.person, told)
        allowed, why = self._allowed(telling, standing, now)
        if why is None and any(one.kind == ASKED and one.job == telling.key and one.rule for one in told):
            why = "the user has asked Slurm for mail, and got it with the report"
        if self._ledger.notice(self._identity(telling, telling.person)) is not None:
            return ALREADY
        address = of_user(telling.person, self._settings)
        if why is None and address is None:
            why = "the user has no address that could be used (mail.address, mail.addresses)"
        if why is not None or address is None:
            return self._refused(telling, str(why), now)
        telling = msgspec.structs.replace(telling, points=allowed)
        rule = allowed[0].rule if allowed else ""
        rules = tuple(one.rule for one in allowed) or ("",)
        number = earlier(standing.told, telling.kind, rules, self._settings, now) + 1
        content = self._content(telling, telling.kind, now, {"number": number} | dict(telling.more))
        notice = self._notice(telling, telling.kind, address, rule, content, now, telling.person)
        others = rungs(number, telling.accounts, self._settings) if telling.kind in (JOB, DIGEST) else []
        # all at once: whoever is killed here has told all of them or nobody
        if not self._ledger.add(notice, *(self._escalation(telling, one, rule, number, now) for one in others)):
            return ALREADY
        return WOULD if self.dry else SAID

    def asked(self, recipients: Sequence[str], words: str, telling: Telling, *, warning: bool) -> list[Notice]:
        """What a user asked Slurm for: always told, in Slurm's words, with a report where there is one."""
        now = int(self._clock())
        about = msgspec.structs.replace(
            telling, kind=ASKED, person=plain(telling.person), key=plain(telling.key), work=plain(telling.work)
        )
        content = self._content(about, ASKED, now, {"words": words}, warning=warning)
        found = []
        for recipient in recipients:
            rule = about.points[0].rule if about.points else ""
            notice = self._notice(about, ASKED, recipient, rule, content, now, recipient)
            if self._ledger.add(notice):
                found.append(notice)
        return found

    def preview(self, telling: Telling) -> bytes:
        """The mail, of which nothing is written down."""
        now = int(self._clock())
        telling = msgspec.structs.replace(telling, person=plain(telling.person), work=plain(telling.work))
        address = of_user(telling.person, self._settings) or "nobody"
        content = self._content(telling, telling.kind, now, {"number": 1} | dict(telling.more), warning=True)
        rule = telling.points[0].rule if telling.points else ""
        return self._notice(telling, telling.kind, address, rule, content, now, "preview").message or b""

    # --- deciding

    def _earlier(self, person: str, now: int) -> list[Notice]:
        days = max(self._settings.ladder_days, self._settings.least_days)
        found = self._ledger.earlier(person, now - days * DAY, dry=self.dry)
        return [one for one in found if one.time <= now]  # what lies ahead was told by a clock that was wrong

    def _standing(self, person: str, told: Sequence[Notice]) -> Standing:
        return Standing(
            opted_out=self._ledger.opted_out(person),
            fine=self._ledger.fines(person),
            told=tuple(Told(one.kind, rule, one.time) for one in told for rule in one.rules),
        )

    def _allowed(self, telling: Telling, standing: Standing, now: int) -> tuple[tuple[Point, ...], str | None]:
        """What of it may be told; and why not, where it is nothing."""
        whys: list[str | None] = []
        found: list[Point] = []
        for point in telling.points if telling.kind != DIGEST else (Point("", ""),):
            wanted = Wanted(
                kind=telling.kind,
                person=telling.person,
                rule=point.rule,
                work=telling.work,
                accounts=telling.accounts,
                partitions=telling.partitions,
            )
            whys.append(refusal(wanted, standing, self._settings, now))
            if whys[-1] is None:
                found.append(point)
        if found:
            return (() if telling.kind == DIGEST else tuple(found)), None
        return (), next((why for why in whys if why), "nothing was found")

    def _refused(self, telling: Telling, why: str, now: int) -> str:
        self._ledger.write_once(
            Entry(
                time=now,
                event="not sent",
                person=telling.person,
                kind=telling.kind,
                rule=telling.points[0].rule if telling.points and telling.kind != DIGEST else "",
                cluster=telling.cluster,
                job=telling.key,
                why=why,
            )
        )
        return why

    def _escalation(self, telling: Telling, rung: Rung, rule: str, number: int, now: int) -> Notice:
        more = {"number": number, "days": self._settings.ladder_days, "role": rung.role}
        document = telling.document(rung.accounts) if callable(telling.document) else telling.document
        telling = msgspec.structs.replace(telling, accounts=rung.accounts or telling.accounts, document=document)
        content = self._content(telling, ESCALATION, now, more)
        return self._notice(telling, ESCALATION, rung.address, rule, content, now, rung.address)

    # --- making

    def _identity(self, telling: Telling, to: str, kind: str = "") -> str:
        dry = "dry" if self.dry else ""
        return identity(dry, kind or telling.kind, telling.cluster, telling.person, telling.key, telling.nonce, to)

    def _content(
        self, telling: Telling, kind: str, now: int, more: Mapping[str, Any], *, warning: bool = True
    ) -> Content:
        document = telling.document(()) if callable(telling.document) else telling.document
        made = self._parts_of(document) if document is not None else None
        links = self._links if kind != ESCALATION else None
        fine = [
            {
                "rule": one.rule,
                "title": one.title,
                "url": url.fine(telling.person, one.rule, telling.work, telling.key, now),
            }
            for url in ([links] if links is not None else [])
            for one in telling.points
        ]
        given = {
            "person": telling.person,
            "cluster": telling.cluster,
            "job": telling.number,
            "work": telling.work,
            "rule": telling.points[0].rule if telling.points else "",
            "accounts": list(telling.accounts),
            "reply_to": self._settings.reply_to,
            "opt_out_url": self._opt_out(telling.person, kind, now),
            "fine": fine,
        } | dict(more)
        report = partial(self._broken, telling, now)
        return self._templates.content(kind, made, given, warning=warning, report=report)

    def _opt_out(self, person: str, kind: str, now: int) -> str:
        if self._links is None or kind in (ASKED, ESCALATION):
            return ""
        return self._links.opt_out(person, now)

    def _broken(self, telling: Telling, now: int, problem: Problem) -> None:
        why = f"{problem.place}: {problem.why}; the built-in template was used"
        self._ledger.write(
            Entry(time=now, event="template", person=telling.person, kind=telling.kind, job=telling.key, why=why)
        )

    def _notice(
        self, telling: Telling, kind: str, address: str, rule: str, content: Content, now: int, to: str
    ) -> Notice:
        id_ = self._identity(telling, to, kind)
        message = compose(
            content,
            self._settings,
            id_=id_,
            recipient=address,
            time=now,
            unsubscribe=self._opt_out(telling.person, kind, now),
        )
        return Notice(
            id=id_,
            kind=kind,
            person=telling.person,
            recipient=address,
            rule=rule,
            cluster=telling.cluster,
            job=telling.key,
            time=now,
            subject=content.subject,
            state=HELD if self.dry else QUEUED,
            next_try=now if kind == ASKED else opening(self._settings, now),
            changed=now,
            work=telling.work,
            accounts=telling.accounts,
            partitions=telling.partitions,
            rules=tuple(one.rule for one in telling.points),
            message=message,
        )
