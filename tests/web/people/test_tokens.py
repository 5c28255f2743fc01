# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens of the API: shown once, for a time, and revoked by whom they belong to."""

from __future__ import annotations

import re

import pytest

from slurmscope.web.people.ledger import DAY, Ledger
from slurmscope.web.people.tokens import MOST_TOKENS, TokenError, Tokens

NOW = 1_790_000_000


@pytest.fixture
def tokens(ledger: Ledger) -> Tokens:
    return Tokens(ledger)


def test_a_token_is_its_users_until_it_ends(tokens: Tokens) -> None:
    secret = tokens.make("alice", "  my \n laptop ", 30, NOW)
    assert re.fullmatch(r"sst_[A-Za-z0-9_-]{43}", secret)
    found = tokens.of(secret, NOW + 30 * DAY - 1)
    assert found is not None and (found.user, found.label) == ("alice", "my laptop")
    assert tokens.of(secret, NOW + 30 * DAY) is None
    for wrong in ("", "sst_", secret[4:], secret[:-1], "sst_" + "x" * 100_000, "sst_\ud800"):
        assert tokens.of(wrong, NOW) is None


def test_when_it_was_last_used(tokens: Tokens) -> None:
    secret = tokens.make("alice", "laptop", 30, NOW)
    assert [one.used for one in tokens.all("alice", NOW)] == [None]
    for seconds in (5, 30, 70):
        tokens.of(secret, NOW + seconds)
    assert [one.used for one in tokens.all("alice", NOW)] == [NOW + 70]


def test_who_may_revoke(tokens: Tokens, ledger: Ledger) -> None:
    secret = tokens.make("alice", "laptop", 30, NOW)
    tokens.make("bob", "laptop", 30, NOW)
    ((id_, user),) = [(one.id, one.user) for one in tokens.all("alice", NOW)]
    assert user == "alice"
    assert not tokens.revoke("bob", id_, NOW, "bob")
    assert tokens.of(secret, NOW) is not None
    assert tokens.revoke("alice", id_, NOW, "alice")
    assert tokens.of(secret, NOW) is None
    assert not tokens.revoke("alice", id_, NOW, "alice")
    (left,) = tokens.all(None, NOW)
    assert tokens.revoke(None, left.id, NOW, "root")
    assert [(one.who, one.action) for one in ledger.entries()] == [
        ("root", "token revoked"),
        ("alice", "token revoked"),
        ("bob", "token made"),
        ("alice", "token made"),
    ]


@pytest.mark.parametrize(("label", "days"), [("", 30), (" \n", 30), ("x" * 101, 30), ("x", 0), ("x", 367), ("x", -1)])
def test_what_is_refused(tokens: Tokens, label: str, days: int) -> None:
    with pytest.raises(TokenError):
        tokens.make("alice", label, days, NOW)


def test_there_are_only_so_many(tokens: Tokens) -> None:
    for number in range(MOST_TOKENS):
        tokens.make("alice", str(number), 1, NOW)
    with pytest.raises(TokenError, match="revoke"):
        tokens.make("alice", "one more", 1, NOW)
    tokens.make("bob", "one", 1, NOW)
    tokens.make("alice", "a day later", 1, NOW + DAY)
