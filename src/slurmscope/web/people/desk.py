# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the commands `slurmscope portal …` do."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurmscope.settings import Settings
from slurmscope.store.protocol import StoreError
from slurmscope.terminal import asked_secret, fail, load, show, show_json, show_table
from slurmscope.web.people.checks import LOCAL
from slurmscope.web.people.ledger import Ended, Ledger, open_ledger
from slurmscope.web.people.local import AccountError, Local
from slurmscope.web.people.sessions import Sessions
from slurmscope.web.people.tokens import Tokens
from slurmscope.words import amount, moment, printable


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
    except AccountError as error:
        fail(printable(str(error)), error.status)
    finally:
        ledger.close()


def _operator() -> str:
    """Who types this, for the log."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", "")
    return f"{name} at the command line" + (f" (sudo by {behind})" if behind and behind != name else "")


def _now() -> int:
    return int(time.time())


# --- local accounts ---------------------------------------------------------------------------------------------------


def add(name: str, path: Path | None) -> None:
    settings = load(path).settings
    with _ledger(settings) as ledger:
        Local(ledger).add(name, asked_secret("password"), _now(), _operator())
    show(f"{printable(name)} has an account")
    if LOCAL not in settings.portal.sign_in:
        show('nobody can sign in by it before portal.sign_in has "local"')


def change(name: str, path: Path | None) -> None:
    with _ledger(load(path).settings) as ledger:
        ended = Local(ledger).change(name, asked_secret("password"), _now(), _operator())
    show(f"{printable(name)} has another password; {_words(ended)}")


def remove(name: str, path: Path | None) -> None:
    with _ledger(load(path).settings) as ledger:
        ended = Local(ledger).remove(name, _now(), _operator())
    show(f"{printable(name)} has no account any more; {_words(ended)}")


def _words(ended: Ended) -> str:
    return f"{amount(ended.sessions, 'session')} ended, {amount(ended.tokens, 'token')} revoked"


def accounts(path: Path | None, as_json: bool) -> None:
    with _ledger(load(path).settings) as ledger:
        found = ledger.accounts()
    if as_json:
        show_json(found)
        return
    rows = [(printable(one.name), moment(one.made), moment(one.changed)) for one in found]
    show_table(("name", "made", "password of"), rows)


# --- tokens -----------------------------------------------------------------------------------------------------------


def tokens(path: Path | None, user: str | None, as_json: bool) -> None:
    with _ledger(load(path).settings) as ledger:
        found = Tokens(ledger).all(user, _now())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            str(one.id),
            printable(one.user),
            printable(one.label),
            moment(one.made),
            "never" if one.used is None else moment(one.used),
            moment(one.expires),
        )
        for one in found
    ]
    show_table(("number", "user", "for", "made", "last used", "until"), rows)


def revoke(number: int, path: Path | None) -> None:
    with _ledger(load(path).settings) as ledger:
        if not Tokens(ledger).revoke(None, number, _now(), _operator()):
            fail(f"there is no token {number}: `slurmscope portal token list` prints those that there are")
    show(f"token {number} is revoked")


# --- sessions, and what was done --------------------------------------------------------------------------------------


def end_sessions(user: str, path: Path | None) -> None:
    settings = load(path).settings
    with _ledger(settings) as ledger:
        ended = Sessions(ledger, settings.portal).end_all(user, _now(), _operator())
    show(f"{printable(user)}: {amount(ended, 'session')} ended")


def log(path: Path | None, user: str | None, limit: int, as_json: bool) -> None:
    with _ledger(load(path).settings) as ledger:
        found = ledger.entries(user, limit)
    if as_json:
        show_json(found)
        return
    rows = [(moment(one.time), one.who, one.address, one.action, one.detail) for one in reversed(found)]
    show_table(("time", "who", "from", "what", "more"), [tuple(map(printable, row)) for row in rows])
