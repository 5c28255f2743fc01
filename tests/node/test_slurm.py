# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How Slurm names the cgroups of jobs, on trees of folders made by hand, and what it tells their processes."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node.trees import folders, v1, v2

from slurmscope.node import squeue
from slurmscope.node.mounts import V2, Mounts
from slurmscope.node.scheduler import Found, Told
from slurmscope.node.slurm import Slurm, cluster_name, conf_text
from slurmscope.settings import Slurm as Settings

SLURM = Slurm()
SLUID = "sFV1M7EWC9FF00"
STEPS = ("step_batch", "step_extern", "step_0", "step_interactive")


def steps_v1(job: str) -> list[str]:
    return [f"{job}/{step}/task_{task}" for step in STEPS for task in (0, 1)]


def steps_v2(job: str) -> list[str]:
    return [f"{job}/{step}/{inner}" for step in STEPS for inner in ("slurm", "user/task_0", "user/task_special")]


def found(mounts: Mounts) -> dict[tuple[str, int | None], Found]:
    jobs = SLURM.find(mounts)
    by_job = {(one.node, one.job): one for one in jobs}
    assert len(by_job) == len(jobs) == len({one.key for one in jobs})
    return by_job


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_version_1_over_several_controllers(tmp_path: Path) -> None:
    first, second = "slurm/uid_1000/job_3385", "slurm/uid_0/job_3386"
    mounts = v1(
        tmp_path,
        cpuacct=steps_v1(first),
        memory=[*steps_v1(first), *steps_v1(second)],  # in some trees only
        freezer=steps_v1(second),
    )
    jobs = found(mounts)
    assert set(jobs) == {("", 3385), ("", 3386)}
    assert jobs["", 3385].folders == {name: str(tmp_path / name / first) for name in ("cpuacct", "memory")}
    assert jobs["", 3386].folders == {name: str(tmp_path / name / second) for name in ("memory", "freezer")}
    assert (jobs["", 3385].uid, jobs["", 3386].uid) == (1000, 0)


def test_version_1_with_several_nodes_on_a_host(tmp_path: Path) -> None:
    names = [f"slurm_{node}/uid_1000/job_7" for node in ("n1", "n2", "login_1")] + ["slurm/uid_1000/job_7"]
    jobs = found(v1(tmp_path, memory=names, cpuset=names[:1]))
    assert set(jobs) == {("n1", 7), ("n2", 7), ("login_1", 7), ("", 7)}
    assert set(jobs["n1", 7].folders) == {"memory", "cpuset"}
    assert jobs["n2", 7].folders == {"memory": str(tmp_path / "memory" / names[1])}


def test_version_2(tmp_path: Path) -> None:
    scope = "system.slice/slurmstepd.scope"
    mounts = v2(tmp_path, f"{scope}/system", *steps_v2(f"{scope}/job_3385"), *steps_v2(f"{scope}/job_3386"))
    jobs = found(mounts)
    assert set(jobs) == {("", 3385), ("", 3386)}
    assert jobs["", 3385].folders == {V2: str(tmp_path / scope / "job_3385")}
    assert jobs["", 3385].uid is None


def test_version_2_with_several_nodes_on_a_host(tmp_path: Path) -> None:
    names = [f"system.slice/{node}_slurmstepd.scope/job_7" for node in ("n1", "n2", "gpu_a_1")]
    assert set(found(v2(tmp_path, *names))) == {("n1", 7), ("n2", 7), ("gpu_a_1", 7)}


def test_version_2_without_systemd(tmp_path: Path) -> None:
    jobs = found(v2(tmp_path, *steps_v2("slurmstepd.scope/job_9"), "n1_slurmstepd.scope/job_9"))
    assert set(jobs) == {("", 9), ("n1", 9)}
    assert jobs["", 9].folders == {V2: str(tmp_path / "slurmstepd.scope/job_9")}


def test_both_versions_at_once(tmp_path: Path) -> None:
    first = v1(tmp_path, memory=["slurm/uid_1/job_1"]).trees
    second = v2(tmp_path / "unified", "system.slice/slurmstepd.scope/job_2").trees
    assert set(found(Mounts(first | second))) == {("", 1), ("", 2)}


def test_a_sluid_tells_no_job(tmp_path: Path) -> None:
    scope = tmp_path / "system.slice/n1_slurmstepd.scope"
    (one,) = SLURM.find(v2(tmp_path, *steps_v2(f"system.slice/n1_slurmstepd.scope/{SLUID}")))
    assert one == Found(f"n1_slurmstepd.scope/{SLUID}", None, {V2: str(scope / SLUID)}, "n1")


