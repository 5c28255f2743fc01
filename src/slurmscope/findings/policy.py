# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which rules hold where, and with which thresholds: the rules' own, changed by `[[rules]]` of the settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.rule import Limits, Rule
from slurmscope.settings import RuleSetting

_Place = tuple[str, str]  # cluster and partition


class PolicyError(Exception):
    """`[[rules]]` that name what there is not, or set what cannot be: a problem a line."""


class Policy:
    def __init__(self, settings: Sequence[RuleSetting] = ()) -> None:
        """Raises PolicyError."""
        problems = [problem for one in settings for problem in _problems(one)]
        if problems:
            raise PolicyError("\n".join(problems))
        self._settings = settings
        self._known: dict[_Place, list[tuple[Rule, Limits]]] = {}

    def rules(self, cluster: str, partition: str) -> list[tuple[Rule, Limits]]:
        """Those that hold there, with their thresholds; by name. Of a job that waits in several, in the first one."""
        place = cluster, partition.partition(",")[0]
        if place not in self._known:
            self._known[place] = [
                (rule, limits) for rule in catalogue().values() if (limits := self._limits(rule, *place)) is not None
            ]
        return self._known[place]

    def _limits(self, rule: Rule, cluster: str, partition: str) -> Limits | None:
        """None: it is turned off there."""
        limits, enabled = rule.defaults, True
        for one in self._settings:
            if one.rule == rule.name and one.cluster in ("", cluster) and one.partition in ("", partition):
                limits |= one.thresholds
                enabled = enabled if one.enabled is None else one.enabled
        return limits if enabled else None


def _problems(one: RuleSetting) -> list[str]:
    rule = catalogue().get(one.rule)
    if rule is None:
        return [f"{one.place}: rule: expected the name of a rule, found {one.rule}{nearest(one.rule, catalogue())}"]
    known = {threshold.name: threshold for threshold in rule.thresholds}
    problems = []
    for name, value in one.thresholds.items():
        if name not in known:
            problems.append(f"{one.place}: {name}: {one.rule} has no such threshold{nearest(name, known)}")
        elif (expected := known[name].expected(value)) is not None:
            problems.append(f"{one.place}: {name}: expected {expected}, found {value:.12g}")
    return problems


def nearest(name: str, known: Iterable[str]) -> str:
    """Words for what was likely meant."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {near[0]}?" if near else ""
