# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent says of jobs of a real Slurm in real cgroups, beside what those jobs did."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab.cluster import Lab
from lab.page import SLURMSCOPE, Page
from lab.served import free_port
from lab.work import FOLDER, MIB, SCRATCH, Work, command


@pytest.fixture(scope="module")
def work(cgroup_lab: Lab) -> Iterator[Work]:
    work = Work(cgroup_lab)
    yield work
    work.remove()


@pytest.fixture
def look(cgroup_lab: Lab) -> Callable[[], Page]:
    """A page of the agent's, of now."""

    def once() -> Page:
        argv = [str(SLURMSCOPE), "agent", "--once"]
        done = subprocess.run(argv, env=_environment(cgroup_lab), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return Page(done.stdout.decode())

    return once


def _environment(lab: Lab) -> dict[str, str]:
    return {
        **os.environ,
        "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
        "SLURMSCOPE_SLURM_CLUSTER": lab.cluster,
        "SLURMSCOPE_AGENT_INTERVAL": "1",
    }


class Job:
    """The series of a job, under the agent's own names and under those of the exporter that it replaces."""

    def __init__(self, page: Page, job: str, node: str = "n1") -> None:
        self._page, self._job, self._node = page, job, node

    def value(self, name: str, **labels: str) -> float:
        own = {"jobid": self._job, "node": self._node}
        old = {"slurm_job": self._job, "instance": self._node}
        which = {**(old if name.startswith("jobs_") else own), **labels}
        found = [
            value
            for series, value in self._page.samples.get(name, ())
            if all(series.get(key) == wanted for key, wanted in which.items())
        ]
        assert len(found) == 1, f"{len(found)} series of {name} with {which}"
        return found[0]

    def cores(self, name: str) -> dict[str, float]:
        own = {"slurm_job": self._job} if name.startswith("jobs_") else {"jobid": self._job}
        return {core: value for (core,), value in self._page.by(name, "core", **own).items()}


def _by_job(page: Page, name: str) -> dict[str, float]:
    """Of the lab's nodes: the host may have others."""
    return {job: value for node in ("n1", "n2") for (job,), value in page.by(name, "jobid", node=node).items()}


def about(known: float, unit: float = 0) -> object:
    """Within 5 %, or one unit."""
    return pytest.approx(known, rel=0.05, abs=unit or None)


def in_user_mode(job: Job) -> float:
    """Its share of the processor time. The kernel samples who has the processor, and misses some on a host whose
    processors others take: so both are less than all that was used, by the same share."""
    user, system = (job.value(f"slurm_job_cpu_{of}_seconds_total") for of in ("user", "system"))
    assert user + system == pytest.approx(job.value("slurm_job_cpu_seconds_total"), rel=0.25)
    return user / (user + system)


def test_processor_time(work: Work, look: Callable[[], Page]) -> None:
    with work.job(command(burners=2, user=2.5, system=3), "-w", "n1") as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_cpus") == 1
    # what the program was told to burn, what it says it burned, and what is seen from outside
    assert done.user >= 5
    assert done.system >= 6
    assert job.value("slurm_job_cpu_seconds_total") == about(done.user + done.system)
    assert in_user_mode(job) == about(done.user / (done.user + done.system))
    cores = job.cores("slurm_job_core_cpu_seconds_total")
    assert sum(cores.values()) == about(job.value("slurm_job_cpu_seconds_total"))
    assert done.cores[0].isdecimal(), "it was fenced in to one core"
    assert cores[done.cores[0]] == about(done.user + done.system)
    assert job.value("jobs_cpu_time_total") == job.value("slurm_job_cpu_seconds_total")
    assert job.value("jobs_user_time") == job.value("slurm_job_cpu_user_seconds_total")
    assert job.value("jobs_system_time") == job.value("slurm_job_cpu_system_seconds_total")
    assert job.cores("jobs_cpu_time_core") == cores
    # it rests by now
    assert job.value("slurm_job_cpu_usage_cores") < 0.05
    assert job.value("jobs_cpu_percent") < 5


def test_processor_time_of_the_dead(work: Work, look: Callable[[], Page]) -> None:
    script = f"perl -e 'while ((times)[0] < 8) {{ $n++ for 1 .. 200_000 }}'; exec {command()}"
    with work.job(script, "-w", "n1") as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_cpu_seconds_total") == about(8)
    assert in_user_mode(job) == about(1)


def test_rate(work: Work, look: Callable[[], Page]) -> None:
    with work.job(command(beat=True), "-w", "n1", "-c2") as done:
        time.sleep(1)
        started = time.time()
        job = Job(look(), done.job)
        ended = time.time()
        beats = work.beats(done.job)
    # the machine may be anybody's: what it was given in any tenth of a second is what it may have been in the agent's
    # second, and no more
    beats = [beat for beat in beats if started - 0.2 <= beat[0] <= ended + 0.2]
    rates = [(used - before) / (at - then) for (then, before), (at, used) in itertools.pairwise(beats)]
    cores = job.value("slurm_job_cpu_usage_cores")
    assert min(rates) * 0.95 <= cores <= max(rates) * 1.05
    assert job.value("jobs_cpu_percent") == pytest.approx(cores * 100)
    assert job.value("jobs_cpu_percent_per_core") == pytest.approx(cores * 50)


def test_memory(work: Work, look: Callable[[], Page]) -> None:
    with work.job(f"exec {command(memory=800)}", "-w", "n2", mem=1200) as done:
        job = Job(look(), done.job, "n2")
    for name in "memory_bytes", "memory_anonymous_bytes", "memory_peak_bytes", "memory_rss_bytes":
        assert job.value(f"slurm_job_{name}") == about(800 * MIB), name
    assert job.value("jobs_rss") == about(800)
    assert job.value("slurm_job_memory_limit_bytes") == 1200 * MIB
    assert job.value("slurm_job_oom_kills_total") == 0


def test_processes_threads_and_files(work: Work, look: Callable[[], Page]) -> None:
    with work.job(f"exec {command(SCRATCH, idlers=3, threads=6, files=25)}", "-w", "n1") as done:
        page = look()
        job = Job(page, done.job)
    assert job.value("slurm_job_processes") == job.value("jobs_spawned_processes") == 4
    assert job.value("slurm_job_zombies") == 0
    assert job.value("slurm_job_threads") == 10
    assert job.value("slurm_job_program_threads", program="work.pl") == 10
    assert job.value("jobs_thread_count", proc_name="work.pl") == 7
    assert job.value("slurm_job_open_files") == job.value("jobs_opened_files") == 25
    assert job.value("slurm_job_uses_scratch") == job.value("jobs_uses_scratch") == 1
    labels = {"jobid": done.job, "user": "alice", "account": "physics", "node": "n1", "cluster": work.lab.cluster}
    assert page.sum("slurm_job_processes", **labels) == 4


def test_no_scratch(work: Work, look: Callable[[], Page]) -> None:
    with work.job(f"exec {command(files=3)}", "-w", "n1") as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_open_files") == 3
    assert job.value("jobs_uses_scratch") == 0


def test_disk(work: Work, look: Callable[[], Page]) -> None:
    with work.job(f"exec {command(bytes=64 * MIB, calls=2048)}", "-w", "n1") as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_written_bytes_total") == about(64 * MIB)
    assert job.value("jobs_write_mb") == about(64)
    for name in "slurm_job_writes_total", "slurm_job_reads_total", "jobs_write_count", "jobs_read_count":
        assert job.value(name) == about(2048), name
    if done.evicted:
        assert job.value("slurm_job_read_bytes_total") == about(64 * MIB)
        assert job.value("jobs_read_mb") == about(64)


def test_disk_of_the_dead(work: Work, look: Callable[[], Page]) -> None:
    script = f"dd if=/dev/zero of={FOLDER}/a.b.c bs=65536 count=1024 conv=fsync; exec {command()}"
    with work.job(script, "-w", "n1") as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_written_bytes_total") == about(64 * MIB)
    assert job.value("slurm_job_writes_total") == about(1024)


@pytest.mark.parametrize(
    "script",
    [
        "srun -n2 {}",
        "srun -n1 --exact --mem=400 {} & srun -n1 --exact --mem=400 {} & wait",
    ],
    ids=["two tasks", "two steps"],
)
def test_several_workers(work: Work, look: Callable[[], Page], script: str) -> None:
    """As MPI programs are: tasks, each with children that compute."""
    # with little memory: to give it is the kernel's work, which takes much longer on some machines
    one = command(burners=2, user=4, memory=300, idlers=1, files=5)
    with work.job(script.replace("{}", one), "-w", "n1", "-n2", workers=2, mem=800) as done:
        job = Job(look(), done.job)
    assert job.value("slurm_job_cpus") == 2
    assert job.value("slurm_job_program_processes", program="work.pl") == 8
    assert job.value("slurm_job_cpu_seconds_total") == about(done.user + done.system)
    assert in_user_mode(job) == about(done.user / (done.user + done.system))
    assert job.value("slurm_job_memory_anonymous_bytes") == about(600 * MIB)
    # what all programs share is counted for each of the eight
    assert job.value("slurm_job_program_memory_rss_bytes", program="work.pl") == about(600 * MIB, 8 * 8 * MIB)
    assert job.value("slurm_job_memory_limit_bytes") == 800 * MIB


def test_array(work: Work, look: Callable[[], Page]) -> None:
    script = "exec " + command(memory=300, burners=1, user=0).replace("--user 0", "--user $((8 * SLURM_ARRAY_TASK_ID))")
    with work.jobs(script, "-n1", "--array=1-3", count=3) as jobs:
        page = look()
    used = _by_job(page, "slurm_job_cpu_seconds_total")
    assert sorted(used.values()) == [about(8), about(16), about(24)]
    assert used == {done.job: about(done.user + done.system) for done in jobs}
    memory = _by_job(page, "slurm_job_memory_anonymous_bytes")
    assert memory == {done.job: about(300 * MIB) for done in jobs}


def test_both_nodes(work: Work, look: Callable[[], Page]) -> None:
    with work.job(f"srun -N2 -n2 {command(memory=400, idlers=2)}", "-N2", "-n2", workers=2, mem=500) as done:
        page = look()
    for node in "n1", "n2":
        job = Job(page, done.job, node)
        assert job.value("slurm_job_program_processes", program="work.pl") == 3
        assert job.value("slurm_job_memory_anonymous_bytes") == about(400 * MIB)
        assert job.value("slurm_job_memory_limit_bytes") == 500 * MIB


def test_leftovers_are_no_jobs(work: Work, look: Callable[[], Page]) -> None:
    """Counted between two looks that agree, and again where it is not one: cgroups of others come and go on the same
    host, between two looks as well."""
    uid = work.lab.run("id", "-u", "alice").stdout.decode().strip()
    left = [Path(f"/sys/fs/cgroup/{name}/slurm_n1/uid_{uid}/job_4000000000") for name in ("memory", "cpuacct")]
    with work.job(f"exec {command()}", "-w", "n1") as done:
        for _ in range(20):
            before = look().sum("slurm_agent_leftover_cgroups")
            for group in left:
                group.mkdir()
            try:
                page = look()
            finally:
                for group in left:
                    group.rmdir()
            after = look().sum("slurm_agent_leftover_cgroups")
            if after == before and page.sum("slurm_agent_leftover_cgroups") == before + 1:
                break
    assert _by_job(page, "slurm_job_processes") == {done.job: 1}
    assert page.sum("slurm_agent_leftover_cgroups") == before + 1 == after + 1


def test_served(work: Work, tmp_path: Path) -> None:
    """A job is there while it runs, and not afterwards."""
    with _served(work.lab, tmp_path) as page:
        assert _by_job(page(), "slurm_job_processes") == {}
        with work.job(f"exec {command(idlers=1)}", "-w", "n1") as done:
            work.lab.wait_for(lambda: _by_job(page(), "slurm_job_processes") == {done.job: 2})
        # neither under the agent's own names nor under the older ones
        work.lab.wait_for(lambda: not _told(page(), done.job))


def _told(page: Page, job: str) -> bool:
    """Whether anything on the page is about a job of n1."""
    own, old = {"jobid": job, "node": "n1"}, {"slurm_job": job, "instance": "n1"}
    found = (labels.items() for rows in page.samples.values() for labels, _ in rows)
    return any(own.items() <= one or old.items() <= one for one in found)


@contextlib.contextmanager
def _served(lab: Lab, folder: Path) -> Iterator[Callable[[], Page]]:
    port = free_port()

    def page() -> Page:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return Page(answer.read().decode())

    def there() -> bool:
        with contextlib.suppress(OSError):
            return bool(page().sum("slurm_agent_looks_total"))
        return False

    log = folder / "log"
    argv = [str(SLURMSCOPE), "agent", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(argv, env=_environment(lab), stderr=log.open("wb"))
    try:
        lab.wait_for(there)
        yield page
    finally:
        process.terminate()
        assert process.wait(60) == 0
        assert b"Traceback" not in log.read_bytes()
