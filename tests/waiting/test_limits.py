# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which limit, how much of it is used and by whom, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from lives import job
from waiting.snapshots import NOW, account, limit, partition, snapshot

from slurmscope.model import Job, Limit
from slurmscope.waiting.case import Fact
from slurmscope.waiting.explanation import explain

GIB = 1 << 30


def facts(one: Job, *limits: Limit, **parts: Any) -> list[Fact]:
    return list(explain(one, snapshot(limits=limits, **parts), None, NOW).facts)


def values(found: list[Fact], name: str = "limit") -> dict[str, Any]:
    return next(fact.values for fact in found if fact.name == name)


@pytest.mark.parametrize(
    ("reason", "given", "fields", "needs"),
    [
        ("AssocGrpCpuLimit", limit("GrpTRES", 6, 4, tres="cpu"), {}, 4),
        ("AssocGrpMemLimit", limit("GrpTRES", 10 * GIB, 4 * GIB, tres="mem"), {}, 8 * GIB),
        ("AssocGrpNodeLimit", limit("GrpTRES", 2, 2, tres="node"), {}, 1),
        ("AssocGrpGRES", limit("GrpTRES", 2, 1, tres="gres/gpu"), {"gpus": {"a100": 2}}, 2),
        ("AssocGrpGRES", limit("GrpTRES", 2, 1, tres="gres/gpu:a100"), {"gpus": {"a100": 2, "h200": 1}}, 2),
        ("AssocGrpLicense", limit("GrpTRES", 2, 1, tres="license/matlab"), {"licenses": "matlab:3"}, 3),
        ("AssocGrpCPURunMinutesLimit", limit("GrpTRESRunMins", 6, 4, tres="cpu"), {}, 4 * 3600),
        ("AssocGrpCPUMinutesLimit", limit("GrpTRESMins", 6, 4, tres="cpu"), {}, 4 * 3600),
        ("AssocMaxJobsLimit", limit("MaxJobs", 2, 2, user="alice"), {}, 1),
        ("AssocMaxCpuPerJobLimit", limit("MaxTRESPJ", 3, None, tres="cpu"), {}, 4),
        ("AssocMaxMemPerNode", limit("MaxTRESPN", 3 * GIB, None, tres="mem"), {"nodes": 2}, 4 * GIB),
        ("AssocMaxWallDurationPerJobLimit", limit("MaxWallPJ", 600, None), {}, 3600),
        ("AssocGrpJobsLimit", limit("GrpJobs", 1, 1), {}, 1),
        ("QOSGrpCpuLimit", limit("GrpTRES", 6, 4, tres="cpu", qos="normal"), {}, 4),
        ("QOSMaxCpuPerUserLimit", limit("MaxTRESPU", 6, 4, tres="cpu", qos="normal", user="alice"), {}, 4),
        (
            "QOSMaxGRESPerUser",
            limit("MaxTRESPU", 1, 1, tres="gres/gpu", qos="normal", user="alice"),
            {"gpus": {"": 1}},
            1,
        ),
        ("MaxCpuPerAccount", limit("MaxTRESPA", 6, 4, tres="cpu", qos="normal", account="physics"), {}, 4),
        ("QOSMaxJobsPerUserLimit", limit("MaxJobsPU", 1, 1, qos="normal", user="alice"), {}, 1),
        ("QOSMaxWallDurationPerJobLimit", limit("MaxWallPJ", 60, None, qos="normal"), {}, 3600),
    ],
)
def test_what_a_job_needs_of_each_kind(reason: str, given: Limit, fields: dict[str, Any], needs: float) -> None:
    found = values(facts(job(1, reason=reason, **fields), given))
    assert (found["limit"], found["used"], found["needs"]) == (given.limit, given.used, needs)
    assert found["missing"] == (given.used or 0) + needs - given.limit > 0


def test_whose_jobs_count() -> None:
    running = (
        job(2, "RUNNING", user="bob", cpus=6),
        job(3, "RUNNING", user="carol", cpus=1),
        job(4, "RUNNING", user="bob", cpus=1, account="child"),
        job(5, "RUNNING", user="eve", cpus=99, account="other"),
        job(6, user="mallory"),
    )
    shares = (account("physics", "root"), account("child", "physics"), account("other", "root"))
    given = limit("GrpTRES", 8, 8, tres="cpu")
    found = facts(job(1, reason="AssocGrpCpuLimit"), given, jobs=running, shares=shares)
    assert values(found, "held by")["users"] == {"bob": 7, "carol": 1}
    assert next(fact.text for fact in found if fact.name == "held by") == "bob 7 CPUs, carol 1 CPU (3 jobs running)"


