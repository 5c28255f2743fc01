# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real munged with a key and a socket of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from processes import gone, until


class Munged:
    """`path` is a PATH on which `munge` and `unmunge` are those that speak to it."""

    def __init__(self) -> None:
        # not pytest's own folder, which others may not enter: munged then says that nobody could use its socket
        self._folder = Path(tempfile.mkdtemp(prefix="munged-"))
        self._folder.chmod(0o755)
        key = self._folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        socket, pid = self._folder / "socket", self._folder / "pid"
        options = [f"--key-file={key}", f"--socket={socket}", f"--pid-file={pid}", f"--seed-file={self._folder}/seed"]
        daemon = shutil.which("munged", path=f"{os.environ['PATH']}:/usr/sbin")
        assert daemon is not None
        subprocess.run([daemon, *options, f"--log-file={self._folder}/log"], check=True, capture_output=True)
        assert until(lambda: pid.exists() and socket.exists()), (self._folder / "log").read_text()
        self._pid = int(pid.read_text())
        programs = self._folder / "bin"
        programs.mkdir()
        for name in ("munge", "unmunge"):
            (programs / name).write_text(f'#!/bin/sh\nexec {shutil.which(name)} -S {socket} "$@"\n')
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"

    def sign(self, text: str) -> str:
        return self._run("munge", text).strip()

    def _run(self, name: str, text: str) -> str:
        program = shutil.which(name, path=self.path)
        assert program is not None
        return subprocess.run([program], input=text, check=True, capture_output=True, text=True).stdout

    def close(self) -> None:
        os.kill(self._pid, signal.SIGTERM)
        assert gone(self._pid)
        shutil.rmtree(self._folder)