@pytest.mark.parametrize(
    "name",
    [
        "system",
        "sABC",
        "job_abc",
        "job_12x",
        "job_",
        "job_-1",
        "job_12345678901",
        "xjob_1",
        "step_0",
        "job_1.0",
        "uid_1",
        SLUID.lower(),
        f"{SLUID}0",
        f"x{SLUID}",
        SLUID[1:],
    ],
)
def test_folders_that_are_no_jobs(name: str, tmp_path: Path) -> None:
    assert SLURM.find(v2(tmp_path / "two", f"system.slice/slurmstepd.scope/{name}", f"slurmstepd.scope/{name}")) == []
    assert SLURM.find(v1(tmp_path / "one", memory=[f"slurm/uid_1/{name}"])) == []


@pytest.mark.parametrize(
    "name",
    [
        "slurm/job_1",
        "slurm/system/job_1",
        "slurm/uid_x/job_1",
        "slurm/uid_/job_1",
        "slurmx/uid_1/job_1",
        "slurm_/uid_1/job_1",
        "xslurm/uid_1/job_1",
        "system.slice/slurm/uid_1/job_1",
    ],
)
def test_folders_of_version_1_that_are_others(name: str, tmp_path: Path) -> None:
    assert SLURM.find(v1(tmp_path, memory=[name])) == []


@pytest.mark.parametrize(
    "name",
    [
        "system.slice/slurmd.service/job_1",
        "system.slice/slurmstepd.scope.x/job_1",
        "system.slice/xslurmstepd.scope/job_1",
        "system.slice/_slurmstepd.scope/job_1",
        "user.slice/slurmstepd.scope/job_1",  # whoever has that one may name it so
    ],
)
def test_folders_of_version_2_that_are_others(name: str, tmp_path: Path) -> None:
    assert SLURM.find(v2(tmp_path, name)) == []


def test_another_slice_of_version_2(tmp_path: Path) -> None:
    """CgroupSlice, from 26.05 on."""
    mounts = v2(tmp_path, "hpc.slice/slurmstepd.scope/job_9", "hpc.slice/hpc-jobs.slice/slurmstepd.scope/job_10")
    assert sorted(found.job or 0 for found in SLURM.find(mounts)) == [9, 10]


def test_links_and_files_are_not_followed(tmp_path: Path) -> None:
    folders(tmp_path / "elsewhere", "job_1", "uid_1/job_1", SLUID)
    mounts = v2(tmp_path / "two", "system.slice/slurmstepd.scope/job_2")
    scope = tmp_path / "two/system.slice/slurmstepd.scope"
    (scope / "job_1").symlink_to(tmp_path / "elsewhere/job_1")
    (scope / SLUID).symlink_to(tmp_path / "elsewhere" / SLUID)
    (scope / "job_3").write_text("")
    (tmp_path / "two/slurmstepd.scope").symlink_to(tmp_path / "elsewhere")
    assert set(found(mounts)) == {("", 2)}
    mounts = v1(tmp_path / "one", memory=[])
    (tmp_path / "one/memory/slurm").symlink_to(tmp_path / "elsewhere")
    assert SLURM.find(mounts) == []


def test_trees_that_are_not_there(tmp_path: Path) -> None:
    assert SLURM.find(Mounts({V2: str(tmp_path / "no"), "memory": str(tmp_path / "none")})) == []
    assert SLURM.find(Mounts({})) == []


def test_jobs_come_and_go_during_the_search(tmp_path: Path) -> None:
    one = v1(tmp_path, memory=["slurm/uid_1/job_1"], freezer=["slurm/uid_1/job_1"])
    two = v2(tmp_path / "unified", "system.slice/slurmstepd.scope/job_2")
    mounts = Mounts(one.trees | two.trees)
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(10, 20):
                names = [
                    f"memory/slurm/uid_{number}/job_{number}",
                    f"unified/system.slice/n{number}_slurmstepd.scope/job_9",
                ]
                folders(tmp_path, *names)
            for number in range(10, 20):
                shutil.rmtree(tmp_path / f"memory/slurm/uid_{number}")
                shutil.rmtree(tmp_path / f"unified/system.slice/n{number}_slurmstepd.scope")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            assert {("", 1), ("", 2)} <= set(found(mounts))
    finally:
        stop.set()
        thread.join()


