# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who is signed in: a random token in a cookie, of which only the hash is kept.

A session ends when it was not used for portal.session_hours, and after seven days whatever happens: a cookie that
somebody else got hold of is not good for ever. It ends, too, when its way to sign in is not offered any more.
"""

from __future__ import annotations

from slurmscope.settings import Portal
from slurmscope.web.people.ledger import DAY, Entry, Ledger, Session, hashed, new_secret

LONGEST = 7 * DAY
"""Seconds after which everybody signs in anew."""
_SEEN_SECONDS = 60  # so often at most it is written down that one was used
_MOST_TOKEN = 200


class Sessions:
    def __init__(self, ledger: Ledger, portal: Portal) -> None:
        self._ledger = ledger
        self._ways = frozenset(portal.sign_in)
        self._idle = round(portal.session_hours * 3600)

    def begin(self, user: str, how: str, now: int, address: str = "") -> str:
        """The cookie's token. `how` is the way by which the user has signed in. Raises StoreError."""
        self._ledger.forget(now)
        token = new_secret()
        session = Session(
            user=user,
            how=how,
            made=now,
            seen=now,
            expires=now + LONGEST,
            hash=hashed(token),
        )
        entry = Entry(time=now, who=user, address=address, action="signed in", detail=how)
        self._ledger.add_session(session, entry)
        return token

    def of(self, token: str, now: int) -> Session | None:
        """None: there is none, or it has ended. Raises StoreError."""
        if not token or len(token) > _MOST_TOKEN:
            return None
        found = self._ledger.session(hashed(token))
        if found is None or found.how not in self._ways:
            return None
        if now >= found.expires or now - found.seen >= self._idle:
            return None
        if now - found.seen >= _SEEN_SECONDS:
            self._ledger.see_session(found.hash, now)
        return found

    def end(self, token: str, now: int, address: str = "") -> None:
        """The user signs out. Raises StoreError."""
        found = self._ledger.session(hashed(token))
        if found is not None:
            self._ledger.end_session(
                found.hash, Entry(time=now, who=found.user, address=address, action="signed out", detail=found.how)
            )

    def end_all(self, user: str, now: int, who: str, address: str = "") -> int:
        """How many there were; `who` ends them. Raises StoreError."""
        entry = Entry(time=now, who=who, address=address, action="sessions ended", detail=user)
        return self._ledger.end_sessions(user, entry)
