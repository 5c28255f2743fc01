# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts and passwords, and how often somebody may be wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from slurmscope.settings import Portal
from slurmscope.web.people.ledger import DAY, Ended, Entry, Ledger
from slurmscope.web.people.local import AccountError, Local, NotGood, Verdict
from slurmscope.web.people.sessions import Sessions
from slurmscope.web.people.tokens import Tokens

NOW = 1_790_000_000
MINUTE = 60
PASSWORD = "correct horse battery"
HOME, CAFE = "192.0.2.1", "198.51.100.1"


@pytest.fixture
def local(ledger: Ledger) -> Local:
    found = Local(ledger)
    found.add("alice", PASSWORD, NOW, "root")
    found.add("bob", PASSWORD + "!", NOW, "root")
    return found


def wrong(local: Local, times: int, name: str = "alice", address: str = CAFE, now: int = NOW) -> list[Verdict]:
    return [local.sign_in(name, f"guess {number}", address, now) for number in range(times)]


def attack(local: Local, name: str = "alice", wanted: int = 105) -> None:
    """From as many addresses as it takes."""
    for number in range(wanted):
        local.sign_in(name, "guess", f"203.0.113.{number}", NOW)


def actions(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(one.who, one.action, one.detail) for one in reversed(ledger.entries())]


def test_the_right_password_of_the_right_account(local: Local) -> None:
    assert local.sign_in("alice", PASSWORD, HOME, NOW) == Verdict(True)
    for name, password in [
        ("alice", PASSWORD + " "),
        ("alice", ""),
        ("bob", PASSWORD),
        ("nobody", PASSWORD),
        ("", ""),
        ("Alice", PASSWORD),
        ("alice", "\ud800"),
        ("\ud800", PASSWORD),
    ]:
        assert local.sign_in(name, password, f"{name}:{password}", NOW) == Verdict(False)


def test_an_accent_may_be_typed_in_two_ways(local: Local) -> None:
    local.add("zoe", "caf\u00e9 cr\u00e8me", NOW, "root")
    assert local.sign_in("zoe", "cafe\u0301 cre\u0300me", HOME, NOW).right


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_after_five_wrong_ones_the_wait_grows_whether_or_not_there_is_such_an_account(local: Local, name: str) -> None:
    assert wrong(local, 5, name) == [Verdict(False)] * 5
    now, waits = NOW, []
    for _ in range(7):
        verdict = local.sign_in(name, PASSWORD, CAFE, now)
        assert not verdict.right, "the right one is refused alike"
        waits.append(verdict.wait)
        assert local.sign_in(name, PASSWORD, CAFE, now + verdict.wait - 1) == Verdict(False, 1)
        now += verdict.wait
        assert local.sign_in(name, "one more", CAFE, now) == Verdict(False)
    assert [wait // MINUTE for wait in waits] == [1, 2, 4, 8, 15, 15, 15]


def test_to_try_while_one_has_to_wait_makes_it_no_longer(local: Local) -> None:
    wrong(local, 5)
    assert {one.wait for one in wrong(local, 50)} == {MINUTE}
    assert local.sign_in("alice", PASSWORD, CAFE, NOW + MINUTE).right


def test_the_right_one_forgives_those_before(local: Local) -> None:
    for _ in range(4):
        wrong(local, 4)
        assert local.sign_in("alice", PASSWORD, CAFE, NOW).right


def test_after_an_hour_they_are_forgotten(local: Local) -> None:
    wrong(local, 5)
    assert wrong(local, 5, now=NOW + 3600) == [Verdict(False)] * 5


def test_a_restart_forgets_none(local: Local, tmp_path: Path) -> None:
    wrong(local, 5)
    other = Ledger(tmp_path / "portal.db")
    assert Local(other).sign_in("alice", PASSWORD, CAFE, NOW).wait == MINUTE
    other.close()


def test_who_guesses_elsewhere_locks_nobody_out(local: Local) -> None:
    wrong(local, 20)
    assert local.sign_in("alice", PASSWORD, HOME, NOW).right


def test_guessing_from_everywhere_leaves_the_usual_address_open(local: Local) -> None:
    assert local.sign_in("alice", PASSWORD, HOME, NOW).right
    attack(local)
    refused = local.sign_in("alice", PASSWORD, CAFE, NOW)
    assert not refused.right and 0 < refused.wait <= 15 * MINUTE
    assert local.sign_in("alice", PASSWORD, HOME, NOW).right
    assert local.sign_in("bob", PASSWORD + "!", CAFE, NOW).right
    assert local.sign_in("alice", PASSWORD, CAFE, NOW + refused.wait).right


def test_one_address_cannot_try_all_names(local: Local) -> None:
    for number in range(30):
        assert local.sign_in(f"user{number}", "guess", CAFE, NOW) == Verdict(False)
    assert local.sign_in("bob", PASSWORD + "!", CAFE, NOW).wait == MINUTE


def test_whoever_signed_in_there_before_is_not_kept_out_by_others_behind_the_same_address(local: Local) -> None:
    assert local.sign_in("bob", PASSWORD + "!", CAFE, NOW).right
    for number in range(30):
        local.sign_in(f"user{number}", "guess", CAFE, NOW)
    assert local.sign_in("alice", PASSWORD, CAFE, NOW).wait == MINUTE
    assert local.sign_in("bob", PASSWORD + "!", CAFE, NOW).right
    wrong(local, 5, "bob")
    assert local.sign_in("bob", PASSWORD + "!", CAFE, NOW).wait == MINUTE


def test_the_addresses_of_one_network_of_ipv6_are_one(local: Local) -> None:
    for number in range(5):
        wrong(local, 1, address=f"2001:db8:0:1::{number}")
    assert local.sign_in("alice", PASSWORD, "2001:db8:0:1:ffff::1", NOW).wait == MINUTE
    assert local.sign_in("alice", PASSWORD, "2001:db8:0:2::1", NOW).right


def test_many_at_once_are_counted_one_by_one(local: Local) -> None:
    found: list[Verdict] = []

    def guess(number: int) -> None:
        found.append(local.sign_in("alice", f"guess {number}", CAFE, NOW))

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in found if one == Verdict(False)]) == 5


