# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pwd
import threading

import pytest

from slurmscope.node import users
from slurmscope.node.users import Users


def test_names() -> None:
    found = Users()
    assert found.name(0) == "root"
    assert found.name(4_000_000_001) is None


def test_a_stand_in_for_a_name_service_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for once and for a moment, never asked twice at a time, and what it says in the end is taken."""
    answer, asked = threading.Event(), []

    def slow(uid: int) -> pwd.struct_passwd:
        asked.append(uid)
        answer.wait(30)
        return pwd.struct_passwd(("al\udcefce", "x", uid, uid, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", slow)
    monkeypatch.setattr(users, "_PATIENCE", 0.05)
    found = Users()
    assert [found.name(uid) for uid in (7, 7, 8)] == [None, None, None]
    assert asked == [7]
    answer.set()
    while found.name(7) is None:
        pass
    assert found.name(7) == "al\\xefce"  # and could be written into any document
    assert found.name(8) is not None and asked == [7, 8]


def test_a_number_that_nobody_knows_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def nobody(uid: int) -> pwd.struct_passwd:
        asked.append(uid)
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    found = Users()
    assert [found.name(9) for _ in range(5)] == [None] * 5 and asked == [9]
