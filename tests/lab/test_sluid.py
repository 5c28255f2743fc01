# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The names that Slurm 26.05 gives to the cgroups of jobs: as the agent asks for them, and as the jobs know them."""

from __future__ import annotations

import asyncio

import pytest
from lab.cluster import Lab

from slurmscope.node import squeue
from slurmscope.node.mounts import V2, Mounts
from slurmscope.node.slurm import Slurm
from slurmscope.settings import Slurm as Settings


@pytest.fixture
def new_lab(lab: Lab) -> Lab:
    if lab.generation < "26.05":
        pytest.skip(f"jobs of Slurm {lab.generation} have no SLUID")
    return lab


def running(lab: Lab, *options: str) -> set[int]:
    argv = ("squeue", "-h", "-r", "-t", "running,suspended,completing", "-o", "%A", *options)
    return {int(one) for one in lab.run(*argv).stdout.split()}


def test_every_job_of_a_node_has_a_sluid_of_its_own(new_lab: Lab) -> None:
    """Tasks of arrays and parts of heterogeneous jobs too."""
    settings = Settings(bin_dir=str(new_lab.bin))
    told = asyncio.run(squeue.Squeue(settings, "n[1-4],g[1-2]")([]))
    assert set(told.values()) == running(new_lab)
    assert len(told) == len(set(told.values()))
    on_one = asyncio.run(squeue.Squeue(settings, "n1")([]))
    assert set(on_one.values()) == running(new_lab, "-w", "n1") < set(told.values())


def test_it_is_the_one_that_the_job_knows_and_a_folder_of_its_name_is_found(
    new_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    argv = (
        "srun",
        "--mem=100",
        "-w",
        "n1",
        "sh",
        "-c",
        "echo $SLURM_JOB_ID $SLURM_JOB_SLUID; squeue -h -j $SLURM_JOB_ID -O SLUID",
    )
    number, sluid, asked = new_lab.run(*argv, user="alice").stdout.decode().split()
    assert asked == sluid
    assert squeue.parse(f"{number}|{sluid}|\n") == {sluid: int(number)}
    tree = tmp_path_factory.mktemp("tree")
    (tree / "system.slice/slurmstepd.scope" / sluid).mkdir(parents=True)
    (found,) = Slurm().find(Mounts({V2: str(tree)}))
    assert (found.job, found.key.rpartition("/")[2]) == (None, sluid)
