# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What there is between a question of the table and its answer: local.py, ssh.py, rest.py, and the recorded one of
bundle.py.

TransportError
  NotFound     what would be asked is not there: no such program, no such address, no PySlurm
  TimedOut     it took longer than it may, and was killed with its children
  Failed       it ended with a status that is no answer
    Unanswered   … for slurmctld does not answer, or not in time, as the command itself says
    Unreachable  … for slurmrestd or a login node is not there, or does not let us in
  TooLong      it printed more than any cluster can have to say
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from slurmscope.slurm import probe
from slurmscope.slurm.commands import Command
from slurmscope.slurm.text import Marks


class TransportError(Exception):
    pass


class NotFound(TransportError):
    pass


class TimedOut(TransportError):
    pass


class Failed(TransportError):
    pass


class Unanswered(Failed):
    pass


class Unreachable(Failed):
    pass


class TooLong(TransportError):
    pass


# What probe.py calls them.
_KINDS: Mapping[str, type[TransportError]] = {
    probe.NOT_FOUND: NotFound,
    probe.TIMED_OUT: TimedOut,
    probe.FAILED: Failed,
    probe.TOO_LONG: TooLong,
}
# What the commands say when slurmctld is away, or too busy to answer within Slurm's own MessageTimeout: to ask it
# another way would only be one more question.
_SILENCES = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Slurm backup controller in standby mode",
)


def kind_of(error: TransportError) -> str:
    """The word for an error in a bundle."""
    return next((kind for kind, one in _KINDS.items() if isinstance(error, one)), probe.FAILED)


def error_of(kind: str, message: str) -> TransportError:
    """The error for a word."""
    found = _KINDS.get(kind, Failed)
    silent = found is Failed and any(words in message for words in _SILENCES)
    return Unanswered(message) if silent else found(message)


class Output(msgspec.Struct):
    data: bytes
    marks: Marks  # that stand in the data
    argv: tuple[str, ...] = ()  # what was run
    warnings: str = ""  # what it said on stderr although it succeeded
    seconds: float = 0.0
    python: str = ""  # the version of the Python that ran the probe, where one did


class Transport(Protocol):
    async def run(self, command: Command) -> Output: ...

    async def close(self) -> None:
        """Ends what it keeps open."""
        ...
