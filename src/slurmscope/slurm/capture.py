# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that a cluster answers, written down."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from slurmscope import __version__
from slurmscope.slurm import bundle, probe
from slurmscope.slurm.bundle import Bundle, BundleError
from slurmscope.slurm.commands import Command
from slurmscope.slurm.source import Way
from slurmscope.slurm.transport import Output, TimedOut, TransportError, Unanswered

_WAITS = 2
_OF_SLURMDBD = ("accounting", "coordinators", "history")


def questions(ways: Sequence[Way]) -> list[tuple[Way, Command]]:
    return [(way, command) for way in ways for command in way.commands.values()]


async def capture(ways: Sequence[Way], asked: Callable[[Command], None] = lambda command: None) -> Bundle:
    """One after the other, so as to be no burden; what fails is written down with the rest.

    A slurmctld that does not answer is not waited for dozens of times.
    """
    answers = []
    waited = 0
    for way, command in questions(ways):
        began = time.time()
        outcome: Output | TransportError
        try:
            if waited >= _WAITS and command.part not in _OF_SLURMDBD:
                raise Unanswered("not asked, for slurmctld did not answer before")
            outcome = await way.transport.run(command)
        except TransportError as error:
            outcome = error
            waited += isinstance(error, TimedOut | Unanswered)
        answers.append(bundle.answered(command, outcome, began))
        asked(command)
    return Bundle(
        probe.FORMAT,
        probe.VERSION,
        time.time(),
        socket.gethostname(),
        ".".join(map(str, sys.version_info[:3])),
        __version__,
        answers=answers,
    )


def write(found: Bundle, path: Path) -> int:
    """All of it or nothing, for the owner's eyes alone. Returns the size."""
    data = bundle.dump(found)
    try:
        # a pipe, a device or somebody's open file is written to, and not replaced
        if (path.exists() and not path.is_file()) or path.is_relative_to("/dev") or path.is_relative_to("/proc"):
            path.write_bytes(data)
            return len(data)
        place = path.resolve()  # a link stays one
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}") from error
    return len(data)
