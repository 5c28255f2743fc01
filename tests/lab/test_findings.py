# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Real jobs with a known fault each: what is found is that fault and no other, and the figures are those of Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.behaviours import BEHAVIOURS, FAILS, LOST, REDONE, SHORT, SLOW, SPREAD, UNSEEN, Behaviour
from lab.cluster import Lab
from lab.page import SLURMSCOPE, Page
from lab.served import Served, serving
from lab.work import MIB, SCRATCH, Work

from slurmscope.findings.catalogue import catalogue

# Jobs of seconds are judged as those of hours are: by shares, and without the starts that weigh much in them.
SHORTER: dict[str, float] = {"least_seconds": 12, "least_cpu_seconds": 5, "least_byte_seconds": 10 << 30}
OWN: dict[str, dict[str, float]] = {
    "zero_cpu": {"share": 0.01},  # Slurm's own processes take a tenth of a second
    "idle_node": {"share": 0.04},
    "near_timeout": {"least_limit_seconds": 60, "left_seconds": 5},
    "short_jobs": {"jobs": 6, "short_seconds": 10},
    "scratch": {"bytes": 200 * MIB},
}
# What rules say nothing of where there is no agent.
UNKNOWN = {
    "core_imbalance",
    "cpu_bursts",
    "few_threads",
    "idle_cores",
    "memory_growth",
    "metadata_storm",
    "oversubscribed",
    "scratch",
    "small_files",
    "swap",
    "too_many_threads",
}
FIELDS = ("JobIDRaw", "ElapsedRaw", "AllocCPUS", "NNodes", "TotalCPU", "TRESUsageInTot")
CPU_GROUP = Path("/sys/fs/cgroup/cpu")


class Told:
    """What is said of the jobs, by name."""

    def __init__(self, lab: Lab, environment: dict[str, str]) -> None:
        self.lab = lab
        self.environment = environment
        self.jobs: dict[str, list[str]] = {}
        self.reports: dict[str, Any] = {}
        self.used: dict[str, float] = {}  # seconds of the processor that the work of a job says it took
        self.accounting: dict[str, list[dict[str, str]]] = {}  # what sacct tells of a job, and of its steps

    def submit(self, *jobs: tuple[Behaviour, tuple[str, ...]]) -> list[str]:
        """In one go: a machine that is busy with jobs has little left for this."""
        script = ["set -e"]
        for one, more in jobs:
            argv = ["sbatch", "--parsable", "-o/dev/null", "-t1", "-J", one.name, f"--mem={one.mem}"]
            script += [f"{shlex.join([*argv, *one.options, *more])} <<'END'", f"#!/bin/sh\n{one.script}", "END"]
        said = self.lab.run("sh", user="alice", input="\n".join([*script, ""]).encode()).stdout.decode().split()
        for (one, _), job in zip(jobs, said, strict=True):
            self.jobs.setdefault(one.name, []).append(job)
        return said

    def slurmscope(self, *argv: str) -> Any:
        done = subprocess.run([SLURMSCOPE, *argv], env=self.environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), argv
        return json.loads(done.stdout)

    def report(self, job: str) -> Any:
        return self.slurmscope("report", "job", job, "--format", "json")

    def why(self, one: Behaviour) -> str:
        """What the rule that should have fired says, and what was measured."""
        job = self.jobs[one.name][-1]
        said = []
        for argv in (["rules", "test", "--job", job], ["job", job, "--json"]):
            done = subprocess.run([SLURMSCOPE, *argv], env=self.environment, capture_output=True, check=False)
            said.append((done.stdout + done.stderr).decode())
        return "\n".join(said)

    def learn(self) -> None:
        for name, jobs in self.jobs.items():
            self.reports[name] = self.report(jobs[-1])
        said = self.lab.run("sh", "-c", f"cd {SCRATCH}; grep -H . *.used ../*.used").stdout.decode()
        for line in said.splitlines():
            place, _, used = line.partition(":")
            job = Path(place).name.partition(".")[0]
            self.used[job] = self.used.get(job, 0.0) + float(used)
        argv = ["sacct", "-a", "-n", "-P", "--noconvert", "-S", "now-1hours", "-o", ",".join(FIELDS)]
        for line in self.lab.run(*argv).stdout.decode().splitlines():
            row = dict(zip(FIELDS, line.split("|"), strict=True))
            self.accounting.setdefault(row["JobIDRaw"].partition(".")[0], []).append(row)

    def until(self, predicate: Callable[[], object], seconds: float = 180) -> None:
        """Asked seldom: to ask takes time from the jobs."""
        end = time.monotonic() + seconds
        while not predicate():
            assert time.monotonic() < end, self.lab.run("squeue").stdout.decode()
            time.sleep(2)

    def wait(self, job: str, state: str) -> None:
        asked = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        self.until(lambda: self.lab.run(*asked).stdout.decode().strip() == state)

    def alone(self, *jobs: str) -> bool:
        """No others are in the queue, but those that are held."""
        rows = [line.split(" ", 1) for line in self.lab.run("squeue", "-h", "-o", "%A %r").stdout.decode().splitlines()]
        return {job for job, reason in rows if not reason.startswith("JobHeld")} <= set(jobs)


