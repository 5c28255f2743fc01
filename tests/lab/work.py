# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of a lab in cgroups of which it is known what they use."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lab.cluster import Lab

PROGRAM = Path(__file__).resolve().parent / "work.pl"
FOLDER = "/lab/work"
SCRATCH = f"{FOLDER}/scratch"
MIB = 1 << 20
_SUMMED_UP = 2.5  # seconds: every two the kernel adds up what memory.stat says


def command(folder: str = FOLDER, **options: float) -> str:
    """A line of a job's script; `work.pl` says what the options are."""
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in options.items()]
    return " ".join([f"{FOLDER}/{PROGRAM.name}", f"--folder {folder}", *words])


class Work:
    """The program and its files, within a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        install = (
            f"mkdir -p {SCRATCH} && chmod 1777 {FOLDER} {SCRATCH} && cat >{FOLDER}/work.pl && chmod 755 {FOLDER}/*.pl"
        )
        lab.run("sh", "-c", install, input=PROGRAM.read_bytes())

    def remove(self) -> None:
        self.lab.run("rm", "-rf", FOLDER)

    @contextlib.contextmanager
    def job(self, script: str, *options: str, workers: int = 1, mem: int = 400) -> Iterator[Done]:
        """Runs a job of alice's until the end of the block, from when so many of the program's have done their work."""
        with self.jobs(script, *options, workers=workers, mem=mem) as (done,):
            yield done

    @contextlib.contextmanager
    def jobs(
        self, script: str, *options: str, workers: int = 1, mem: int = 400, count: int = 1
    ) -> Iterator[list[Done]]:
        """The same for the tasks of an array, which are jobs of their own."""
        argv = ["sbatch", "--parsable", "-o/dev/null", f"--mem={mem}", *options]
        number = self.lab.run(*argv, user="alice", input=f"#!/bin/sh\n{script}\n".encode()).stdout.decode().strip()
        try:
            jobs = self.lab.wait_for(lambda: self._numbers(number, count))
            done = [self.lab.wait_for(partial(self._done, job, workers)) for job in jobs]
            if "--memory" in script:
                time.sleep(_SUMMED_UP)
            yield [one for one in done if one is not None]
        finally:
            self.lab.run("scancel", number)
            self.lab.wait_for(lambda: not self.lab.run("squeue", "-h", "-j", number).stdout)
            self.lab.run("sh", "-c", f"rm -f {FOLDER}/*.*.* {SCRATCH}/*.*.*")

    def _numbers(self, number: str, count: int) -> list[str]:
        """As cgroups have them, when all of them run."""
        found = self.lab.run("squeue", "-h", "-r", "-t", "running", "-j", number, "-o", "%A").stdout.decode().split()
        return found if len(found) == count else []

    def _done(self, job: str, workers: int) -> Done | None:
        said = self.lab.run("sh", "-c", f"cat {FOLDER}/{job}.*.ready {SCRATCH}/{job}.*.ready 2>/dev/null; true").stdout
        done = Done(job, [line.split(" ", 1) for line in said.decode().splitlines()])
        return done if len(done.cores) >= workers else None

    def beats(self, job: str) -> list[tuple[float, float]]:
        """What `beat` has written: times, and the seconds of the processor until then."""
        text = self.lab.run("sh", "-c", f"cat {FOLDER}/{job}.*.beat").stdout.decode()
        lines = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [(float(when), float(used)) for when, used in lines]


class Done:
    """What the workers of a job say that they did."""

    def __init__(self, job: str, said: list[list[str]]) -> None:
        self.job = job
        self.user = sum(float(value) for name, value in said if name == "user")
        self.system = sum(float(value) for name, value in said if name == "system")
        self.cores = [value for name, value in said if name == "cores"]
        self.evicted = all(value == "1" for name, value in said if name == "evicted")
