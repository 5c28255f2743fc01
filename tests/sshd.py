# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real sshd on loopback, of our own: its port, its keys, its home folder. The system's is never touched.

And how tests ask through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import descendants, until

from slurmscope.slurm.commands import BY_PART, Command
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.source import Way
from slurmscope.slurm.ssh import Ssh
from slurmscope.slurm.transport import Output, Transport, TransportError

PING = BY_PART["controllers"]
HOST = "cluster"  # as the client's configuration calls it
_PLACES = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def found() -> str:
    """Where sshd is; else the test is skipped, or fails where it could have been installed."""
    sshd = shutil.which("sshd", path=_PLACES)
    if sshd is None or shutil.which("ssh") is None:
        missing = "sshd is missing: apt install openssh-server"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return sshd


class Sshd:
    def __init__(self, folder: Path) -> None:
        self._program = found()
        self.folder = folder
        self.home = folder / "home"  # of the account there, as far as its shell knows
        self.bin = folder / "bin"  # its PATH, with a python3
        self.config = folder / "client.conf"
        self.known_hosts = folder / "known_hosts"
        self._process: subprocess.Popen[bytes] | None = None
        self.home.mkdir()
        self.bin.mkdir()
        (self.bin / "python3").symlink_to(sys.executable)
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        for name in ("host", "key", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        self.allow((folder / "key.pub").read_text())
        self.know("host")
        self.write_config()

    def allow(self, line: str) -> None:
        """The only line of authorized_keys."""
        (self.folder / "authorized_keys").write_text(line)

    def know(self, key: str) -> None:
        """What the client takes for the host's key."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {(self.folder / f'{key}.pub').read_text()}")

    def write_config(self, key: str = "key", **options: str) -> None:
        lines = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": pwd.getpwuid(os.geteuid()).pw_name,
            "IdentityFile": str(self.folder / key),
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            **options,
        }
        self.config.write_text(f"Host {HOST}\n" + "".join(f"  {name} {value}\n" for name, value in lines.items()))

    def start(self, *lines: str, path: str = "") -> None:
        config = self.folder / "sshd.conf"
        # by PAM where the account has no password at all, which sshd by itself takes for locked
        locked = os.geteuid() == 0 and any(
            line.startswith("root:!") for line in Path("/etc/shadow").read_text().splitlines()
        )
        config.write_text(
            "\n".join(
                (
                    *lines,
                    "ListenAddress 127.0.0.1",
                    f"Port {self.port}",
                    f"HostKey {self.folder / 'host'}",
                    f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
                    "PidFile none",
                    "StrictModes no",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "PermitRootLogin yes",
                    f"UsePAM {'yes' if locked else 'no'}",
                    f"SetEnv HOME={self.home} PATH={path or f'{self.bin}:/usr/bin:/bin'}",
                )
            )
            + "\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd shuts its unprivileged half in
        with (self.folder / "sshd.log").open("ab") as log:
            # by its full name, as it starts itself anew for each connection
            self._process = subprocess.Popen([self._program, "-D", "-e", "-f", config], stdout=log, stderr=log)
        assert until(self._answers), (self.folder / "sshd.log").read_text()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as one:
                return one.recv(4) == b"SSH-"
        except OSError:
            return False

    def sessions(self) -> list[int]:
        """Every process of its connections."""
        assert self._process is not None
        return list(descendants(self._process.pid))

    def idle(self) -> bool:
        return until(lambda: not self.sessions())

    def stop(self) -> None:
        """It and all that it serves, at once, as when the machine goes."""
        if self._process is not None:
            for pid in (*self.sessions(), self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def to(sshd: Sshd, **settings: Any) -> Ssh:
    return Ssh(HOST, config=str(sshd.config), **settings)


def script(folder: Path, name: str, body: str) -> Path:
    """A command of one's own, in a folder that is given back."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return folder


def asked(ssh: Ssh, *questions: Command) -> list[Output]:
    async def ask() -> list[Output]:
        try:
            return [await ssh.run(question) for question in questions or (PING,)]
        finally:
            await ssh.close()

    return asyncio.run(ask())


def refusal(ssh: Ssh, question: Command = PING) -> str:
    with pytest.raises(TransportError) as caught:
        asked(ssh, question)
    return f"{caught.type.__name__}: {caught.value}"


def picture(transport: Transport) -> dict[str, Any]:
    """Every part, as it is read by text."""

    async def look() -> dict[str, Any]:
        way = Way(TEXT, transport)
        try:
            return {part: (await way.read(part)).value for part in BY_PART}
        finally:
            await way.close()

    return asyncio.run(look())


def masters() -> list[int]:
    """The connections that we hold."""
    found = []
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == b"ssh":
                found.append(pid)
    return found