def settings() -> str:
    """Of each rule, what jobs of seconds need."""
    lines = []
    for rule in catalogue().values():
        changed = {name: value for name, value in SHORTER.items() if name in rule.defaults} | OWN.get(rule.name, {})
        if changed:
            lines += ["[[rules]]", f'rule = "{rule.name}"', *(f"{name} = {value}" for name, value in changed.items())]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def preferred(lab: Lab) -> Iterator[None]:
    """The lab and this test come before anything else on the machine: what jobs are kept from is not their fault."""
    if not (CPU_GROUP / "cpu.shares").exists() or (CPU_GROUP / "cpuacct.usage").exists():
        yield  # there is no such group that Slurm leaves alone
        return
    group = CPU_GROUP / "slurmscope-lab"
    group.mkdir(exist_ok=True)
    (group / "cpu.shares").write_text("131072")
    for pid in (str(os.getpid()), *lab.run("sh", "-c", "cat /lab/run/*.pid").stdout.decode().split()):
        (group / "cgroup.procs").write_text(pid)
    try:
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(OSError):
                    (CPU_GROUP / "cgroup.procs").write_text(pid)
        group.rmdir()


@contextlib.contextmanager
def measuring(folder: Path, environment: dict[str, str], port: int) -> Iterator[None]:
    """By an agent, which is that of both nodes: they are one host."""
    log = folder / "agent.log"
    own = {"SLURMSCOPE_AGENT_SERVE_URL": f"http://127.0.0.1:{port}", "SLURMSCOPE_AGENT_INTERVAL": "1"}
    argv = [str(SLURMSCOPE), "agent", "--listen", "none"]
    process = subprocess.Popen(argv, env={**environment, **own}, stderr=log.open("wb"))
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(60) == 0
        assert b"Traceback" not in log.read_bytes()


