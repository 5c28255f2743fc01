# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""After a job has ended, in whatever way, no cgroup of it is left, and other jobs of its user go on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest
from lab.cluster import Lab
from processes import gone

# Forked twice, in a session of its own, without files of the job's: what a job forgets.
DAEMON = "(setsid sh -c 'sleep 7654321 & sleep 7654321' </dev/null >/dev/null 2>&1 &); sleep 1"


def submit(lab: Lab, script: str, *options: str) -> str:
    argv = ["sbatch", "--parsable", "-o/dev/null", "--mem=100", "-w", "n1", *options]
    return lab.run(*argv, user="alice", input=f"#!/bin/sh\n{script}\n".encode()).stdout.decode().strip()


def state(lab: Lab, job: str) -> str:
    return lab.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.decode().strip()


def groups(job: str) -> list[Path]:
    # unlike Path.glob, it goes on where a folder goes away meanwhile
    return sorted(map(Path, glob(f"/sys/fs/cgroup/*/slurm*/uid_*/job_{job}")))  # noqa: PTH207


def processes(job: str) -> dict[int, str]:
    """Those in the job's groups, with their names; what only keeps the step extern open is called so."""
    found = {}
    for group in groups(job):
        for folder, _, _ in os.walk(group):
            with contextlib.suppress(OSError):
                for pid in Path(folder, "cgroup.procs").read_text().split():
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    found[int(pid)] = "extern" if "step_extern" in folder and name == "sleep" else name
    return found


def running(lab: Lab, job: str, *names: str) -> dict[int, str]:
    """Its processes, as soon as these are among them."""

    def there() -> dict[int, str]:
        found = processes(job)
        return found if set(names) <= set(found.values()) else {}

    return lab.wait_for(there)


def settled(job: str) -> dict[int, str]:
    """Its processes, when none of those that start it is among them any more."""
    found: dict[int, str] = {}
    while found != (found := processes(job)):
        time.sleep(1)
    return found


def ended(lab: Lab, job: str, how: str) -> None:
    """So it has ended, the epilog has run, and nothing of it is there."""
    before = processes(job)
    lab.wait_for(lambda: state(lab, job) == how)
    assert groups(job) == []
    assert all(gone(pid) for pid in before)


@pytest.fixture(scope="module")
def slow(cgroup_lab: Lab) -> str:
    """Slurm counts time limits in minutes: this one's passes while the other tests run."""
    return submit(cgroup_lab, "sleep 7654321", "-w", "n2", "-t1")


@contextlib.contextmanager
def undisturbed(lab: Lab, node: str) -> Iterator[None]:
    """Beside another job of the same user on the same node, which nothing happens to."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two jobs at once need two CPUs")
    job = submit(lab, "sleep 7654320", "-w", node)
    try:
        running(lab, job, "sleep")
        before, there = settled(job), groups(job)
        yield
        assert processes(job) == before
        assert groups(job) == there
        assert state(lab, job) == "RUNNING"
    finally:
        lab.run("scancel", job)
    ended(lab, job, "CANCELLED")
    assert lab.run("sinfo", "-h", "-p", "main", "-o", "%E").stdout == b"none\n"


@pytest.fixture
def bystander(cgroup_lab: Lab, slow: str) -> Iterator[None]:
    with undisturbed(cgroup_lab, "n1"):
        yield


@pytest.mark.usefixtures("bystander")
def test_cancelled(cgroup_lab: Lab) -> None:
    job = submit(cgroup_lab, "srun sleep 7654321")
    running(cgroup_lab, job, "sleep", "slurmstepd")
    assert {group.parts[4] for group in groups(job)} >= {"cpuacct", "memory", "freezer", "cpuset", "devices"}
    cgroup_lab.run("scancel", job)
    ended(cgroup_lab, job, "CANCELLED")


@pytest.mark.usefixtures("bystander")
def test_cancelled_while_suspended(cgroup_lab: Lab) -> None:
    job = submit(cgroup_lab, "sleep 7654321")
    running(cgroup_lab, job, "sleep")
    cgroup_lab.run("scontrol", "suspend", job)
    cgroup_lab.run("scancel", job)
    ended(cgroup_lab, job, "CANCELLED")


@pytest.mark.usefixtures("bystander")
def test_leaves_a_daemon(cgroup_lab: Lab) -> None:
    job = submit(cgroup_lab, DAEMON)
    daemons = [pid for pid, name in running(cgroup_lab, job, "sleep").items() if name == "sleep"]
    ended(cgroup_lab, job, "COMPLETED")
    assert all(gone(pid) for pid in daemons)


@pytest.mark.usefixtures("bystander")
def test_its_stepd_is_killed(cgroup_lab: Lab) -> None:
    """Who would have removed the groups is dead, and the job's processes live on in them."""
    job = submit(cgroup_lab, DAEMON + "; sleep 7654321")
    for pid, name in running(cgroup_lab, job, "sleep", "slurmstepd").items():
        if name == "slurmstepd":
            os.kill(pid, signal.SIGKILL)
    time.sleep(1)
    assert "sleep" in processes(job).values()
    cgroup_lab.run("scancel", job)
    ended(cgroup_lab, job, "CANCELLED")


def test_timed_out(cgroup_lab: Lab, slow: str) -> None:
    with undisturbed(cgroup_lab, "n2"):
        running(cgroup_lab, slow, "sleep")
        ended(cgroup_lab, slow, "TIMEOUT")


@pytest.mark.usefixtures("bystander")
def test_an_earlier_job_of_the_same_number(cgroup_lab: Lab) -> None:
    """The prolog removes what it left: a group whose counts are not the new job's."""
    first = int(submit(cgroup_lab, "true"))
    ended(cgroup_lab, str(first), "COMPLETED")
    uid = int(cgroup_lab.run("id", "-u", "alice").stdout)
    old = Path(f"/sys/fs/cgroup/memory/slurm_n1/uid_{uid}/job_{first + 1}/step_old")
    old.mkdir(parents=True)
    job = submit(cgroup_lab, "sleep 7654321")
    assert int(job) == first + 1
    running(cgroup_lab, job, "sleep")
    assert not old.exists()
    cgroup_lab.run("scancel", job)
    ended(cgroup_lab, job, "CANCELLED")


def test_nothing_is_left_of_the_user(cgroup_lab: Lab, slow: str) -> None:
    cgroup_lab.wait_for(lambda: not cgroup_lab.run("squeue", "-h").stdout)
    assert list(Path("/sys/fs/cgroup").glob("*/slurm_n[12]/uid_*")) == []
