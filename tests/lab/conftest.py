# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The fixture `lab`: a real Slurm on loopback, of each generation asked for.

`SLURMSCOPE_LAB_GENERATIONS` says which, as a comma list or `all`; 24.11 unless set. Tests that use it are
skipped where it cannot be had: it needs root on Debian. Under `CI=true` a lab that should start and does not
is a failure.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "slurm-lab"
CLUSTERS = {"22.05": "lab22", "24.11": "lab24", "26.05": "lab26"}

T = TypeVar("T")


class Lab:
    """A running Slurm cluster of one generation, with the set of jobs that `slurm-lab jobs` submits.

    `generation` is its version as Slurm writes it (`24.11`), `cluster` its name (`lab24`), `port` the port of its
    slurmctld on 127.0.0.1, and `bin` a folder of commands (squeue, sinfo, sacct, …) that speak to it, to be put
    first in `PATH`. The cluster is shared by all tests of a session: a test puts back what it changes.
    """

    def __init__(self, generation: str, bin: Path) -> None:
        self.generation = generation
        self.cluster = CLUSTERS[generation]
        self.bin = bin
        self.port = int(self._script("port").stdout)

    def _script(
        self, command: str, *argv: str, check: bool = True, input: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run([SCRIPT, command, self.generation, *argv], input=input, capture_output=True)
        if check and done.returncode:
            error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
            error.add_note(done.stderr.decode(errors="replace"))  # else a traceback would not show it
            raise error
        return done

    def run(
        self, *argv: str, user: str | None = None, check: bool = True, input: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command inside, as root or as `user`: alice, bob, carol or dana.o-neil."""
        if user is None:
            return self._script("exec", *argv, check=check, input=input)
        return self._script("as", user, *argv, check=check, input=input)

    def ctld(self, action: str) -> None:
        """Do `stop` (freeze), `cont`, `kill` or `start` to slurmctld; back when it is done."""
        self._script("ctld", action)

    def native(self, page: str) -> str:
        """A page of metrics as slurmctld itself serves it, such as `jobs` or `nodes`; only 26.05 does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"/metrics/{page}")
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"/metrics/{page} answers {response.status}: {body}")
        return body

    def wait_for(self, predicate: Callable[[], T], seconds: float = 30) -> T:
        """Call `predicate` until what it returns is true, and return that; fail after `seconds`."""
        end = time.monotonic() + seconds
        while not (value := predicate()):
            if time.monotonic() > end:
                raise TimeoutError(f"not so after {seconds} s: {predicate}")
            time.sleep(0.2)
        return value


def _generations() -> list[str]:
    asked = os.environ.get("SLURMSCOPE_LAB_GENERATIONS") or "24.11"
    chosen = list(CLUSTERS) if asked.strip() == "all" else [g.strip() for g in asked.split(",") if g.strip()]
    if unknown := [g for g in chosen if g not in CLUSTERS]:
        raise pytest.UsageError(f"SLURMSCOPE_LAB_GENERATIONS: {', '.join(unknown)} is none of {', '.join(CLUSTERS)}")
    return chosen


def _obstacle() -> str | None:
    """Why there can be no lab here, if so."""
    try:
        system = platform.freedesktop_os_release().get("ID")
    except OSError:
        system = None
    if system != "debian":
        return "the lab needs Debian"
    if os.geteuid() != 0:
        return "the lab needs root"
    return None


@contextmanager
def _alone(generation: str) -> Iterator[None]:
    """Keep other sessions on this machine from the same cluster: each starts by resetting it."""
    home = Path(os.environ.get("SLURMSCOPE_LAB") or "/var/cache/slurmscope-lab")
    home.mkdir(parents=True, exist_ok=True)
    with open(home / f"{generation}.session.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session", params=_generations())
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A freshly reset cluster with its jobs settled, up for the whole session."""
    if why := _obstacle():
        pytest.skip(why)
    generation: str = request.param
    with _alone(generation):
        lab = Lab(generation, tmp_path_factory.mktemp(f"bin-{generation}-"))
        try:
            try:
                lab._script("reset")
                lab._script("up")
            except subprocess.CalledProcessError as error:
                said = f"the lab of {generation} does not start: {error.stderr.decode(errors='replace').strip()}"
                if os.environ.get("CI") == "true":
                    pytest.fail(said, pytrace=False)
                pytest.skip(said)
            lab._script("bin", str(lab.bin))
            lab._script("jobs")
            lab.wait_for(lambda: _settled(lab), 60)
            yield lab
        finally:
            lab._script("down")


def _settled(lab: Lab) -> bool:
    """The array's first tasks have ended, its next ones run, and what failed is in the accounting."""
    tasks = lab.run("squeue", "-h", "-r", "-n", "sweep", "-t", "running,pending", "-o", "%T").stdout.split()
    fails = lab.run("sacct", "-a", "-n", "-X", "-P", "-S", "now-1hours", "--name=fails", "-o", "state").stdout.split()
    return sorted(tasks) == [b"PENDING"] * 2 + [b"RUNNING"] * 2 and fails == [b"FAILED"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab: needs the Slurm lab (root on Debian)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.lab)
