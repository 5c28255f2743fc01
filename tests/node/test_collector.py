# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at real processes in real cgroups."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from node.real import V1, V2, groups, told, trees

from slurmscope.measure import Gpu, Measure, Report
from slurmscope.node.collector import Collector
from slurmscope.node.mounts import Mounts
from slurmscope.node.scheduler import Found, Scheduler, Told
from slurmscope.node.slurm import Slurm

# as Slurm 24.11 names them on a host with several slurmd, so that others' jobs here are not the test's
RECORDINGS = Path(__file__).parents[1] / "recordings"
SCOPE = "system.slice/testnode_slurmstepd.scope"


def collector(where: Mounts, scheduler: Scheduler | None = None, **more: object) -> Collector:
    return Collector(where, scheduler or Slurm(), cluster="alpha", node="host1", scratch=("*/scratch/*",), **more)  # type: ignore[arg-type]


def look(looking: Collector, node: str = "testnode") -> Report:
    """The report of the test's own node: others may have jobs on this host as well."""
    (report,) = [one for one in looking.collect() if one.node == node]
    return report


def only(looking: Collector) -> Measure:
    (found,) = look(looking).jobs
    return found


def near(value: float | None, wanted: float, share: float = 0.05, least: float = 0.0) -> bool:
    return value is not None and abs(value - wanted) <= max(share * wanted, least)


@pytest.mark.parametrize("name", ["job_4711", "sFV1M7EWC9FF00"])
def test_version_2_as_24_11_and_26_05_name_it(name: str, tmp_path: Path) -> None:
    """Two steps, two tasks in one; slurmstepd beside them, whose title tells the job where the folder does not."""
    where = trees(V2)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with groups(where, SCOPE) as made:
        made.daemon(f"{name}/step_0/slurm", "slurmstepd: [4711.0]")
        made.daemon(f"{name}/step_batch/slurm", "slurmstepd: [4711.batch]")
        first, one = made.work(
            f"{name}/step_0/user/task_0", told(4711), cpu=0.5, memory=96, files=7, folder=str(scratch), threads=3
        )
        _, other = made.work(f"{name}/step_0/user/task_1", told(4711), cpu=0.3, children=4)
        _, batch = made.work(f"{name}/step_batch/user/task_0", told(4711), write=8, writes=4, folder=str(tmp_path))
        looking = collector(where)
        before = time.time()
        report = look(looking)
        assert (report.cluster, report.node) == ("alpha", "testnode") and before <= report.time <= time.time()
        (job,) = report.jobs
        assert (job.job, job.account, job.start_time) == (4711, "physics", 1700000000)
        assert job.uid == os.geteuid() and job.user == "root"
        assert job.processes == 3 + 4 and job.zombies == 0
        assert job.threads == 3 + 4 + 3
        assert job.open_files == 7 and job.scratch is True
        assert near(job.cpu_seconds, one["cpu"] + other["cpu"] + batch["cpu"], least=0.1)
        assert job.user_seconds is not None and job.system_seconds is not None
        assert near(job.user_seconds + job.system_seconds, job.cpu_seconds or 0)
        assert job.rss is not None and 96 << 20 <= job.rss < (96 + 7 * 40) << 20
        assert near(job.written_bytes, 8 << 20, least=1 << 16) and job.writes is not None and job.writes >= 4
        assert job.core_seconds is None  # version 2 does not tell, and it is not made up
        assert sum(one.processes for one in job.programs) == 7
        assert max(one.most_threads for one in job.programs) == 4
        # what was written is still known when who wrote it has gone
        first.terminate()
        first.wait()
        time.sleep(1)  # what a look itself takes, on a busy machine, is little beside it
        later = look(looking)
        (again,) = later.jobs
        assert again.processes == 6 and near(again.written_bytes, 8 << 20, least=1 << 16)
        assert again.scratch is True and again.open_files == 0
        assert again.cpu_seconds is not None and job.cpu_seconds is not None and again.cpu_seconds >= job.cpu_seconds
        grown = (again.cpu_seconds - job.cpu_seconds) / (later.time - report.time)
        assert job.cores is None and again.cores == pytest.approx(grown, rel=0.5, abs=0.3)
        assert looking.missed.counts.get("error") is None


def test_a_sluid_that_only_the_environment_tells() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.work("sFV1M7EWC9FF01/step_0/user/task_0", told(815))
        assert only(collector(where)).job == 815