# --- whose a process is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "title", "own"),
    [
        ("step_0/slurm", "anything", True),  # version 2: nobody else is ever there
        ("step_batch/slurm", "slurmstepd: [1.batch]", True),
        ("step_0", "slurmstepd: [1.0]", True),  # version 1
        ("", "slurmstepd: [1.0]", True),
        ("step_0", "sleep 100000000", False),  # which proctrack alone put there
        ("step_extern/task_0", "slurmstepd: [1.0]", False),  # a user can call a program so
        ("step_0/user/task_0", "slurmstepd: [1.0]", False),
        ("step_0/user/task_0/slurm", "slurmstepd: [1.0]", False),
        ("step_0/slurmx", "slurmstepd: [1.0]", False),
        ("mine/slurm", "slurmstepd: [1.0]", False),
        ("step_0", "", False),
        ("step_0", "/usr/sbin/slurmstepd", False),
    ],
)
def test_processes_of_slurm_itself(inside: str, title: str, own: bool) -> None:
    assert SLURM.own(inside, lambda: title) is own


def test_the_title_is_not_read_of_those_whose_folder_tells() -> None:
    def title() -> str:
        raise AssertionError("this costs a file for each process at each look")

    assert SLURM.own("step_0/slurm", title)
    assert not SLURM.own("step_0/task_0", title)
    assert not SLURM.own("step_0/user/task_3", title)


@pytest.mark.parametrize(
    ("title", "job"),
    [
        ("slurmstepd: [3385.0]", 3385),
        ("slurmstepd: [3385.batch]", 3385),
        ("slurmstepd: [3385.extern]", 3385),
        ("slurmstepd: [3385.interactive]", 3385),
        ("slurmstepd: [3385+1.0]", 3385),
        ("slurmstepd: [3385]", 3385),
        ("slurmstepd: [3385_4.0]", 3385),
        ("slurmstepd: [3385.0] and more", 3385),
        ("slurmstepd: [33x85.0]", None),
        ("slurmstepd: [.0]", None),
        ("slurmstepd: [3385.0", None),
        ("slurmstepd: [12345678901.0]", None),
        ("slurmstepd: []", None),
        ("/usr/sbin/slurmstepd infinity", None),
        ("x slurmstepd: [3385.0]", None),
        ("slurmstepd: [\u0663.0]", None),
        ("", None),
    ],
)
def test_the_job_that_a_title_tells(title: str, job: int | None) -> None:
    assert SLURM.titled(title) == job


@given(st.text())
def test_any_title_can_be_read(text: str) -> None:
    for title in (text, f"slurmstepd: [{text}", f"slurmstepd: [{text}]"):
        assert isinstance(SLURM.titled(title), int | None)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["0", "4294967294", "batch", "extern", "interactive"]))
def test_any_number_of_a_job_is_read(job: int, step: str) -> None:
    assert SLURM.titled(f"slurmstepd: [{job}.{step}]") == job


ENVIRON = {
    "SLURM_JOB_ID": "3385",
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_ACCOUNT": "physics",
    "SLURM_JOB_START_TIME": "1794763676",
    "SLURM_CPUS_ON_NODE": "4",
}


def test_what_slurm_told_a_process() -> None:
    assert SLURM.told(ENVIRON | {"HOME": "/"}, "step_0") == Told(
        3385, frozenset(), "alice", "physics", 1794763676, 4, {"SLURM_JOB_ID": "3385"}
    )
    parts = {"SLURM_JOB_ID_HET_GROUP_0": "3385", "SLURM_JOB_ID_HET_GROUP_1": "3386", "SLURM_JOB_ID_HET_GROUP_2": "x"}
    assert SLURM.told(ENVIRON | parts, "step_0").others == {3385, 3386}
    assert SLURM.told({}, "step_0") == Told()


@pytest.mark.parametrize("odd", ["", "x", "-1", "1.5", " 7", "1_0", "\u0663", "9" * 12, "9" * 5000])
def test_what_is_no_number_tells_nothing(odd: str) -> None:
    told = SLURM.told(
        ENVIRON | dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOB_START_TIME", "SLURM_CPUS_ON_NODE"), odd), "step_0"
    )
    assert (told.job, told.start_time, told.cpus) == (None, None, None)
    assert told.user == "alice"


