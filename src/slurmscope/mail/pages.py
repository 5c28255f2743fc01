# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages behind the links in mails.

Looking changes nothing, for mail programs and scanners follow every link: a page has one button, and only the button
acts. Who has the link may press it; no password is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from html import escape
from urllib.parse import parse_qs

from slurmscope.mail.ledger import Ledger
from slurmscope.mail.links import FINE, OPT_OUT, PATHS, Claim, Links
from slurmscope.mail.message import line
from slurmscope.server import Answer, Headers, Receiver
from slurmscope.signed import LinkError
from slurmscope.store.protocol import StoreError

log = logging.getLogger(__name__)

_MOST_BYTES = 4096
_UNDO = "undo"
_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}"
    "button{font:inherit;padding:.5rem 1rem}"
)
_HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),  # the address is the key
    (b"x-robots-tag", b"noindex"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"),
]


Parts = Callable[[], tuple[Links, Ledger] | None]
"""What a page needs; None where it cannot be had now."""


def doors(parts: Parts, clock: Callable[[], float] = time.time) -> dict[str, Callable[[str], Receiver]]:
    """What App takes as `prefixes`: by the beginning of an address, who answers there for the rest of it."""

    def door(action: str) -> Callable[[str], Receiver]:
        return lambda token: LinkPage(action, token, parts, clock)

    return {path: door(action) for action, path in PATHS.items()}


class LinkPage:
    """One link. Whatever goes wrong ends here: the address is a key, and nobody else may log it."""

    most_bytes = _MOST_BYTES

    def __init__(self, action: str, token: str, parts: Parts, clock: Callable[[], float] = time.time) -> None:
        self._action = action
        self._token = token
        self._parts = parts
        self._clock = clock

    async def refusal(self, headers: Mapping[str, str]) -> Answer | None:
        found = self._claimed()
        return found if isinstance(found, Answer) else None

    async def about(self) -> Answer:
        found = self._claimed()
        if isinstance(found, Answer):
            return found
        title, text, button = _question(found[0])
        return _page(200, title, text, button)

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        found = self._claimed()
        if isinstance(found, Answer):
            return found
        claim, ledger = found
        undo = _UNDO in parse_qs(body.decode("latin-1"), keep_blank_values=True)
        try:
            await asyncio.to_thread(self._act, claim, ledger, undo=undo)
        except StoreError:
            return _not_now()
        except Exception:
            log.exception("a link's page failed")
            return _not_now()
        return _done(claim, undo=undo)

    def _act(self, claim: Claim, ledger: Ledger, *, undo: bool) -> None:
        now = int(self._clock())
        if claim.action == FINE:
            ledger.fine(claim.person, claim.rule, claim.work, claim.job, now)
        elif undo:
            ledger.opt_in(claim.person, now, "by the link of a mail")
        else:
            ledger.opt_out(claim.person, now, "by the link of a mail")

    def _claimed(self) -> tuple[Claim, Ledger] | Answer:
        """What the link says, and where that is written down; or what is answered instead."""
        parts = self._parts()
        if parts is None:
            return _not_now()
        links, ledger = parts
        try:
            return links.claim(self._action, self._token, int(self._clock())), ledger
        except LinkError as error:
            return _page(404, "No such link", str(error))


def _question(claim: Claim) -> tuple[str, str, str]:
    if claim.action == OPT_OUT:
        text = f"{claim.person} gets mail about jobs that use less than they ask for. It can be turned off."
        return "No more of these mails", text, "Send me no more of these mails"
    text = (
        f"The rule {claim.rule} found something in the work {line(claim.work)!r} of {claim.person}. "
        "If that is as it should be, no more is said of it."
    )
    return "This is fine", text, "This is fine for this work"


def _done(claim: Claim, *, undo: bool) -> Answer:
    if claim.action == FINE:
        return _page(200, "Thank you", "It is written down, and of this work nothing more is said by this rule.")
    if undo:
        return _page(200, "Thank you", f"{claim.person} gets these mails again.")
    text = f"{claim.person} gets no more of these mails. What you ask Slurm for with --mail-type still comes."
    return _page(200, "Thank you", text, "Send them again after all", _UNDO)


def _not_now() -> Answer:
    return _page(503, "Not now", "It could not be written down. Please try again later.")


def _page(status: int, title: str, text: str, button: str = "", name: str = "yes") -> Answer:
    form = f'<form method="post"><button name="{escape(name)}" value="1">{escape(button)}</button></form>'
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(line(text))}</p>{form if button else ''}</html>\n"
    )
    return Answer(status, page.encode("utf-8", "replace"), "text/html; charset=utf-8", list(_HEADERS))