def test_a_sluid_that_only_slurmctld_tells() -> None:
    where = trees(V2)
    asked: list[Sequence[str]] = []

    async def squeue(sluids: Sequence[str]) -> dict[str, int]:
        asked.append(sluids)
        return {"sFV1M7EWC9FF02": 816, "sFFFFFFFFFFFFF": 1}

    scheduler = Slurm(squeue)
    with groups(where, SCOPE) as made:
        made.start("sFV1M7EWC9FF02/step_0/user/task_0", ["sleep", "1000"], env={})
        looking = collector(where, scheduler)
        for _ in range(3):
            assert all(one.node != "testnode" for one in looking.collect())
        looking.learn(asyncio.run(scheduler.ask(looking.unknown)))
        assert asked == [["sFV1M7EWC9FF02"]]
        found = only(looking)
        assert (found.job, found.processes, found.account) == (816, 1, "")


def test_version_1_with_its_controllers(tmp_path: Path) -> None:
    """Time by core, the limit, the cores that it may use, and a process that the kernel kills for want of memory."""
    where = trees(*V1)
    with groups(where, "slurm_testnode") as made:
        job = "uid_0/job_42"
        made.daemon(f"{job}/step_0", "slurmstepd: [42.0]")
        (made.folder("memory", job) / "memory.limit_in_bytes").write_text(str(256 << 20))
        (made.folder("cpuset", f"{job}/step_0") / "cpuset.cpus").write_text("0")
        (made.folder("cpuset", job) / "cpuset.cpus").write_text("0")
        _, used = made.work(f"{job}/step_0/task_0", told(42, SLURM_CPUS_ON_NODE="1"), cpu=0.6, memory=100)
        looking = collector(where)
        found = only(looking)
        assert (found.job, found.uid, found.cpus, found.processes) == (42, 0, 1, 1)
        assert near(found.cpu_seconds, used["cpu"], least=0.08)
        assert found.core_seconds is not None and near(found.core_seconds[0], found.cpu_seconds or 0, least=0.05)
        assert near(found.anonymous, 100 << 20, least=12 << 20) and found.limit == 256 << 20
        assert found.memory is not None and found.peak is not None and found.peak >= found.memory >= 100 << 20
        assert found.oom_kills == 0 and found.swap == 0
        greedy = made.start(f"{job}/step_0/task_1", [sys.executable, "-c", "x = b'x' * (1 << 30); input()"])
        assert greedy.wait(30) == -9
        # its step lives on, and so does the count
        made.work(f"{job}/step_0/task_1", told(42))
        assert only(looking).oom_kills == 1


def test_version_2_with_its_controllers_recorded(tmp_path: Path) -> None:
    """The files of a job of a host with version 2 alone, as its kernel wrote them: 200 MiB of its own, 50 MiB shared,
    64 MiB written, a limit on its memory at which one process was killed, and one on the time of its task."""
    recorded: dict[str, str] = json.loads((RECORDINGS / "cgroup2/job.json").read_text())
    job = tmp_path / "system.slice/slurmstepd.scope/job_201"
    with subprocess.Popen(["sleep", "1000"], env=told(201, SLURM_CPUS_ON_NODE="2")) as process:
        for name, text in recorded.items():
            path = job / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if path.name == "cgroup.procs":
                path.write_text(f"{process.pid}\n" if "task_0" in name else "")
        (found,) = look(collector(Mounts({V2: str(tmp_path)})), "host1").jobs
        process.kill()
    assert (found.job, found.cpus, found.processes, found.limit) == (201, 2, 1, 512 << 20)
    assert (found.cpu_seconds, found.user_seconds, found.system_seconds) == (2.27935, 1.976174, 0.303176)
    assert (found.throttled_periods, found.throttled_seconds) == (45, 2.135632)  # of the task: the job's own file has 0
    assert found.anonymous == 230760448 and found.shared == 50 << 20 and found.file == 52441088 - (50 << 20)
    assert found.memory == 285061120 and found.peak == found.limit and found.oom_kills == 1 and found.swap == 0
    assert (found.device_read_bytes, found.device_written_bytes) == (0, 67145728)
    assert found.cpu_pressure is not None and (found.cpu_pressure.some, found.cpu_pressure.full) == (2.051125, 2.051125)
    assert found.io_pressure is not None and found.io_pressure.some == 0.021538
    assert found.memory_pressure is not None and 0 < found.memory_pressure.some < 0.1


