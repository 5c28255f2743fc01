# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All that is written within `writing()` is written, or nothing, whoever else writes or reads at the time."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace
from store.made import (
    D0,
    T0,
    change,
    ended,
    kept,
    kept_lives,
    kept_measured,
    kept_usage,
    life,
    measured,
    opened,
    point,
    summed,
)

from slurmscope.store.protocol import FINE, Span, Store
from slurmscope.usage import Amounts, Key

TESTS = Path(__file__).parent.parent
KEY = Key(D0, "alpha", "a", "u", "p", "q", "")
ROUNDS = 8


class Fault(Exception):
    pass


def test_what_an_exception_leaves_is_not_written(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
        writer.add_usage({KEY: Amounts(1)})
        writer.put_nodes([kept("n1")])
        writer.put_spans([Span(1, 2)])
        writer.put_measured([measured(1)])
    with pytest.raises(Fault), store.writing("alpha") as writer:
        writer.put_lives([ended(1), life(2)])
        writer.add_usage({KEY: Amounts(1)})
        writer.clear_usage(0)
        writer.put_nodes([kept("n2")])
        writer.drop_nodes(["n1"])
        writer.add_node_changes([change()])
        writer.put_points([point()])
        writer.put_spans([])
        writer.put_measured([measured(1, seed=2), measured(2)])
        raise Fault
    assert kept_lives(store, "alpha") == [life(1)]
    assert kept_measured(store, "alpha") == [measured(1)]
    assert kept_usage(store, "alpha") == {KEY: Amounts(1)}
    assert store.nodes("alpha") == [kept("n1")] and store.spans("alpha") == [Span(1, 2)]
    assert store.node_changes("alpha", 0, sys.maxsize) == []
    assert store.points("alpha", None, FINE, 0, sys.maxsize) == []
    with store.writing("alpha") as writer:
        writer.put_lives([life(3)])
    assert [one.id for one in kept_lives(store, "alpha")] == [1, 3]


def test_a_cluster_of_which_nothing_was_written_is_none(store: Store) -> None:
    with pytest.raises(Fault), store.writing("alpha") as writer:
        writer.put_lives([life(1)])
        raise Fault
    assert store.clusters() == []


def count_up(store: Store, rounds: int) -> None:
    """Reads a number and writes the next: two that did so at a time would lose one."""
    for _ in range(rounds):
        with store.writing("alpha") as writer:
            found = writer.lives([(1, T0)]).get((1, T0), life(1))
            writer.put_lives([replace(found, restarts=(found.restarts or 0) + 1)])
            writer.add_usage({KEY: Amounts(submitted=1)})


def test_writers_of_one_cluster_take_turns(store: Store, url: str) -> None:
    """Threads of one store, another store of this process, and another process."""
    code = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from store.made import opened
from store.test_writing import count_up
count_up(opened(sys.argv[1]), {ROUNDS})
"""
    other = subprocess.Popen([sys.executable, "-c", code, url])
    second = opened(url)
    with ThreadPoolExecutor(4) as threads:
        work = [threads.submit(count_up, one, ROUNDS) for one in (store, store, second, second)]
        for one in work:
            one.result()
    assert other.wait(120) == 0
    found = store.life("alpha", 1, T0)
    assert found is not None and found.restarts == 5 * ROUNDS
    assert kept_usage(store, "alpha") == {KEY: Amounts(submitted=5 * ROUNDS)}
    second.close()


def test_clusters_are_written_side_by_side(store: Store) -> None:
    def write(cluster: str) -> None:
        for at in range(ROUNDS):
            with store.writing(cluster) as writer:
                writer.put_lives([life(at, cluster)])

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, ("alpha", "beta", "gamma")))
    for cluster in ("alpha", "beta", "gamma"):
        assert [one.id for one in kept_lives(store, cluster)] == list(range(ROUNDS))


def test_readers_read_whole_lives_while_others_write(store: Store) -> None:
    over = threading.Event()
    states = [[ended(at, state=state, name=state) for at in range(20)] for state in ("COMPLETED", "FAILED")]

    def write() -> None:
        try:
            for at in range(ROUNDS):
                with store.writing("alpha") as writer:
                    writer.put_lives(states[at % 2])
        finally:
            over.set()

    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(write)
        while not over.is_set():
            found = kept_lives(store, "alpha")
            assert len(found) in (0, 20) or len({one.id for one in found}) == len(found)
            assert all(one in states[0] or one in states[1] for one in found)
        work.result()
    assert kept_lives(store, "alpha") == states[1]


def test_readers_of_sqlite_see_a_batch_or_not(sqlite_url: str) -> None:
    """Which MongoDB does not promise to those who read outside of `writing()`."""
    store = opened(sqlite_url)
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
        writer.add_usage(summed([life(1)]))
        before = opened(sqlite_url)
        assert kept_lives(before, "alpha") == [] and kept_usage(before, "alpha") == {}
    assert kept_lives(before, "alpha") == [life(1)] and kept_usage(before, "alpha") == summed([life(1)])
    before.close()
    store.close()
