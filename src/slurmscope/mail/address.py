# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses: which can be used, and which is whose."""

from __future__ import annotations

import re

from slurmscope.settings import Mail

# Local parts without quotes, and a host's name: what a mail server takes without asking. A name alone is for the
# server of this machine.
_ATOMS = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = re.compile(rf"{_ATOMS}(?:\.{_ATOMS})*(?:@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?")
_SENDER = re.compile(r'"?([^<>"]*)"?\s*<([^<>]*)>')
_LONGEST = 254
_USER = "{user}"


def usable(address: str) -> bool:
    return len(address) <= _LONGEST and bool(_ADDRESS.fullmatch(address))


def of_sender(sender: str) -> tuple[str, str]:
    """The name, which may be empty, and the address."""
    found = _SENDER.fullmatch(sender)
    return (found[1].strip(), found[2]) if found is not None else ("", sender)


def domain_of(sender: str) -> str:
    return of_sender(sender)[1].partition("@")[2] or "localhost"


def of_user(user: str, settings: Mail) -> str | None:
    """None where there is none that could be used."""
    found = settings.addresses.get(user) or settings.address.replace(_USER, user)
    return found if usable(found) else None


def of_recipients(given: str, settings: Mail) -> list[str]:
    """Of what a user told Slurm (--mail-user), which is by default the user's name; there may be several."""
    found = []
    for one in given.split(","):
        word = one.strip()
        address = (
            word if "@" in word and usable(word) else of_user(word, settings) if word and "@" not in word else None
        )
        if address is not None:
            found.append(address)
    return list(dict.fromkeys(found))
