# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""notices.db: for its owner alone, of a known schema, and with everything that people are called."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mail.made import NOW, notice

from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import Entry, identity
from slurmscope.store.protocol import NewerSchema, StoreError

ANYTHING = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=50)


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "notices.db")
    ledger.add(notice())
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    ledger.close()


def test_one_of_a_newer_slurmscope_or_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notices.db"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerSchema, match=r"notices\.db: has schema 99, and this slurmscope knows 1"):
        Ledger(path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="is another program's database"):
        Ledger(other)
    (tmp_path / "text.db").write_text("no database at all " * 100)
    with pytest.raises(StoreError, match=r"text\.db: file is not a database"):
        Ledger(tmp_path / "text.db")


def test_several_that_open_it_at_once_make_one(tmp_path: Path) -> None:
    found: list[bool] = []

    def add(number: int) -> None:
        ledger = Ledger(tmp_path / "notices.db")
        found.append(ledger.add(notice(number % 2)))
        ledger.close()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False] * 6 + [True] * 2


@given(ANYTHING, ANYTHING, ANYTHING)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_people_are_called(tmp_path: Path, person: str, work: str, why: str) -> None:
    ledger = Ledger(tmp_path / "notices.db")
    ledger.opt_out(person, NOW, why)
    assert ledger.opted_out(person)
    ledger.opt_in(person, NOW, why)
    assert not ledger.opted_out(person)
    ledger.fine(person, "zero_gpu", work, "", NOW)
    assert "zero_gpu" in {rule for rule, _ in ledger.fines(person)}
    assert len(ledger.entries(person, 3)) == 3
    ledger.close()


def test_a_decision_that_is_made_again_is_written_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "notices.db")
    for at in range(3):
        ledger.write_once(Entry(time=NOW + at, event="not sent", person="alice", job="1", why=str(at)))
    ledger.write_once(Entry(time=NOW, event="not sent", person="alice", job="2"))
    assert [(one.job, one.why) for one in ledger.entries()] == [("2", ""), ("1", "0")]
    ledger.close()


@given(st.lists(ANYTHING, min_size=1, max_size=4), st.lists(ANYTHING, min_size=1, max_size=4))
def test_notices_are_the_same_only_if_all_their_words_are(some: list[str], others: list[str]) -> None:
    assert (identity(*some) == identity(*others)) == (some == others)
