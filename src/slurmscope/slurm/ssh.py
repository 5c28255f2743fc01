# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of another machine, a login node of the cluster, through ssh.

A question is one run of probe.py there. All of them go through one connection, `ssh -M`, which is made when it is first
needed and made anew when it has gone. docs/ssh.md says how it is set up.
"""

from __future__ import annotations

import asyncio
import math
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from slurmscope.slurm import bundle, process
from slurmscope.slurm import probe as program
from slurmscope.slurm.commands import Command
from slurmscope.slurm.transport import Failed, NotFound, Output, TimedOut, TransportError, Unreachable

# sshd lets a connection have ten sessions (MaxSessions), and a poll may have twelve questions.
_MOST_AT_ONCE = 8
# The probe ends what it runs when its own time is up; it is given this long to start, and to say so.
_ALLOWANCE = 5.0
# A connection that cannot be made is not tried again at once for the other questions of the same poll.
_MOMENT = 1.0
_WATCH = 0.02
_CHECK = 2.0
_SHORT = 60  # the path of a socket may have 107 bytes, of which ssh needs some for itself
_NO_SESSION = 255  # ssh's own status; the probe has none such

# ssh's own settings do for host, port, key and the check of the host's key. These are ours:
_MASTER = (
    *("-M", "-N", "-T", "-a", "-x"),
    *("-o", "BatchMode=yes"),  # nobody is there to type a password
    *("-o", "ControlPersist=no"),  # else it would leave us
    *("-o", "RemoteCommand=none"),
    *("-o", "ClearAllForwardings=yes"),
    *("-o", "LogLevel=ERROR"),  # no words of welcome
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"),  # a dead network ends it
)
# A question goes through the master or not at all: ssh would connect by itself where there is none.
_QUESTION = ("-F", "/dev/null", "-T", "-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR")

# What ssh says, and what can be done about it; the first that fits.
_CURES = (
    ("Could not resolve hostname", "no such host: slurm.ssh must name one, or a Host of ssh's configuration"),
    (
        "IDENTIFICATION HAS CHANGED",
        "the host has another key than known_hosts says; if it was made anew, forget the old one (ssh-keygen -R) "
        "and connect once by hand",
    ),
    (
        "Host key verification failed",
        "the host's key is not known: connect once by hand, as the user that runs slurmscope, and say yes",
    ),
    ("Too many authentication failures", "too many keys were offered: name one by IdentityFile and IdentitiesOnly yes"),
    (
        "Permission denied",
        "the key was refused: it must need no passphrase, and its public half must be in authorized_keys there",
    ),
    ("Connection refused", "no sshd listens there: is it up, and is the port right (Port in ssh's configuration)?"),
    ("timed out", "the host does not answer: is it up, and does a firewall let us through?"),
    ("No route to host", "there is no way to the host: is it up, and is the network?"),
    ("Network is unreachable", "there is no way to the host: is the network up?"),
    ("Can't open user config file", "slurm.ssh_config names a file that cannot be read"),
    ("Bad configuration option", "ssh does not understand its configuration (slurm.ssh_config)"),
)


def _environment() -> dict[str, str]:
    # ssh starts helpers (ProxyJump, Match exec) by the user's shell, which for a service is often nologin
    return {**os.environ, "SHELL": "/bin/sh"}


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "no message"


class _Master(msgspec.Struct, eq=False):
    """A connection that stands, or stood."""

    running: process.Process
    said: asyncio.Task[str]
    folder: Path  # ours alone; with the socket in it

    @property
    def there(self) -> bool:
        return self.running.status is None

    @property
    def socket(self) -> str:
        return _socket(self.folder)

    @property
    def ready(self) -> bool:
        """ssh makes the socket when it has been let in; it has no other way to tell us."""
        return Path(self.socket).exists()

    async def end(self) -> str:
        """Leaves nothing of it, and tells its last words."""
        shutil.rmtree(self.folder, ignore_errors=True)
        await self.running.kill()
        await asyncio.wait({self.said}, timeout=_MOMENT)
        self.said.cancel()
        return self.said.result() if self.said.done() and not self.said.cancelled() else ""


def _socket(folder: Path) -> str:
    return str(folder / "s")


class _Connection:
    """To one host: made when it is asked for, kept, and made anew when it has gone."""

    def __init__(self, host: str, config: str, timeout: float) -> None:
        self._host = host
        self._timeout = timeout
        self._argv = ["ssh", *(("-F", config) if config else ()), *_MASTER]
        self._argv += ["-o", f"ConnectTimeout={math.ceil(timeout)}"]
        self._lock = asyncio.Lock()  # whoever comes while it is being made waits for it
        self._master: _Master | None = None
        self._failure: TransportError | None = None
        self._failed_at = 0.0

    async def master(self) -> _Master:
        async with self._lock:
            if self._master is not None and self._master.there:
                return self._master
            if self._failure is not None and time.monotonic() < self._failed_at + _MOMENT:
                raise type(self._failure)(str(self._failure))
            await self._end()
            try:
                self._master = await self._made()
            except TransportError as error:
                self._failure, self._failed_at = error, time.monotonic()
                raise
            return self._master

    async def check(self, master: _Master) -> str:
        """After a question went wrong: a master that does not answer is ended. Its last words, if it has gone."""
        async with self._lock:
            if self._master is not master:
                return ""  # somebody else has seen to it
            argv = ["ssh", *_QUESTION, "-S", master.socket, "-O", "check", "--", self._host]
            try:
                done = await process.run(argv, _environment(), _CHECK, 1 << 16, stuck=process.Stuck(), key="check")
                if done.status == 0 and master.there:
                    return ""
            except TimedOut:
                pass
            return await self._end()

    async def close(self) -> None:
        async with self._lock:
            await self._end()

    async def _end(self) -> str:
        master, self._master = self._master, None
        return await master.end() if master is not None else ""

    async def _made(self) -> _Master:
        place = tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="slurmscope-", dir=place if len(place) <= _SHORT else "/tmp"))  # noqa: S108
        argv = [*self._argv, "-S", _socket(folder), "--", self._host]
        try:
            running = process.Process(argv, _environment())
        except TransportError as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, NotFound):
                raise NotFound("ssh is not here: install the OpenSSH client (slurm.ssh is set)") from error
            raise
        master = _Master(running, asyncio.create_task(running.complaints()), folder)
        try:
            async with asyncio.timeout(self._timeout + _ALLOWANCE):
                while not master.ready:
                    if not master.there:
                        raise Unreachable(self._refused(await master.said))
                    await asyncio.sleep(_WATCH)
        except TimeoutError:
            await master.end()
            raise Unreachable(
                f"ssh {self._host}: the host did not let us in within {self._timeout:g} s (slurm.timeout)"
            ) from None
        except BaseException:
            await master.end()
            raise
        return master

    def _refused(self, words: str) -> str:
        cure = next((cure for sign, cure in _CURES if sign in words), "cannot connect")
        return f"ssh {self._host}: {cure} ({_last_line(words)})"


class Ssh:
    """Runs probe.py on `host`."""

    def __init__(
        self,
        host: str,
        *,
        config: str = "",
        probe: str = "",
        python: str = "",
        bin_dir: str = "",
        conf: str = "",
        multi_cluster: str = "",
        timeout: float = 10.0,
    ) -> None:
        self._host = host
        self._probe = probe
        self._python = python or "python3"
        self._timeout = timeout
        self._options = [f"--timeout={timeout:g}"]
        for option, value in (("--bin-dir", bin_dir), ("--conf", conf), ("--cluster", multi_cluster)):
            if value:
                self._options.append(f"{option}={value}")
        self._sent = b"" if probe else Path(program.__file__).read_bytes()
        self._connection = _Connection(host, config, timeout)
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._stuck = process.Stuck()

    async def run(self, command: Command) -> Output:
        async with self._room:
            started = time.monotonic()
            done = await self._ask(command, await self._connection.master())
            try:
                output = bundle.of_probe(done, command, f"ssh {self._host}")
            except bundle.NoDocument as error:
                raise self._explained(done.status, done.complaints, error) from error
            output.seconds = time.monotonic() - started
            return output

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(self, command: Command, master: _Master) -> process.Finished:
        words = [self._python, self._probe or "-", f"--ways={command.way}", f"--parts={command.part}", *self._options]
        if command.window != program.WINDOW:
            words += [f"--since={command.window[0]}", f"--until={command.window[1]}"]
        if command.job:
            words.append(f"--job={command.job}")
        argv = ["ssh", *_QUESTION, "-S", master.socket, "--", self._host, shlex.join(words)]
        patience = max(self._timeout, command.row.least_seconds) + _ALLOWANCE
        try:
            done = await process.run(
                argv,
                _environment(),
                patience,
                2 * command.row.most_bytes,  # as text in JSON it is longer
                stuck=self._stuck,
                key=f"{command.way} {command.part}",
                sent=self._sent,
            )
        except TimedOut:
            await self._connection.check(master)
            raise TimedOut(
                f"ssh {self._host}: no answer within {patience:g} s (slurm.timeout and {_ALLOWANCE:g} s more); "
                "is the network slow, or the host?"
            ) from None
        if done.status != _NO_SESSION:
            return done
        if "Session open refused" in done.complaints:
            raise Failed(
                f"ssh {self._host}: sshd allows fewer than {_MOST_AT_ONCE} sessions at a time: raise MaxSessions there"
            )
        words_of_master = await self._connection.check(master)
        raise Unreachable(
            f"ssh {self._host}: the connection was lost, and is made anew with the next question "
            f"({_last_line(words_of_master or done.complaints)})"
        )

    def _explained(self, status: int, complaints: str, error: bundle.NoDocument) -> TransportError:
        """Why there was no probe."""
        where, said = f"ssh {self._host}", _last_line(complaints)
        if status in (126, 127):
            return NotFound(f"{where}: {self._python} cannot be run there: name one by slurm.python ({said})")
        if "can't open file" in complaints:
            return NotFound(
                f"{where}: there is no {self._probe} (slurm.ssh_probe): copy probe.py there, or leave the setting "
                f"empty ({said})"
            )
        if "SyntaxError" in complaints:
            return Failed(
                f"{where}: {self._python} there is too old for the probe, which needs Python 3.6: name a newer one by "
                f"slurm.python ({said})"
            )
        if "probe.py: error:" in complaints:
            return Failed(f"{where}: {self._probe} there is of another slurmscope: copy it anew ({said})")
        return error
