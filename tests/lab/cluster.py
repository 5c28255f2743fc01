# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of the lab, as a test holds it."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

SCRIPT = Path(__file__).resolve().parent / "slurm-lab"
CLUSTERS = {"22.05": "lab22", "24.11": "lab24", "26.05": "lab26"}

T = TypeVar("T")


# A slurmctld whose disk is busy with what jobs write may not answer a command in the time that Slurm gives it.
_BUSY = b"Socket timed out"
_TRIES = 5


def _repeatable(argv: Sequence[str]) -> bool:
    """Whether it does no harm to ask again, though slurmctld may have done it."""
    return argv[0] in ("squeue", "sinfo", "sacct") or argv[:2] in (
        ("scontrol", "show"),
        ("scontrol", "update"),
        ("scontrol", "release"),
    )


class Lab:
    """A running Slurm cluster of one generation, with the set of jobs that `slurm-lab jobs` submits.

    `generation` is its version as Slurm writes it (`24.11`), `cluster` its name (`lab24`), `port` the port of its
    slurmctld on 127.0.0.1, and `bin` a folder of commands (squeue, sinfo, sacct, …) that speak to it, to be put
    first in `PATH`. The cluster is shared by all tests of a session: a test puts back what it changes.

    With `cgroup` it is the cluster beside that, whose jobs run in this host's cgroups, and which starts without jobs.
    """

    def __init__(self, generation: str, bin: Path, cgroup: str = "") -> None:
        self.generation = generation
        self.cluster = CLUSTERS[generation]
        self.bin = bin
        self.cgroup = cgroup
        self.port = int(self.script("port").stdout)

    def script(
        self, command: str, *argv: str, check: bool = True, input: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Call `slurm-lab COMMAND GENERATION ARGV…`."""
        line = [str(SCRIPT), command, self.generation, *argv]
        environment = {**os.environ, "SLURMSCOPE_LAB_CGROUP": self.cgroup}
        for _ in range(_TRIES):
            done = subprocess.run(line, input=input, env=environment, capture_output=True, check=False)
            if not (done.returncode and _BUSY in done.stderr and argv and _repeatable(argv)):
                break
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
            return self.script("exec", *argv, check=check, input=input)
        return self.script("as", user, *argv, check=check, input=input)

    def ctld(self, action: str) -> None:
        """Do `stop` (freeze), `cont`, `kill` or `start` to slurmctld; back when it is done."""
        self.script("ctld", action)

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

    def wait_for(self, predicate: Callable[[], T | None], seconds: float = 180) -> T:
        """Call `predicate` until what it returns is true, and return that; fail after `seconds`."""
        end = time.monotonic() + seconds
        while not (value := predicate()):
            if time.monotonic() > end:
                raise TimeoutError(f"not so after {seconds} s: {predicate}")
            time.sleep(0.2)
        return value
