# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who is signed in, for how long, and by which form."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from slurmscope.settings import Portal
from slurmscope.web.people.ledger import DAY, Ledger
from slurmscope.web.people.sessions import LONGEST, Sessions

NOW = 1_790_000_000
HOUR = 3600
PORTAL = Portal(sign_in=["local", "oidc"])


@pytest.fixture
def sessions(ledger: Ledger) -> Sessions:
    return Sessions(ledger, PORTAL)


def test_a_session_is_its_users(sessions: Sessions) -> None:
    token, other = (sessions.begin(user, "local", NOW) for user in ("alice", "bob"))
    assert token != other and len(token) >= 43
    found = sessions.of(token, NOW)
    assert found is not None and (found.user, found.how) == ("alice", "local")
    for wrong in ("", token[:-1], token + "x", found.hash, "\ud800", "x" * 100_000):
        assert sessions.of(wrong, NOW) is None


def test_it_goes_on_while_it_is_used_and_ends_when_it_is_not(sessions: Sessions) -> None:
    token = sessions.begin("alice", "local", NOW)
    assert sessions.of(token, NOW + 11 * HOUR) is not None
    assert sessions.of(token, NOW + 22 * HOUR) is not None
    assert sessions.of(token, NOW + 34 * HOUR) is None


def test_after_seven_days_everybody_signs_in_anew(sessions: Sessions) -> None:
    token = sessions.begin("alice", "local", NOW)
    for hours in range(6, LONGEST // HOUR, 6):
        assert sessions.of(token, NOW + hours * HOUR) is not None
    assert sessions.of(token, NOW + LONGEST) is None


def test_that_it_was_used_is_written_once_a_minute(sessions: Sessions, ledger: Ledger) -> None:
    token = sessions.begin("alice", "local", NOW)
    seen = []
    for seconds in (1, 59, 60, 61, 119, 120):
        found = sessions.of(token, NOW + seconds)
        assert found is not None
        kept = ledger.session(found.hash)
        assert kept is not None
        seen.append(kept.seen - NOW)
    assert seen == [0, 0, 60, 60, 60, 120]


def test_a_session_goes_on_though_it_cannot_be_noted_just_now(
    sessions: Sessions, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    token = sessions.begin("alice", "local", NOW)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for seconds in (100, 200):
        assert sessions.of(token, NOW + seconds) is not None
    other.execute("ROLLBACK")
    other.close()
    assert [one.getMessage() for one in caplog.records] == ["could not note it"]
    found = sessions.of(token, NOW + 300)
    assert found is not None
    kept = ledger.session(found.hash)
    assert kept is not None and kept.seen == NOW + 300


def test_who_signs_out_is_out_and_others_are_not(sessions: Sessions, ledger: Ledger) -> None:
    first, second, other = (sessions.begin(user, "local", NOW) for user in ("alice", "alice", "bob"))
    sessions.end(first, NOW, "10.0.0.1")
    sessions.end("never one", NOW)
    assert sessions.of(first, NOW) is None and sessions.of(second, NOW) is not None
    assert sessions.end_all("alice", NOW, "root") == 1
    assert sessions.of(second, NOW) is None and sessions.of(other, NOW) is not None
    assert [(one.who, one.action, one.detail) for one in ledger.entries(limit=2)] == [
        ("root", "sessions ended", "alice"),
        ("alice", "signed out", "local"),
    ]


def test_a_session_outlives_a_restart_and_is_known_to_other_processes(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "portal.db")
    token = Sessions(first, PORTAL).begin("alice", "oidc", NOW)
    second = Ledger(tmp_path / "portal.db")
    assert Sessions(second, PORTAL).of(token, NOW + DAY // 4) is not None
    first.close()
    second.close()


def test_a_way_that_is_not_offered_any_more_ends_its_sessions(sessions: Sessions, ledger: Ledger) -> None:
    token = sessions.begin("alice", "local", NOW)
    assert Sessions(ledger, Portal(sign_in=["oidc"])).of(token, NOW) is None
