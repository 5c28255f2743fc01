# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered: of which version, how much, and that it is made once however many wait for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from slurmscope.web.memory import LONGEST, Memory, Same


def test_it_is_made_once_for_a_version() -> None:
    memory, made = Memory(), Counter[int]()

    def make(version: int) -> int:
        made[version] += 1
        return version

    for version in (1, 1, 2, 2, 1):
        assert memory.of("key", version, partial(make, version)) == version
    assert made == {1: 2, 2: 1}
    assert len(memory) == 1


def test_nothing_is_something_too() -> None:
    memory = Memory()
    asked: list[int] = []
    for _ in range(2):
        memory.of("key", 1, lambda: asked.append(1))
    assert asked == [1]


def test_the_same_is_what_is_the_very_one() -> None:
    jobs, alike, nothing = [1, 2], [1, 2], None
    assert Same(jobs, nothing) == Same(jobs, nothing) and hash(Same(jobs)) == hash(Same(jobs))
    assert Same(jobs) != Same(alike) and Same(jobs) != Same(jobs, nothing) and Same(jobs) != (jobs,)


def test_what_was_asked_for_last_stays() -> None:
    memory = Memory(3)
    for key in ("a", "b", "c", "a", "d"):
        memory.of(key, 1, lambda: 1)
    assert len(memory) == 3
    made: list[str] = []
    for key in ("a", "c", "d", "b"):
        memory.of(key, 1, partial(made.append, key))
    assert made == ["b"]


def test_what_could_not_be_made_is_tried_again() -> None:
    memory = Memory()
    with pytest.raises(ZeroDivisionError):
        memory.of("key", 1, lambda: 1 // 0)
    assert memory.of("key", 1, lambda: "made") == "made"


def test_of_what_nobody_asks_nothing_stays() -> None:
    now = [0.0]
    memory = Memory(clock=lambda: now[0])
    for key in ("old", "asked"):
        memory.of(key, 1, lambda: 1)
    now[0] += LONGEST - 1
    memory.of("asked", 1, lambda: 1)
    now[0] += 2
    memory.of("new", 1, lambda: 1)
    assert len(memory) == 2
    memory.of("asked", 1, pytest.fail)


def test_it_is_forgotten_though_nothing_else_is_made() -> None:
    now = [0.0]
    memory = Memory(clock=lambda: now[0])
    memory.of("old", 1, lambda: 1)
    memory.forget()
    assert len(memory) == 1
    now[0] += LONGEST + 1
    memory.forget()
    assert len(memory) == 0


def test_who_waited_for_what_could_not_be_made_does_not_wait_again() -> None:
    memory, tries = Memory(), []
    begun, go_on = threading.Event(), threading.Event()

    def make() -> int:
        tries.append(1)
        begun.set()
        assert go_on.wait(60)
        raise ZeroDivisionError

    with ThreadPoolExecutor(4) as people:
        asked = [people.submit(memory.of, "key", 1, make)]
        assert begun.wait(60)
        asked += [people.submit(memory.of, "key", 1, make) for _ in range(3)]
        while memory._making["key"].users < 4:
            time.sleep(0.01)
        go_on.set()
        assert [type(one.exception(60)) for one in asked] == [ZeroDivisionError] * 4
    assert len(tries) == 1
    assert memory.of("key", 1, lambda: "made") == "made"


def test_those_who_come_meanwhile_wait_for_it() -> None:
    memory, made = Memory(), []
    begun, go_on = threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        assert go_on.wait(30)
        made.append(1)
        return 7

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(memory.of, "key", 1, make)
        assert begun.wait(30)
        others = [threads.submit(memory.of, "key", 1, make) for _ in range(3)]
        # … and whoever wants something else does not
        assert memory.of("other", 1, lambda: 8) == 8
        go_on.set()
        assert [one.result(30) for one in (first, *others)] == [7] * 4
    assert made == [1]
