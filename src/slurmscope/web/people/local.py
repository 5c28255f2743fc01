# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts with passwords, made on the command line, and how often somebody may be wrong.

Who guesses must be slow, and must not keep out whose password is guessed. So wrong passwords are counted three times:

  for a name from an address  5 are free. This is one who guesses, or has forgotten.
  from an address            30 are free, for any names. Many may share one: a whole institute behind its router.
  for a name                 100 are free, from anywhere: one who guesses from many addresses.

Then there is a wait, of a minute first, twice as long after each wrong one more, of 15 minutes at most; wrong ones are
forgotten after an hour. Meanwhile every password is refused, the right one too, unlooked at and uncounted. The last two
waits do not hold for a name at an address at which it signed in within 90 days: whoever guesses elsewhere, or other
names from the same address, keeps nobody out who comes from where he always does. At an address that is new to it a
person may have to wait while the name is attacked from many others, a quarter of an hour at a time: that is the price
of not being guessed.

Names are counted by their hashes and are not written down where there is no such account: people type their password
into the wrong field.
"""

from __future__ import annotations

import ipaddress
import threading
import unicodedata
from typing import NamedTuple

from slurmscope import auth
from slurmscope.web.people import names
from slurmscope.web.people.ledger import DAY, Account, Ended, Entry, Ledger, hashed, new_secret, plain

LEAST_LENGTH = 10
MOST_LENGTH = 500
_WINDOW = 3600  # seconds after which a wrong password is forgotten
_FIRST_WAIT, _LONGEST_WAIT = 60, 900
_KNOWN_SECONDS = 90 * DAY


class AccountError(Exception):
    """An account that cannot be made or changed; the message says why."""

    status = 1  # of the command that was to do so


class NotGood(AccountError):
    """… and never can be, by this name or password."""

    status = 2


class Verdict(NamedTuple):
    right: bool
    wait: int = 0  # seconds before it is looked at again; 0: it was looked at


class _Limit(NamedTuple):
    key: str
    free: int

    def wait(self, ledger: Ledger, now: int) -> int:
        """Seconds that are left of it."""
        # what lies ahead was written by a clock that was wrong
        wrong = [time for time in ledger.attempts(self.key, now - _WINDOW) if time <= now]
        if len(wrong) < self.free:
            return 0
        grown = _FIRST_WAIT << min(len(wrong) - self.free, 10)
        return max(0, wrong[-1] + min(grown, _LONGEST_WAIT) - now)


class Local:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # a name that is not there is checked against this, so that the time taken does not tell who is
        self._nobody = auth.hash_password(new_secret())
        # one after the other: nobody tries twice before the first was counted
        self._turn = threading.Lock()

    def sign_in(self, name: str, password: str, address: str, now: int) -> Verdict:
        """Whether this is who it says. The session is for the caller to begin. Raises StoreError."""
        with self._turn:
            return self._judged(name, password, address, now)

    def _judged(self, name: str, password: str, address: str, now: int) -> Verdict:
        both, *others = _limits(name, address)
        known = self._ledger.known(both.key, now - _KNOWN_SECONDS)
        limits = [both] if known else [both, *others]
        if wait := max(one.wait(self._ledger, now) for one in limits):
            return Verdict(False, wait)
        stored = self._ledger.password_hash(name)
        right = auth.check_password(_composed(password), stored or self._nobody) and stored is not None
        if right:
            self._ledger.right(both.key, now)
            return Verdict(True)
        who = name if stored is not None else ""
        failure = Entry(
            time=now, who=who, address=address, action="wrong password", detail="" if who else "no such account"
        )
        self._ledger.add_attempt([both.key, *(one.key for one in others)], now, failure)
        if wait := max(one.wait(self._ledger, now) for one in limits):
            self._ledger.write(Entry(time=now, who=who, address=address, action="locked", detail=f"for {wait} s"))
        return Verdict(False)

    # --- the accounts

    def add(self, name: str, password: str, now: int, who: str) -> None:
        """Made by `who`. Raises AccountError, StoreError."""
        if not names.plausible(name):
            raise NotGood(f"{name!r} is no name of a user: expected {names.EXPECTED}")
        _must_be_good(name, password)
        entry = Entry(time=now, who=who, action="account made", detail=name)
        if not self._ledger.add_account(name, auth.hash_password(_composed(password)), entry):
            raise AccountError(f"{name} has an account already: `slurmscope portal user password {name}` changes it")

    def change(self, name: str, password: str, now: int, who: str) -> Ended:
        """Another password, and an end to the sessions and tokens of that name: who had the older one may have made
        them. Raises AccountError, StoreError."""
        _must_be_good(name, password)
        entry = Entry(time=now, who=who, action="password changed", detail=name)
        ended = self._ledger.change_password(name, auth.hash_password(_composed(password)), entry)
        if ended is None:
            raise AccountError(_missing(name))
        return ended

    def remove(self, name: str, now: int, who: str) -> Ended:
        """With its sessions and tokens. Raises AccountError, StoreError."""
        ended = self._ledger.remove_account(name, Entry(time=now, who=who, action="account removed", detail=name))
        if ended is None:
            raise AccountError(_missing(name))
        return ended

    def accounts(self) -> list[Account]:
        """Raises StoreError."""
        return self._ledger.accounts()


def _limits(name: str, address: str) -> tuple[_Limit, _Limit, _Limit]:
    """Of the two together, first; of the address; of the name."""
    where = _neighbourhood(address)
    return (
        _Limit(f"both {hashed(name)} {where}", 5),
        _Limit(f"address {where}", 30),
        _Limit(f"name {hashed(name)}", 100),
    )


def _neighbourhood(address: str) -> str:
    """Who has one address of IPv6 has the 2^64 beside it as well."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return plain(address)
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def _composed(password: str) -> str:
    """An é may be one character or two, as keyboards like it."""
    return unicodedata.normalize("NFC", password)


def _must_be_good(name: str, password: str) -> None:
    if not LEAST_LENGTH <= len(password) <= MOST_LENGTH:
        raise NotGood(f"password: expected {LEAST_LENGTH} to {MOST_LENGTH} characters, found {len(password)}")
    if password.lower() == name.lower():
        raise NotGood("password: expected another than the name")


def _missing(name: str) -> str:
    return f"{name!r} has no account: `slurmscope portal user list` prints those that have"
