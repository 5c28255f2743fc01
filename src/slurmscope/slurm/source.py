# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From a cluster to the parts of a snapshot."""

from __future__ import annotations

import logging
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from slurmscope.logs import Once, fields
from slurmscope.model import Cost, Job
from slurmscope.slurm import aside, scripts
from slurmscope.slurm.commands import BY_WAY, OF_A_JOB, REST, Command
from slurmscope.slurm.text import Parsed
from slurmscope.slurm.transport import Output, Transport, TransportError
from slurmscope.worker import compute

log = logging.getLogger(__name__)


def own_user() -> str:
    """The name under which slurmctld sees our questions."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Reading(msgspec.Struct):
    """One part, freshly read."""

    value: Any
    source: str
    rows_skipped: int = 0
    seconds: float | None = None  # what the way that told it took; without those that were tried in vain


class SourceError(Exception):
    """A part could not be read; the message says by which command and why."""


Window = tuple[int, int]  # since, and until
Costs = dict[tuple[str, str], Cost]  # by part and by the command (or the like) that was asked


class Source(Protocol):
    @property
    def costs(self) -> Costs: ...

    @property
    def fallbacks(self) -> dict[tuple[str, str], int]:
        """How often another way had to stand in, by part and way."""
        ...

    async def read(self, part: str, window: Window | None = None) -> Reading:
        """A part as it is now; the accounting's `history`, of a time."""
        ...

    async def script(self, job: Job) -> str | None:
        """The batch script of a job or of a life, at most 1 MiB; None where there is none, or it may not be read.

        It may take a few times `slurm.timeout`. Whether somebody may read it is for the caller to say.
        """
        ...

    async def close(self) -> None: ...


@contextmanager
def metered(costs: Costs, part: str, command: str) -> Iterator[Cost]:
    """Counts a question, how long it took, and whether it failed."""
    cost = costs.setdefault((part, command), Cost())
    started = time.monotonic()
    try:
        yield cost
    except BaseException:
        cost.failures += 1
        raise
    finally:
        cost.runs += 1
        cost.last_seconds = time.monotonic() - started
        cost.seconds += cost.last_seconds


class Way:
    """One way of asking, through one transport."""

    def __init__(self, name: str, transport: Transport) -> None:
        self.name = name
        self.costs: Costs = {}
        self.commands: Mapping[str, Command] = BY_WAY[name]  # by part; what it cannot tell is not there
        self.fallbacks: dict[tuple[str, str], int] = {}
        self.transport = transport
        self._memos: dict[str, Mapping[bytes, Any]] = {}
        self._once = Once()

    async def read(self, part: str, window: Window | None = None) -> Reading:
        return await self._told(self.commands[part] if window is None else self.commands[part].within(*window))

    async def script(self, job: Job, *, kept: bool = True) -> str | None:
        """`kept`: the accounting may have it."""
        known = OF_A_JOB[self.name]

        async def ask(part: str, number: str) -> Any:
            try:
                return (await self._told(known[part].of(number))).value
            except (TransportError, SourceError) as error:  # no such job, not ours to read, too long, nobody answers
                log.debug("not told", extra=fields(part=part, way=self.name, job=number, error=str(error)))
                return None

        if not known or job.submit_time is None:  # without it nobody can say whether a script is its
            return None
        return await (scripts.by_rest if self.name == REST else scripts.by_commands)(ask, job, kept=kept)

    async def _told(self, command: Command) -> Reading:
        with metered(self.costs, command.part, command.program) as cost:
            output = await self.transport.run(command)
            cost.bytes += len(output.data)
            reading = await self._parsed(command, output, cost)
        reading.seconds = cost.last_seconds
        return reading

    async def close(self) -> None:
        await self.transport.close()

    async def _parsed(self, command: Command, output: Output, cost: Cost) -> Reading:
        part = command.part
        argv = output.argv or command.argv
        if output.warnings:
            self._warn_once("a command warned", command=command.program, warning=output.warnings)
        try:
            if aside.suits(command, output):
                parsed: Parsed[Any] = await aside.parse(command, output)
            else:
                # in a thread, so that pages are served while a long queue is read
                parsed = await compute(command.parse, output.data, output.marks, self._memos.get(part, {}))
        except (ValueError, ArithmeticError, LookupError) as error:
            raise SourceError(f"{' '.join(argv[:3])} answered something else: {error}") from error
        self._memos[part] = parsed.memo
        cost.rows_skipped += parsed.skipped
        if parsed.note:
            self._warn_once(parsed.note, part=part, way=self.name)
        for problem, row in parsed.samples:
            self._warn_once("a row could not be read and is left out", part=part, problem=problem, row=row[:1000])
        log.debug("read", extra=fields(part=part, bytes=len(output.data), seconds=round(output.seconds, 3)))
        asked = argv[1] if self.name == REST else argv[0]
        return Reading(parsed.value, f"{self.name}:{asked}", parsed.skipped)

    def _warn_once(self, message: str, **said: str) -> None:
        """What goes wrong at every poll is logged the first time only."""
        self._once(log, logging.WARNING, tuple(said.values()), message, **said)
