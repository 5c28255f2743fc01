# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From a cluster to the parts of a snapshot."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from slurmscope.logs import Once, fields
from slurmscope.slurm.commands import BY_PART
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Transport
from slurmscope.worker import compute

log = logging.getLogger(__name__)


def own_user() -> str:
    """The name under which slurmctld sees our questions."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Reading(msgspec.Struct):
    """One part, freshly read, and what it cost."""

    value: Any
    source: str
    rows_skipped: int = 0
    bytes: int = 0


class SourceError(Exception):
    """A part could not be read; the message says by which command and why."""


class Source(Protocol):
    async def read(self, part: str) -> Reading: ...


class TextSource:
    """Slurm's commands and their text output."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._memos: dict[str, Mapping[bytes, Any]] = {}
        self._once = Once()

    async def read(self, part: str) -> Reading:
        command = BY_PART[part]
        marks = Marks.random()
        output = await self._transport.run(command, marks)
        if output.warnings:
            self._warn_once("a command warned", command=command.argv[0], warning=output.warnings)
        try:
            # in a thread, so that pages are served while a long queue is read
            parsed = await compute(command.parse, output.data, marks, self._memos.get(part, {}))
        except ValueError as error:
            raise SourceError(f"{' '.join(command.argv[:3])} answered something else: {error}") from error
        self._memos[part] = parsed.memo
        for problem, row in parsed.samples:
            self._warn_once("a row could not be read and is left out", part=part, problem=problem, row=row[:1000])
        log.debug("read", extra=fields(part=part, bytes=len(output.data), seconds=round(output.seconds, 3)))
        return Reading(parsed.value, f"text:{command.argv[0]}", parsed.skipped, len(output.data))

    def _warn_once(self, message: str, **said: str) -> None:
        """What goes wrong at every poll is logged the first time only."""
        self._once(log, logging.WARNING, tuple(said.values()), message, **said)
