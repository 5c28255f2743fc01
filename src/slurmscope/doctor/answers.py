# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster answers, by every way that is set up for it.

By each way all parts are asked for at once, as a poll does, and one way after the other, so as to be no burden. While
slurmctld does not answer, other ways through the same commands would only wait for it again, and are not tried.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from slurmscope.model import PARTS
from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm import probe
from slurmscope.slurm.bundle import Bundle, Recorded
from slurmscope.slurm.clusters import ways_of
from slurmscope.slurm.commands import REST, Command
from slurmscope.slurm.probe import INSTALLED, JSON, PYSLURM, TEXT
from slurmscope.slurm.source import Way
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode
from slurmscope.slurm.transport import NotFound, Transport, TransportError
from slurmscope.worker import compute

if TYPE_CHECKING:
    from slurmscope.slurm.rest import Rest

PING = "controllers"
_SHOWS_LIFE = ("jobs", "nodes", "scheduler")
_KEPT = ((TEXT, "limits"), (PYSLURM, "config"))  # answers that tell more than the part that is made of them
_VERSION = re.compile(rb"\b\d+\.\d+(\.\S+)?")
# who tells of a part, where several do
_ORDER = (TEXT, REST, JSON, PYSLURM)


def _version(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[str]:
    found = _VERSION.search(data)
    if found is None:
        raise Malformed(f"no version in {decode(data)[:200]!r}")
    return Parsed(decode(found[0]))


PROGRAMS = tuple(
    Command(
        row=row,
        answers="Which Slurm the program is of.",
        why="By itself, for programs of several Slurms may lie in one folder.",
        cost="None: slurmctld is not asked.",
        parse=_version,
        recording="",
    )
    for row in probe.ROWS
    if row.way == INSTALLED
)


class Answer(msgspec.Struct):
    """To one question."""

    command: Command
    began: float
    ended: float
    value: Any = None
    rows_skipped: int = 0
    sample: str = ""  # of what was skipped
    error: Exception | None = None
    data: bytes = b""
    python: str = ""

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def answered(self) -> bool:
        """Somebody said something, be it that we cannot read it."""
        return self.error is None or isinstance(self.error, ValueError)


class Answers(msgspec.Struct):
    """Of one cluster."""

    slurm: Slurm
    alone: bool
    ways: tuple[str, ...] = ()
    told: dict[tuple[str, str], Answer] = {}
    ssh_error: Exception | None = None
    silent: bool = False  # neither jobs nor nodes nor scheduler were to be had by text
    token: str = ""
    token_error: TransportError | None = None
    rest_version: str = ""
    rest_seconds: float = 0.0
    rest_error: TransportError | None = None

    def get(self, way: str, part: str) -> Answer | None:
        return self.told.get((way, part))

    def by(self, way: str) -> list[Answer]:
        return [answer for (name, _), answer in self.told.items() if name == way]

    def best(self, part: str) -> Answer | None:
        """The first good one, whatever the way."""
        found = (self.told.get((way, part)) for way in _ORDER)
        return next((answer for answer in found if answer is not None and answer.error is None), None)

    def value(self, part: str) -> Any:
        answer = self.best(part)
        return None if answer is None else answer.value

    def tellers(self, part: str) -> list[str]:
        return [way for way in _ORDER if (found := self.get(way, part)) is not None and found.error is None]

    @property
    def name(self) -> str:
        config = self.value("config")
        return self.slurm.cluster or (config.cluster if config is not None else "") or "without a name"

    def setting(self, name: str) -> str:
        """What a setting is called for this cluster."""
        return f"slurm.{name}" if self.alone else f"clusters.{self.slurm.cluster}.{name}"

    async def ask(self, transport: Transport, *commands: Command) -> None:
        found = await asyncio.gather(*(_asked(transport, command) for command in commands))
        self.told |= {(answer.command.way, answer.command.part): answer for answer in found}


async def _asked(transport: Transport, command: Command) -> Answer:
    answer = Answer(command, time.time(), 0.0)
    try:
        output = await transport.run(command)
        answer.ended = max(time.time(), answer.began + output.seconds)  # of a recording, what it took then
        answer.python = output.python
        if (command.way, command.part) in _KEPT:
            answer.data = output.data
        parsed = await compute(command.parse, output.data, output.marks, {})
        answer.value, answer.rows_skipped = parsed.value, parsed.skipped
        answer.sample = f"{parsed.samples[0][0]} in {parsed.samples[0][1][:200]!r}" if parsed.samples else ""
    except Exception as error:  # a fault of ours costs one part, and is told as any other
        answer.ended = answer.ended or time.time()
        answer.error = error
    return answer


async def interview(cluster: Cluster) -> Answers:
    """Asks everything, and leaves nothing open."""
    ways = {way.name: way for way in ways_of(cluster)}
    answers = Answers(cluster.slurm, cluster.own is None, tuple(ways))
    try:
        await asyncio.gather(_by_commands(answers, ways), _by_rest(answers, ways))
    finally:
        await _close(way.transport for way in ways.values())
    return answers


async def recall(bundle: Bundle) -> Answers:
    """What a recording holds."""
    transport = Recorded(bundle)
    answers = Answers(Slurm(), alone=True, ways=transport.ways)
    for way in transport.ways:
        await answers.ask(transport, *_parts_of(Way(way, transport)))
    return answers


async def _close(transports: Iterable[Transport]) -> None:
    for transport in {id(transport): transport for transport in transports}.values():
        await transport.close()


def _parts_of(way: Way, *without: str) -> list[Command]:
    """The questions for the parts of a snapshot; what only captures ask for is not among them."""
    return [command for part, command in way.commands.items() if part in PARTS and part not in without]


async def _by_commands(answers: Answers, ways: Mapping[str, Way]) -> None:
    if TEXT not in ways:
        return
    text = ways[TEXT]
    # alone, so that what it takes is slurmctld's time and not ours
    await answers.ask(text.transport, text.commands[PING])
    error = answers.told[TEXT, PING].error
    # what went wrong there, and not on the way, is told in the words of the probe
    there = isinstance(error, TransportError | ValueError) and not str(error).startswith("ssh ")
    if answers.slurm.ssh and error is not None and not there:
        answers.ssh_error = error
        return
    await answers.ask(text.transport, *PROGRAMS, *_parts_of(text, PING))
    answers.silent = not any(answers.told[TEXT, part].answered for part in _SHOWS_LIFE)
    if answers.silent:
        return
    pyslurm, json = ways[PYSLURM], ways[JSON]
    await answers.ask(pyslurm.transport, pyslurm.commands["config"])
    if not isinstance(answers.told[PYSLURM, "config"].error, NotFound):
        await answers.ask(pyslurm.transport, *_parts_of(pyslurm, "config"))
    await answers.ask(json.transport, *_parts_of(json))


async def _by_rest(answers: Answers, ways: Mapping[str, Way]) -> None:
    if REST not in ways:
        return
    rest = cast("Rest", ways[REST].transport)
    try:
        answers.token = await rest.token.get()
    except TransportError as error:
        answers.token_error = error
        return
    began = time.monotonic()
    try:
        answers.rest_version = await rest.discover()
    except TransportError as error:
        answers.rest_error = error
        return
    finally:
        answers.rest_seconds = time.monotonic() - began
    await answers.ask(rest, *_parts_of(ways[REST]))
