# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a collection costs beside the bare commands, on a real controller of many nodes and tasks.

    python bench/run.py [NODES:TASKS …]

Starts a slurmctld of the lab (root on Debian) at each size, and `slurmscope serve` over it, without history and its
portal unless SLURMSCOPE_STORE_URL says where to keep it. Everything is printed as a ratio to something measured in the
same run, for machines are noisy: CPU as times that of squeue and scontrol run back to back, growth as times the
smallest size. The limits that are promised hold for 5000:120000.
"""

from __future__ import annotations

import http.client
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from slurmscope.slurm import probe
from slurmscope.slurm.commands import BY_PART

LAB = Path(__file__).parent.parent / "tests" / "lab" / "slurm-lab"
GENERATION = "24.11"
SIZES = ["500:10000", "10000:10000", "5000:10000", "5000:120000", "5000:200000"]
PROMISED = (5000, 120000)
MOST_CPU, MOST_MEMORY, MOST_P99 = 2.5, 100.0, 25.0
PORT = 19092
INTERVAL = 5
POLLS = 6
SCRAPERS = 10
SCRAPE_SECONDS = 30.0
TICK = os.sysconf("SC_CLK_TCK")


class Result(NamedTuple):
    nodes: int
    tasks: int
    rows: int
    bare: float  # CPU seconds of the two commands
    first: float  # CPU seconds of the first collection, start-up taken off
    steady: float  # CPU seconds of a later one
    resident: float  # MB, the most at any time
    page: float  # MB
    p50: float  # ms, as Prometheus asks: compressed
    p99: float
    plain_p99: float


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(bin_dir: Path) -> float:
    """CPU of the bare squeue and scontrol, with the very arguments of the table; the median of five."""
    found = []
    for _ in range(5):
        before = cpu_of_children()
        for part in ("jobs", "nodes"):
            program, *arguments = probe.arguments(BY_PART[part].argv, *probe.marks())
            env = {**os.environ, **probe.ENVIRONMENT}
            subprocess.run([bin_dir / program, *arguments], env=env, stdout=subprocess.DEVNULL, check=True)
        found.append(cpu_of_children() - before)
    return sorted(found)[2]


class Served:
    def __init__(self, bin_dir: Path) -> None:
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "slurmscope", "serve", "--listen", f"127.0.0.1:{PORT}"],
            env={
                "SLURMSCOPE_STORE_URL": "none",
                **os.environ,
                "SLURMSCOPE_SLURM_BIN_DIR": str(bin_dir),
                # every collection is a whole one: fast and slow parts together
                "SLURMSCOPE_POLL_INTERVAL": str(INTERVAL),
                "SLURMSCOPE_POLL_SLOW_INTERVAL": str(INTERVAL),
                "CLI_TIMEOUT": "60",
                "STATE_DIRECTORY": str(bin_dir.with_name(f"{bin_dir.name}-kept")),
                "LOGLEVEL": "warn",
            },
        )

    def cpu(self) -> float:
        """Its own and that of the commands it has run."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()
        return sum(int(field) for field in fields[11:15]) / TICK

    def most_resident(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert found
        return int(found[1]) / 1024

    def scrape(self, encoding: str, connection: http.client.HTTPConnection | None = None) -> bytes:
        connection = connection or http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        connection.request("GET", "/metrics", headers={"Accept-Encoding": encoding})
        return connection.getresponse().read()

    def polls(self) -> int:
        found = re.search(rb'slurm_command_runs_total{[^}]*part="partitions"[^}]*} (\d+)', self.scrape("identity"))
        return int(found[1]) if found else 0

    def wait_for_first(self) -> None:
        end = time.monotonic() + 300
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit("serve does not come up")
            time.sleep(0.1)


def latencies(served: Served, encoding: str) -> list[float]:
    """Milliseconds of each scrape, by ten scrapers with a connection each that ask once a second, polls going on."""
    found: list[float] = []
    end = time.monotonic() + SCRAPE_SECONDS

    def scraper(offset: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        time.sleep(offset)
        while time.monotonic() < end:
            started = time.perf_counter()
            served.scrape(encoding, connection)
            found.append((time.perf_counter() - started) * 1000)
            time.sleep(1.0)

    threads = [threading.Thread(target=scraper, args=(n / SCRAPERS,)) for n in range(SCRAPERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


def quantile(values: list[float], at: float) -> float:
    return values[min(len(values) - 1, int(len(values) * at))]


def measure(nodes: int, tasks: int, bin_dir: Path) -> Result:
    cost = bare(bin_dir)
    squeue = subprocess.run([bin_dir / "squeue", "-h", "-o", "x"], stdout=subprocess.PIPE, check=True)
    served = Served(bin_dir)
    try:
        served.wait_for_first()
        first = served.cpu()
        # nobody scrapes meanwhile, so that only collecting is measured
        time.sleep(2 * INTERVAL)
        polls, before = served.polls(), served.cpu()
        time.sleep(POLLS * INTERVAL)
        spent = served.cpu() - before
        steady = spent / (served.polls() - polls)
        packed, plain = latencies(served, "gzip"), latencies(served, "identity")
        page = len(served.scrape("identity")) / 1e6
        resident = served.most_resident()
    finally:
        served.process.terminate()
        served.process.wait(30)
    return Result(
        nodes,
        tasks,
        squeue.stdout.count(b"x"),
        cost,
        first - start_up(),
        steady,
        resident,
        page,
        quantile(packed, 0.5),
        quantile(packed, 0.99),
        quantile(plain, 0.99),
    )


def start_up() -> float:
    """CPU that Python takes to load slurmscope, which no collection pays again."""
    before = cpu_of_children()
    subprocess.run([sys.executable, "-c", "import slurmscope.cli"], check=True)
    return cpu_of_children() - before


def report(results: list[Result]) -> bool:
    base = min(results, key=lambda one: (one.nodes, one.tasks))
    table = Table(title="one collection, and what it serves; × is a ratio")
    for head in (
        "nodes", "tasks", "rows", "bare CPU s", "× bare, first", "× bare, steady", "peak MB", "page MB",
        "p50 ms", "p99 ms", "p99 plain", "× CPU of smallest", "× MB of smallest",
    ):  # fmt: skip
        table.add_column(head, justify="right")
    for one in results:
        table.add_row(
            f"{one.nodes:,}",
            f"{one.tasks:,}",
            f"{one.rows:,}",
            f"{one.bare:.2f}",
            f"{one.first / one.bare:.2f}",
            f"{one.steady / one.bare:.2f}",
            f"{one.resident:.0f}",
            f"{one.page:.1f}",
            f"{one.p50:.1f}",
            f"{one.p99:.1f}",
            f"{one.plain_p99:.1f}",
            f"{one.steady / base.steady:.1f}",
            f"{one.resident / base.resident:.1f}",
        )
    Console(width=170).print(table)
    for one in results:
        if (one.nodes, one.tasks) == PROMISED:
            checks = {
                f"CPU {one.steady / one.bare:.2f} × bare, at most {MOST_CPU}": one.steady / one.bare <= MOST_CPU,
                f"{one.resident:.0f} MB resident, at most {MOST_MEMORY:.0f}": one.resident <= MOST_MEMORY,
                f"p99 {one.p99:.1f} ms, at most {MOST_P99:.0f}": one.p99 <= MOST_P99,
            }
            for text, held in checks.items():
                print(f"{'held' if held else 'BROKEN'}: {text}")
            return all(checks.values())
    return True


def main(sizes: list[str]) -> None:
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress,
    ):
        for size in sizes:
            nodes, tasks = map(int, size.split(":"))
            jobs = tasks // 6  # single jobs are rows; the rest waits in one array
            row = progress.add_task(f"{nodes:,} nodes, {tasks:,} tasks: filling the queue")
            bin_dir = Path(folder) / size.replace(":", "-")
            subprocess.run(
                [LAB, "big", GENERATION, str(nodes), str(jobs), bin_dir, str(tasks - jobs)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            progress.update(row, description=f"{nodes:,} nodes, {tasks:,} tasks: measuring")
            results.append(measure(nodes, tasks, bin_dir))
            progress.update(row, description=f"{nodes:,} nodes, {tasks:,} tasks: done", total=1, completed=1)
    subprocess.run([LAB, "big-down", GENERATION], check=True, stdout=subprocess.DEVNULL)
    sys.exit(0 if report(results) else 1)


if __name__ == "__main__":
    main(sys.argv[1:] or SIZES)
