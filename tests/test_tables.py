# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`[[rules]]`, `[[allocations]]` and `[constants]` of the settings file."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from slurmscope import config
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.policy import Policy, PolicyError
from slurmscope.settings import Allocation, RuleSetting


def loaded(folder: Path, text: str) -> config.Config:
    path = folder / "slurmscope.toml"
    path.write_text(text)
    return config.load(path, env={})


def test_tables_are_read_in_their_order(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
        [[rules]]
        rule = "low_cpu"
        share = 0.5
        [[rules]]
        rule = "low_cpu"
        cluster = "narval"
        partition = "debug"
        enabled = false
        [[allocations]]
        cluster = "narval"
        account = "physics"
        resource = "gpu"
        amount = 12.5
        start = 2026-01-01
        end = 2027-01-01
        [constants]
        students = 120
        """,
    )
    place = tmp_path / "slurmscope.toml"
    assert found.settings.rules == [
        RuleSetting(rule="low_cpu", thresholds={"share": 0.5}, place=f"{place}: [[rules]] 1"),
        RuleSetting(rule="low_cpu", cluster="narval", partition="debug", enabled=False, place=f"{place}: [[rules]] 2"),
    ]
    first, last = datetime.date(2026, 1, 1), datetime.date(2027, 1, 1)
    assert found.settings.allocations == [
        Allocation(cluster="narval", account="physics", resource="gpu", amount=12.5, start=first, end=last)
    ]
    assert found.settings.constants == {"students": 120.0}
    shown = {key: origin for key, _, origin in config.rows(found)}
    assert shown["rules"] == shown["constants"] == str(place)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules = 3", "rules: expected tables, [[rules]]"),
        ("[rules]\nx = 1", "rules: expected tables, [[rules]]"),
        ("[[rules]]\nshare = 1", "[[rules]] 1: rule: expected the name of a rule, found null"),
        ('[[rules]]\nrule = "low_cpu"\nshare = "much"', '[[rules]] 1: share: expected a number, found "much"'),
        ('[[rules]]\nrule = "low_cpu"\nshare = nan', "[[rules]] 1: share: expected a number, found NaN"),
        ('[[rules]]\nrule = "low_cpu"\nenabled = 1', "[[rules]] 1: enabled: expected true or false, found 1"),
        ('[[rules]]\nrule = "low_cpu"\ncluster = 1', "[[rules]] 1: cluster: expected text, found 1"),
        ("[constants]\nA = 1", "constants.A: expected a name of a-z, 0-9 and _"),
        ('[constants]\na = "1"', 'constants.a: expected a number, found "1"'),
        ("constants = 1", "constants: expected a section, [constants]"),
        (
            '[[allocations]]\nresource = "gpu"\namount = 1\nstart = 2026-01-01',
            "[[allocations]] 1: object missing required field `end`",
        ),
        (
            '[[allocations]]\nresource = "gpus"\namount = 1\nstart = 2026-01-01\nend = 2026-01-02',
            "[[allocations]] 1: resource: expected gpu, core or unit",
        ),
        (
            '[[allocations]]\nresource = "gpu"\namount = 0\nstart = 2026-01-01\nend = 2026-01-02',
            "[[allocations]] 1: amount: expected a number above 0, found 0",
        ),
        (
            '[[allocations]]\nresource = "gpu"\namount = 1\nstart = 2026-01-02\nend = 2026-01-02',
            "[[allocations]] 1: end: expected a day after start, 2026-01-02, found 2026-01-02",
        ),
        ("[[alocations]]\na = 1", "alocations: unknown setting, did you mean allocations?"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(config.ConfigError) as error:
        loaded(tmp_path, text)
    assert f"{tmp_path / 'slurmscope.toml'}: {told}" in str(error.value)


def test_a_policy_knows_the_rules(tmp_path: Path) -> None:
    given = loaded(
        tmp_path,
        """
        [[rules]]
        rule = "low_cpu"
        share = 0.5
        [[rules]]
        rule = "low_cpu"
        cluster = "narval"
        share = 0.3
        [[rules]]
        rule = "low_cpu"
        cluster = "narval"
        partition = "debug"
        enabled = false
        """,
    )
    policy = Policy(given.settings.rules)

    def limits(cluster: str, partition: str) -> dict[str, dict[str, float]]:
        return {rule.name: dict(limits) for rule, limits in policy.rules(cluster, partition)}

    assert limits("beluga", "main")["low_cpu"]["share"] == 0.5
    assert limits("narval", "main")["low_cpu"]["share"] == 0.3
    assert "low_cpu" not in limits("narval", "debug")
    assert "zero_gpu" in limits("narval", "debug")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('rule = "lowcpu"', "rule: expected the name of a rule, found lowcpu, did you mean low_cpu?"),
        ('rule = "low_cpu"\nshares = 1', "shares: low_cpu has no such threshold, did you mean share?"),
        ('rule = "low_cpu"\nshare = 60', "share: expected a share from 0 to 1, found 60"),
        ('rule = "low_cpu"\nshare = -0.1', "share: expected a share from 0 to 1, found -0.1"),
        ('rule = "low_cpu"\nleast_seconds = -1', "least_seconds: expected a number from 0 on, found -1"),
        ('rule = "near_timeout"\nruns = 0', "runs: expected a whole number from 1 on, found 0"),
        ('rule = "failing_again"\nruns = 2.5', "runs: expected a whole number from 1 on, found 2.5"),
    ],
)
def test_a_policy_says_what_there_is_not(tmp_path: Path, text: str, told: str) -> None:
    given = loaded(tmp_path, f"[[rules]]\n{text}")
    with pytest.raises(PolicyError, match="1: "):
        Policy(given.settings.rules)
    with pytest.raises(PolicyError) as error:
        Policy(given.settings.rules)
    assert str(error.value).endswith(told)


def test_every_rule_is_within_its_own_bounds() -> None:
    for rule in catalogue().values():
        assert [(rule.name, one.name) for one in rule.thresholds if one.expected(one.default) is not None] == []
        own = RuleSetting(rule=rule.name, thresholds=rule.defaults)
        assert rule.name in {found.name for found, _ in Policy([own]).rules("c", "main")}
