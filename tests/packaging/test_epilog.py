# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The prolog and the epilog of packaging/slurm, on this host's own cgroups, in folders of a node that is nobody's."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging" / "slurm"
# Numbers that are nobody's: the kernel knows only numbers.
USER, OTHER = 64301, 64302
numbers = itertools.count(1)


def mounts(kind: str) -> list[Path]:
    """Where the kernel shows its hierarchies; each once, though they may be mounted again elsewhere."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [Path(row[1]) for row in rows if row[2] == kind]
    return [place for place in places if place.is_relative_to("/sys/fs/cgroup")]


class Node:
    """The groups of a slurmd, of either version of cgroups."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.name = f"test-{os.getpid()}-{next(numbers)}"
        if version == 1:
            self.tops = [place / f"slurm_{self.name}" for place in mounts("cgroup")]
        else:
            self.tops = [place / "system.slice" / f"{self.name}_slurmstepd.scope" for place in mounts("cgroup2")]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.made = [folder for top in self.tops for folder in (top.parent, top) if not folder.exists()]
        for top in self.tops:
            top.mkdir(parents=True)

    def groups(self, job: int | str, uid: int = USER) -> list[Path]:
        """A job's, one in each hierarchy."""
        name = f"job_{job}" if isinstance(job, int) else job
        return [top / f"uid_{uid}" / name if self.version == 1 else top / name for top in self.tops]

    def leave(self, job: int | str, uid: int = USER) -> list[Path]:
        """The groups that a job with a step of two tasks has. Returns those of its first task."""
        for group in self.groups(job, uid):
            for task in "task_0", "task_1":
                (group / "step_0" / task).mkdir(parents=True)
        return [group / "step_0" / "task_0" for group in self.groups(job, uid)]

    def start(self, groups: list[Path], uid: int = USER, *argv: str) -> subprocess.Popen[bytes]:
        """A process in them."""
        process = subprocess.Popen(argv or ["sleep", "600"], user=uid, group=uid, extra_groups=[])
        self.processes.append(process)
        for group in groups:
            if (group / "cpuset.mems").exists():
                _give_cpus(group)
            (group / "cgroup.procs").write_text(str(process.pid))
        return process

    def run(self, script: str, job: int | str = 1, **environment: str) -> subprocess.CompletedProcess[str]:
        """What slurmd would do when a job starts or ends; as slurmd does, without a PATH."""
        given = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(USER), "SLURMD_NODENAME": self.name, **environment}
        return subprocess.run([SCRIPTS / script], env=given, capture_output=True, text=True, check=False)

    def clear(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for top in self.tops:
            for folder in [*sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True), top]:
                _remove(folder)
        for folder in reversed(self.made):
            if folder.exists():
                _remove(folder)


def _give_cpus(group: Path) -> None:
    """All that its parents have: a new group of version 1 has none, and takes no process."""
    for name in "cpuset.cpus", "cpuset.mems":
        if not (group / name).read_text().strip():
            _give_cpus(group.parent)
            (group / name).write_text((group.parent / name).read_text())


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)  # a process that has ended leaves its group a moment later
        else:
            return
    raise AssertionError(f"{folder} cannot be removed")


@pytest.fixture
def make_node() -> Iterator[Callable[[int], Node]]:
    if os.geteuid() != 0:
        pytest.skip("only root can make cgroups")
    with contextlib.ExitStack() as stack:

        def make(version: int) -> Node:
            if not mounts("cgroup" if version == 1 else "cgroup2"):
                pytest.skip(f"this host has no cgroups of version {version}")
            node = Node(version)
            stack.callback(node.clear)
            return node

        yield make


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, make_node: Callable[[int], Node]) -> Node:
    return make_node(request.param)


def left(groups: list[Path]) -> list[Path]:
    return [group for group in groups if group.exists()]


