# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How a command of the table is run and its answer fetched.

TransportError
  NotFound    the program is not there
  TimedOut    it was killed, with its children, when its time was up
  Failed      it ended with a status that is no answer
  TooLong     it printed more than any cluster can have to say
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from typing import Protocol

import msgspec

from slurmscope.slurm.commands import DEFAULTS, ENVIRONMENT, Command
from slurmscope.slurm.text import Marks, decode

_MOST_WORDS = 1 << 16  # of complaints
_CHUNK = 1 << 20
_PATIENCE = 2.0


class TransportError(Exception):
    pass


class NotFound(TransportError):
    pass


class TimedOut(TransportError):
    pass


class Failed(TransportError):
    pass


class TooLong(TransportError):
    pass


class Output(msgspec.Struct):
    data: bytes
    warnings: str  # what it said on stderr although it succeeded
    seconds: float


class Transport(Protocol):
    async def run(self, command: Command, marks: Marks) -> Output: ...


class Local:
    """Runs the commands on this machine."""

    def __init__(self, bin_dir: str = "", conf: str = "", timeout: float = 10.0) -> None:
        home = os.environ.get("SLURM_HOME", "")
        self._path = bin_dir or (os.path.join(home, "bin") if home else "")  # noqa: PTH118 - given to which()
        self._timeout = timeout
        # a user's or a site's defaults would change what the commands answer
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)}
        self._environment = {**kept, **ENVIRONMENT, **({"SLURM_CONF": conf} if conf else {})}
        self._stuck: dict[str, asyncio.subprocess.Process] = {}

    def _program(self, name: str) -> str:
        found = shutil.which(name, path=self._path or None)
        if found is None:
            where = self._path or "PATH"
            raise NotFound(
                f"{name} not found in {where}, or not executable: "
                "set slurm.bin_dir (or SLURM_HOME) to where Slurm is installed"
            )
        return found

    async def run(self, command: Command, marks: Marks) -> Output:
        program, *arguments = command.arguments(marks)
        started = time.monotonic()
        stuck = self._stuck.pop(command.part, None)
        if stuck is not None and stuck.returncode is None:
            self._stuck[command.part] = stuck
            raise Failed(f"{program}, process {stuck.pid}, was killed but does not end: is a file system hanging?")
        try:
            process = await asyncio.create_subprocess_exec(
                self._program(program),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                limit=_CHUNK,
                start_new_session=True,  # so that its children can be killed with it
            )
        except (FileNotFoundError, PermissionError) as error:
            raise NotFound(f"{program} cannot be run: {error}") from error
        except OSError as error:
            raise Failed(f"{program} cannot be run: {error}") from error
        try:
            async with asyncio.timeout(self._timeout):
                data, complaints = await asyncio.gather(
                    _read(process.stdout, command.most_bytes), _read_head(process.stderr)
                )
                status = await process.wait()
        except TimeoutError:
            raise TimedOut(
                f"{program} was killed after {self._timeout:g} s (slurm.timeout); is slurmctld slow?"
            ) from None
        finally:
            if not await _kill(process):
                self._stuck[command.part] = process
        said = decode(complaints).strip()[:1000]
        if status not in command.good:
            raise Failed(f"{program} exited with {status}: {said or 'no message'}")
        return Output(data, said, time.monotonic() - started)


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise TooLong(f"more than {most >> 20} MiB of output, which no cluster has to say")
    return b"".join(chunks)


async def _read_head(stream: asyncio.StreamReader | None) -> bytes:
    """The beginning of what is said; the rest is taken and dropped, so that the command can go on."""
    head = b""
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        head += chunk[: _MOST_WORDS - len(head)]
    return head


async def _kill(process: asyncio.subprocess.Process) -> bool:
    """Nothing of the command is left behind: a grandchild that holds the pipe open goes too.

    False if it does not go: a process that waits for a dead file system cannot be killed, and is not waited for.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(_PATIENCE):
            await process.wait()
    except TimeoutError:
        return False
    # there is no public way to close the pipes, which something that left the group may still hold open
    process._transport.close()  # type: ignore[attr-defined]
    return True
