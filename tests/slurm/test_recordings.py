# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What real Slurms answered, read whole. Each recording is of the lab with its set of jobs."""

from __future__ import annotations

from collections import Counter

import pytest
from recorded import GENERATIONS, RECORDINGS, read, recorded_at

from slurmscope.model import PARTS, Limit
from slurmscope.slurm.commands import COMMANDS, JOB_COMMANDS
from slurmscope.slurm.probe import PYSLURM

pytestmark = pytest.mark.parametrize("generation", GENERATIONS)


def test_every_command_has_a_recording_of_every_generation(generation: str) -> None:
    assert GENERATIONS == ["22.05", "24.11", "26.05"]
    recordings = {command.recording for command in (*COMMANDS, *JOB_COMMANDS) if command.way != PYSLURM}
    if generation == "22.05":
        recordings.remove("rest-script.json")  # which its slurmrestd does not know
    assert {path.name for path in (RECORDINGS / generation).iterdir()} == recordings


def test_every_part_is_read_and_no_row_is_skipped(generation: str) -> None:
    snapshot, _ = read(generation)
    for part in PARTS:
        assert snapshot.part(part).good, (part, snapshot.part(part).error)
        assert snapshot.part(part).rows_skipped == 0
    assert snapshot.config.value is not None
    assert snapshot.config.value.version.startswith(generation)
    assert snapshot.cluster == f"lab{generation[:2]}"


def test_jobs(generation: str) -> None:
    snapshot, _ = read(generation)
    jobs = {job.name: job for job in snapshot.jobs.value or ()}
    states = Counter(job.state for job in snapshot.jobs.value or ())
    assert states["PENDING"] == 12 and states["RUNNING"] >= 10 and states["SUSPENDED"] == 1
    assert jobs["vit | large"].gpus == {"rtx8000": 2}
    assert sum(jobs["typeless"].gpus.values()) == 3
    assert jobs["sea"].tasks == len(range(1, 3001, 7))
    assert jobs["sea"].array_tasks == "1-2997:7%50"
    assert jobs["either"].partitions == ["main", "all"]
    assert jobs["held"].reason == "JobHeldUser"
    assert jobs["held"].eligible_time is None
    assert jobs["after"].dependency is not None
    assert jobs["étude π=3"].user == "dana.o-neil"
    assert jobs["licensed"].licenses == "matlab:3"
    assert jobs["urgent"].qos == "high"
    assert (jobs["fails"].state, jobs["fails"].exit_code) == ("FAILED", "3:0")
    het = [job for job in snapshot.jobs.value or () if job.name == "het"]
    assert len({job.id for job in het}) == 2
    for job in snapshot.jobs.value or ():
        assert job.submit_time is not None and abs(job.submit_time - recorded_at(generation)) < 3600


def test_nodes(generation: str) -> None:
    snapshot, _ = read(generation)
    nodes = {node.name: node for node in snapshot.nodes.value or ()}
    assert sorted(nodes) == ["g1", "g2", "n1", "n2", "n3", "n4"]
    n3 = nodes["n3"]
    assert (n3.state, n3.flags, n3.reason, n3.reason_user) == (
        "IDLE",
        frozenset({"DRAIN"}),
        "bad dimm | slot 3",
        "root",
    )
    assert n3.reason_time is not None
    assert (n3.cpus_idle, n3.cpus_other) == (0, 16)
    assert nodes["g1"].gpus == {"rtx8000": 8}
    assert "main" in nodes["n1"].partitions and "all" in nodes["n1"].partitions
    for node in nodes.values():
        assert node.cpus_allocated + node.cpus_idle + node.cpus_other == node.cpus
        assert node.memory_allocated + node.memory_idle + node.memory_other == node.memory
        for kind, uses in node.gpu_use().items():
            assert sum(uses.values()) == node.gpus[kind]
    running = [job for job in snapshot.jobs.value or () if job.holding and job.state != "SUSPENDED"]
    assert sum(node.cpus_allocated for node in nodes.values()) == sum(job.cpus for job in running)


def test_scheduler(generation: str) -> None:
    snapshot, _ = read(generation)
    found = snapshot.scheduler.value
    assert found is not None
    assert found.jobs["submitted"] > 440
    assert found.since <= found.time
    assert {rpc.name for rpc in found.rpc_users} >= {"root", "alice", "dana.o-neil"}
    assert {rpc.name for rpc in found.rpcs} >= {"REQUEST_SUBMIT_BATCH_JOB", "REQUEST_JOB_INFO"}
    assert all(rpc.calls > 0 and rpc.seconds >= 0 for rpc in found.rpcs)
    assert found.main.total > 0
    # sdiag tells why cycles ended since 23.02
    assert bool(found.main.exits) == (generation != "22.05")
    if found.main.exits:
        assert set(found.main.exits) >= {"End of job queue", "Blocked on licenses"}
        assert set(found.backfill.exits) >= {"End of job queue", "Timeout (bf_max_time)"}


def test_limits_with_usage(generation: str) -> None:
    snapshot, _ = read(generation)
    found = {(one.kind, one.account, one.user, one.qos, one.name, one.tres): one for one in snapshot.limits.value or ()}
    physics = found["association", "physics", None, None, "GrpTRES", "cpu"]
    assert physics.limit == 64 and physics.used is not None and 0 < physics.used <= 64
    minutes = found["association", "physics", "bob", None, "GrpTRESMins", "cpu"]
    assert minutes.limit == 100_000 * 60, "minutes become seconds"
    assert found["qos", None, None, "high", "GrpTRES", "gres/gpu"].limit == 8
    per_user: list[Limit] = [one for one in found.values() if one.qos == "high" and one.name == "MaxTRESPU"]
    assert per_user and {one.user for one in per_user} <= {"alice", "bob"}, "users are named, not numbered"
    assert all(one.limit == 40 and one.tres == "cpu" for one in per_user)


def test_shares_are_a_tree(generation: str) -> None:
    snapshot, _ = read(generation)
    shares = {(share.account, share.user): share for share in snapshot.shares.value or ()}
    assert shares["root", None].parent is None
    assert shares["physics", None].parent == "root"
    assert shares["physics", "alice"].parent == "physics"
    assert {share.depth for share in shares.values()} == {0, 1, 2}
    assert all(share.fair_share is not None for share in shares.values() if share.user)


def test_the_rest(generation: str) -> None:
    snapshot, _ = read(generation)
    assert {one.name for one in snapshot.partitions.value or ()} == {"main", "gpu", "all", "night"}
    reservations = {one.name: one for one in snapshot.reservations.value or ()}
    now = recorded_at(generation)
    assert sorted(name for name, one in reservations.items() if one.active(now)) != []
    assert sorted(name for name, one in reservations.items() if not one.active(now)) != []
    (matlab,) = snapshot.licenses.value or ()
    assert (matlab.name, matlab.total, matlab.used + matlab.free) == ("matlab", 10, 10)
    (controller,) = snapshot.controllers.value or ()
    assert (controller.role, controller.up) == ("primary", True)
    assert snapshot.accounting.value is not None
    assert snapshot.accounting.value.rpcs
