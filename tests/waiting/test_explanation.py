# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of jobs that wait: recorded ones, simulated ones, and any."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lives import SUBMIT, job
from recorded import GENERATIONS, read, recorded_at
from waiting.slurm_reasons import GENERATIONS as REASONS
from waiting.snapshots import NOW, account, limit, node, partition, simulated, snapshot

from slurmscope.model import PARTS, Job, Part, Snapshot
from slurmscope.waiting.explanation import Explanation, explain
from slurmscope.waiting.record import Spread, StartRecord, Waits

ALL = sorted({name for names in REASONS.values() for name in names})
MONDAY = 1_767_571_200.0
RECORD = StartRecord(
    partitions=("main",),
    since=SUBMIT,
    read=5000,
    kept=9000,
    guesses=Spread(120, 600, -60, 7200),
    waits=Waits(300, 60, 3600, "2 to 4 CPUs and no GPU"),
)


def said(explanation: Explanation, name: str) -> str:
    return "; ".join(fact.text for fact in explanation.facts if fact.name == name)


# --- every job there is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_recorded_job_that_waits_is_explained(generation: str) -> None:
    found, _ = read(generation)
    waiting = [one for one in found.jobs.value or () if one.waiting]
    assert len(waiting) == 12
    for one in waiting:
        told = explain(one, found, None, recorded_at(generation))
        assert told.words and told.decides and told.actions and told.estimate.words
        assert "does not know" not in told.words
        msgspec.json.encode(told)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("absent", PARTS)
def test_without_a_part_it_is_explained_with_the_rest(generation: str, absent: str) -> None:
    found, _ = read(generation)
    without = found.replaced(**{absent: Part(error="slurmctld does not answer")})
    for one in found.jobs.value or ():
        if one.waiting:
            explain(one, without, None, recorded_at(generation))


def test_every_simulated_job_that_waits_is_explained() -> None:
    found = simulated(MONDAY + 14 * 3600)
    waiting = [one for one in found.jobs.value or () if one.waiting]
    assert len({one.reason for one in waiting}) >= 5
    for one in waiting:
        told = explain(one, found, RECORD, MONDAY + 14 * 3600)
        assert "does not know" not in told.words
        if told.decides.startswith("a limit"):
            values = next(fact.values for fact in told.facts if fact.name == "limit")
            assert values["limit"] is not None and values["used"] is not None


JOBS = st.builds(
    job,
    id_=st.integers(1, 99),
    state=st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "REQUEUED"]),
    reason=st.one_of(st.none(), st.sampled_from(ALL), st.text(max_size=20)),
    partition=st.sampled_from(["main", "gpu", "main,gpu", "gone", ""]),
    priority=st.one_of(st.none(), st.integers(0, 2**32)),
    tasks=st.integers(1, 1000),
    array_id=st.one_of(st.none(), st.integers(1, 99)),
    array_tasks=st.one_of(st.none(), st.text("0123456789-%:,.", max_size=10)),
    nodes=st.integers(0, 5),
    cpus=st.integers(0, 100),
    memory=st.one_of(st.none(), st.integers(0, 2**50)),
    gpus=st.dictionaries(st.sampled_from(["", "a100", "h200"]), st.integers(0, 9)),
    time_limit=st.one_of(st.none(), st.integers(0, 10**7)),
    start_time=st.one_of(st.none(), st.integers(0, 2**32)),
    end_time=st.one_of(st.none(), st.integers(0, 2**32)),
    eligible_time=st.one_of(st.none(), st.integers(0, 2**32)),
    node_list=st.sampled_from(["", "n1", "n[1-2]", "n[1-", "g1,n2"]),
    dependency=st.one_of(st.none(), st.text(max_size=20), st.just("afterok:1_*:2(unfulfilled)?singleton")),
    licenses=st.one_of(st.none(), st.text(max_size=20), st.just("matlab:3,x@y:1")),
    features=st.one_of(st.none(), st.text(max_size=10), st.just("ib&skylake")),
    reservation=st.one_of(st.none(), st.text(max_size=10)),
    restarts=st.one_of(st.none(), st.integers(0, 9)),
)


