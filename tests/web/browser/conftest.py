# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The demo in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from web.browser.tabs import Tabs, opened, started

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. It is one for all tests, which only read. `SLURMSCOPE_TEST_DEMO` names one that runs already."""
    if url := os.environ.get("SLURMSCOPE_TEST_DEMO"):
        yield url
        return
    folder = tmp_path_factory.mktemp("demo")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    log = folder / "log"
    environment = {**os.environ, "SLURMSCOPE_STORE_FOLDER": str(folder), "SLURMSCOPE_POLL_INTERVAL": "2"}
    with log.open("wb") as told:
        process = subprocess.Popen(
            [SLURMSCOPE, "demo", "--listen", address], env=environment, stdout=told, stderr=told, cwd=folder
        )
    try:
        for _ in range(3000):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/readyz"):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        else:
            pytest.fail(f"the demo does not begin: {log.read_text()}")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with started(chromium) as found:
        yield found


@pytest.fixture
def tabs(browser: Browser, demo: str) -> Iterator[Tabs]:
    with opened(browser, demo) as found:
        yield found


@pytest.fixture(scope="session")
def things(demo: str) -> dict[str, str]:
    """What stands in an address of the demo for what is in braces. The job ran on several nodes, and was measured."""
    ended = _asked(demo, "/jobs.json?state=completed&time=1d&sort=ended&arrays=each")["jobs"]
    job = max(ended, key=lambda one: (one["nodes"], bool(one["findings"])))
    waiting = _asked(demo, f"/clusters/{job['cluster']}/jobs.json?state=waiting&arrays=each")["jobs"][0]
    nodes = _asked(demo, f"/clusters/{job['cluster']}/nodes.json")["nodes"]
    found = {name: str(job[name]) for name in ("cluster", "user", "account")}
    return {**found, "job": str(job["id"]), "waiting": str(waiting["id"]), "node": str(nodes[0]["node"]["name"])}


def _asked(demo: str, path: str) -> Any:
    with urllib.request.urlopen(demo + path) as answer:
        return json.load(answer)
