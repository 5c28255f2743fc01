# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON Web Token that slurmrestd asks for: given once, in a file, or printed by a command."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shlex
import time
from pathlib import Path

import msgspec

from slurmscope.settings import Slurm
from slurmscope.slurm import process
from slurmscope.slurm.transport import Failed

_EARLY = 60.0  # seconds before its end at which a token is asked for anew
_MOST_BYTES = 1 << 16
_PREFIX = "SLURM_JWT="  # as `scontrol token` prints it
_TOKEN = re.compile(r"[!-~]+")


class _Claims(msgspec.Struct):
    exp: float | None = None
    sun: str | None = None  # Slurm's name for the user


def claims(token: str) -> _Claims:
    """What a token says of itself; nothing is verified, for that is slurmrestd's part."""
    try:
        body = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims)
    except (ValueError, IndexError, msgspec.DecodeError):
        return _Claims()


def expiry(token: str) -> float | None:
    """When it ends, as an epoch second; None where it does not say."""
    return claims(token).exp


class Token:
    def __init__(self, slurm: Slurm) -> None:
        self._given = slurm.rest_token
        self._file = slurm.rest_token_file
        self._command = slurm.rest_token_command
        self._timeout = slurm.timeout
        self._stuck = process.Stuck()
        self._printed = ""
        self._printing = asyncio.Lock()

    @property
    def renewable(self) -> bool:
        """Whether another may be had when this one is refused."""
        return bool(self._file or self._command)

    async def get(self, *, refused: str = "") -> str:
        """The token, or nothing where none is needed. `refused` is one that slurmrestd did not take."""
        if self._file:
            found, whence = self._read(), f"{self._file} (slurm.rest_token_file)"
        elif self._command:
            found, whence = await self._fresh(refused), "what slurm.rest_token_command printed"
        else:
            found, whence = _bare(self._given), "slurm.rest_token"
        if found and not _TOKEN.fullmatch(found):
            # which is not repeated: it may be a token all the same, in another encoding
            raise Failed(f"{whence} is no token: it must be one line of ASCII, as `scontrol token` prints it")
        return found

    async def _fresh(self, refused: str) -> str:
        async with self._printing:  # one command for all questions that find the token stale
            end = expiry(self._printed)
            stale = end is not None and end - time.time() < _EARLY
            if not self._printed or stale or refused == self._printed:
                self._printed = await self._print()
            return self._printed

    def _read(self) -> str:
        # small, and read each time: whoever renews it need not tell us
        try:
            with Path(self._file).open("rb") as file:
                data = file.read(_MOST_BYTES)
        except OSError as error:
            raise Failed(f"{self._file}: the token cannot be read: {error.strerror} (slurm.rest_token_file)") from error
        return _bare(data.decode("utf-8", "replace"))

    async def _print(self) -> str:
        argv = shlex.split(self._command)
        done = await process.run(argv, os.environ, self._timeout, _MOST_BYTES, stuck=self._stuck, key="token")
        found = _bare(done.data.decode("utf-8", "replace"))
        if done.status or not found:
            said = done.complaints or "no message"
            raise Failed(f"slurm.rest_token_command exited with {done.status} and gave no token: {said}")
        return found


def _bare(text: str) -> str:
    """The token alone, of one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix(_PREFIX).strip("\"'") if lines else ""
