# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent costs on a node, beside a plain loop of psutil over the same processes.

    python bench/agent.py [JOBS [PROCESSES]]

Needs root: so many jobs (64), of so many processes in all (2,048), are made as real processes in this host's own
cgroups, named as Slurm names them. `slurmscope agent` then runs for a minute with a look every 15 s, and is scraped
after each. The loop asks psutil for the same of each process: name, times, memory, threads, open files, I/O.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table

from slurmscope.node.collector import Collector
from slurmscope.node.mounts import V2, Mounts, mounts
from slurmscope.node.slurm import Slurm

INTERVAL, ROUNDS = 15.0, 4
LOOKS = 20
PORT = 19095
NODE = "benchnode"
V1 = ("cpuacct", "memory", "cpuset", "freezer")


def places(where: Mounts, job: int) -> list[Path]:
    """The folders of a job's one task."""
    v2 = f"system.slice/{NODE}_slurmstepd.scope/job_{job}/step_0/user/task_0"
    v1 = f"slurm_{NODE}/uid_0/job_{job}/step_0/task_0"
    return [Path(tree) / (v2 if name == V2 else v1) for name, tree in where.trees.items()]


def make(folder: Path, tree: Path) -> list[Path]:
    made = []
    for path in reversed([folder, *folder.parents]):
        if path.is_relative_to(tree) and not path.exists():
            path.mkdir()
            made.append(path)
            if (path / "cpuset.cpus").exists():
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (path / name).write_text((path.parent / name).read_text())
    return made


@contextlib.contextmanager
def jobs(where: Mounts, count: int, processes: int) -> Iterator[list[int]]:
    running: list[subprocess.Popen[bytes]] = []
    made: list[Path] = []
    try:
        for job in track(range(9000, 9000 + count), "starting jobs", console=Console(stderr=True), transient=True):
            told = {"SLURM_JOB_ID": str(job), "SLURM_JOB_ACCOUNT": "physics", "SLURM_CPUS_ON_NODE": "1"}
            folders = places(where, job)
            for folder, tree in zip(folders, where.trees.values(), strict=True):
                made += make(folder, Path(tree))
            for _ in range(processes // count):
                one = subprocess.Popen(["sleep", "3600"], env=told, stdin=subprocess.DEVNULL)
                running.append(one)
                for folder in folders:
                    (folder / "cgroup.procs").write_text(str(one.pid))
        yield [one.pid for one in running]
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir()


def loop(pids: list[int]) -> float:
    """CPU seconds of one pass of psutil."""
    found = {pid: psutil.Process(pid) for pid in pids}
    spent = []
    for _ in range(LOOKS // 4):
        begun = time.process_time()
        for one in found.values():
            with contextlib.suppress(psutil.Error), one.oneshot():
                one.name(), one.cpu_times(), one.memory_info(), one.num_threads(), one.io_counters(), one.open_files()
        spent.append(time.process_time() - begun)
    return sorted(spent)[len(spent) // 2]


def look(where: Mounts) -> tuple[float, float, int]:
    """CPU seconds of the first look and of those after it, and how many processes it saw."""
    collector = Collector(where, Slurm(), cluster="bench", node=NODE, scratch=["*scratch*"])
    spent = []
    for _ in range(LOOKS):
        begun = time.process_time()
        reports = collector.collect()
        spent.append(time.process_time() - begun)
    collector.close()
    seen = sum(job.processes or 0 for report in reports if report.node == NODE for job in report.jobs)
    return spent[0], sorted(spent[1:])[len(spent) // 2], seen


def agent() -> tuple[float, float, int]:
    """Share of one core, its memory in MB, and the bytes of its page."""
    folder = Path(tempfile.mkdtemp())
    line = [str(Path(sys.executable).parent / "slurmscope"), "agent", "--listen", f"127.0.0.1:{PORT}"]
    process = subprocess.Popen(line, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        time.sleep(INTERVAL)  # the start and the first look are not what it costs from day to day
        watched = psutil.Process(process.pid)
        size, before, begun = 0, sum(watched.cpu_times()[:2]), time.monotonic()
        for _ in track(range(ROUNDS), "running the agent", console=Console(stderr=True), transient=True):
            time.sleep(INTERVAL)
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
                size = len(answer.read())
        used = sum(watched.cpu_times()[:2]) - before
        return used / (time.monotonic() - begun), watched.memory_info().rss / 1e6, size
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("bench/agent.py: must be run as root: it makes cgroups")
    asked = [int(one) for one in sys.argv[1:3]]
    count, processes = [*asked, *(64, 2048)[len(asked) :]]
    found = mounts()
    names = V1 if all(name in found.trees for name in V1) else (V2,)
    where = Mounts({name: found.trees[name] for name in names})
    with jobs(where, count, processes) as pids:
        plain = loop(pids)
        first, later, seen = look(where)
        share, memory, size = agent()
    if seen != len(pids):
        sys.exit(f"bench/agent.py: {seen} of {len(pids)} processes were seen")
    table = Table("what", "CPU ms", "of a psutil pass", "of one core, every 15 s")
    for name, seconds in (("a pass of psutil", plain), ("the first look", first), ("a look", later)):
        table.add_row(name, f"{seconds * 1e3:.0f}", f"{seconds / plain:.2f} ×", f"{seconds / INTERVAL:.2%}")
    whole = share * INTERVAL
    table.add_row("the whole agent, scraped", f"{whole * 1e3:.0f}", f"{whole / plain:.2f} ×", f"{share:.2%}")
    console = Console()
    console.print(
        f"{count} jobs, {len(pids)} processes, cgroups {where.version}, page of {size / 1e3:.0f} kB, {memory:.0f} MB"
    )
    console.print(table)


if __name__ == "__main__":
    main()