@pytest.fixture(scope="module")
def told(cgroup_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("findings")
    (folder / "settings.toml").write_text(settings())
    own = {
        "SLURMSCOPE_CONFIG": str(folder / "settings.toml"),
        "SLURMSCOPE_SLURM_BIN_DIR": str(cgroup_lab.bin),
        "SLURMSCOPE_SLURM_CLUSTER": cgroup_lab.cluster,
        "SLURMSCOPE_STORE_FOLDER": str(folder),
        "SLURMSCOPE_ACCOUNTING_INTERVAL": "10",
        "SLURMSCOPE_AGENTS_ENABLED": "true",
        "SLURMSCOPE_POLL_INTERVAL": "3",
    }
    told = Told(cgroup_lab, {**os.environ, **own})
    work = Work(cgroup_lab)
    try:
        with preferred(cgroup_lab), serving(folder, 1, **own) as served:
            unmeasured(told)
            with measuring(folder, told.environment, served.port):
                measured(told)
                lose(told, served)
            accounted(served)
        told.learn()
        yield told
    finally:
        cgroup_lab.script("up")
        cgroup_lab.run("scancel", "-u", "alice")
        cgroup_lab.wait_for(lambda: not cgroup_lab.run("squeue", "-h").stdout)
        work.remove()


def unmeasured(told: Told) -> None:
    """Jobs of which only Slurm tells, beside one that is slow; the others are held."""
    once, held = ("--dependency=singleton",), ("--hold",)
    first = [(SLOW, ()), (REDONE, ()), (UNSEEN, ()), (SHORT, ("--array=1-5",)), (SHORT, once), *[(FAILS, once)] * 3]
    slow, redone, *_ = told.submit(*first, *((one, held) for one in (SPREAD, *BEHAVIOURS)))
    begin = ("scontrol", "update", f"job={redone}", "starttime=now")
    for _ in range(2):
        told.wait(redone, "RUNNING")
        told.lab.run("scontrol", "requeue", redone)
        # Slurm lets it wait for two minutes, and says so when it is done with the first attempt
        told.wait(redone, "PENDING")
        told.until(lambda: not told.lab.run(*begin, check=False).returncode)
    told.until(lambda: told.alone(slow))


def measured(told: Told) -> None:
    # n1 and n2 have the same cores: with one of n2's taken, its two tasks are on different ones
    spread = told.jobs[SPREAD.name][0]
    told.lab.run("scontrol", "release", spread)
    told.wait(spread, "RUNNING")
    told.lab.run("scontrol", "release", ",".join(told.jobs[one.name][0] for one in BEHAVIOURS))
    slow = told.jobs[SLOW.name][0]
    told.until(lambda: _ran(told.lab, slow) > 56)
    told.reports["running"] = told.report(slow)
    told.until(told.alone, 400)


def _ran(lab: Lab, job: str) -> int:
    """Seconds that it has run."""
    minutes, seconds = lab.run("squeue", "-h", "-j", job, "-o", "%M").stdout.decode().split(":")
    return 60 * int(minutes) + int(seconds)


def lose(told: Told, served: Served) -> None:
    """A node dies under its job, and comes back."""
    (lost,) = told.submit((LOST, ()))
    told.wait(lost, "RUNNING")
    time.sleep(3)
    # at once: one that has time to end may still answer slurmctld, which takes the node back then
    told.lab.run("sh", "-c", "kill -9 $(cat /lab/run/slurmd-n2.pid)")
    time.sleep(3)

    def down(page: Page) -> bool:
        # again, where slurmctld comes to an answer of the dead only now: it takes the node back by that, too
        if b"State=DOWN" not in told.lab.run("scontrol", "show", "node", "n2").stdout:
            told.lab.run("scontrol", "update", "nodename=n2", "state=down", "reason=its disk is gone")
        return page.sum("slurm_node_state", node="n2", state="down") == 1

    served.wait(down)
    told.wait(lost, "NODE_FAIL")
    told.lab.script("up")


def accounted(served: Served) -> None:
    passes = served.page().sum("slurm_command_runs_total", part="history")
    served.wait(lambda page: page.sum("slurm_command_runs_total", part="history") >= passes + 2)


def found(report: Any) -> list[str]:
    return [one["rule"] for one in report["findings"]]


ALL = (*BEHAVIOURS, SHORT, FAILS, REDONE, UNSEEN, SLOW, SPREAD, LOST)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_the_fault_and_no_other(told: Told, one: Behaviour) -> None:
    assert found(told.reports[one.name]) == ([one.finding] if one.finding else []), told.why(one)


def test_while_it_runs(told: Told) -> None:
    assert found(told.reports["running"]) == ["near_timeout"]


def test_a_first_failure_is_none_of_many(told: Told) -> None:
    assert [found(told.report(job)) for job in told.jobs[FAILS.name]] == [[], [], ["failing_again"]]


def test_a_node_that_failed_has_a_record(told: Told) -> None:
    text = told.reports[LOST.name]["findings"][0]["text"]
    assert "On n2 1 job ended so within 30 days (0.5 on a node of this cluster, on average)" in text
    assert 'it went down 1 time; its operators say "its disk is gone"' in text


def test_nothing_is_made_up_of_what_nobody_measured(told: Told) -> None:
    said = told.slurmscope("rules", "test", "--job", told.jobs[UNSEEN.name][0], "--json")["outcomes"]
    assert {rule for rule, one in said.items() if one["outcome"] == "no verdict"} == UNKNOWN
    assert {one["outcome"] for one in said.values()} == {"no verdict", "does not apply", "fine"}
    assert "what it used over time" in told.reports[UNSEEN.name]["unknown"]


def test_all_jobs_together_are_judged_as_each_alone(told: Told) -> None:
    rows = told.slurmscope("rules", "replay", "--days", "1", "--json")["rows"]
    assert {row["rule"]: row["jobs"] for row in rows} == Counter(one.finding for one in ALL if one.finding)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_figures_are_those_of_sacct(told: Told, one: Behaviour) -> None:
    """By the arithmetic of seff, to the second and the byte, wherever Slurm knows."""
    row, *steps = told.accounting[told.jobs[one.name][-1]]
    used, seconds, cpus = told.reports[one.name]["efficiency"], int(row["ElapsedRaw"]), int(row["AllocCPUS"])
    assert used["time"]["mean"] == seconds
    hours, minutes, rest = ["0", *row["TotalCPU"].split(":")][-3:]
    total = 3600 * int(hours) + 60 * int(minutes) + float(rest)
    if used["cpu"]["source"] == "sacct":
        assert used["cpu"]["share"] == pytest.approx(total / (seconds * cpus), abs=1e-6)
    else:
        assert one is LOST or not seconds  # those who would have told were killed
    # its steps run at the same time
    told_of = [int(mem[1]) for step in steps if (mem := re.search("(?:^|,)mem=([0-9]+)", step["TRESUsageInTot"]))]
    if used["memory"]["source"] == "sacct":
        assert used["memory"]["peak"] == sum(told_of)
    elif used["memory"]["source"] == "agent":
        assert used["memory"]["peak"] >= sum(told_of)
    asked = used["memory"]["asked"]
    assert asked == one.mem * MIB * int(row["NNodes"])
    if used["memory"]["peak"] is not None:
        assert used["memory"]["share"] == used["memory"]["peak"] / asked


@pytest.mark.parametrize("one", BEHAVIOURS, ids=lambda one: one.name)
def test_figures_are_those_of_the_work(told: Told, one: Behaviour) -> None:
    report, job = told.reports[one.name], told.jobs[one.name][0]
    cpu, seconds = report["efficiency"]["cpu"], report["efficiency"]["time"]["mean"]
    if job in told.used:
        # The starts of Slurm and of a shell are not the work's, and Slurm may be a second off where it adds nodes up;
        # an agent does not see the last second or so.
        several = report["job"]["nodes"] > 1
        assert cpu["share"] * cpu["asked"] * seconds == pytest.approx(
            told.used[job], rel=0.05, abs=1.1 if several else 0.3
        )
        assert report["summary"]["cpu_seconds"] == pytest.approx(told.used[job], rel=0.1, abs=0.3)
    if one.memory:
        peaks = [node["memory_peak"] for node in report["summary"]["nodes"]]
        assert sum(peaks) == pytest.approx(one.memory * MIB, rel=0.05, abs=10 * MIB)
