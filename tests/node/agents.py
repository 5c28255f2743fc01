# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A running `slurmscope agent`, as a test holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from servers.process import free_port

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


class Agent:
    def __init__(self, folder: Path, settings: str = "", **environment: str) -> None:
        self.port = free_port()
        config = folder / "agent.toml"
        config.write_text(f'[agent]\nlisten = "127.0.0.1:{self.port}"\n{settings}\n')
        self.log = folder / "agent.log"
        self.process = subprocess.Popen(
            [SLURMSCOPE, "agent", "--config", str(config)],
            env={**os.environ, **environment},
            stderr=self.log.open("wb"),
            cwd=folder,
        )

    def get(self, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
        """Status, kind and text."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.headers["content-type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["content-type"], error.read().decode()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def running(folder: Path, settings: str = "", **environment: str) -> Iterator[Agent]:
    agent = Agent(folder, settings, **environment)
    try:
        until(lambda: _answers(agent))
        yield agent
    finally:
        assert agent.stop() == 0, agent.log.read_text()
        assert "Traceback" not in agent.log.read_text(), agent.log.read_text()


def _answers(agent: Agent) -> bool:
    assert agent.process.poll() is None, agent.log.read_text()
    with contextlib.suppress(OSError):
        return agent.get("/healthz")[0] == 200
    return False


def until(true: Callable[[], bool], seconds: float = 180) -> None:
    """Waits until it is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.05)
