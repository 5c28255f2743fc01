# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the settings file, of which there may be any number: `[[rules]]`, `[[allocations]]`, `[constants]`.

They are in the file alone: no variable of the environment sets them.
"""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import msgspec

from slurmscope import notation
from slurmscope.fields import TABLES
from slurmscope.settings import Allocation, RuleSetting

RULES, ALLOCATIONS, CONSTANTS = TABLES

# it becomes a part of the name of a metric
_CONSTANT = re.compile(r"[a-z][a-z0-9_]*")
_OF_A_RULE = ("rule", "cluster", "partition", "enabled")


class Tables(msgspec.Struct):
    rules: list[RuleSetting] = []
    allocations: list[Allocation] = []
    constants: dict[str, float] = {}


def parse(name: str, value: object, place: str, into: Tables, problems: list[str]) -> None:
    """One of them, as TOML has it."""
    if name == CONSTANTS:
        into.constants = _constants(value, place, problems)
    elif not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        problems.append(f"{place}: {name}: expected tables, [[{name}]]")
    elif name == RULES:
        rules = [_rule(one, at, place, problems) for at, one in enumerate(value)]
        into.rules = [one for one in rules if one is not None]
    else:
        allocations = [_allocation(one, at, place, problems) for at, one in enumerate(value)]
        into.allocations = [one for one in allocations if one is not None]
        problems += _told_twice(into.allocations, place)


def _constants(value: object, place: str, problems: list[str]) -> dict[str, float]:
    if not isinstance(value, dict):
        problems.append(f"{place}: {CONSTANTS}: expected a section, [{CONSTANTS}]")
        return {}
    found = {}
    for name, one in value.items():
        if not _CONSTANT.fullmatch(name):
            problems.append(f"{place}: {CONSTANTS}.{notation.toml_key(name)}: expected a name of a-z, 0-9 and _")
        elif not _is_number(one):
            problems.append(f"{place}: {CONSTANTS}.{name}: expected a number, found {notation.shown(one)}")
        else:
            found[name] = float(one)
    return found


def _rule(one: dict[str, Any], at: int, place: str, problems: list[str]) -> RuleSetting | None:
    """Whether there is such a rule, and such a threshold, is for whoever knows the rules (findings/policy.py)."""
    where = f"{place}: [[{RULES}]] {at + 1}"
    wrong = len(problems)
    if not isinstance(one.get("rule"), str):
        problems.append(f"{where}: rule: expected the name of a rule, found {notation.shown(one.get('rule'))}")
    for name in ("cluster", "partition"):
        if not isinstance(one.get(name, ""), str):
            problems.append(f"{where}: {name}: expected text, found {notation.shown(one[name])}")
    if not isinstance(one.get("enabled", True), bool):
        problems.append(f"{where}: enabled: expected true or false, found {notation.shown(one['enabled'])}")
    thresholds = {name: value for name, value in one.items() if name not in _OF_A_RULE}
    for name, value in thresholds.items():
        if not _is_number(value):
            problems.append(f"{where}: {notation.name(name)}: expected a number, found {notation.shown(value)}")
    if len(problems) > wrong:
        return None
    return RuleSetting(
        rule=one["rule"],
        cluster=one.get("cluster", ""),
        partition=one.get("partition", ""),
        enabled=one.get("enabled"),
        thresholds={name: float(value) for name, value in thresholds.items()},
        place=where,
    )


def _allocation(one: dict[str, Any], at: int, place: str, problems: list[str]) -> Allocation | None:
    where = f"{place}: [[{ALLOCATIONS}]] {at + 1}"
    # a time of day says nothing here, and a date in quotes is as good as one without
    days = {name: value.date() for name, value in one.items() if isinstance(value, datetime.datetime)}
    try:
        found = msgspec.convert(one | days, Allocation)
    except msgspec.ValidationError as error:
        problems.append(f"{where}: {_told(str(error))}")
        return None
    if not (found.amount > 0 and math.isfinite(found.amount)):
        problems.append(f"{where}: amount: expected a number above 0, found {notation.shown(one['amount'])}")
    elif found.start >= found.end:
        problems.append(f"{where}: end: expected a day after start, {found.start}, found {found.end}")
    else:
        return found
    return None


def _told_twice(allocations: list[Allocation], place: str) -> list[str]:
    """Two of the same for the same time are one too many: which is meant nobody knows."""
    seen: set[tuple[object, ...]] = set()
    problems = []
    for at, one in enumerate(allocations):
        key = one.cluster, one.account, one.resource, one.start, one.end
        if key in seen:
            problems.append(f"{place}: [[{ALLOCATIONS}]] {at + 1}: the same is allocated twice: leave one out")
        seen.add(key)
    return problems


def _told(error: str) -> str:
    """msgspec's words, with the name in front."""
    if "enum" in error:
        return "resource: expected gpu, core or unit"
    text, _, path = error.partition(" - at `$.")
    name = f"{path.rstrip('`')}: " if path else ""
    return f"{name}{text[:1].lower()}{text[1:]}; it has cluster, account, resource, amount, start and end"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