def alive(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


@pytest.mark.parametrize("script", ["epilog", "prolog"])
def test_empty_leftovers_go(node: Node, script: str) -> None:
    node.leave(1)
    assert left(node.groups(1)) == node.groups(1)
    done = node.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert left(node.groups(1)) == []


@pytest.mark.parametrize("script", ["epilog", "prolog"])
def test_nothing_to_do(node: Node, script: str) -> None:
    done = node.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert left(node.tops) == node.tops


@pytest.mark.parametrize("script", ["epilog", "prolog"])
def test_other_jobs_of_the_user_stay(node: Node, script: str) -> None:
    node.leave(1)
    running = node.start(node.leave(12))
    node.leave(11)
    assert node.run(script).returncode == 0
    assert left(node.groups(1)) == []
    assert left(node.groups(11)) == node.groups(11)
    assert left(node.groups(12)) == node.groups(12)
    assert alive(running)


def test_processes_of_the_job_are_ended(node: Node) -> None:
    groups = node.leave(1)
    deaf = "trap '' TERM HUP INT; while :; do sleep 600 & wait; done"
    processes = [node.start(groups), node.start(groups, USER, "sh", "-c", deaf)]
    other = node.start(node.leave(2))
    done = node.run("epilog")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [process.wait(10) for process in processes] == [-9, -9]
    assert left(node.groups(1)) == []
    assert alive(other)


def test_a_process_in_one_hierarchy_alone_is_ended(make_node: Callable[[int], Node]) -> None:
    node = make_node(1)
    process = node.start(node.leave(1)[-1:])
    assert node.run("epilog").returncode == 0
    assert process.wait(10) == -9
    assert left(node.groups(1)) == []


def test_a_suspended_job_is_ended(make_node: Callable[[int], Node]) -> None:
    node = make_node(1)
    process = node.start(node.leave(1))
    states = [group / "freezer.state" for group in node.groups(1) if (group / "freezer.state").exists()]
    if not states:
        pytest.skip("this host has no freezer of version 1")
    states[0].write_text("FROZEN")
    assert node.run("epilog").returncode == 0
    assert process.wait(10) == -9
    assert left(node.groups(1)) == []


def test_processes_of_others_are_left_and_told_of(node: Node) -> None:
    groups = node.leave(1)
    own, foreign = node.start(groups), node.start(groups, OTHER)
    done = node.run("epilog")
    assert done.returncode == 0
    assert alive(foreign)
    assert own.wait(10) == -9
    for group in node.groups(1):
        assert (
            f"job 1: {group} could not be removed; processes in it: {foreign.pid} (sleep, uid {OTHER})" in done.stdout
        )
    # what holds no process is gone all the same
    assert left([group / "step_0" / "task_1" for group in node.groups(1)]) == []
    assert left(groups) == groups


def test_what_keeps_the_step_extern_open_is_ended(node: Node) -> None:
    """It is root's. Another of root's is none of the job's, whatever it is called."""
    groups = node.leave(1)
    keeper = node.start(groups, 0, "sleep", "100000000")
    assert node.run("epilog").returncode == 0
    assert keeper.wait(10) == -9
    assert left(node.groups(1)) == []
    elsewhere = node.start(node.leave(2), 0, "sleep", "100000000")
    assert node.run("epilog").returncode == 0
    assert alive(elsewhere)


def test_a_process_of_the_user_elsewhere_is_left(node: Node) -> None:
    elsewhere = node.start([])
    node.leave(1)
    assert node.run("epilog").returncode == 0
    assert alive(elsewhere)


def test_the_users_group_goes_only_when_it_is_empty(make_node: Callable[[int], Node]) -> None:
    node = make_node(1)
    users = [top / f"uid_{USER}" for top in node.tops]
    others = [top / f"uid_{OTHER}" for top in node.tops]
    node.leave(1)
    node.leave(2)
    node.leave(1, OTHER)
    node.run("epilog", 1)
    assert left(users) == users
    node.run("epilog", 2)
    assert left(users) == []
    # another user's job of the same number, which there cannot be, is none of this one's business
    assert left(others) == others
    assert left(node.tops) == node.tops


def test_the_users_group_is_not_taken_from_under_slurm(make_node: Callable[[int], Node]) -> None:
    """Slurm holds this lock from when it makes the user's group until a job's is in it."""
    node = make_node(1)
    if shutil.which("flock") is None:
        pytest.skip("this host has no flock")
    user = node.tops[0] / f"uid_{USER}"
    user.mkdir()
    with subprocess.Popen(["flock", node.tops[0].parent, "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1) as lock:
        assert lock.stdout is not None
        lock.stdout.readline()
        assert node.run("epilog").returncode == 0
        assert user.exists()
        lock.communicate()
    assert node.run("epilog").returncode == 0
    assert not user.exists()


def test_a_group_that_is_named_by_a_sluid(make_node: Callable[[int], Node]) -> None:
    node = make_node(2)
    process = node.start(node.leave("s7E1M7G31K3Z00"))
    node.leave("s7E1M7G31K3Z01")
    assert node.run("epilog", SLURM_JOB_SLUID="s7E1M7G31K3Z00").returncode == 0
    assert process.wait(10) == -9
    assert left(node.groups("s7E1M7G31K3Z00")) == []
    assert left(node.groups("s7E1M7G31K3Z01")) == node.groups("s7E1M7G31K3Z01")


def test_the_prolog_leaves_what_has_a_process(node: Node) -> None:
    groups = node.leave(1)
    process = node.start(groups[:1])
    done = node.run("prolog")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert alive(process)
    assert all((group / "step_0" / "task_1").exists() for group in node.groups(1))


def test_within_the_job_nothing_is_done(node: Node) -> None:
    """Slurm can run both within the job (PrologFlags=RunInJob)."""
    groups = node.leave(1)
    own = node.start(groups)
    for script in "prolog", "epilog":
        line = f'for g; do echo $$ >"$g/cgroup.procs"; done; exec {SCRIPTS / script}'
        variables = {"SLURM_JOB_ID": "1", "SLURM_JOB_UID": str(USER), "SLURMD_NODENAME": node.name}
        argv = ["/bin/sh", "-c", line, "sh", *map(str, groups)]
        done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert alive(own)
    assert left(groups) == groups


@pytest.mark.parametrize("script", ["epilog", "prolog"])
@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "1/../job_2"},
        {"SLURM_JOB_ID": "*"},
        {"SLURM_JOB_ID": "1 2"},
        {"SLURM_JOB_ID": "1\n2"},
        {"SLURM_JOB_ID": "$(kill -9 $PPID)"},
        {"SLURM_JOB_ID": "-1"},
        {"SLURM_JOB_UID": ""},
        {"SLURM_JOB_UID": "*"},
        {"SLURM_JOB_UID": f"{USER}/job_2"},
        {"SLURM_JOB_UID": "root"},
        {"SLURMD_NODENAME": "../.."},
        {"SLURMD_NODENAME": "n1;reboot"},
        {"SLURMD_NODENAME": "*"},
        {"SLURM_JOB_ID": "9", "SLURM_JOB_SLUID": "s/../job_2"},
        {"SLURM_JOB_ID": "9", "SLURM_JOB_SLUID": "job_2"},
        {"SLURM_JOB_ID": "9", "SLURM_JOB_SLUID": "s*"},
    ],
    ids=str,
)
def test_odd_values_do_nothing(node: Node, script: str, variables: dict[str, str]) -> None:
    node.leave(1)
    running = node.start(node.leave(2))
    done = node.run(script, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert alive(running)
    assert left(node.groups(1)) == node.groups(1)
    assert left(node.groups(2)) == node.groups(2)


@pytest.mark.parametrize("script", ["epilog", "prolog"])
def test_without_any_variable(script: str) -> None:
    done = subprocess.run([SCRIPTS / script], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
