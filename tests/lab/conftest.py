# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The fixtures `lab`, a real Slurm on loopback, and `cgroup_lab`, one in cgroups, of each generation asked for.

`SLURMSCOPE_LAB_GENERATIONS` says which, as a comma list or `all`; 24.11 unless set. Tests that use it are
skipped where it cannot be had: it needs root on Debian. Under `CI=true` a lab that should start and does not
is a failure.
"""

from __future__ import annotations

import fcntl
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab.cluster import CLUSTERS, Lab

HERE = Path(__file__).resolve().parent
CGROUPS = "/sys/fs/cgroup"


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


def _no_cgroups() -> str | None:
    """Why there can be no lab in cgroups here, if so: a kernel shows those of version 1 or does not."""
    rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    there = {row[1] for row in rows if row[2] == "cgroup"}
    missing = [
        name for name in ("cpuacct", "cpuset", "memory", "devices", "freezer") if f"{CGROUPS}/{name}" not in there
    ]
    return f"the lab in cgroups needs those of version 1: {', '.join(missing)}" if missing else None


@contextmanager
def _alone(generation: str) -> Iterator[None]:
    """Keep other sessions on this machine from the same cluster: each starts by resetting it."""
    home = Path(os.environ.get("SLURMSCOPE_LAB") or "/var/cache/slurmscope-lab")
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{generation}.session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _running(generation: str, folder: Path, cgroup: str = "") -> Iterator[Lab]:
    """A freshly reset cluster, without jobs."""
    if why := _obstacle() or (_no_cgroups() if cgroup else None):
        pytest.skip(why)
    # All clusters in cgroups have the same groups.
    with _alone("cgroup" if cgroup else generation):
        lab = Lab(generation, folder, cgroup)
        try:
            try:
                for other in CLUSTERS if cgroup else ():  # which a session that was killed may have left
                    Lab(other, folder, cgroup).script("down")
                lab.script("reset")
                lab.script("up")
            except subprocess.CalledProcessError as error:
                said = f"the lab of {generation} does not start: {error.stderr.decode(errors='replace').strip()}"
                if os.environ.get("CI") == "true":
                    pytest.fail(said, pytrace=False)
                pytest.skip(said)
            lab.script("bin", str(lab.bin))
            yield lab
        finally:
            lab.script("down")


@pytest.fixture(scope="session", params=_generations())
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A freshly reset cluster with its jobs settled, up for the whole session."""
    generation: str = request.param
    with _running(generation, tmp_path_factory.mktemp(f"bin-{generation}-")) as lab:
        lab.script("jobs")
        lab.wait_for(lambda: _settled(lab))
        yield lab


@pytest.fixture(scope="session", params=_generations())
def cgroup_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A freshly reset cluster whose jobs run in this host's cgroups, without jobs, up for the whole session."""
    generation: str = request.param
    with _running(generation, tmp_path_factory.mktemp(f"bin-cgroup-{generation}-"), "v1") as lab:
        yield lab


@pytest.fixture
def other_lab(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A second cluster, of another generation, without jobs."""
    generation = "22.05" if lab.generation != "22.05" else "24.11"
    folder = tmp_path / f"bin-{generation}"
    folder.mkdir()
    with _running(generation, folder) as other:
        yield other


def _settled(lab: Lab) -> bool:
    """The array's first tasks have ended, its next ones run, and what failed is in the accounting."""
    tasks = lab.run("squeue", "-h", "-r", "-n", "sweep", "-t", "running,pending", "-o", "%T").stdout.split()
    fails = lab.run("sacct", "-a", "-n", "-X", "-P", "-S", "now-1hours", "--name=fails", "-o", "state").stdout.split()
    return sorted(tasks) == [b"PENDING"] * 2 + [b"RUNNING"] * 2 and fails == [b"FAILED"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.lab)
