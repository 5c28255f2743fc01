# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of real jobs, from slurmctld and from the accounting, and who coordinates which account."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.cluster import Lab
from lab.test_ways import addresses
from sshd import HOST, Sshd

from slurmscope.life import Accounted
from slurmscope.model import Coordinator, Job
from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm.choice import Choice
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.source import Source, Way
from slurmscope.slurm.ssh import Ssh

HOSTILE = (
    b"#!/bin/sh\n#SBATCH --comment=x\n# </script><b> \x1b[2J \xff\xfe \xe2\x80\xae | @field\n"
    b"Batch_Script() { :; }\n: 'Batch Script for 1\n---------\nNONE'\nsleep 600\n"
)
TEXT_OF_IT = HOSTILE.decode("utf-8", "backslashreplace")
KEPT = HOSTILE.replace(b"\xff\xfe", b"??").decode()  # slurmdbd's database takes no bytes that are not UTF-8
SMALL = ("--parsable", "--output=/dev/null", "--mem=10", "--time=20", "--partition=all")


def submit(lab: Lab, *options: str, script: bytes = HOSTILE, user: str = "alice") -> int:
    done = lab.run("sbatch", *SMALL, *options, user=user, input=script)
    return int(done.stdout.split(b";")[0])


def jobs_of(lab: Lab, number: int) -> dict[int, Job]:
    """Those in the queue of that number, or of that array or heterogeneous job."""
    found = asyncio.run(source_of(Cluster(Slurm(bin_dir=str(lab.bin)))).read("jobs")).value
    return {job.id: job for job in found if number in (job.id, job.array_id)}


def script(job: Job, **slurm: Any) -> str | None:
    async def ask() -> str | None:
        source: Source = source_of(Cluster(Slurm(timeout=30, **slurm)))
        try:
            return await source.script(job)
        finally:
            await source.close()

    return asyncio.run(ask())


@pytest.fixture
def forgetful(lab: Lab, tmp_path: Path) -> Path:
    """The commands of a cluster whose slurmctld knows no job any more: the accounting's alone."""
    folder = tmp_path / "sacct-alone"
    folder.mkdir()
    shutil.copy(lab.bin / "sacct", folder)
    return folder


@pytest.fixture
def running(lab: Lab) -> Iterator[int]:
    """The number of a job of alice's that runs."""
    number = submit(lab)
    lab.wait_for(lambda: [job.state for job in jobs_of(lab, number).values()] == ["RUNNING"])
    yield number
    lab.run("scancel", str(number))


def accounted(lab: Lab, number: int, state: bytes = b"RUNNING") -> bool:
    return state in lab.run("sacct", "-n", "-X", "-j", str(number), "--whole-hetjob=no", "-o", "state").stdout


def test_a_job_that_runs(lab: Lab, running: int, forgetful: Path) -> None:
    (job,) = jobs_of(lab, running).values()
    assert script(job, bin_dir=str(lab.bin)) == TEXT_OF_IT
    lab.wait_for(lambda: accounted(lab, running))
    assert script(job, bin_dir=str(forgetful)) == KEPT
    assert script(job, bin_dir=str(lab.bin), multi_cluster=lab.cluster) == TEXT_OF_IT


def test_another_job_of_its_number_has_another_script(lab: Lab, running: int, forgetful: Path) -> None:
    (job,) = jobs_of(lab, running).values()
    lab.wait_for(lambda: accounted(lab, running))
    # as one of last year is, whose number was used again
    older = type(job)(**{**{name: getattr(job, name) for name in job.__struct_fields__}, "submit_time": 1_700_000_000})
    assert script(older, bin_dir=str(lab.bin)) is None
    assert script(older, bin_dir=str(forgetful)) is None


def test_a_job_that_has_ended_is_found_in_the_accounting(lab: Lab, forgetful: Path) -> None:
    number = submit(lab, script=b"#!/bin/sh\nsleep 3\n")
    lab.wait_for(lambda: b"COMPLETED" in lab.run("sacct", "-n", "-X", "-j", str(number), "-o", "state").stdout)
    history: tuple[Accounted, ...] = asyncio.run(source_of(Cluster(Slurm(bin_dir=str(lab.bin)))).read("history")).value
    (job,) = [one.job for one in history if one.job.id == number]
    # slurmdbd may know that it ended before it knows all of how it began
    assert lab.wait_for(lambda: script(job, bin_dir=str(forgetful))) == "#!/bin/sh\nsleep 3\n"


