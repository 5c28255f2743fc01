# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of the demo's jobs ask for what the jobs have."""

from __future__ import annotations

import asyncio
from typing import Any

from lives import job

from slurmscope.demo.source import DemoSource
from slurmscope.model import Job

NOW = 1_769_600_000  # a Wednesday in January, at noon


def script(of: Job) -> list[str]:
    found = asyncio.run(DemoSource(clock=lambda: NOW).script(of))
    assert found is not None
    return found.splitlines()


def test_every_job_of_the_queue_has_one_that_fits_it() -> None:
    async def read() -> list[tuple[Job, str | None]]:
        source = DemoSource(clock=lambda: NOW)
        return [(one, await source.script(one)) for one in (await source.read("jobs")).value]

    told = asyncio.run(read())
    assert len(told) > 100
    for one, found in told:
        if found is None:
            assert one.name in ("interactive", "bash", "jupyter", "jupyter-gpu"), one.name
            continue
        lines = found.splitlines()
        assert lines[0] == "#!/bin/bash"
        options = dict(line.removeprefix("#SBATCH --").split("=", 1) for line in lines if line.startswith("#SBATCH"))
        assert (options["job-name"], options["account"], options["partition"]) == (one.name, one.account, one.partition)
        nodes = int(options["nodes"])
        assert nodes == one.nodes
        assert nodes * int(options["ntasks-per-node"]) * int(options["cpus-per-task"]) == one.cpus
        assert ("gpus-per-node" in options) == bool(one.gpus)
        assert ("inputs.txt" in found) == (one.array_id is not None)


def test_what_a_job_asked_for() -> None:
    asked: dict[str, Any] = {
        "partition": "gpu",
        "qos": "high",
        "nodes": 2,
        "cpus": 176,
        "memory": 400 << 30,
        "gpus": {"h100": 16},
    }
    more: dict[str, Any] = {"time_limit": 2 * 86400 + 3600, "features": "ib", "licenses": "ansys:8"}
    lines = script(job(1, name="pretrain_7b_s4", **asked, **more))
    assert lines[1:15] == [
        "#SBATCH --job-name=pretrain_7b_s4",
        "#SBATCH --account=physics",
        "#SBATCH --partition=gpu",
        "#SBATCH --qos=high",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=8",
        "#SBATCH --cpus-per-task=11",
        "#SBATCH --mem=200G",
        "#SBATCH --gpus-per-node=h100:8",
        "#SBATCH --time=2-01:00:00",
        "#SBATCH --constraint=ib",
        "#SBATCH --licenses=ansys:8",
        "#SBATCH --output=logs/%x-%j.out",
        "",
    ]
    assert lines[-1].startswith("srun python -m train")
