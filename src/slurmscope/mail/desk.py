# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the commands `slurmscope mail …` and `slurmscope mailprog` do."""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from slurmscope.cli_store import opened
from slurmscope.findings.policy import PolicyError
from slurmscope.life import Life
from slurmscope.mail import smtp
from slurmscope.mail.address import of_sender, of_user, usable
from slurmscope.mail.checks import HERE
from slurmscope.mail.etiquette import DAY, opening
from slurmscope.mail.ledger import Ledger, open_ledger
from slurmscope.mail.message import Content, compose
from slurmscope.mail.notice import Entry
from slurmscope.mail.office import Office
from slurmscope.mail.post import Post
from slurmscope.mail.rendering import Templates
from slurmscope.mail.rounds import Rounds, job_telling
from slurmscope.mail.service import links_of, make_round, office_of, rounds_of
from slurmscope.mail.slurm_mail import Call, Known, Look, deliver, ended, meant
from slurmscope.mail.subject import Subject
from slurmscope.reports.job import job_document
from slurmscope.reports.kept import NoSuchJobError, Reports
from slurmscope.settings import Settings
from slurmscope.store import place
from slurmscope.store.protocol import Lives, Store, StoreError
from slurmscope.terminal import fail, load, show, show_json, show_table
from slurmscope.words import moment, printable

_LONGEST = 60.0  # seconds after which mailprog ends, whatever it waits for
_LOOK = 10.0  # … that it gives the store
_SEND = 5.0  # … and another process that is sending
_WEEK = 7
_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?")


# --- what it works with -----------------------------------------------------------------------------------------------


@contextmanager
def _ledger(settings: Settings) -> Iterator[Ledger]:
    try:
        ledger = open_ledger(settings.store)
    except StoreError as error:
        fail(str(error))
    try:
        yield ledger
    except StoreError as error:
        fail(str(error))
    finally:
        ledger.close()


def _rounds(settings: Settings, store: Store, ledger: Ledger, office: Office) -> Rounds:
    try:
        return rounds_of(settings, store, ledger, office)
    except PolicyError as error:
        fail(str(error).replace("\n", "\nslurmscope: "), 2)


# --- check ------------------------------------------------------------------------------------------------------------


def check(path: Path | None, to: str | None) -> None:
    settings = load(path).settings
    mail = settings.mail
    if to is not None and not usable(to):
        fail(f"--to: expected an address, found {printable(to)}", 2)
    rows = [("sending", "on" if mail.enabled else "off: this is a dry run (mail.enabled)", True)]
    rows.append(_server_row(settings, to))
    rows += _address_rows(settings)
    problems = Templates(mail.templates).problems()
    rows += [("template", f"{one.place}: {one.why}", False) for one in problems]
    if not problems:
        rows.append(("templates", f"those of {mail.templates}" if mail.templates else "the built-in ones", True))
    rows.append(("links", mail.url or "none: mail.url is empty, and nobody can opt out by one", True))
    rows.append(_ledger_row(settings))
    now = int(time.time())
    quiet = opening(mail, now)
    rows.append(("quiet", "not now" if quiet == now else f"until {moment(quiet)}", True))
    rows.append(("cancelling", "on: jobs that never use their GPUs" if mail.cancel_zero_gpu else "off", True))
    show_table(("", "", ""), [(name, printable(text), "" if right else "does not work") for name, text, right in rows])
    sys.exit(0 if all(right for _, _, right in rows) else 1)


def _server_row(settings: Settings, to: str | None) -> tuple[str, str, bool]:
    mail = settings.mail
    where = f"{mail.host}:{smtp.port_of(mail)}, {mail.security}{f', login as {mail.user}' if mail.user else ''}"
    try:
        with smtp.connected(mail) as connection:
            if to is None:
                return "server", where, True
            id_, now = secrets.token_hex(16), int(time.time())
            text = "This is a test of slurmscope mail check. All is well.\n"
            content = Content(subject="A test of slurmscope", text=text)
            message = compose(content, mail, id_=id_, recipient=to, time=now)
            said = connection.submit(of_sender(mail.sender)[1], to, message, lambda: True)
    except (smtp.SmtpError, OSError) as error:
        return "server", f"{where}: {error}", False
    with _ledger(settings) as ledger:
        ledger.write(Entry(time=now, event="test", why=f"to {to}: {said}"))
    return "server", f"{where}; the test mail was taken: {said}", True


def _address_rows(settings: Settings) -> list[tuple[str, str, bool]]:
    """Whom mail is from, and how a user is reached. Only this machine's own server knows names without a host."""
    mail = settings.mail
    here = mail.host.startswith(HERE)
    sender, user = of_sender(mail.sender)[1], of_user("alice", mail) or "nobody"
    whole = here or not sender.endswith("@localhost")
    reached = here or "@" in user
    return [
        ("from", sender + ("" if whole else f": {mail.host} does not know who that is: set mail.sender"), whole),
        ("to", f"alice is {user}" + ("" if reached else ': set mail.address, "{user}@example.org"'), reached),
    ]


def _ledger_row(settings: Settings) -> tuple[str, str, bool]:
    try:
        ledger = open_ledger(settings.store)
        links_of(settings)
    except StoreError as error:
        return "kept in", str(error), False
    ledger.close()
    return "kept in", str(ledger.path), True


# --- what is there ----------------------------------------------------------------------------------------------------


def log(path: Path | None, user: str | None, limit: int, as_json: bool) -> None:
    with _ledger(load(path).settings) as ledger:
        found = ledger.entries(user, limit)
    if as_json:
        show_json(found)
        return
    rows = [(moment(one.time), one.event, one.person, one.kind, one.rule, one.job, one.why) for one in reversed(found)]
    head = ("time", "what", "user", "kind", "rule", "job", "why")
    show_table(head, [tuple(map(printable, row)) for row in rows])