def test_processes_are_found_by_the_freezer_alone() -> None:
    """As with proctrack/cgroup and nothing else: processor time and the rest are then /proc's."""
    where = trees("freezer")
    with groups(where, "slurm_testnode") as made:
        made.daemon("uid_0/job_43/step_0", "slurmstepd: [43.0]")
        _, used = made.work("uid_0/job_43/step_0", told(43), cpu=0.5)
        found = only(collector(where))
        assert (found.processes, found.memory, found.limit, found.core_seconds) == (1, None, None, None)
        assert near(found.cpu_seconds, used["cpu"], least=0.06)


def test_jobs_that_end_and_what_is_left_of_them() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        ends, _ = made.work("job_1/step_0/user/task_0", told(1))
        made.work("job_2/step_0/user/task_0", told(2))
        made.make("job_3/step_0/user/task_0")  # left over
        looking = collector(where)
        report = look(looking)
        leftovers = looking.leftovers
        assert sorted(job.job for job in report.jobs) == [1, 2] and leftovers >= 1
        assert ("testnode", 2) not in looking.change().gone
        ends.kill()
        ends.wait()
        # the folder stays, as it does when nobody clears it
        assert looking.change().gone == {("testnode", 1)}
        assert looking.change().gone == frozenset()
        made.work("job_4/step_0/user/task_0", told(4))
        assert looking.change().came
        report = look(looking)
        assert sorted(job.job for job in report.jobs) == [2, 4] and looking.leftovers == leftovers + 1


def test_a_part_of_a_heterogeneous_job() -> None:
    """It is a job of its own, and its environment has the number of the first part."""
    where = trees(V2)
    environ = told(61, SLURM_JOB_ID_HET_GROUP_0="61", SLURM_JOB_ID_HET_GROUP_1="62")
    with groups(where, SCOPE) as made:
        made.daemon("sFV1M7EWC9FF03/step_0/slurm", "slurmstepd: [62.0]")
        made.work("sFV1M7EWC9FF03/step_0/user/task_0", environ)
        made.work("sFV1M7EWC9FF04/step_0/user/task_0", environ)  # of which nobody tells which of the two it is
        found = only(collector(where))
        assert (found.job, found.account) == (62, "physics")


def test_a_job_that_has_only_its_extern_step_for_long() -> None:
    """It is known as soon as it has a step, however long that took."""
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.daemon("job_71/step_extern/slurm", "slurmstepd: [71.extern]")
        made.start("job_71/step_extern/user/task_special", ["sleep", "100000000"])
        looking = collector(where)
        for _ in range(25):
            waits = only(looking)
            assert (waits.job, waits.processes, waits.account) == (71, 0, "")
        made.start("job_71/step_0/user/task_0", ["sleep", "1000"], env=told(71), user=65534)
        found = only(looking)
        assert (found.account, found.uid, found.user, found.processes) == ("physics", 65534, "nobody", 1)


def test_roots_process_in_a_job_does_not_make_it_roots() -> None:
    """As pam_slurm_adopt puts sshd there."""
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.start("job_72/step_extern/user/task_special", ["sleep", "1000"], env={})
        looking = collector(where)
        assert only(looking).uid == 0
        made.start("job_72/step_0/user/task_0", ["sleep", "1000"], env=told(72), user=65534)
        assert only(looking).uid == 65534


def test_each_step_has_gpus_of_its_own() -> None:
    where = trees(V2)
    cards = [Gpu(uuid=f"GPU-{at}aaaa", index=at, minor=at, vendor="nvidia", processes=()) for at in range(4)]
    with groups(where, SCOPE) as made:
        for step in range(3):
            environ = told(73, SLURM_STEP_GPUS=str(step), SLURM_JOB_GPUS="3", SLURM_CPUS_ON_NODE=str(step + 1))
            made.start(f"job_73/step_{step}/user/task_0", ["sleep", "1000"], env=environ)
        looking = collector(where)
        (found,) = next(one for one in looking.collect(cards) if one.node == "testnode").jobs
        assert [gpu.index for gpu in found.gpus or ()] == [0, 1, 2] and found.cpus == 3
        made.start("job_73/step_batch/user/task_0", ["sleep", "1000"], env=told(73, SLURM_JOB_GPUS="0-3"))
        (found,) = next(one for one in looking.collect(cards) if one.node == "testnode").jobs
        assert [gpu.index for gpu in found.gpus or ()] == [0, 1, 2, 3]


