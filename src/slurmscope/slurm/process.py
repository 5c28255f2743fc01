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
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

from slurmscope.slurm import probe
from slurmscope.slurm.text import decode
from slurmscope.slurm.transport import Failed, NotFound, TimedOut, TooLong, TransportError

_MOST_WORDS = 1 << 16  # of complaints
_CHUNK = 1 << 20
_PATIENCE = 2.0
_BLINK, _MOMENT = 0.02, 0.5  # for one that was killed to go
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

    def abandon(self) -> None:
        """Ends it, for nobody waits for it any more."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running.wait(_MOMENT)

    async def kill(self) -> bool:
        """Nothing of it is left behind: a grandchild that holds the pipe open goes too.

        False if it does not go: a process that waits for a dead file system cannot be killed, and is not waited for.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        # most are gone in a blink, and then no second cancellation can keep us from seeing it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running.wait(_BLINK)
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
    """Processes that were killed and did not go, or never got to start: no second one is started beside them."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}
        self.starting: set[str] = set()

    def check(self, key: str, name: str) -> None:
        if key in self.starting:
            raise Failed(f"{name} is still being started: is its file system hanging?")
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
    path: str | None = None,
) -> Finished:
    """All that a process prints. `key` names what must not run twice at a time; `path` is where the program is looked
    for, unless it is named whole."""
    name = Path(argv[0]).name
    stuck.check(key, name)
    end = asyncio.get_running_loop().time() + timeout
    try:
        async with asyncio.timeout_at(end):
            process = await _started(argv, environment, sent, path, stuck, key)
    except TimeoutError:
        stuck.starting.add(key)
        raise TimedOut(f"{name} was not even started after {timeout:g} s: is its file system hanging?") from None
    data = asyncio.create_task(process.output(most_bytes))
    complaints = asyncio.create_task(process.complaints())
    try:
        async with asyncio.timeout_at(end):
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


async def _started(
    argv: Sequence[str], environment: Mapping[str, str] | None, sent: bytes, path: str | None, stuck: Stuck, key: str
) -> Process:
    """In a thread of its own: programs may lie on a file system that hangs, and then looking for them hangs, and
    starting them, but nothing else does."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Process] = loop.create_future()

    def begin() -> None:
        try:
            process = Process(argv if path is None else [_found(argv[0], path), *argv[1:]], environment, sent)
        except TransportError as error:
            _deliver(loop, partial(deliver, error))
        else:
            if not _deliver(loop, partial(deliver, process)):
                process.abandon()

    def deliver(outcome: Process | TransportError) -> None:
        stuck.starting.discard(key)
        if isinstance(outcome, Process):
            outcome.abandon() if found.done() else found.set_result(outcome)
        elif not found.done():
            found.set_exception(outcome)

    threading.Thread(target=begin, name="start", daemon=True).start()  # which keeps nobody from ending
    try:
        return await asyncio.shield(found)
    except asyncio.CancelledError:
        # as a rule it is there in a moment, and must not be left behind when all ends now, however often that is said
        end = loop.time() + _PATIENCE
        while not found.done() and (left := end - loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([found], timeout=left)
        if not found.cancel() and found.exception() is None:
            found.result().abandon()
        raise


def _deliver(loop: asyncio.AbstractEventLoop, tell: Callable[[], object]) -> bool:
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # it has ended meanwhile
        return False
    return True


def _found(name: str, path: str) -> str:
    try:
        return probe.program(name, path)
    except probe.NoAnswer as error:
        raise NotFound(str(error)) from error