@settings(max_examples=200)
@given(JOBS, st.lists(JOBS, max_size=5))
def test_any_job_is_explained(one: Job, others: list[Job]) -> None:
    nodes = (node("n1"), node("n2", state="DOWN", reason="dead"), node("g1", partitions=("gpu",), gpus={"a100": 4}))
    limits = (limit("GrpTRES", 8, 8, tres="cpu"), limit("MaxTRESPU", 2, 1, tres="gres/gpu", qos="normal", user="alice"))
    known = snapshot(jobs=(one, *others), nodes=nodes, partitions=(partition(), partition("gpu")), limits=limits)
    told = explain(one, known, RECORD, NOW)
    assert told.words and told.actions and told.estimate.words
    msgspec.json.encode([told.job, told.actions, [fact.values for fact in told.facts]])


# --- what is said besides the facts -----------------------------------------------------------------------------------


def test_actions_name_the_job_in_a_way_that_a_shell_takes() -> None:
    held = explain(job(7, reason="JobHeldUser"), snapshot(), None, NOW)
    assert held.actions == ("release it: `scontrol release 7`",)
    task = explain(job(9, reason="JobHeldUser", array_id=7, array_tasks="3"), snapshot(), None, NOW)
    assert task.actions == ("release it: `scontrol release 7_3`",)
    hostile = explain(job(7, reason="InvalidAccount", user="a b; rm"), snapshot(), None, NOW)
    assert "user='a b; rm'" in hostile.actions[0]


def test_what_could_not_be_read_is_said() -> None:
    told = explain(job(1, reason="AssocGrpCpuLimit"), snapshot(limits=None), None, NOW)
    assert said(told, "limit") == ""
    assert said(told, "unknown") == "limits could not be read: it did not answer"


def test_what_is_old_is_said_with_its_age() -> None:
    told = explain(job(1), snapshot(), None, NOW + 1800)
    assert "what is said of nodes is 30 min 0 s old" in said(told, "old")


def test_a_reason_that_nobody_knows_is_shown_as_it_is() -> None:
    told = explain(job(1, reason="QuantumFlux(7)"), snapshot(), None, NOW)
    assert told.reason == told.name == "QuantumFlux(7)"
    assert "does not know" in told.words


# --- when -------------------------------------------------------------------------------------------------------------


def words(one: Job, known: Snapshot | None = None, record: StartRecord | None = RECORD) -> str:
    return "\n".join(explain(one, known or snapshot(), record, NOW).estimate.words)


def test_a_guess_comes_with_how_good_guesses_were() -> None:
    told = words(job(1, start_time=int(NOW) + 3600))
    assert "(in 1 h 0 min)" in told
    assert "10 min 0 s late in the middle, and 8 of 10 between 1 min 0 s early and 2 h 0 min late: 120 jobs" in told
    assert "waited 1 min 0 s in the middle, and 9 of 10 no longer than 1 h 0 min: 300 jobs" in told
    assert "of a sample of 5,000 of 9,000" in told
    assert "guess jobs started" not in words(job(1))


def test_of_too_few_jobs_it_says_so() -> None:
    few = msgspec.structs.replace(RECORD, guesses=None, waits=None)
    told = words(job(1, start_time=int(NOW) + 3600), record=few)
    assert "how good its guesses are is not known: fewer than 10 jobs" in told
    assert "what similar jobs waited is not known" in told


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "slurmctld has no guess"),
        ({"start_time": NOW - 5}, "which is past"),
        ({"start_time": NOW + 5, "tasks": 9}, "its first task starts"),
        ({"reason": "JobHeldUser"}, "none: that is up to the user"),
        ({"reason": "JobHeldAdmin", "start_time": NOW + 5}, "none: that is up to the administrator"),
        ({"reason": "BeginTime", "start_time": NOW + 5}, "none: it waits for a time"),
        ({"reason": "DependencyNeverSatisfied"}, "none: as it is, it does not start"),
        ({"reason": "Dependency"}, "none: that is up to the jobs that it depends on"),
    ],
)
def test_only_what_the_queue_decides_is_estimated(fields: dict[str, Any], expected: str) -> None:
    assert expected in words(job(1, **fields))


def test_the_tree_of_accounts_may_be_a_circle() -> None:
    shares = (account("physics", "root"), account("root", "physics"))
    known = snapshot(shares=shares, limits=(limit("GrpTRES", 1, 1, tres="cpu", account="root"),))
    assert "of the account root" in said(explain(job(1, reason="AssocGrpCpuLimit"), known, None, NOW), "limit")
