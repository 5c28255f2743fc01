# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The prolog and the epilog of packaging/slurm, on this host's own cgroups, in folders of a node that is nobody's."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging" / "slurm"
# Numbers that are nobody's: the kernel knows only numbers.
USER, OTHER = 64301, 64302
numbers = itertools.count(1)

# Python itself need not be another user's to run: so these begin as root.
DROP = """
import os, sys, time
def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
"""
# Forks, now and then twice, and ends, and so do its children, in the groups it is given, as long as a file is there:
# whoever kills some of them finds others in their places. They are waited for from outside
# (36: PR_SET_CHILD_SUBREAPER), for what is not counts as a process.
FLEETING = """
import ctypes
flag, *groups = sys.argv[1].split(":")
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork():
    print(flush=True)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            sys.exit()
for group in groups:
    open(group + "/cgroup.procs", "w").write(str(os.getpid()))
become(int(sys.argv[2]))
end = time.monotonic() + 30
while os.path.exists(flag) and time.monotonic() < end:
    time.sleep(0.001)
    try:
        if os.fork() and (time.monotonic_ns() % 4 or os.fork()):
            os._exit(0)
    except OSError:  # as many as may be: some make room, but not the last, who waits for the dead to be counted out
        with open(groups[0] + "/cgroup.procs") as living:
            if time.monotonic_ns() % 4 == 0 and len(living.read().split()) > 3:
                os._exit(0)
"""
# As many children as it is told, which end when it does.
MANY = """
become(int(sys.argv[2]))
sys.stdin.readline()
reading, writing = os.pipe()
for _ in range(int(sys.argv[1])):
    if not os.fork():
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
print(flush=True)
sys.stdin.readline()
"""
# Called what its user likes.
NAMED = """
open("/proc/self/comm", "wb").write(sys.argv[1].encode("latin-1"))
become(int(sys.argv[2]))
print(flush=True)
time.sleep(600)
"""


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
        self.parents = [top.parent for top in self.tops if not top.parent.exists()]
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
        process = subprocess.Popen(
            argv or ["sleep", "600"],
            user=uid,
            group=uid,
            extra_groups=[],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.processes.append(process)
        for group in groups:
            if (group / "cpuset.mems").exists():
                _give_cpus(group)
            (group / "cgroup.procs").write_text(str(process.pid))
        return process

    def python(self, groups: list[Path], uid: int, program: str, argument: str) -> subprocess.Popen[bytes]:
        """One of the programs above in them."""
        return self.start(groups, 0, sys.executable, "-c", DROP + program, argument, str(uid))

    def environment(self, job: int | str = 1) -> dict[str, str]:
        """What slurmd hands on; no PATH."""
        return {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(USER), "SLURMD_NODENAME": self.name}

    def run(self, script: str, job: int | str = 1, **environment: str) -> subprocess.CompletedProcess[str]:
        """What slurmd would do when a job starts or ends."""
        given = {**self.environment(job), **environment}
        return subprocess.run([SCRIPTS / script], env=given, capture_output=True, text=True, check=False)

    def clear(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in process.stdin, process.stdout:
                if pipe is not None:
                    pipe.close()
        for top in self.tops:
            for folder in [*sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True), top]:
                _remove(folder)
        for folder in self.parents:
            with contextlib.suppress(OSError):  # others that run now may have theirs in it
                folder.rmdir()


def _give_cpus(group: Path) -> None:
    """All that its parents have: a new group of version 1 has none, and takes no process."""
    for name in "cpuset.cpus", "cpuset.mems":
        if not (group / name).read_text().strip():
            _give_cpus(group.parent)
            (group / name).write_text((group.parent / name).read_text())


def _remove(folder: Path) -> None:
    for _ in range(3000):
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


def wake(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"


def frozen(groups: list[Path]) -> list[Path]:
    """Those that are, or are about to be."""
    states = [*(group / "freezer.state" for group in groups), *(group / "cgroup.freeze" for group in groups)]
    return [state.parent for state in states if state.exists() and state.read_text().strip() not in ("THAWED", "0")]


@pytest.fixture
def few() -> Iterator[Path]:
    """A group outside the job's that can be kept to so many processes."""
    places = [place for place in mounts("cgroup") if place.name == "pids"]
    if os.geteuid() != 0 or not places:
        pytest.skip("this host has no pids controller of version 1, or we may not use it")
    group = places[0] / f"test-{os.getpid()}-{next(numbers)}"
    group.mkdir()
    yield group
    _remove(group)


@contextlib.contextmanager
def fleeting(node: Node, groups: list[Path], few: Path) -> Iterator[None]:
    """Eight at most, which fork and end, in the groups."""
    flag = Path(f"/tmp/{node.name}")  # pytest's own folders are closed to other users
    flag.touch()
    try:
        # The job's own group of that controller, where it has one, is as good.
        few = next((group for group in groups if (group / "pids.max").exists()), few)
        (few / "pids.max").write_text("8")
        for group in groups:
            if (group / "cpuset.mems").exists():
                _give_cpus(group)
        everywhere = [few, *(group for group in groups if group != few)]
        answer(node.python([], USER, FLEETING, ":".join(map(str, [flag, *everywhere]))))
        while not (groups[0] / "cgroup.procs").read_text():
            time.sleep(0.01)  # its first one joins them a moment after it was started
        time.sleep(0.3)
        yield
    finally:
        flag.unlink()
        time.sleep(0.1)


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
    assert done.stdout.splitlines() == [
        f"job 1: processes left in its cgroups: {foreign.pid} (sleep, uid {OTHER})",
        *(f"job 1: {group} could not be removed" for group in node.groups(1)),
    ]
    assert frozen([*node.groups(1), *groups]) == []
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


def test_anothers_process_that_looks_like_slurms_is_left(node: Node) -> None:
    """That one is root's."""
    foreign = node.start(node.leave(1), OTHER, "sleep", "100000000")
    assert node.run("epilog").returncode == 0
    assert alive(foreign)


def test_what_forks_and_ends_at_once_is_ended(node: Node, few: Path) -> None:
    groups = node.leave(1)
    with fleeting(node, groups, few):
        assert (groups[0] / "cgroup.procs").read_text()
        done = node.run("epilog")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert left(node.groups(1)) == []


def test_what_forks_beside_anothers_process_is_ended(node: Node, few: Path) -> None:
    """The group cannot be killed as a whole, then."""
    groups = node.leave(1)
    foreign = node.start(groups, OTHER)
    with fleeting(node, groups, few):
        node.run("epilog")
        assert {(group / "cgroup.procs").read_text() for group in groups} == {f"{foreign.pid}\n"}
        assert alive(foreign)
        assert frozen([*node.groups(1), *groups]) == []


def test_many_processes_of_others_do_not_hold_it_up(node: Node) -> None:
    parent = node.python(node.leave(1), OTHER, MANY, "300")
    wake(parent)
    answer(parent)
    start = time.monotonic()
    done = node.run("epilog")
    assert time.monotonic() - start < 60  # to look at each of them once takes minutes
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].endswith(f"uid {OTHER}) and more")
    assert len(done.stdout.splitlines()[0]) < 900  # which syslog would cut
    assert alive(parent)


def test_groups_of_odd_names_go(node: Node) -> None:
    groups = node.leave(1)
    for name in "a b", "*", r"a\x2db", ".hidden", "-rf", "$(x)":
        for group in groups:
            (group / name / "deeper").mkdir(parents=True)
    processes = [node.start([group / name / "deeper" for group in groups]) for name in ("*", r"a\x2db", ".hidden")]
    done = node.run("epilog")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [process.wait(10) for process in processes] == [-9, -9, -9]
    assert left(node.groups(1)) == []


def test_without_a_process_to_be_had_it_ends_the_jobs_and_tells_of_others(node: Node, few: Path) -> None:
    groups = node.leave(1)
    own, foreign = [node.start(groups) for _ in range(50)], node.start(groups, OTHER)
    (few / "pids.max").write_text("1")
    argv = ["/bin/sh", "-c", f'echo $$ >"{few}/cgroup.procs"; exec "$@"', "sh", str(SCRIPTS / "epilog")]
    done = subprocess.run(argv, env=node.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"job 1: processes left in its cgroups: {foreign.pid} (sleep, uid {OTHER})",
        *(f"job 1: {group} could not be removed" for group in node.groups(1)),
    ]
    assert [process.wait(10) for process in own] == [-9] * 50
    assert alive(foreign)
    assert frozen([*node.groups(1), *groups]) == []


def test_it_leaves_nothing_frozen_when_slurmd_ends_it(node: Node) -> None:
    groups = node.leave(1)
    foreign = node.start(groups, OTHER)
    with subprocess.Popen(
        [SCRIPTS / "epilog"], env=node.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as epilog:
        time.sleep(0.7)
        start = time.monotonic()
        epilog.send_signal(signal.SIGTERM)
        out, _ = epilog.communicate()
    assert time.monotonic() - start < 4  # by itself it tries for 5 s
    assert epilog.returncode == 0
    assert f"{foreign.pid} (sleep, uid {OTHER})" in out
    assert frozen([*node.groups(1), *groups]) == []


def test_names_of_processes_are_told_in_printable_letters(node: Node) -> None:
    names = {
        "a\x1b[2Jb\x07\x7f\x9b": "a?[2Jb???",
        "a\njob 1: b": r"a\njob 1: b",
        r"a\033[2J\c": r"a\\033[2J\\c",
        "*": "*",
        " a  b ": " a  b ",
    }
    groups = node.leave(1)
    told = set()
    for name, printable in names.items():
        process = node.python(groups, OTHER, NAMED, name)
        answer(process)
        told.add(f"{process.pid} ({printable}, uid {OTHER})")
    line = node.run("epilog").stdout.split("\n")[0]
    assert {part + ")" for part in line.removeprefix("job 1: processes left in its cgroups: ")[:-1].split(") ")} == told


def test_a_process_of_the_user_elsewhere_is_left(node: Node) -> None:
    elsewhere = node.start([])
    node.leave(1)
    assert node.run("epilog").returncode == 0
    assert alive(elsewhere)


@pytest.mark.parametrize("script", ["epilog", "prolog"])
def test_the_users_group_goes_only_when_it_is_empty(make_node: Callable[[int], Node], script: str) -> None:
    node = make_node(1)
    if script == "prolog" and shutil.which("flock") is None:
        pytest.skip("this host has no flock")
    users = [top / f"uid_{USER}" for top in node.tops]
    others = [top / f"uid_{OTHER}" for top in node.tops]
    node.leave(1)
    node.leave(2)
    node.leave(1, OTHER)
    node.run(script, 1)
    assert left(users) == users
    node.run(script, 2)
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
