# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is given so much time and no more, and of which nothing is left behind. No other module starts any.

asyncio has processes of its own. One that is cancelled while it is being started can keep the loop from ending, and
one whose pipes somebody else holds, as `ssh -M` does those of its clients, does not end for it. So these are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

from slurmscope.slurm.text import decode
from slurmscope.slurm.transport import Failed, NotFound, TimedOut, TooLong

_MOST_WORDS = 1 << 16  # of complaints
_CHUNK = 1 << 20
_PATIENCE = 2.0
_FIRST_LOOK, _LATER_LOOKS = 0.001, 0.05  # seconds between looks whether it has ended


class Finished(msgspec.Struct):
    status: int
    data: bytes
    complaints: str  # the beginning of what it said on stderr


class Process:
    """One that was started, and reads `sent` from its stdin."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None, sent: bytes = b"") -> None:
        name = Path(argv[0]).name
        try:
            # a file in memory, not a pipe: it is there whole, whatever becomes of us meanwhile
            with os.fdopen(os.memfd_create("sent"), "w+b") as stdin:
                stdin.write(sent)
                stdin.seek(0)
                self._running = subprocess.Popen(
                    argv,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,  # so that its children can be killed with it
                )
        except (FileNotFoundError, PermissionError) as error:
            raise NotFound(f"{name} cannot be run: {error}") from error
        except OSError as error:
            raise Failed(f"{name} cannot be run: {error}") from error
        self.pid = self._running.pid

    @property
    def status(self) -> int | None:
        """None while it runs."""
        return self._running.poll()

    async def wait(self) -> int:
        pause = _FIRST_LOOK
        while (status := self.status) is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATER_LOOKS)
        return status

    async def output(self, most: int) -> bytes:
        """All that it prints."""
        # which gives away what it holds without a copy: of a long queue's JSON that would be a large one
        found = BytesIO()
        async with _reader(self._running.stdout) as reader:
            while chunk := await reader.read(_CHUNK):
                found.write(chunk)
                if found.tell() > most:
                    raise TooLong(f"more than {most >> 20} MiB of output, which no cluster has to say")
        return found.getvalue()

    async def complaints(self) -> str:
        """The beginning of what it says on stderr; the rest is taken and dropped, so that it can go on."""
        words = b""
        async with _reader(self._running.stderr) as reader:
            while chunk := await reader.read(_CHUNK):
                words += chunk[: _MOST_WORDS - len(words)]
        return decode(words).strip()

    async def kill(self) -> bool:
        """Nothing of it is left behind: a grandchild that holds the pipe open goes too.

        False if it does not go: a process that waits for a dead file system cannot be killed, and is not waited for.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.wait()
        except TimeoutError:
            return False
        return True


@contextlib.asynccontextmanager
async def _reader(pipe: IO[bytes] | None) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader
    finally:
        transport.close()


class Stuck:
    """Processes that were killed and did not go: no second one is started beside them."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    def check(self, key: str, name: str) -> None:
        process = self._processes.pop(key, None)
        if process is not None and process.status is None:
            self._processes[key] = process
            raise Failed(f"{name}, process {process.pid}, was killed but does not end: is a file system hanging?")

    def add(self, key: str, process: Process) -> None:
        self._processes[key] = process


async def run(
    argv: Sequence[str],
    environment: Mapping[str, str] | None,
    timeout: float,  # noqa: ASYNC109 - the process is to be killed, and its limit named
    most_bytes: int,
    *,
    stuck: Stuck,
    key: str,
    sent: bytes = b"",
) -> Finished:
    """All that a process prints. `key` names what must not run twice at a time."""
    name = Path(argv[0]).name
    stuck.check(key, name)
    process = Process(argv, environment, sent)
    data = asyncio.create_task(process.output(most_bytes))
    complaints = asyncio.create_task(process.complaints())
    try:
        async with asyncio.timeout(timeout):
            await asyncio.gather(data, complaints)
            status = await process.wait()
    except TimeoutError:
        raise TimedOut(f"{name} was killed after {timeout:g} s (slurm.timeout); is slurmctld slow?") from None
    finally:
        data.cancel()
        complaints.cancel()
        if not await process.kill():
            stuck.add(key, process)
    return Finished(status, data.result(), complaints.result()[:1000])