def test_a_limit_of_an_account_above() -> None:
    shares = (account("physics", "science"), account("science", "root"))
    given = limit("GrpTRES", 8, 8, tres="cpu", account="science")
    assert values(facts(job(1, reason="AssocGrpCpuLimit"), given, shares=shares))["account"] == "science"
    hidden = facts(job(1, reason="AssocGrpCpuLimit"), given, shares=None)
    assert "among those that were read" in hidden[0].text


def test_only_the_one_that_leaves_no_room_is_told() -> None:
    tight, wide = limit("GrpTRES", 8, 8, tres="cpu"), limit("GrpTRES", 1000, 8, tres="cpu", account="root")
    found = facts(job(1, reason="AssocGrpCpuLimit"), wide, tight, shares=(account("physics", "root"),))
    assert [fact.values["account"] for fact in found if fact.name == "limit"] == ["physics"]


def test_where_there_is_room_by_now_it_says_so() -> None:
    found = facts(job(1, reason="AssocGrpCpuLimit"), limit("GrpTRES", 100, 8, tres="cpu"))
    assert "there would be room now" in found[0].text


def test_one_that_asks_for_more_than_the_limit_can_never_start() -> None:
    told = explain(job(1, reason="AssocGrpCpuLimit"), snapshot(limits=(limit("GrpTRES", 3, 0, tres="cpu"),)), None, NOW)
    assert told.never
    assert "it alone asks for more than the limit" in " ".join(fact.text for fact in told.facts)


def test_the_qos_of_a_partition_holds_for_its_jobs() -> None:
    given = limit("GrpTRES", 6, 4, tres="cpu", qos="night")
    parts = {"partitions": (partition(qos="night"),), "jobs": (job(2, "RUNNING", user="bob"),)}
    found = facts(job(1, reason="QOSGrpCpuLimit"), given, **parts)
    assert values(found)["qos"] == "night"
    assert values(found, "held by")["users"] == {"bob": 4}


def test_a_qos_tells_the_limit_of_a_user_with_those_who_used_it() -> None:
    given = limit("MaxTRESPU", 2, 1, tres="cpu", qos="normal", user="bob")
    found = facts(job(1, reason="QOSMaxCpuPerUserLimit"), given)
    assert values(found)["limit"] == 2 and values(found)["missing"] is None


def test_limits_of_others_are_not_told() -> None:
    others = (
        limit("GrpTRES", 1, 1, tres="cpu", account="bio"),
        limit("GrpTRES", 1, 1, tres="cpu", user="bob"),
        limit("GrpTRES", 1, 1, tres="cpu", partition="gpu"),
        limit("GrpTRES", 1, 1, tres="mem"),
        limit("GrpTRES", 1, 1, tres="cpu", qos="normal"),
    )
    found = facts(job(1, reason="AssocGrpCpuLimit"), *others)
    assert (
        found[0].text == "no limit GrpTRES of cpu for this job is among those that were read: it may be new, or hidden"
    )


def test_what_is_not_counted_by_the_queue_is_not_guessed() -> None:
    found = facts(job(1, reason="AssocGrpBilling"), limit("GrpTRES", 10, 9, tres="billing"))
    assert values(found)["needs"] is None and values(found)["missing"] is None
    assert "how much this job needs of it is not told" in found[0].text
    typed = facts(job(1, reason="AssocGrpGRES", gpus={"": 2}), limit("GrpTRES", 2, 1, tres="gres/gpu:a100"))
    assert values(typed)["needs"] is None


def test_where_slurm_does_not_say_which_all_that_are_full_are_told() -> None:
    full, free = limit("GrpTRES", 4, 4, tres="cpu"), limit("GrpJobs", 100, 1)
    found = facts(job(1, reason="AccountingPolicy"), full, free)
    assert [fact.values["name"] for fact in found if fact.name == "limit"] == ["GrpTRES"]


def test_at_least_is_not_read() -> None:
    assert "sacctmgr show qos normal" in facts(job(1, reason="QOSMinGRES"))[0].text


def test_jobs_in_the_queue_count_against_a_limit_on_submission() -> None:
    queue = (job(2, "RUNNING"), job(3, tasks=9), job(4, user="bob", account="bio"))
    found = facts(job(1, reason="AssocMaxSubmitJobLimit"), limit("MaxSubmitJobs", 10, 10, user="alice"), jobs=queue)
    assert values(found, "held by")["users"] == {"alice": 10}
