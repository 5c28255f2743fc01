# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is given so much time and no more, and of which nothing is left behind. No other module starts any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from slurmscope.slurm.text import decode
from slurmscope.slurm.transport import Failed, NotFound, TimedOut, TooLong

_MOST_WORDS = 1 << 16  # of complaints
_CHUNK = 1 << 20
_PATIENCE = 2.0

Process = asyncio.subprocess.Process


class Finished(msgspec.Struct):
    status: int
    data: bytes
    complaints: str  # the beginning of what it said on stderr


class Stuck:
    """Processes that were killed and did not go: no second one is started beside them."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    def check(self, key: str, name: str) -> None:
        process = self._processes.pop(key, None)
        if process is not None and process.returncode is None:
            self._processes[key] = process
            raise Failed(f"{name}, process {process.pid}, was killed but does not end: is a file system hanging?")

    def add(self, key: str, process: Process) -> None:
        self._processes[key] = process


async def start(argv: Sequence[str], environment: Mapping[str, str] | None = None, *, stdin: bool = False) -> Process:
    name = Path(argv[0]).name
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            limit=_CHUNK,
            start_new_session=True,  # so that its children can be killed with it
        )
    except (FileNotFoundError, PermissionError) as error:
        raise NotFound(f"{name} cannot be run: {error}") from error
    except OSError as error:
        raise Failed(f"{name} cannot be run: {error}") from error


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
    process = await start(argv, environment, stdin=bool(sent))
    try:
        async with asyncio.timeout(timeout):
            data, complaints, _ = await asyncio.gather(
                _read(process.stdout, most_bytes), head(process.stderr), _send(process.stdin, sent)
            )
            status = await process.wait()
    except TimeoutError:
        raise TimedOut(f"{name} was killed after {timeout:g} s (slurm.timeout); is slurmctld slow?") from None
    finally:
        if not await kill(process):
            stuck.add(key, process)
    return Finished(status, data, decode(complaints).strip()[:1000])


async def _send(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is not None:
        # one that ends before it has read all says why by its status
        with contextlib.suppress(ConnectionError):
            stream.write(data)
            await stream.drain()
            stream.close()
            await stream.wait_closed()


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise TooLong(f"more than {most >> 20} MiB of output, which no cluster has to say")
    return b"".join(chunks)


async def head(stream: asyncio.StreamReader | None) -> bytes:
    """The beginning of what is said; the rest is taken and dropped, so that the command can go on."""
    words = b""
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        words += chunk[: _MOST_WORDS - len(words)]
    return words


async def kill(process: Process) -> bool:
    """Nothing of the command is left behind: a grandchild that holds the pipe open goes too.

    False if it does not go: a process that waits for a dead file system cannot be killed, and is not waited for.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its end is told only when its pipes are closed, and something outside of the group may hold them open, as an
    # `ssh -M` does those of its clients. There is no public way to them.
    for descriptor in range(3):
        pipe = process._transport.get_pipe_transport(descriptor)  # type: ignore[attr-defined]
        if isinstance(pipe, asyncio.WriteTransport):
            pipe.abort()
        elif pipe is not None:
            pipe.close()
    try:
        async with asyncio.timeout(_PATIENCE):
            await process.wait()
    except TimeoutError:
        return False
    return True