def test_a_job_that_comes_into_a_folder_that_was_left_over(tmp_path: Path) -> None:
    """Nothing of the one before is told of it."""
    where = trees(V2)
    (tmp_path / "scratch").mkdir()
    with groups(where, SCOPE) as made:
        inside = "job_74/step_0/user/task_0"
        first, _ = made.work(inside, told(74) | {"SLURM_JOB_ACCOUNT": "old"}, files=1, folder=str(tmp_path / "scratch"))
        looking = collector(where)
        assert (only(looking).account, only(looking).scratch) == ("old", True)
        first.kill()
        first.wait()
        looking.collect()
        made.work(inside, told(74) | {"SLURM_JOB_ACCOUNT": "new"})
        assert (only(looking).account, only(looking).scratch) == ("new", False)


def test_nobody_is_the_schedulers_by_name_alone() -> None:
    where = trees("freezer")
    with groups(where, "slurm_testnode") as made:
        title = "exec -a 'slurmstepd: [75.0]' sleep 1000"
        made.start("uid_65534/job_75/step_0", ["bash", "-c", title], env=told(75), user=65534)
        deadline = time.monotonic() + 120
        while only(collector(where)).programs[0].name != "sleep" and time.monotonic() < deadline:
            pass
        assert only(collector(where)).processes == 1


def test_who_says_to_be_another_job_is_not_told_as_it() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.work("job_76/step_0/user/task_0", told(76))
        made.work("sFV1M7EWC9FF05/step_0/user/task_0", told(76) | {"SLURM_JOB_ACCOUNT": "forged"}, children=3)
        found = only(collector(where))
        assert (found.account, found.processes) == ("physics", 1)


def test_what_a_parent_that_ignores_its_children_lets_go(tmp_path: Path) -> None:
    """The kernel gives what they used to nobody: it is kept as it was last seen."""
    code = f"""
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def write(name, size):
    with open({str(tmp_path)!r} + name, "wb") as file:
        file.write(b"x" * size); file.flush(); os.fsync(file.fileno())
child = os.fork()
if child == 0:
    write("/child", 12 << 20); print("READY", flush=True); sys.stdin.readline(); os._exit(0)
time.sleep(0.1)
while os.path.exists(f"/proc/{{child}}"):
    time.sleep(0.05)
write("/own", 4 << 20); print("READY", flush=True); time.sleep(1000)
"""
    where = trees(V2)
    with groups(where, SCOPE) as made:
        argv = [sys.executable, "-c", code]
        process = made.start("job_77/step_0/user/task_0", argv, stdout=subprocess.PIPE, env=told(77))
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        looking = collector(where)
        assert near(only(looking).written_bytes, 12 << 20, least=1 << 16)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert near(only(looking).written_bytes, 16 << 20, least=1 << 16)


def test_processes_that_are_hidden_are_unknown_and_not_none() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.work("job_78/step_0/user/task_0", told(78), cpu=0.2)
        hidden = collector(where, proc="/nonexistent")
        found = only(hidden)
        assert (found.job, found.processes, found.threads, found.rss, found.open_files) == (78, None, None, None, None)
        assert found.cpu_seconds is not None and found.cpu_seconds > 0.1  # which the cgroup tells
        assert hidden.missed.counts == {"hidden": 1}
        # it has been told, and so is none of those that were left over: of these others may have some on this host


def test_a_node_that_had_jobs_is_told_to_have_none() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        process, _ = made.work("job_79/step_0/user/task_0", told(79))
        looking = collector(where)
        assert len(look(looking).jobs) == 1
        process.kill()
        process.wait()
        assert look(looking).jobs == ()


def test_nothing_at_all() -> None:
    report = look(collector(Mounts({})), "host1")
    assert (report.node, report.jobs) == ("host1", ())


def test_programs_beyond_the_most_are_one() -> None:
    where = trees(V2)
    with groups(where, SCOPE) as made:
        for name in ("solver", "other", "writer", "reader"):
            made.start("job_5/step_0/user/task_0", ["bash", "-c", f"echo {name} > /proc/self/comm; read"], env=told(5))
        deadline = time.monotonic() + 120
        looking = collector(where, programs=2)
        while True:
            programs = only(looking).programs
            if {one.name for one in programs} & {"bash"} == set() or time.monotonic() > deadline:
                break
        names = [one.name for one in programs]
        assert len(names) == 3 and names[-1] == "other" and len(set(names)) == 3
        assert sum(one.processes for one in programs) == 4


