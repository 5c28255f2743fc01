# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A running `slurmscope serve`, as a test holds it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.page import SLURMSCOPE, Page


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


# Seconds: more than `serve` rests after a slurmctld that was slow, as it may be on a machine that is busy.
PATIENCE = 360


class Served:
    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.port = free_port()
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [SLURMSCOPE, "serve", "--listen", f"127.0.0.1:{self.port}", *arguments],
            env={**os.environ, **environment},
            stderr=self.log.open("wb"),
        )

    def page(self) -> Page:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            return Page(answer.read().decode())

    def wait(self, what: Callable[[Page], bool]) -> Page:
        """The first page on which it is so; every page on the way must come."""
        end = time.monotonic() + PATIENCE
        while True:
            page = self.page()
            if what(page):
                return page
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)


@contextlib.contextmanager
def serving(folder: Path, clusters: int, *arguments: str, **environment: str) -> Iterator[Served]:
    """Serves until the end of the block, from the moment that so many clusters are up."""
    found = Served(folder, *arguments, **environment)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError):
                found.page()
                break
            time.sleep(0.1)
        found.wait(lambda page: page.sum("slurm_up") == clusters)
        yield found
    finally:
        found.process.terminate()
        assert found.process.wait(60) == 0
        assert b"Traceback" not in found.log.read_bytes()
