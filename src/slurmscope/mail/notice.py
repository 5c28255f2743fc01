# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is told to one address once, and what is written down of it.

queued         it waits to be sent, now or later
handed         the server has all of it but the last line, which is being sent
sent           the server has taken it
uncertain      the last line was sent, and no answer came: it is not sent again
failed         the server has refused it for good, or could not be reached for too long
withdrawn      while it waited its person opted out, said that it is fine, or became exempt
held-dry-run   it would have been sent
"""

from __future__ import annotations

import hashlib

import msgspec

JOB, DIGEST, ESCALATION, CANCEL, ASKED = "job", "digest", "escalation", "cancel", "asked"
"""Kinds: of a job with findings, of a person's week, to who answers for the person, before and after a job is
cancelled, and what the user asked Slurm for (--mail-type)."""
KINDS = (JOB, DIGEST, ESCALATION, CANCEL, ASKED)

QUEUED, HANDED, SENT, UNCERTAIN = "queued", "handed", "sent", "uncertain"
FAILED, WITHDRAWN, HELD = "failed", "withdrawn", "held-dry-run"
TOLD = (QUEUED, HANDED, SENT, UNCERTAIN)
"""States of what a person was told, or will be."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    person: str  # whom it is about
    recipient: str  # the one address that it goes to
    rule: str
    cluster: str
    job: str  # a life's document id; "" where it is of none, or of many
    time: int
    subject: str
    state: str = QUEUED
    attempts: int = 0
    next_try: int = 0
    changed: int = 0
    first_try: int | None = None
    work: str = ""  # the job's name
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # all that it tells of; `rule` is the first one
    message: bytes | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the audit log."""

    time: int
    event: str  # sent, would send, not sent, …
    person: str = ""
    kind: str = ""
    rule: str = ""
    cluster: str = ""
    job: str = ""
    notice: str = ""
    why: str = ""
    number: int = 0


def plain(value: str) -> str:
    """What came as bytes that are no text, as text that can be kept and compared."""
    return value.encode("utf-8", "backslashreplace").decode()


def identity(*words: str) -> str:
    """The same for the same notice, whenever and by whomever it is made."""
    # with lengths, so that no two lists of words are one text
    text = "".join(f"{len(word)}:{word}" for word in words)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def entry(event: str, notice: Notice, time: int, why: str = "") -> Entry:
    return Entry(
        time=time,
        event=event,
        person=notice.person,
        kind=notice.kind,
        rule=notice.rule,
        cluster=notice.cluster,
        job=notice.job,
        notice=notice.id,
        why=why,
    )