def queue(path: Path | None, as_json: bool) -> None:
    with _ledger(load(path).settings) as ledger:
        found = ledger.waiting()
    if as_json:
        show_json(
            [{name: value for name, value in msgspec.structs.asdict(one).items() if name != "message"} for one in found]
        )
        return
    rows = [
        (moment(one.time), one.state, one.recipient, one.kind, str(one.attempts), moment(one.next_try), one.subject)
        for one in found
    ]
    head = ("since", "state", "to", "kind", "tries", "next", "subject")
    show_table(head, [tuple(map(printable, row)) for row in rows])


def opt_out(user: str, path: Path | None, undo: bool) -> None:
    now = int(time.time())
    with _ledger(load(path).settings) as ledger:
        (ledger.opt_in if undo else ledger.opt_out)(user, now, "by slurmscope mail opt-out")


# --- sending ----------------------------------------------------------------------------------------------------------


def send(path: Path | None) -> None:
    settings = load(path).settings
    with _ledger(settings) as ledger, opened(settings) as store:
        try:
            decided, sent = make_round(settings, store, ledger)
        except PolicyError as error:
            fail(str(error).replace("\n", "\nslurmscope: "), 2)
    _show_counts("decided", decided)
    _show_counts("mail", sent)
    if not settings.mail.enabled:
        show("nothing is sent in a dry run (mail.enabled); `slurmscope mail log` says what would be")


def _show_counts(what: str, counts: Counter[str]) -> None:
    for outcome, count in sorted(counts.items()):
        show(printable(f"{what}: {outcome}: {count}"))


def preview(kind: str, whom: str, path: Path | None, output: Path | None) -> None:
    settings = load(path).settings
    with _ledger(settings) as ledger, opened(settings) as store:
        office = office_of(settings, ledger)
        if kind == "job":
            message = _job_preview(whom, settings, store, office)
        else:
            until = int(time.time())
            since = until - _WEEK * DAY
            rounds = _rounds(settings, store, ledger, office)
            jobs = rounds.week(since, until, whom)
            if not any(one.findings for one in jobs):
                fail(f"nothing was found in the last week in jobs of {printable(whom)}")
            message = office.preview(rounds.digest_telling(whom, jobs, since, until))
    if output is None:
        show(message)
        return
    try:
        output.write_bytes(message)
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def _job_preview(whom: str, settings: Settings, store: Store, office: Office) -> bytes:
    life = _life(store, whom)
    if life is None:
        fail(f"no job {printable(whom)} is kept: `slurmscope store stats` says since when jobs are")
    try:
        facts = Reports(store, settings, int(time.time())).job_facts(life)
    except PolicyError as error:
        fail(str(error).replace("\n", "\nslurmscope: "), 2)
    return office.preview(job_telling(life, facts.judgement.findings, job_document(facts)))


def _life(store: Store, number: str) -> Life | None:
    """The latest life of `123` or `123_4`."""
    wanted = _ID.fullmatch(number)
    if wanted is None:
        return None
    found = store.lives(Lives(id=int(wanted[1]), limit=None if wanted[2] else 1000))
    if wanted[2] is not None:
        return next((one for one in found if one.array_id == int(wanted[1]) and one.array_tasks == wanted[2]), None)
    return next((one for one in found if one.id == int(wanted[1])), None)


# --- Slurm's MailProg -------------------------------------------------------------------------------------------------


def mailprog(words: str, recipient: str, path: Path | None, cluster: str | None, user: str | None) -> None:
    # what was written down by then is sent later
    watchdog = threading.Timer(_LONGEST, os._exit, (0,))
    watchdog.daemon = True
    watchdog.start()
    try:
        settings = load(path).settings
        call = Call(
            words=words,
            recipient=recipient,
            cluster=cluster or os.environ.get("SLURM_CLUSTER_NAME", ""),
            user=user or os.environ.get("SLURM_JOB_USER", ""),
        )
        with _ledger(settings) as ledger:
            now = int(time.time())
            office = office_of(settings, ledger)
            deliver(call, settings.mail, ledger, office, _look(settings, call.user), now, _LOOK)
            Post(settings.mail, ledger).run(patience=_SEND, wait=False)
    finally:
        watchdog.cancel()


def _look(settings: Settings, user: str) -> Look:
    def look(told: Subject, cluster: str) -> Known | None:
        url = place.url_of(settings.store)
        if url == place.NONE:
            return None
        try:
            store = place.open_store(url, must_exist=True)
        except StoreError:
            return None
        try:
            return _known(Reports(store, settings, int(time.time())), store, told, cluster, user)
        except (StoreError, PolicyError, NoSuchJobError):
            return None
        finally:
            store.close()

    return look


def _known(reports: Reports, store: Store, told: Subject, cluster: str, user: str) -> Known | None:
    clusters, number = store.clusters(), told.number.removesuffix("_*")
    wanted = _ID.fullmatch(number)
    if wanted is None or (not cluster and len(clusters) != 1):
        return None  # whose job it is would be a guess
    now = int(time.time())
    lives = store.lives(Lives(cluster=cluster or clusters[0], id=int(wanted[1]), limit=None))
    life = meant(lives, told, user, now)
    if life is None:
        return None
    if told.whole_array:
        return Known(life, (), reports.job(number, life.cluster), whole=True)
    life = ended(life, told, now)
    facts = reports.job_facts(life)
    return Known(life, facts.judgement.findings, job_document(facts))
