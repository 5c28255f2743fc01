# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits for which limit, counted in tasks."""

from __future__ import annotations

import pytest
from lives import job
from waiting.snapshots import account, limit, simulated, snapshot

from slurmscope.model import Limit
from slurmscope.waiting.blocked import blocked, by_limit, full, short
from slurmscope.waiting.reasons import parse, reason_of

GPUS = limit("GrpTRES", 64, 64, tres="gres/gpu", account="bio")
CPUS = limit("GrpTRES", 100, 100, tres="cpu", account="science")
OWN = limit("MaxTRESPU", 8, 8, tres="cpu", qos="normal", user="bob")
SHARES = (account("science", "root"), account("bio", "science"), account("physics", "science"))


def test_by_limit_and_in_tasks() -> None:
    jobs = (
        job(1, reason="AssocGrpGRES", account="bio", user="ann", gpus={"a100": 1}, tasks=90),
        job(2, reason="AssocGrpGRES", account="bio", user="bob", gpus={"": 1}),
        job(3, reason="AssocGrpCpuLimit", account="bio", user="bob"),
        job(4, reason="AssocGrpCpuLimit", account="physics", user="eve", tasks=2),
        job(5, reason="QOSMaxCpuPerUserLimit", account="physics", user="bob"),
        job(6, reason="AccountingPolicy", user="ann"),
        job(7, reason="Priority", user="ann"),
        job(8, "RUNNING", reason="AssocGrpGRES"),
    )
    found = blocked(snapshot(jobs=jobs, limits=(GPUS, CPUS, OWN), shares=SHARES))
    assert [(one.limit, one.tasks) for one in found] == [(GPUS, 91), (CPUS, 3), (None, 1), (OWN, 1)]
    assert found[0].users == {"ann": 90, "bob": 1} and found[0].accounts == {"bio": 91}
    assert found[1].accounts == {"physics": 2, "bio": 1}
    assert found[2].words == found[2].reason == "AccountingPolicy"
    assert found[0].words == "GrpTRES gres/gpu of the account bio: 64 GPUs"


def test_only_what_a_reader_sees_is_counted() -> None:
    jobs = tuple(job(id_, reason="AssocGrpJobsLimit", user=user) for id_, user in enumerate(("ann", "bob", "bob")))
    found = blocked(snapshot(jobs=jobs), lambda one: one.user == "ann")
    assert [(one.limit, one.waiting) for one in found] == [(None, {("ann", "physics"): 1})]
    assert blocked(snapshot(jobs=None)) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (GPUS, "GrpTRES gres/gpu=64"),
        (limit("GrpTRES", 4608, 0, tres="cpu"), "GrpTRES cpu=4,608"),
        (limit("GrpTRES", 1 << 40, 0, tres="mem"), "GrpTRES mem=1 TiB"),
        (limit("MaxJobs", 1, 0), "MaxJobs=1"),
        (limit("MaxWallPJ", 3600, None), "MaxWallPJ=1 h 0 min"),
    ],
)
def test_short(given: Limit, words: str) -> None:
    assert short(given) == words


def test_how_full() -> None:
    assert [full(one) for one in (GPUS, limit("MaxJobs", 4, 1), limit("MaxWallPJ", 60, None))] == [1.0, 0.25, 0.0]
    assert full(limit("GrpJobs", 0, 0)) == float("inf")


def test_all_of_a_simulated_queue_that_waits_for_a_limit_is_there() -> None:
    found = simulated(1_767_700_000)
    jobs = found.jobs.value or ()
    waiting = [one for one in jobs if one.waiting and by_limit(reason_of(parse(one.reason)))]
    assert waiting and sum(one.tasks for one in blocked(found)) == sum(one.tasks for one in waiting)
    assert all(one.limit is not None for one in blocked(found))
