# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The lab is what it says it is."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest
from lab.cluster import Lab


def test_generation(lab: Lab) -> None:
    assert lab.run("sinfo", "--version").stdout.decode().startswith(f"slurm-wlm {lab.generation}.")
    config = lab.run("scontrol", "show", "config").stdout.decode().splitlines()
    settings = {k.strip(): v.strip() for k, _, v in (line.partition("=") for line in config)}
    assert settings["ClusterName"] == lab.cluster
    assert settings["SlurmctldPort"] == str(lab.port)
    assert settings["SLURM_VERSION"].startswith(f"{lab.generation}.")


def test_jobs_in_the_queue(lab: Lab) -> None:
    # Job names may hold the separator, so they come last.
    lines = lab.run("squeue", "-h", "-r", "-o", "%T|%j").stdout.decode().splitlines()
    count = Counter(tuple(line.split("|", 1)) for line in lines)
    assert count == {
        ("RUNNING", "train"): 1,
        ("RUNNING", "vit | large"): 1,
        ("RUNNING", "typeless"): 1,
        ("RUNNING", "urgent"): 1,
        ("RUNNING", "licensed"): 1,
        ("RUNNING", "reserved"): 1,
        ("RUNNING", "étude π=3"): 1,
        ("RUNNING", "sweep"): 2,
        ("RUNNING", "het"): 2,
        ("SUSPENDED", "paused"): 1,
        ("PENDING", "sweep"): 2,
        ("PENDING", "held"): 1,
        ("PENDING", "later"): 1,
        ("PENDING", "after"): 1,
        ("PENDING", "never"): 1,
        ("PENDING", "more-licences"): 1,
        ("PENDING", "more-gpus"): 1,
        ("PENDING", "wide"): 1,
        ("PENDING", "through-maint"): 1,
        ("PENDING", "wants-drained"): 1,
        ("PENDING", "either"): 1,
        # It has 429 tasks: -r leaves out the last one of a pending array that is written with a step (1-2997:7).
        ("PENDING", "sea"): 428,
    }


def test_jobs_that_ended(lab: Lab) -> None:
    argv = ["sacct", "-a", "-n", "-X", "-P", "-S", "now-1hours", "-s", "F,CA,CD", "-E", "now", "-o", "jobname,state"]
    ended = {tuple(line.split("|")) for line in lab.run(*argv).stdout.decode().splitlines()}
    assert ("fails", "FAILED") in ended
    assert ("sweep", "COMPLETED") in ended
    # "by 64103" is gone after a restart of slurmctld
    assert any(row[0] == "cut-short" and row[1].startswith("CANCELLED") for row in ended)


def test_limits_hold_jobs_back(lab: Lab) -> None:
    lines = lab.run("squeue", "-h", "-t", "PD", "-n", "more-gpus,wide", "-o", "%j %r").stdout.decode().splitlines()
    assert sorted(lines) == ["more-gpus QOSGrpGRES", "wide AssocGrpCpuLimit"]


def test_drained_node(lab: Lab) -> None:
    assert lab.run("sinfo", "-h", "-p", "main", "-n", "n3", "-o", "%T|%E").stdout == b"drained|bad dimm | slot 3\n"


def test_reservations(lab: Lab) -> None:
    text = lab.run("scontrol", "--oneliner", "show", "reservation").stdout.decode()
    state = {}
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        state[words["ReservationName"]] = words["Nodes"], words["State"]
    assert state == {"alice1": ("n2", "ACTIVE"), "maint1": ("n4", "INACTIVE")}


def test_wrappers_pass_the_time_format_through(lab: Lab) -> None:
    # nothing else in the environment: the wrappers must not need a PATH
    argv = [str(lab.bin / "squeue"), "-h", "-n", "train", "-o", "%S"]
    out = subprocess.run(argv, env={"SLURM_TIME_FORMAT": "%s"}, capture_output=True, check=True).stdout
    assert out.strip().isdigit()


def test_user_with_a_dot(lab: Lab) -> None:
    assert lab.run("id", "-un", user="dana.o-neil").stdout == b"dana.o-neil\n"
    assert lab.run("squeue", "-h", "--me", "-o", "%u %a", user="dana.o-neil").stdout == b"dana.o-neil bio\n"


def test_a_new_job_runs_soon(lab: Lab) -> None:
    job = lab.run("sbatch", "--parsable", "-o/dev/null", "--mem=100", "-t1", user="carol", input=b"#!/bin/sh\n")
    number = job.stdout.decode().strip()
    lab.wait_for(lambda: lab.run("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").stdout == b"COMPLETED\n")


def test_native_metrics(lab: Lab) -> None:
    if lab.generation != "26.05":
        pytest.skip("slurmctld serves metrics of its own only in 26.05")
    assert "\nslurm_jobs_running " in lab.native("jobs")
    with pytest.raises(RuntimeError):
        lab.native("nonesuch")


def test_frozen_controller(lab: Lab) -> None:
    lab.ctld("stop")
    try:
        squeue = subprocess.Popen([lab.bin / "squeue"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with squeue, pytest.raises(subprocess.TimeoutExpired):
            try:
                squeue.communicate(timeout=1)
            finally:
                # the wrapper is squeue by now: the signal ends it, and nothing is left behind to hold the pipe
                squeue.terminate()
        assert squeue.returncode == -15
    finally:
        lab.ctld("cont")
    assert subprocess.run([lab.bin / "squeue"], capture_output=True, check=False).returncode == 0


def test_killed_controller(lab: Lab) -> None:
    before = lab.run("squeue", "-h", "-r", "-o", "%i %T").stdout
    lab.ctld("kill")
    try:
        assert b"is DOWN" in lab.run("scontrol", "ping", check=False).stdout
    finally:
        lab.ctld("start")
    assert sorted(lab.run("squeue", "-h", "-r", "-o", "%i %T").stdout.split(b"\n")) == sorted(before.split(b"\n"))