def test_tasks_of_an_array(lab: Lab, forgetful: Path) -> None:
    number = submit(lab, "--array=1-4%2")
    try:
        lab.wait_for(lambda: [job.state for job in jobs_of(lab, number).values()].count("RUNNING") == 2)
        found = jobs_of(lab, number)
        assert {job.array_tasks for job in found.values()} == {"1", "2", "3-4%2"}
        assert {script(job, bin_dir=str(lab.bin)) for job in found.values()} == {TEXT_OF_IT}
        ran = [job for job in found.values() if job.state == "RUNNING"]
        lab.wait_for(lambda: all(accounted(lab, job.id) for job in ran))
        assert {script(job, bin_dir=str(forgetful)) for job in ran} == {KEPT}
    finally:
        lab.run("scancel", str(number))


def test_heterogeneous_jobs(lab: Lab, forgetful: Path) -> None:
    """The lab has one of its own, whose script slurmdbd would give for the second component of every other one."""
    components = ("--ntasks=1", ":", "--ntasks=1", "--mem=10", "--partition=all")
    number = submit(lab, *components)
    held = submit(lab, "--hold", *components)
    try:
        lab.wait_for(lambda: [job.state for job in jobs_of(lab, number).values()] == ["RUNNING"])
        lab.wait_for(
            lambda: all(accounted(lab, number + at) and accounted(lab, held + at, b"PENDING") for at in (0, 1))
        )
        for at in (0, 1):
            (job,) = jobs_of(lab, number + at).values()
            assert script(job, bin_dir=str(lab.bin)) == TEXT_OF_IT
            assert script(job, bin_dir=str(forgetful)) == KEPT
            (job,) = jobs_of(lab, held + at).values()
            assert script(job, bin_dir=str(lab.bin)) == TEXT_OF_IT
            assert script(job, bin_dir=str(forgetful)) is None
    finally:
        lab.run("scancel", str(number), str(held))


def test_a_job_without_a_script(lab: Lab, forgetful: Path) -> None:
    said = lab.run("salloc", "--no-shell", "--mem=10", "--partition=all", "--time=5", user="alice").stderr
    number = int(said.split(b"job allocation ")[1].split()[0])
    try:
        (job,) = jobs_of(lab, number).values()
        assert script(job, bin_dir=str(lab.bin)) is None
        lab.wait_for(lambda: accounted(lab, number))
        assert script(job, bin_dir=str(forgetful)) is None
    finally:
        lab.run("scancel", str(number))


def test_who_is_no_operator_is_given_only_their_own(lab: Lab, running: int, tmp_path: Path) -> None:
    (job,) = jobs_of(lab, running).values()
    lab.wait_for(lambda: accounted(lab, running))
    for user, told in (("carol", None), ("alice", TEXT_OF_IT)):
        folder = tmp_path / user
        folder.mkdir()
        lab.script("bin", str(folder), user)
        assert script(job, bin_dir=str(folder)) == told


def test_by_slurmrestd_alone(lab: Lab, running: int) -> None:
    """It must run as an operator, as all who want others' scripts."""
    (job,) = jobs_of(lab, running).values()
    lab.wait_for(lambda: accounted(lab, running))
    socket, _ = addresses(lab)
    assert script(job, rest_url=socket, bin_dir="/nowhere") is None
    lab.run("sacctmgr", "-i", "-Q", "add", "user", "rest", "account=root", "adminlevel=operator")
    try:
        told = None if lab.generation == "22.05" else KEPT
        assert script(job, rest_url=socket, bin_dir="/nowhere") == told
    finally:
        lab.run("sacctmgr", "-i", "-Q", "delete", "user", "rest")


def test_through_a_real_sshd(lab: Lab, running: int, tmp_path: Path) -> None:
    (job,) = jobs_of(lab, running).values()
    sshd = Sshd(tmp_path)
    sshd.start()

    async def ask() -> str | None:
        there = Choice([Way(TEXT, Ssh(HOST, config=str(sshd.config), bin_dir=str(lab.bin), timeout=30))])
        try:
            return await there.script(job)
        finally:
            await there.close()

    try:
        assert asyncio.run(ask()) == TEXT_OF_IT
    finally:
        sshd.stop()


def coordinators(bin_dir: Path) -> set[Coordinator]:
    return set(asyncio.run(source_of(Cluster(Slurm(bin_dir=str(bin_dir)))).read("coordinators")).value)


def test_who_coordinates_an_account_coordinates_those_below_it(lab: Lab) -> None:
    bio = Coordinator("bio", "dana.o-neil")
    assert coordinators(lab.bin) == {bio}
    ask = ("sacctmgr", "-i", "-Q")
    lab.run(*ask, "add", "account", "cells", "parent=bio", "description=cells", "organization=lab")
    try:
        lab.run(*ask, "add", "coordinator", "account=physics", "names=alice")
        below = Coordinator("cells", "dana.o-neil")
        assert coordinators(lab.bin) == {bio, below, Coordinator("physics", "alice")}
    finally:
        lab.run(*ask, "delete", "coordinator", "account=physics", "names=alice", check=False)
        lab.run(*ask, "delete", "account", "cells")
    assert coordinators(lab.bin) == {bio}
