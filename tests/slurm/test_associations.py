# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who coordinates which account, by text and by JSON."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import GENERATIONS, MARKS, read

from slurmscope.model import Coordinator
from slurmscope.slurm.associations import parse_coordinators
from slurmscope.slurm.openapi import reports
from slurmscope.slurm.text import Malformed

NAMES = st.text(st.characters(exclude_characters="|,\n", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
COORDINATORS = st.dictionaries(NAMES, st.lists(NAMES, unique=True), min_size=1)


def pairs(found: tuple[Coordinator, ...]) -> list[tuple[str, str]]:
    return [(one.account, one.user) for one in found]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_those_of_a_recording(generation: str) -> None:
    snapshot, _ = read(generation)
    assert pairs(snapshot.coordinators.value or ()) == [("bio", "dana.o-neil")]


def test_accounts_with_several_and_with_none() -> None:
    found = parse_coordinators(b"root|\nphysics|alice,bob\noptics|alice\nbio|\n", MARKS)
    assert pairs(found.value) == [("physics", "alice"), ("physics", "bob"), ("optics", "alice")]
    assert found.skipped == 0


@given(COORDINATORS)
def test_what_sacctmgr_prints_is_read(told: dict[str, list[str]]) -> None:
    text = "".join(f"{account}|{','.join(users)}\n" for account, users in told.items())
    found = parse_coordinators(text.encode(), MARKS)
    assert pairs(found.value) == [(account, user) for account, users in told.items() for user in users]
    document = {
        "accounts": [
            {"name": account, "coordinators": [{"name": user, "direct": True} for user in users]}
            for account, users in told.items()
        ]
    }
    assert reports.parse_coordinators(json.dumps(document).encode(), MARKS).value == found.value


@given(st.binary(max_size=200))
def test_any_bytes_are_coordinators_or_malformed(data: bytes) -> None:
    for parse in (parse_coordinators, reports.parse_coordinators):
        with contextlib.suppress(Malformed):
            assert all(isinstance(one, Coordinator) for one in parse(data, MARKS).value)


@pytest.mark.parametrize("data", [b"", b"\n", b"Maintenance until 5 pm\n"])
def test_who_is_told_of_no_account_knows_of_no_coordinator(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_coordinators(data, MARKS)


@pytest.mark.parametrize("accounts", [[], [{"coordinators": []}]])
def test_the_same_by_json(accounts: list[Any]) -> None:
    with pytest.raises(Malformed):
        reports.parse_coordinators(json.dumps({"accounts": accounts}).encode(), MARKS)


def test_a_row_that_is_none_is_skipped() -> None:
    found = parse_coordinators(b"physics|alice\nwhat is this\n", MARKS)
    assert (pairs(found.value), found.skipped) == ([("physics", "alice")], 1)
