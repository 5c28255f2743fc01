# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the ways in cost: CPU, wall time and peak memory, as ratios to text.

    python bench/ways.py [NODES:JOBS …]

Needs root on Debian: a real slurmctld (tests/lab) is filled with so many nodes and job records, and each part is read
some times by each way, in a process of its own. CPU is ours, that of the commands we run, and that of slurmrestd; peak
memory is the most that any one of them took. "again" is every reading after the first, when unchanged rows of text are
not read anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm.clusters import ways_of
from slurmscope.slurm.commands import REST
from slurmscope.slurm.probe import JSON, TEXT

LAB = Path(__file__).parent.parent / "tests" / "lab" / "slurm-lab"
GENERATIONS = ("22.05", "26.05")
SIZES = ["5000:20000"]
PARTS = ("jobs", "nodes", "scheduler", "partitions")
WAYS = (TEXT, JSON, REST)
READINGS = 4
TICK = os.sysconf("SC_CLK_TCK")
MEGA = 1e6


def server(generation: str) -> int | None:
    """The process of the big controller's slurmrestd."""
    home = Path(os.environ.get("SLURMSCOPE_LAB") or "/var/cache/slurmscope-lab")
    try:
        return int((home / generation / "lab" / "run" / "slurmrestd-big.pid").read_text())
    except OSError:
        return None


def cpu_of(pid: int | None) -> float:
    if pid is None:
        return 0.0
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_of(pid: int | None) -> float:
    if pid is None:
        return 0.0
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / MEGA for line in lines if line.startswith("VmHWM"))


def used() -> float:
    return sum(
        found.ru_utime + found.ru_stime
        for found in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


async def read(generation: str, bin_dir: str, rest_url: str, name: str, part: str) -> dict[str, float]:
    """What some readings of a part by one way take. Runs in a process of its own."""
    pid = server(generation) if name == REST else None
    cluster = Cluster(Slurm(bin_dir=bin_dir, rest_url=rest_url, timeout=300))
    (way,) = (way for way in ways_of(cluster) if way.name == name)
    costs: list[tuple[float, float]] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if name == REST:
        await way.read("controllers")  # its document is read once, and no reading pays for that again
    for _ in range(READINGS):
        cpu, wall = used() + cpu_of(pid), time.perf_counter()
        found = (await way.read(part)).value
        costs.append((used() + cpu_of(pid) - cpu, time.perf_counter() - wall))
    await way.close()
    return {
        "records": len(found) if isinstance(found, tuple) else 1,
        "cpu": costs[0][0],
        "cpu_again": min(cost[0] for cost in costs[1:]),
        "wall": costs[0][1],
        "wall_again": min(cost[1] for cost in costs[1:]),
        "here_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024 / MEGA,
        "start_mb": before * 1024 / MEGA,
        "there_mb": max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / MEGA, peak_of(pid)),
    }


def measured(generation: str, bin_dir: Path, rest_url: str, way: str, part: str) -> dict[str, float] | None:
    argv = [sys.executable, __file__, "--one", generation, str(bin_dir), rest_url, way, part]
    done = subprocess.run(argv, capture_output=True, check=False)
    found: dict[str, float] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found or None


def report(title: str, results: dict[tuple[str, str], dict[str, float] | None]) -> None:
    table = Table(title=title)
    for head in ("part", "records", "way", "CPU s", "× CPU", "again s", "× again", "wall s", "× wall"):
        table.add_column(head, justify="right")
    for head in ("MB here", "× MB here", "MB there"):
        table.add_column(head, justify="right")
    for part in PARTS:
        base = results[TEXT, part]
        assert base is not None
        for way in WAYS:
            one = results[way, part]
            if one is None:
                table.add_row(part, "", way, "not told")
                continue
            table.add_row(
                part,
                f"{one['records']:,.0f}",
                way,
                f"{one['cpu']:.3f}",
                f"{one['cpu'] / base['cpu']:.1f}",
                f"{one['cpu_again']:.3f}",
                f"{one['cpu_again'] / base['cpu_again']:.1f}",
                f"{one['wall_again']:.3f}",
                f"{one['wall_again'] / base['wall_again']:.1f}",
                f"{one['here_mb']:.0f}",
                f"{one['here_mb'] / base['here_mb']:.1f}",
                f"{one['there_mb']:.0f}",
            )
    Console(width=150).print(table)


def main(sizes: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress,
    ):
        for generation in GENERATIONS:
            for size in sizes:
                nodes, jobs = size.split(":")
                title = f"Slurm {generation}, {int(nodes):,} nodes, {int(jobs):,} job records; × is a ratio to text"
                row = progress.add_task(f"{title}: filling the queue")
                bin_dir = Path(folder) / f"{generation}-{nodes}-{jobs}"
                argv = [str(LAB), "big", generation, nodes, jobs, str(bin_dir), "0"]
                subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
                url = subprocess.run([LAB, "rest", generation, "big"], check=True, stdout=subprocess.PIPE)
                progress.update(row, description=f"{title}: measuring")
                results = {
                    (way, part): measured(generation, bin_dir, url.stdout.decode().strip(), way, part)
                    for part in PARTS
                    for way in WAYS
                }
                progress.update(row, total=1, completed=1)
                report(title, results)
            subprocess.run([LAB, "big-down", generation], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(asyncio.run(read(*sys.argv[2:]))))
    else:
        main(sys.argv[1:] or SIZES)
