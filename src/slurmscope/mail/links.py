# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Links in mails by which a person can say something without a password: signed, for one thing, for a time."""

from __future__ import annotations

import msgspec

from slurmscope.mail.notice import plain
from slurmscope.signed import LinkError, Signer

FINE, OPT_OUT = "fine", "opt-out"
PATHS = {FINE: "/fine/", OPT_OUT: "/opt-out/"}


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a link says when its button is pressed."""

    action: str
    person: str
    expires: int
    rule: str = ""
    work: str = ""
    job: str = ""


class Links:
    def __init__(self, key: bytes, url: str, days: int) -> None:
        self._signer = Signer(key, b"slurmscope mail link")
        self._url = url.rstrip("/")
        self._seconds = days * 86400

    def fine(self, person: str, rule: str, work: str, job: str, now: int) -> str:
        """Where a person can say that what a rule found is as it should be, in work of this name."""
        return self._made(Claim(FINE, plain(person), now + self._seconds, rule, plain(work), plain(job)))

    def opt_out(self, person: str, now: int) -> str:
        return self._made(Claim(OPT_OUT, plain(person), now + self._seconds))

    def claim(self, action: str, token: str, now: int) -> Claim:
        """What a link says. Raises LinkError."""
        found = self._signer.claim(token, Claim)
        if found.action != action:
            raise LinkError("This link is for something else.")
        if now >= found.expires:
            raise LinkError("This link is too old. A newer mail has a newer one.")
        return found

    def _made(self, claim: Claim) -> str:
        return f"{self._url}{PATHS[claim.action]}{self._signer.token(claim)}"
