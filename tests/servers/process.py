# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A server on loopback that a test can stop, start again and kill."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

# The kernel ends a server when the thread that started it ends. This one lasts as long as the tests, so that a server
# may be started from any thread and still goes with the tests, even if they are killed.
_STARTER = ThreadPoolExecutor(1, "servers")


class Unavailable(Exception):
    """A server that cannot be had here, and why."""


def built(name: str) -> Path:
    """What `tests/servers/build` makes; the first time this takes minutes."""
    environment = {**os.environ, "PYTHON": sys.executable}
    made = subprocess.run([HERE / "build", name], env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise Unavailable(f"{name} cannot be built: {made.stderr.strip()[-2000:]}")
    return Path(made.stdout.strip())


def program(name: str, package: str) -> str:
    """Where one of Debian's programs lies."""
    if found := shutil.which(name):
        return found
    raise Unavailable(f"{name} is missing: apt install {package}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Server:
    """A process with a folder and a port that stay the same from one start to the next."""

    name: str
    patience = 60.0  # seconds until it must have started
    account: tuple[str, str] | None = None  # the user and group it runs as when the tests are root, if not root
    version = ""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {}

    def look(self) -> str:
        """Its version, once it serves; anything raised until then means "not yet"."""
        raise NotImplementedError

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start it and wait until it serves. One that runs already is left alone."""
        if self._process is not None:
            return
        self._process = _STARTER.submit(self._begin).result()
        until = time.monotonic() + self.patience
        while True:
            try:
                self.version = self.look()
                return
            except Exception as error:
                if (status := self._process.poll()) is not None:
                    self._process = None
                    raise Unavailable(f"{self.name} ended with {status}: {self.log[-2000:]}") from error
                if time.monotonic() > until:
                    self.kill()
                    raise Unavailable(f"{self.name} does not start: {error}; {self.log[-2000:]}") from error
            time.sleep(0.05)

    def _begin(self) -> subprocess.Popen[bytes]:
        setpriv = [program("setpriv", "util-linux"), "--pdeathsig", "KILL"]
        if self.account and os.geteuid() == 0:
            setpriv += ["--reuid", self.account[0], "--regid", self.account[1], "--clear-groups"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*setpriv, *self.command()],
                env={**os.environ, **self.environment()},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which end it then
            )

    def stop(self) -> None:
        """End it in good order."""
        self._end("terminate")

    def kill(self) -> None:
        """End it as a loss of power would."""
        self._end("kill")

    def close(self) -> None:
        """For good."""
        self.kill()

    def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        getattr(process, how)()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Away for as long as the block lasts, and back after it whatever happens."""
        self.stop()
        try:
            yield
        finally:
            self.start()


class Elsewhere(Server):
    """A server that was there before the tests: they use it, and must not stop it."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self._url, self._process = name, url, None

    @property
    def url(self) -> str:
        return self._url

    def start(self) -> None:
        pass

    def _end(self, how: str) -> None:
        pytest.skip(f"this {self.name} was not started by the tests, and is not theirs to stop")
