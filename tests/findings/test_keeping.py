# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What `serve` keeps of what rules find: once for each job, the latest first, and nothing is left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from store.made import DAY, T0, ended, kept_lives, life

from slurmscope.findings import keeping
from slurmscope.findings.keeping import Judge, Judging
from slurmscope.findings.policy import PolicyError
from slurmscope.life import Life
from slurmscope.settings import Accounting, RuleSetting, Settings
from slurmscope.store.protocol import Lives, Span, Store
from slurmscope.store.sqlite import SqliteStore

NOW = T0 + 40 * DAY
TIMED_OUT = ("timeout",)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = SqliteStore(tmp_path / "store.db")
    yield found
    found.close()


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return float(self.now)


def over(id_: int, ago: int, **fields: Any) -> Life:
    """Ended so many seconds ago, by its time limit."""
    end = NOW - ago
    start = end - 7200
    return ended(id_, submit_time=start, start_time=start, end_time=end, state="TIMEOUT", accounted=True, **fields)


def put(store: Store, *lives: Life) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives(lives)


def findings(store: Store) -> dict[int, tuple[str, ...]]:
    found = store.findings("alpha", [one.key for one in kept_lives(store, "alpha")])
    return {id_: rules for (id_, _), rules in found.items()}


def whole(judge: Judge, store: Store) -> int:
    rounds = 1
    while judge.round(store):
        rounds += 1
    return rounds


def test_jobs_that_ended_are_judged_and_found_by_it(store: Store) -> None:
    fine = ended(3, submit_time=NOW - 9000, start_time=NOW - 9000, end_time=NOW - 7000, accounted=True)
    waited = replace(over(4, 7200), state="CANCELLED", start_time=None, node_list="")
    put(store, over(1, 3 * DAY), over(2, 29 * DAY), fine, waited, life(5, submit_time=NOW - 99999))
    assert not Judge(Settings(), Clock()).round(store)
    assert findings(store).keys() == {1, 2, 3, 4}
    assert "timeout" in findings(store)[1] and findings(store)[4] == ()
    assert [one.id for one in store.lives(Lives(finding="timeout"))] == [1, 2]
    assert store.judged("alpha") == NOW - 600


def test_what_is_older_is_left(store: Store) -> None:
    put(store, over(1, 31 * DAY))
    Judge(Settings(), Clock()).round(store)
    assert findings(store) == {}


def test_what_was_judged_is_not_judged_again(store: Store) -> None:
    put(store, over(1, 7200))
    with store.writing("alpha") as writer:
        writer.put_findings({over(1, 7200).key: ("by an older rule",)})
    Judge(Settings(), Clock()).round(store)
    assert findings(store) == {1: ("by an older rule",)}


def test_what_is_known_only_later_is_waited_for(store: Store) -> None:
    """What it used is told by the accounting, for an hour; what was measured, for some minutes."""
    clock = Clock()
    judge = Judge(Settings(), clock)
    put(store, replace(over(1, 1200), accounted=False), over(2, 300), over(3, 1200))
    judge.round(store)
    assert findings(store).keys() == {3}
    clock.now += 400
    judge.round(store)
    assert findings(store).keys() == {2, 3}
    clock.now += 3600
    judge.round(store)
    assert findings(store).keys() == {1, 2, 3}


def test_without_the_accounting_it_is_not_waited_for(store: Store) -> None:
    put(store, replace(over(1, 1200), accounted=False))
    Judge(Settings(accounting=Accounting(enabled=False)), Clock()).round(store)
    assert findings(store).keys() == {1}


def test_the_mark_does_not_pass_what_the_accounting_has_told(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_spans([Span(NOW - DAY, NOW - 7200)])
    Judge(Settings(), Clock()).round(store)
    assert store.judged("alpha") == NOW - 7200


def test_a_large_store_is_gone_through_from_the_latest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one second there may be more than are read at once; and what is new comes first."""
    monkeypatch.setattr(keeping, "_AT_ONCE", 3)
    clock = Clock()
    put(store, *(over(at, at * 3600) for at in range(1, 11)), *(over(at, 5 * 3600) for at in range(20, 28)))
    judge = Judge(Settings(), clock)
    assert judge.round(store) and findings(store).keys() == {1, 2, 3} and store.judged("alpha") == 0
    clock.now += 700
    put(store, over(50, -60))
    assert judge.round(store) and 50 in findings(store) and 10 not in findings(store)
    assert whole(judge, store) > 2
    assert findings(store).keys() == {*range(1, 11), *range(20, 28), 50} and store.judged("alpha") == NOW + 100


def test_a_start_that_was_cut_short_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_AT_ONCE", 3)
    put(store, *(over(at, at * 3600) for at in range(1, 11)))
    assert Judge(Settings(), Clock()).round(store)
    assert not Judge(Settings(), Clock()).round(store, lambda: True) or len(findings(store)) == 3
    whole(Judge(Settings(), Clock()), store)
    assert findings(store).keys() == set(range(1, 11))


def test_what_an_import_brings_is_judged(store: Store) -> None:
    judge = Judge(Settings(), Clock())
    put(store, over(1, 7200))
    judge.round(store)
    put(store, over(2, 9 * DAY))
    with store.writing("alpha") as writer:
        writer.put_judged(NOW - 10 * DAY)
    judge.round(store)
    assert findings(store).keys() == {1, 2} and store.judged("alpha") == NOW - 600


def test_a_mark_that_lies_ahead_is_not_believed(store: Store) -> None:
    put(store, over(1, 1800))
    with store.writing("alpha") as writer:
        writer.put_judged(NOW + 10 * DAY)
    Judge(Settings(), Clock()).round(store)
    assert findings(store).keys() == {1}


def test_the_rules_of_the_settings_hold(store: Store) -> None:
    put(store, over(1, 7200))
    Judge(Settings(rules=[RuleSetting(rule="timeout", enabled=False)]), Clock()).round(store)
    assert "timeout" not in findings(store)[1]
    with pytest.raises(PolicyError):
        Judge(Settings(rules=[RuleSetting(rule="nothing")]))


def test_serve_judges_beside_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away is waited for."""
    monkeypatch.setattr(keeping, "_EVERY", 0.05)
    place = tmp_path / "later" / "store.db"

    async def serve() -> None:
        judging = Judging(Settings(), f"sqlite:{place}")
        task = asyncio.create_task(judging.run())
        await asyncio.sleep(0.2)
        place.parent.mkdir()
        store = SqliteStore(place)
        put(store, over(1, NOW - int(time.time()) + 7200))
        async with asyncio.timeout(30):
            while not findings(store):
                await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await judging.close()
        store.close()

    asyncio.run(serve())