class Toy:
    """Another scheduler, as somebody would add it: batch.slice/batch-<number>.scope, BATCH_ID in the environment."""

    name = "toy"

    def find(self, mounts: Mounts) -> list[Found]:
        scopes = Path(mounts.trees[V2]).glob("batch.slice/batch-*.scope")
        return [Found(one.name, int(one.stem.removeprefix("batch-")), {V2: str(one)}) for one in scopes]

    def own(self, inside: str, title: Callable[[], str]) -> bool:
        return title().startswith("toyd:")

    def titled(self, title: str) -> int | None:
        return None

    def told(self, environ: Mapping[str, str], step: str) -> Told:
        return Told(int(environ["BATCH_ID"]), account="bio") if "BATCH_ID" in environ else Told()

    async def ask(self, keys: Sequence[str]) -> dict[str, int]:
        return {}


def test_another_scheduler() -> None:
    where = trees(V2)
    with groups(where, "batch.slice") as made:
        made.daemon("batch-9.scope", "toyd: 9")
        made.work("batch-9.scope", {"BATCH_ID": "9"}, children=2)
        report = look(collector(where, Toy()), "host1")
        (job,) = report.jobs
        assert (job.job, job.account, job.processes, report.node) == (9, "bio", 3, "host1")


_AS_NOBODY = """
import json, os, sys
from slurmscope.node.collector import Collector
from slurmscope.node.mounts import Mounts
from slurmscope.node.slurm import Slurm
looking = Collector(Mounts({"v2": sys.argv[1]}), Slurm(), cluster="", node="n1", scratch=["*"])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
(report,) = [one for one in looking.collect() if one.node == "testnode"]
(job,) = report.jobs
print(json.dumps([job.job, job.processes, job.threads, job.cpu_seconds is not None, job.read_bytes, job.open_files,
                  job.scratch, job.account, job.user, job.missed > 0, looking.missed.counts]))
"""


def test_without_any_privilege() -> None:
    """What the kernel lets anybody read is told; what it does not is unknown, and is counted."""
    where = trees(V2)
    with groups(where, SCOPE) as made:
        made.work("job_6/step_0/user/task_0", told(6), threads=2, files=0)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, where.trees[V2]], capture_output=True, text=True, check=True
        )
        job, processes, threads, has_cpu, read, files, scratch, account, user, missed, counts = json.loads(done.stdout)
        assert (job, processes, threads, has_cpu, user) == (6, 1, 3, True, "root")
        assert (read, files, scratch, account) == (None, None, None, "")
        assert missed and counts["permission"] > 0 and "error" not in counts


_STORM = """
import os, time
pace, begun, count = 2000, time.monotonic(), 0
while True:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    count += 1
    ahead = count / pace - (time.monotonic() - begun)
    if ahead > 0.01:
        time.sleep(ahead)
"""


def test_a_storm_of_processes_for_ten_thousand_looks() -> None:
    """Nothing raises, nothing is left open, nothing grows."""
    where = trees(V2)
    with groups(where, SCOPE) as made:
        for task in range(2):
            made.start(f"job_7/step_0/user/task_{task}", [sys.executable, "-c", _STORM], env=told(7))
        gc.collect()  # what other tests have left open is none of ours
        before = len(list(Path("/proc/self/fd").iterdir()))
        looking = collector(where)
        while only(looking).job != 7:
            pass
        sizes = []
        seen, forks = 0, _forks()
        for number in range(10_000):
            report = look(looking)
            (job,) = report.jobs
            there = (job.processes or 0) + (job.zombies or 0)
            assert 2 <= there <= 8
            seen += there > 2
            if number % 2500 == 2499:
                gc.collect()
                sizes.append((len(list(Path("/proc/self/fd").iterdir())), _resident()))
        assert seen > 100 and _forks() - forks > 5000  # it was looked at in the midst of it
        assert "error" not in looking.missed.counts
        descriptors, memory = zip(*sizes, strict=True)
        assert max(descriptors) - min(descriptors) <= 4  # of the storm's own processes, which come and go
        looking.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert memory[-1] - memory[0] < 2 << 20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _forks() -> int:
    """Since the host was started."""
    return int(Path("/proc/stat").read_text().partition("\nprocesses ")[2].split()[0])
