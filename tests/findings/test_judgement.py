# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What all rules together say of a job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from findings import cases
from findings.anything import LIVES, SEEN, SUMMARIES, any_case
from findings.cases import RAN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmscope.findings.case import Case
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.judgement import judge
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import BAD, NOTE, Exempt, Finding, Fine, NoData
from slurmscope.life import Life
from slurmscope.settings import RuleSetting

# These judge by what was asked for, by states and by times: they need nobody who measured.
BY_STATE = {
    "cores_per_gpu",
    "cpu_fragments",
    "failing_again",
    "gpu_fragments",
    "memory_per_gpu",
    "near_timeout",
    "node_failure",
    "out_of_memory",
    "requeue_loop",
    "short_jobs",
    "time_request",
    "timeout",
}

SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])


@SLOW
@given(any_case(LIVES, st.none() | SUMMARIES, lined=True))
def test_whatever_is_told_of_a_job_it_can_be_judged(case: Case) -> None:
    for rule in catalogue().values():
        outcome = rule.ask(case, rule.defaults)
        assert isinstance(outcome, Finding | Fine | Exempt | NoData)
        if isinstance(outcome, Finding):
            assert outcome.rule == rule.name and outcome.severity in (BAD, NOTE)
            assert outcome.headline and not outcome.headline.endswith(".")
            assert min(outcome.waste.cpu_seconds, outcome.waste.gpu_seconds, outcome.waste.memory_byte_seconds) >= 0
            assert all(change.before != change.after for change in outcome.changes)
    assert set(judge(case, Policy()).outcomes) == set(catalogue())


@SLOW
@given(any_case(SEEN, st.none(), lined=False))
def test_where_nobody_measured_only_states_times_and_requests_are_judged(case: Case) -> None:
    fired = {name for name, one in judge(case, Policy()).outcomes.items() if isinstance(one, Finding)}
    assert fired <= BY_STATE


@SLOW
@given(any_case(LIVES, st.none() | SUMMARIES, lined=True))
def test_what_is_hidden_is_not_told_and_the_worst_comes_first(case: Case) -> None:
    found = judge(case, Policy())
    fired = {name for name, one in found.outcomes.items() if isinstance(one, Finding)}
    beside = {name: one.beside for name, one in found.outcomes.items() if isinstance(one, Finding)}
    hidden = {name for rule in fired for name in catalogue()[rule].hides if name not in beside[rule]}
    assert {one.rule for one in found.findings} == fired - hidden
    assert [one.severity for one in found.findings] == sorted(one.severity for one in found.findings)
    assert bool(fired) == bool(found.findings)
    bad = {name for name in fired if isinstance(one := found.outcomes[name], Finding) and one.severity == BAD}
    assert bool(bad) == any(one.severity == BAD for one in found.findings), "nothing bad is hidden by a note"


@pytest.mark.parametrize("name", catalogue())
def test_a_rule_hides_rules_that_there_are_and_that_do_not_hide_it(name: str) -> None:
    hides = catalogue()[name].hides
    assert set(hides) <= set(catalogue()) - {name}
    assert list(hides) == sorted(hides)
    assert [one for one in hides if name in catalogue()[one].hides] == []


def test_a_job_that_does_all_right_has_no_finding() -> None:
    assert cases.told(cases.of(cases.life(), cases.summary())) == []
    assert cases.told(cases.of(cases.life("RUNNING"), cases.summary(), moments=cases.line())) == []


def test_what_is_not_known_is_told_once() -> None:
    found = judge(cases.of(cases.life("RUNNING")), Policy())
    assert "the CPU time that it used" in found.unknown
    assert len(found.unknown) == len(set(found.unknown))


class Unreadable(cases.Past):
    def attempts(self, life: Life) -> Sequence[Life]:
        raise ValueError("what is kept of it cannot be read")


def test_one_rule_that_cannot_judge_does_not_cost_the_others(caplog: pytest.LogCaptureFixture) -> None:
    case = cases.of(cases.life("FAILED", told={"cpu_seconds": 0.1 * 4 * RAN}), past=Unreadable())
    found = judge(case, Policy())
    assert found.outcomes["requeue_loop"] == NoData("what the rule needs")
    assert [one.rule for one in found.findings] == ["low_cpu"]
    assert "a rule could not judge a job" in caplog.text


def test_a_list_of_nodes_that_is_none_costs_no_verdict_about_the_rest() -> None:
    case = cases.of(cases.life(node_list="n[1-", told={"cpu_seconds": 0.1 * 4 * RAN}))
    assert cases.told(case) == ["low_cpu"]


def test_a_rule_that_is_turned_off_hides_nothing() -> None:
    case = cases.of(cases.life(told={"cpu_seconds": 1.0 * RAN}))
    assert cases.told(case) == ["serial"]
    off = Policy([RuleSetting(rule="serial", enabled=False)])
    assert [one.rule for one in judge(case, off).findings] == ["low_cpu"]
