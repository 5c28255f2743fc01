# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens by which a user's own programs read the API: `sst_…`, shown once, of which only the hash is kept."""

from __future__ import annotations

from collections.abc import Mapping

from slurmscope.web.people.ledger import DAY, REVOKED, Entry, Ledger, Token, hashed, new_secret
from slurmscope.words import printable

PREFIX = "sst_"
"""By it people, and programs that look for secrets in code, know what it is."""
MOST_DAYS = 366
MOST_TOKENS = 50
MOST_LABEL = 100
_USED_SECONDS = 60  # so often at most it is written down that one was used
_MOST_LENGTH = 200


def presented(headers: Mapping[str, str]) -> str:
    """The token of ours that a program shows; "" where there is none. One of another kind is for whoever stands before
    us."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    secret = secret.strip()
    return secret if scheme.lower() == "bearer" and secret.startswith(PREFIX) else ""


class TokenError(Exception):
    """A token that is not made; the message says why, and what to do."""


class Tokens:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def make(self, user: str, label: str, days: int, now: int, address: str = "") -> str:
        """The token itself, which nobody can be told again. Raises TokenError, StoreError."""
        label = " ".join(printable(label).split())
        if not label or len(label) > MOST_LABEL:
            raise TokenError(f"Give it a name of 1 to {MOST_LABEL} characters that says what it is for.")
        if not 1 <= days <= MOST_DAYS:
            raise TokenError(f"A token is for 1 to {MOST_DAYS} days.")
        own = self.all(user, now)
        # a page that is sent again makes no second one
        if any(one.label == label for one in own):
            raise TokenError(f"There is a token called {label!r} already: choose another name, or revoke it first.")
        if len(own) >= MOST_TOKENS:
            raise TokenError(f"There are {MOST_TOKENS} tokens already: revoke those that are not used.")
        secret = PREFIX + new_secret()
        token = Token(id=0, user=user, label=label, made=now, used=None, expires=now + days * DAY)
        entry = Entry(time=now, who=user, address=address, action="token made", detail=f"{label}, {days} days")
        self._ledger.add_token(hashed(secret), token, entry)
        return secret

    def of(self, secret: str, now: int) -> Token | None:
        """None: it was not made here, is too old, or was revoked. Raises StoreError."""
        if not secret.startswith(PREFIX) or len(secret) > _MOST_LENGTH:
            return None
        found = self._ledger.token(hashed(secret))
        if found is None or now >= found.expires:
            return None
        if found.used is None or now - found.used >= _USED_SECONDS:
            self._ledger.use_token(found.id, now)
        return found

    def all(self, user: str | None, now: int) -> list[Token]:
        """A user's, or everybody's. Raises StoreError."""
        return [one for one in self._ledger.tokens(user) if one.expires > now]

    def revoke(self, user: str | None, id_: int, now: int, who: str, address: str = "") -> bool:
        """By `who`; None for `user`: whosever it is. False where there is none. Raises StoreError."""
        entry = Entry(time=now, who=who, address=address, action=REVOKED, detail=str(id_))
        return self._ledger.remove_token(id_, user, entry)
