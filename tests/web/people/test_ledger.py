# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""portal.db: for its owner alone, of a known schema, and with no secret in it."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmscope.settings import Portal
from slurmscope.store.protocol import NewerSchema, StoreError
from slurmscope.web.people.ledger import AUDIT_DAYS, DAY, Entry, Ledger, hashed
from slurmscope.web.people.local import Local
from slurmscope.web.people.sessions import Sessions
from slurmscope.web.people.tokens import Tokens

NOW = 1_790_000_000
ANYTHING = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=50)


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "portal.db")
    ledger.write(Entry(time=NOW, who="alice", action="looked"))
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    ledger.close()


def test_one_of_a_newer_slurmscope_or_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "portal.db"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerSchema, match=r"portal\.db: has schema 99, and this slurmscope knows 1"):
        Ledger(path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="is another program's database"):
        Ledger(other)


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "portal.db")
    local, sessions = Local(ledger), Sessions(ledger, Portal(sign_in=["local"]))
    local.add("alice", "correct horse battery", NOW, "root")
    secrets = [
        "correct horse battery",
        sessions.begin("alice", "local", NOW, "10.0.0.1"),
        Tokens(ledger).make("alice", "laptop", 30, NOW),
    ]
    assert not local.sign_in("my password, not my name", "another one", "10.0.0.1", NOW).right
    ledger.close()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (*secrets, "my password, not my name", "another one"):
        assert secret.encode() not in held
    assert b"laptop" in held


def test_several_that_open_it_at_once_make_one(tmp_path: Path) -> None:
    found: list[bool] = []

    def add(number: int) -> None:
        ledger = Ledger(tmp_path / "portal.db")
        entry = Entry(time=NOW, who="root", action="account made")
        found.append(ledger.add_account(f"user{number % 2}", "x", entry))
        ledger.close()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False] * 6 + [True] * 2


def test_what_was_written_down_cannot_be_changed(ledger: Ledger) -> None:
    ledger.write(Entry(time=NOW, who="mallory", action="signed in", detail="local"))
    with closing(sqlite3.connect(ledger.path)) as db, pytest.raises(sqlite3.Error, match="stays as it is"):
        db.execute("UPDATE audit SET who = 'alice'")
    assert [one.who for one in ledger.entries()] == ["mallory"]


def test_what_has_ended_is_forgotten_and_the_log_is_kept_for_400_days(ledger: Ledger) -> None:
    sessions, tokens = Sessions(ledger, Portal(sign_in=["local"])), Tokens(ledger)
    old = sessions.begin("alice", "local", NOW)
    tokens.make("alice", "old", 1, NOW)
    tokens.make("alice", "new", 30, NOW)
    later = NOW + 8 * DAY
    sessions.begin("alice", "local", later)
    assert ledger.session(hashed(old)) is None
    assert [one.label for one in ledger.tokens("alice")] == ["new"]
    assert len(ledger.entries()) == 4
    ledger.forget(NOW + AUDIT_DAYS * DAY + 1)
    assert [(one.time, one.action) for one in ledger.entries()] == [(later, "signed in")]


@given(ANYTHING, ANYTHING)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_people_and_tokens_are_called(ledger: Ledger, user: str, label: str) -> None:
    sessions = Sessions(ledger, Portal(sign_in=["proxy"]))
    token = sessions.begin(user, "proxy", NOW, label)
    session = sessions.of(token, NOW)
    assert session is not None and session.user == user
    assert sessions.of(label, NOW) is None and Tokens(ledger).of("sst_" + label, NOW) is None
    assert sessions.end_all(user, NOW, label) >= 1
    assert sessions.of(token, NOW) is None
