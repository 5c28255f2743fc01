# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What all rules together say of a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from slurmscope.findings.case import Case
from slurmscope.findings.cost import Cost
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import BAD, Finding, NoData, Outcome, Waste
from slurmscope.logs import fields

log = logging.getLogger(__name__)

GPU_CORES = 24  # that a GPU-hour weighs as much as, when wastes are compared


class Judgement(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]  # the worst first
    outcomes: dict[str, Outcome]  # of every rule that was asked, by name; those that are hidden among them

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known of the job, and kept rules from a verdict."""
        return tuple(dict.fromkeys(one.missing for one in self.outcomes.values() if isinstance(one, NoData)))


def judge(case: Case, policy: Policy) -> Judgement:
    outcomes: dict[str, Outcome] = {}
    hides: dict[str, set[str]] = {}
    for rule, limits in policy.rules(case.life.cluster, case.life.partition):
        try:
            outcome = rule.ask(case, limits)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            # what is told of a job may be anything, and one rule must not cost the others
            log.exception("a rule could not judge a job", extra=fields(rule=rule.name, job=case.life.id))
            outcome = NoData("what the rule needs")
        outcomes[rule.name] = outcome
        if isinstance(outcome, Finding):
            hides[rule.name] = set(rule.hides) - set(outcome.beside)
    hidden = set().union(*hides.values())
    found = {
        name: replace(one, severity=_severity(one, hides, outcomes))
        for name, one in outcomes.items()
        if isinstance(one, Finding) and name not in hidden
    }
    return Judgement(tuple(sorted(found.values(), key=_rank)), outcomes | found)


def _severity(finding: Finding, hides: Mapping[str, set[str]], outcomes: Mapping[str, Outcome]) -> str:
    """The worst of what it is told in place of: that it is hidden makes nothing better."""
    seen: set[str] = set()
    names = {finding.rule}
    while names:
        seen |= names
        names = {hidden for name in names for hidden in hides.get(name, ())} - seen
    told = (one for name in seen if isinstance(one := outcomes.get(name), Finding))
    return BAD if any(one.severity == BAD for one in told) else finding.severity


def weight(wasted: Waste | Cost) -> float:
    """By which wastes are compared: core-seconds, and GPU-seconds as so many of them."""
    return wasted.cpu_seconds + GPU_CORES * wasted.gpu_seconds


def _rank(finding: Finding) -> tuple[bool, float, str]:
    return finding.severity != BAD, -weight(finding.waste + finding.lost), finding.rule
