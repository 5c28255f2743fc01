# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Real jobs that wait, each for a reason of its own, are explained with what is behind it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from lab.cluster import Lab
from lab.page import run_slurmscope

Facts = dict[str, list[dict[str, Any]]]


def why(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return run_slurmscope(lab.bin, "why", *arguments, SLURMSCOPE_STORE_URL="none")


def explained(lab: Lab, job: str) -> dict[str, Any]:
    done = why(lab, job, "--json")
    assert done.returncode == 0, done.stderr.decode()
    answers = json.loads(done.stdout)
    found: dict[str, Any] = next(one["explanation"] for one in answers if one["explanation"])
    return found


def facts(explanation: dict[str, Any]) -> Facts:
    found: Facts = {}
    for fact in explanation["facts"]:
        found.setdefault(fact["name"], []).append(fact["values"] | {"text": fact["text"]})
    return found


def number(lab: Lab, name: str) -> str:
    """Of a job of the lab's own; of an array, the array's."""
    ids = lab.run("squeue", "-h", "-t", "pending", "-n", name, "-o", "%F").stdout.decode().split()
    return ids[0]


def reason(lab: Lab, job: str) -> str:
    return lab.run("squeue", "-h", "-j", job, "-o", "%r").stdout.decode().strip()


def submit(lab: Lab, user: str, *arguments: str) -> str:
    argv = ("sbatch", "--parsable", "-o/dev/null", "--mem=100", *arguments, "--wrap", "sleep 3600")
    return lab.run(*argv, user=user).stdout.decode().strip().partition(";")[0]


@contextmanager
def waiting(lab: Lab, user: str, for_: str, *arguments: str) -> Iterator[str]:
    """A job that waits for a reason; it is gone afterwards."""
    job = submit(lab, user, *arguments)
    try:
        lab.wait_for(lambda: reason(lab, job).startswith(for_))
        yield job
    finally:
        gone(lab, job)


def gone(lab: Lab, *jobs: str) -> None:
    lab.run("scancel", *jobs)
    lab.wait_for(lambda: not lab.run("squeue", "-h", "-j", ",".join(jobs), check=False).stdout.strip())


@contextmanager
def changed(lab: Lab, there: list[str], back: list[str]) -> Iterator[None]:
    lab.run(*there)
    try:
        yield
    finally:
        lab.run(*back)


# --- those of the lab's own jobs --------------------------------------------------------------------------------------


def _limit(account: str, used: int, needs: int) -> Callable[[Facts], bool]:
    def so(found: Facts) -> bool:
        limit = found["limit"][0]
        whose = limit["account"] or limit["qos"]
        return (whose, limit["used"], limit["needs"]) == (account, used, needs) and limit["missing"] > 0

    return so


@pytest.mark.parametrize(
    ("name", "reason_", "so"),
    [
        ("held", "JobHeldUser", lambda found: "limit" not in found),
        ("later", "BeginTime", lambda found: found["begins"][0]["time"] > time.time() + 3600),
        ("after", "Dependency", lambda found: found["dependency"][0]["states"] == {"RUNNING": 1}),
        ("never", "DependencyNeverSatisfied", lambda found: found["dependency"][0]["condition"] == "failed"),
        (
            "more-licences",
            "Licenses",
            lambda found: (
                [found["licence"][0][key] for key in ("total", "used", "needs", "missing")] == [10, 3, 9, 2]
                and found["held by"][0]["users"] == {"alice": 3}
            ),
        ),
        ("more-gpus", "QOSGrpGRES", _limit("high", 4, 5)),
        ("more-gpus", "QOSGrpGRES", lambda found: found["held by"][0]["users"] == {"bob": 4}),
        ("wide", "AssocGrpCpuLimit", lambda found: set(found["held by"][0]["users"]) == {"alice", "bob"}),
        (
            "sweep",
            "JobArrayTaskLimit",
            lambda found: (found["array"][0]["running"], found["array"][0]["limit"]) == (2, 2),
        ),
        ("wants-drained", "ReqNodeNotAvail", lambda found: ["n3"] in [one["nodes"] for one in found["nodes"]]),
        ("wants-drained", "ReqNodeNotAvail", lambda found: found["nodes"][0]["reason"] == "bad dimm | slot 3"),
        ("through-maint", "ReqNodeNotAvail", lambda found: found["shorter"][0]["reservation"] == "maint1"),
    ],
)
def test_the_labs_own_jobs(lab: Lab, name: str, reason_: str, so: Callable[[Facts], bool]) -> None:
    found = explained(lab, number(lab, name))
    assert found["name"] == reason_
    assert so(facts(found)), found


def test_what_an_account_uses_is_what_its_jobs_hold(lab: Lab) -> None:
    found = facts(explained(lab, number(lab, "wide")))
    limit = found["limit"][0]
    assert (limit["account"], limit["limit"], limit["needs"]) == ("physics", 64, 64)
    assert limit["used"] == sum(found["held by"][0]["users"].values())
    assert limit["missing"] == limit["used"]


# --- those that are made here -----------------------------------------------------------------------------------------


def test_held_by_an_administrator(lab: Lab) -> None:
    with waiting(lab, "carol", "JobHeldUser", "-H", "-t1") as job:
        lab.run("scontrol", "release", job)
        lab.run("scontrol", "hold", job)
        lab.wait_for(lambda: reason(lab, job) == "JobHeldAdmin")
        found = explained(lab, job)
        assert (found["name"], found["decides"]) == ("JobHeldAdmin", "the administrator")


def test_too_many_jobs_of_an_account(lab: Lab) -> None:
    def counted(limit: str) -> list[str]:
        return ["sacctmgr", "-i", "modify", "account", "bio", "set", f"GrpJobs={limit}"]

    with changed(lab, counted("1"), counted("-1")), waiting(lab, "carol", "AssocGrpJobsLimit", "-t1") as job:
        found = facts(explained(lab, job))
        limit, held = found["limit"][0], found["held by"][0]["users"]
        assert (limit["name"], limit["account"], limit["limit"], limit["needs"]) == ("GrpJobs", "bio", 1, 1)
        assert limit["used"] == sum(held.values()) == limit["missing"]
        assert set(held) == {"carol", "dana.o-neil"}


def test_too_many_cpus_of_a_user_in_a_qos(lab: Lab) -> None:
    with waiting(lab, "bob", "QOSMaxCpuPerUserLimit", "-p", "gpu", "--qos=high", "-n41", "-t1") as job:
        explanation = explained(lab, job)
        limit = facts(explanation)["limit"][0]
        assert (limit["qos"], limit["user"], limit["limit"], limit["needs"]) == ("high", "bob", 40, 41)
        assert explanation["never"]


def test_resources_and_priority(lab: Lab) -> None:
    """One that waits for the whole of a partition, and one that comes after it."""
    whole = ["-p", "gpu", "-N2", "--exclusive", "-t", "60"]
    with waiting(lab, "dana.o-neil", "Resources", *whole) as first:
        found = facts(explained(lab, first))
        assert found["asks for"][0]["nodes"] == 2
        assert found["free now"][0]["of"] == 2 and found["free now"][0]["nodes"] <= 2
        with waiting(lab, "dana.o-neil", "Priority", *whole, "--nice=10000") as second:
            explanation = explained(lab, second)
            ahead = facts(explanation)["ahead"][0]
            assert ahead["tasks"] >= 1 and ahead["users"]["dana.o-neil"] == 1
            assert explanation["estimate"]["words"][0].startswith("slurmctld ")


def test_a_reservation_that_has_not_begun(lab: Lab) -> None:
    create = ["scontrol", "create", "reservation=soon", "starttime=now+1day", "duration=60", "users=carol", "nodes=g2"]
    create.append("flags=ignore_jobs")
    delete = ["scontrol", "delete", "reservation=soon"]
    with (
        changed(lab, create, delete),
        waiting(lab, "carol", "Reservation", "--reservation=soon", "-p", "gpu", "-t1") as job,
    ):
        found = facts(explained(lab, job))["reservation"][0]
        assert (found["reservation"], found["nodes"]) == ("soon", ["g2"])
        assert found["start"] > time.time()


def test_a_partition_that_is_down(lab: Lab) -> None:
    down = ["scontrol", "update", "PartitionName=gpu", "State=DOWN"]
    with (
        changed(lab, down, [*down[:-1], "State=UP"]),
        waiting(lab, "carol", "PartitionDown", "-p", "gpu", "-t1") as job,
    ):
        found = facts(explained(lab, job))["partition"][0]
        assert (found["partition"], found["state"]) == ("gpu", "DOWN")


def test_longer_than_the_partition_allows(lab: Lab) -> None:
    with waiting(lab, "carol", "PartitionTimeLimit", "-p", "gpu", "-t", "8-0") as job:
        explanation = explained(lab, job)
        assert explanation["never"]
        found = facts(explanation)
        assert "jobs in gpu may run for 7 d 0 h" in found["never"][0]["text"]
        assert found["partition"][0]["max_time"] == 7 * 86400


# --- what is not explained --------------------------------------------------------------------------------------------


def test_a_job_that_runs_and_one_that_is_not_there(lab: Lab) -> None:
    train = lab.run("squeue", "-h", "-n", "train", "-o", "%i").stdout.decode().strip()
    runs = why(lab, train)
    assert runs.returncode == 0
    assert b"does not wait: it is RUNNING since" in runs.stdout and runs.stdout.count(b"\n") == 1
    unknown = why(lab, "4000000")
    assert unknown.returncode == 1
    assert b"slurmscope job 4000000" in unknown.stderr


def test_all_that_waits(lab: Lab) -> None:
    done = why(lab, "--all", "--json")
    groups = {one["reason"]: one for one in json.loads(done.stdout)}
    assert groups["JobHeldUser"]["tasks"] == 430
    assert groups["JobHeldUser"]["users"] == {"bob": 429, "alice": 1}
    table = why(lab, "--user", "alice").stdout.decode()
    assert "AssocGrpCpuLimit" in table and "JobArrayTaskLimit" not in table
