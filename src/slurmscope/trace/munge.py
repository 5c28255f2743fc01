# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who signed a body with munge, which every host of a Slurm cluster has."""

from __future__ import annotations

import asyncio
import hashlib
import re

from slurmscope.slurm import process
from slurmscope.slurm.transport import TimedOut, TransportError
from slurmscope.trace.traces import Proven
from slurmscope.trace.wrapper import SIGNED

_AT_ONCE = 4
_SECONDS = 5.0
_MOST_BYTES = 64 << 10
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]{1,8192}:")
_STATUS = re.compile(r"^STATUS:\s+(.*) \(\d+\)$", re.MULTILINE)
_UID = re.compile(r"^UID:\s+(.*) \((\d+)\)$", re.MULTILINE)
_BAD_CREDENTIAL = 8  # munge's errors from here on are about the credential; those before, about munge here


class NotProven(Exception):
    """The credential is not good for this body; the message says why."""


class NoMunge(Exception):
    """Nobody can be asked; the message says what to do."""


def is_credential(text: str) -> bool:
    """Whether it has the form of one. What it is worth, only munge can tell."""
    return _CREDENTIAL.fullmatch(text) is not None


class Munge:
    """Asks `unmunge`, a few at a time, each for a limited time."""

    def __init__(self) -> None:
        self._stuck = process.Stuck()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def signer(self, credential: str, body: bytes) -> Proven:
        text = await self._asked(credential)
        head, _, payload = text.partition("\n\n")
        if payload != SIGNED + hashlib.sha256(body).hexdigest():
            raise NotProven("the credential is of another body")
        found = _UID.search(head)
        if found is None:
            raise NoMunge("unmunge told no UID: is it munge's own?")
        return Proven(found[1], int(found[2]))

    async def _asked(self, credential: str) -> str:
        async with self._turn:
            try:
                done = await process.run(
                    ["unmunge", "--keys=STATUS,UID"],
                    None,
                    _SECONDS,
                    _MOST_BYTES,
                    stuck=self._stuck,
                    key="unmunge",
                    sent=credential.encode(),
                )
            except TimedOut:
                raise NoMunge(f"unmunge did not answer in {_SECONDS:g} s: is munged well?") from None
            except TransportError as error:
                raise NoMunge(f"{error}; install munge here, or send a token") from error
        text = done.data.decode("utf-8", "backslashreplace")
        if done.status != 0:
            said = _STATUS.search(text.partition("\n\n")[0])
            why = said[1] if said else done.complaints.removeprefix("unmunge: Error: ") or f"status {done.status}"
            raise NotProven(why) if done.status >= _BAD_CREDENTIAL else NoMunge(f"unmunge: {why}")
        return text
