# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The lab in cgroups is what it says it is."""

from __future__ import annotations

import os
from pathlib import Path

from lab.cluster import CLUSTERS, Lab

CONTROLLERS = ("cpuacct", "cpuset", "devices", "freezer", "memory")


def test_jobs_are_in_cgroups(cgroup_lab: Lab) -> None:
    argv = ["srun", "-w", "n1", "--mem=100", "cat", "/proc/self/cgroup"]
    said = cgroup_lab.run(*argv, user="alice").stdout.decode().splitlines()
    places = {controller: place for _, controller, place in (line.split(":", 2) for line in said)}
    uid = cgroup_lab.run("id", "-u", "alice").stdout.decode().strip()
    assert [name for name in CONTROLLERS if places[name].startswith(f"/slurm_n1/uid_{uid}/job_")] == list(CONTROLLERS)


def test_memory_and_cores_are_constrained(cgroup_lab: Lab) -> None:
    script = """
        group() { sed -n "s/^[0-9]*:$1://p" /proc/self/cgroup; }
        cat /sys/fs/cgroup/memory/$(group memory)/../../memory.limit_in_bytes
        sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status"""
    said = cgroup_lab.run("srun", "-w", "n1", "--mem=100", "sh", "-c", script, user="alice").stdout.decode()
    limit, cores = said.split()
    assert int(limit) == 100 << 20
    assert cores.isdecimal()


def test_a_job_reaches_its_own_gpu_alone(cgroup_lab: Lab) -> None:
    script = 'echo "$SLURM_JOB_GPUS$SLURM_STEP_GPUS"; for gpu in 0 1; do head -c1 /lab/dev/gpu$gpu; done; : </dev/null'
    for wanted, denied in ((["--gres=gpu:1"], 1), ([], 2), (["--gres=gpu:2"], 0)):
        argv = ["srun", "-w", "n1", "--mem=100", *wanted, "sh", "-c", script]
        done = cgroup_lab.run(*argv, user="alice")
        assert done.stderr.decode().count("Operation not permitted") == denied
        assert done.stderr.decode().count("No such device") == 2 - denied
        assert bool(done.stdout.strip()) == bool(wanted)


def test_nodes_have_the_cpus_of_the_host(cgroup_lab: Lab) -> None:
    rows = cgroup_lab.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %c").stdout.decode().split("\n")
    assert rows[:-1] == [f"{node} {os.cpu_count()}" for node in ("n1", "n2")]


def test_up_again_changes_nothing(cgroup_lab: Lab) -> None:
    mounts = Path("/proc/mounts").read_text()
    cgroup_lab.script("up")
    assert Path("/proc/mounts").read_text() == mounts


def test_one_at_a_time(cgroup_lab: Lab, tmp_path: Path) -> None:
    other = Lab(next(name for name in CLUSTERS if name != cgroup_lab.generation), tmp_path, "v1")
    mounts = Path("/proc/mounts").read_text()
    refused = other.script("up", check=False)
    assert refused.returncode == 1
    assert f"{cgroup_lab.generation} is up in cgroups already" in refused.stderr.decode()
    other.script("down")
    assert Path("/proc/mounts").read_text() == mounts
    assert cgroup_lab.run("srun", "-w", "n1", "--mem=100", "hostname", user="alice").returncode == 0