def test_the_gpus_of_a_step_and_of_the_whole() -> None:
    """What srun hands on of the batch script's is not a step's, which may be on another node."""
    environ = ENVIRON | {"SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0", "OTHER": "x"}
    step, batch = SLURM.told(environ, "step_0"), SLURM.told(environ, "step_batch")
    assert (step.whole, batch.whole) == (False, True)
    assert step.gpus == {"SLURM_JOB_ID": "3385", "SLURM_STEP_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}
    assert batch.gpus == step.gpus | {"SLURM_JOB_GPUS": "0,1"}
    # a list that is too long to be one tells nothing
    assert "SLURM_STEP_GPUS" not in SLURM.told(ENVIRON | {"SLURM_STEP_GPUS": "1," * 10_000}, "step_0").gpus


def test_long_names_are_cut() -> None:
    told = SLURM.told(ENVIRON | {"SLURM_JOB_USER": "u" * 10_000, "SLURM_JOB_ACCOUNT": "a" * 10_000}, "step_0")
    assert told.user == "u" * 256
    assert told.account == "a" * 256


# --- slurm.conf -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ClusterName=lab24\nSlurmctldHost=a\n", "lab24"),
        ("SlurmctldHost=a\n  clustername = lab24  # ours\n", "lab24"),
        ("#ClusterName=old\n # ClusterName=older\nCLUSTERNAME=new\n", "new"),
        ("ClusterName=a#b\n", "a"),
        ('ClusterName="quoted"\n', "quoted"),
        ("ClusterName=MixedCase\n", "mixedcase"),  # slurmctld, slurmdbd and squeue say it so
        ("ClusterNames=x\nOldClusterName=y\n", ""),
        ("ClusterName=\n", ""),
        ("ClusterName=lab\x0024\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "lab\x0024ÿ"),
        ("", ""),
    ],
)
def test_the_name_of_the_cluster(text: str, name: str, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(text)
    assert cluster_name(str(conf)) == name


def test_where_the_configuration_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    second.write_text("ClusterName=second\n")
    monkeypatch.setenv("SLURM_CONF", str(second))
    assert conf_text() == "ClusterName=second\n"
    assert conf_text(str(first)) == "ClusterName=second\n", "one that cannot be read is passed over"
    first.write_bytes(b"\xff\nClusterName=first\n")
    assert cluster_name(str(first)) == "first"
    assert cluster_name(str(tmp_path)) == "second", "a folder is no file"


# --- the last resort --------------------------------------------------------------------------------------------------


def test_who_is_asked_and_for_what() -> None:
    asked: list[list[str]] = []

    async def answer(sluids: Sequence[str]) -> dict[str, int]:
        asked.append(sorted(sluids))
        return {SLUID: 7, "sOTHER00000000": 8}

    keys = [f"n1_slurmstepd.scope/{SLUID}", f"n2_slurmstepd.scope/{SLUID}", "n1_slurmstepd.scope/sFV1M7EWC9FF01"]
    told = asyncio.run(Slurm(answer).ask(keys))
    assert told == {keys[0]: 7, keys[1]: 7}, "a job may be on several nodes of this host"
    assert asked == [[SLUID, "sFV1M7EWC9FF01"]]
    assert asyncio.run(Slurm(answer).ask([])) == {}
    assert asyncio.run(Slurm().ask(keys)) == {}
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        (f"1|{SLUID}|\n4|sFV1M7EWC9FF01|\n", {SLUID: 1, "sFV1M7EWC9FF01": 4}),
        ("1|N/A|\n2||\n\nslurm_load_jobs error: x\n", {}),
        (f"x|{SLUID}|\n1|{SLUID}x|\n 1|{SLUID}|\n{'9' * 5000}|{SLUID}|\n", {}),
        ("", {}),
    ],
)
def test_rows_of_squeue(text: str, jobs: dict[str, int]) -> None:
    assert squeue.parse(text) == jobs


@given(st.text() | st.text(alphabet=f"{SLUID}|1\n"))
def test_any_rows_can_be_read(text: str) -> None:
    assert squeue.parse(f"{text}\n12|{SLUID}|\n")[SLUID] == 12


def stand_in(folder: Path, script: str) -> Settings:
    path = folder / "squeue"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Settings(bin_dir=str(folder))


def test_a_stand_in_for_squeue_is_asked_for_this_node(tmp_path: Path) -> None:
    settings = stand_in(tmp_path, f'echo "$@" > {tmp_path}/asked; echo "12|{SLUID}|"')
    assert asyncio.run(squeue.Squeue(settings, "n7")([SLUID])) == {SLUID: 12}
    words = (tmp_path / "asked").read_text().split()
    assert words[-1] == "--nodelist=n7"
    assert "--Format=JobID:|,Sluid:|" in words


@pytest.mark.parametrize(
    "script", ["exit 1", "echo 'Invalid job format specification: Sluid' >&2; exit 1", "kill -9 $$"]
)
def test_a_stand_in_for_squeue_that_fails_tells_nothing(script: str, tmp_path: Path) -> None:
    assert asyncio.run(squeue.Squeue(stand_in(tmp_path, script), "n7")([SLUID])) == {}


def test_no_squeue_at_all_tells_nothing(tmp_path: Path) -> None:
    assert asyncio.run(squeue.Squeue(Settings(bin_dir=str(tmp_path)), "n7")([SLUID])) == {}