def test_all_is_written_down_but_what_may_be_a_password(local: Local, ledger: Ledger) -> None:
    wrong(local, 1, "hunter2 is my password")
    wrong(local, 5, "bob", HOME)
    wrong(local, 1, "bob", HOME)
    assert actions(ledger) == [
        ("root", "account made", "alice"),
        ("root", "account made", "bob"),
        ("", "wrong password", "no such account"),
        *[("bob", "wrong password", "")] * 5,
        ("bob", "locked", "for 60 s"),
    ]


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("carol", "short"),
        ("carol", "x" * 501),
        ("carolcarol", "CarolCarol"),
        ("-x", PASSWORD),
        ("a b", PASSWORD),
        ("", PASSWORD),
    ],
)
def test_what_is_no_name_or_no_password(local: Local, name: str, password: str) -> None:
    with pytest.raises(NotGood, match="expected"):
        local.add(name, password, NOW, "root")


def test_another_password_ends_all_and_a_removed_account_is_gone(local: Local, ledger: Ledger) -> None:
    sessions, tokens = Sessions(ledger, Portal(sign_in=["local"])), Tokens(ledger)
    session, token = sessions.begin("alice", "local", NOW), tokens.make("alice", "laptop", 30, NOW)
    tokens.make("alice", "has ended", 1, NOW - 9 * DAY)
    others = tokens.make("bob", "laptop", 30, NOW)
    assert local.change("alice", "staple staple", NOW, "root") == Ended(sessions=1, tokens=1)
    assert sessions.of(session, NOW) is None and tokens.of(token, NOW) is None
    assert actions(ledger)[-2:] == [("root", "password changed", "alice"), ("root", "token revoked", "1")]
    assert tokens.of(others, NOW) is not None
    token = tokens.make("alice", "another laptop", 30, NOW)
    assert local.sign_in("alice", "staple staple", HOME, NOW).right
    assert not local.sign_in("alice", PASSWORD, HOME, NOW).right
    assert local.remove("alice", NOW, "root") == Ended(sessions=0, tokens=1)
    assert actions(ledger)[-2:] == [("root", "account removed", "alice"), ("root", "token revoked", "4")]
    assert not local.sign_in("alice", "staple staple", HOME, NOW).right
    assert tokens.of(token, NOW) is None and tokens.of(others, NOW) is not None
    assert [one.name for one in local.accounts()] == ["bob"]
    with pytest.raises(AccountError, match="has no account"):
        local.remove("alice", NOW, "root")
    with pytest.raises(AccountError, match="has no account"):
        local.change("alice", PASSWORD, NOW, "root")
    with pytest.raises(AccountError, match="has an account already"):
        local.add("bob", PASSWORD, NOW, "root")


def test_a_clock_that_was_wrong_locks_nobody_for_long(local: Local, ledger: Ledger) -> None:
    wrong(local, 5, now=NOW + 10**6)
    ledger.write(Entry(time=NOW, who="root", action="the clock was set"))
    assert local.sign_in("alice", PASSWORD, CAFE, NOW).right
