# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was before a job, from a store and from memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from store import made
from store.made import T0

from slurmscope.findings.history import LATELY, MOST, MOST_OF_USER, StorePast, WindowPast
from slurmscope.findings.past import NodeRecord, Past
from slurmscope.life import Life
from slurmscope.store.protocol import Lives, NodeChange, Store
from slurmscope.store.sqlite import SqliteStore

DAY = 86400
CLUSTER = "alpha"


class Counted(SqliteStore):
    """A store that counts how often it is asked for lives, and for how many."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.asked = self.told = 0

    def lives(self, asked: Lives) -> list[Life]:
        found = super().lives(asked)
        self.asked += 1
        self.told += len(found)
        return found


@contextmanager
def kept(lives: Sequence[Life], changes: Sequence[NodeChange] = (), nodes: int = 0) -> Iterator[Counted]:
    with tempfile.TemporaryDirectory() as folder:
        store = Counted(str(Path(folder) / "store.db"))
        with store.writing(CLUSTER) as writer:
            writer.put_lives(lives)
            writer.put_nodes([made.kept(f"n{at}") for at in range(nodes)])
            writer.add_node_changes(changes)
        yield store
        store.close()


@contextmanager
def both(lives: Sequence[Life], changes: Sequence[NodeChange] = (), nodes: int = 0) -> Iterator[tuple[Past, Past]]:
    with kept(lives, changes, nodes) as store:
        yield StorePast(store, CLUSTER, 0), WindowPast(lives, changes, nodes)


def run(id_: int, at: int = 0, took: int = 100, **fields: Any) -> Life:
    """Submitted at that second, and ended so many seconds later."""
    start = T0 + at
    return made.ended(id_, submit_time=start, start_time=start, end_time=start + took, **fields)


def ids(lives: Sequence[Life]) -> list[int]:
    return [one.id for one in lives]


# --- the same work ----------------------------------------------------------------------------------------------------


def test_the_same_work_is_of_the_same_user_account_and_name() -> None:
    others = [run(2, user="bob"), run(3, account="other"), run(4, name="else"), run(5), run(6, 10)]
    life = run(9, 1000)
    with both([*others, life]) as pasts:
        for past in pasts:
            assert ids(past.same_work(life)) == [6, 5]


def test_what_had_not_ended_when_it_did_is_not_known() -> None:
    goes_on = made.life(3, submit_time=T0 + 20, state="RUNNING", start_time=T0 + 30, node_list="n1")
    life = run(9, 1000, 100)
    with both([run(1, 0, 1100), run(2, 0, 1101), goes_on, run(10, 1001, 1), life]) as pasts:
        for past in pasts:
            assert ids(past.same_work(life)) == [1]


def test_the_latest_runs_are_told() -> None:
    lives = [run(at, at * 200) for at in range(1, 90)]
    with both(lives) as pasts:
        for past in pasts:
            assert ids(past.same_work(lives[-1])) == list(range(88, 88 - MOST, -1))


def test_tasks_of_a_large_array_are_earlier_by_their_number() -> None:
    """All were submitted in the same second: more of them than a page of the store holds."""
    tasks = [run(at, array_id=1, array_tasks=str(at)) for at in range(1, 1001)]
    with both(tasks) as pasts:
        for past in pasts:
            for at in (999, 500, 30, 0):
                assert ids(past.same_work(tasks[at])) == list(range(at, max(0, at - MOST), -1))


# --- attempts ---------------------------------------------------------------------------------------------------------


def test_attempts_are_lives_of_one_job() -> None:
    tries = [run(7, at * 1000, state="REQUEUED") for at in range(3)]
    again = run(7, -90 * DAY, user="bob")  # the number was used before
    with both([*tries, again, run(8), run(9, array_id=7)]) as pasts:
        for past in pasts:
            assert past.attempts(tries[0]) == tries[:1]
            assert past.attempts(tries[1]) == tries[:2]
            assert past.attempts(tries[2]) == tries


def test_attempts_behind_many_others_are_found_where_slurm_counted_them() -> None:
    first, last = run(7, state="REQUEUED", restarts=0), run(7, 50_000, restarts=1)
    with both([first, *[run(at, at) for at in range(100, 400)], last]) as pasts:
        for past in pasts:
            assert past.attempts(last) == [first, last]


# --- lately -----------------------------------------------------------------------------------------------------------


def test_lately_is_by_when_they_ended() -> None:
    life = run(9, 2 * DAY, 50)
    end = life.end_time or 0
    others = [
        run(1, 0, end - T0 - DAY),  # a day before, to the second
        run(2, 0, end - T0 - DAY + 1),
        run(3, 10, end - T0 - 20),
        run(4, DAY, 100, account="other"),
        run(5, DAY, 200, name="else"),
        run(6, 2 * DAY, 60),  # after it
    ]
    with both([*others, life]) as pasts:
        for past in pasts:
            assert ids(past.lately(life, DAY)) == [2, 4, 3, 9]


def test_lately_has_a_bound() -> None:
    lives = [run(at, at * 10, 5) for at in range(1, 1000)]
    with both(lives) as pasts:
        for past in pasts:
            assert ids(past.lately(lives[-1], DAY)) == list(range(1000 - LATELY, 1000))


def test_nothing_ended_lately_before_one_that_goes_on() -> None:
    life = made.life(9, submit_time=T0 + 500, state="RUNNING", start_time=T0 + 600, node_list="n1")
    with both([run(1), life]) as pasts:
        for past in pasts:
            assert past.lately(life, DAY) == [life]


# --- nodes ------------------------------------------------------------------------------------------------------------


def turn(node: str, at: int, state: str = "DOWN", flags: tuple[str, ...] = (), reason: str | None = None) -> NodeChange:
    return NodeChange(CLUSTER, node, T0 + at, state, flags, reason, None, None)


def lost(id_: int, at: int, nodes: str = "n1") -> Life:
    return replace(run(id_, at, state="NODE_FAIL"), node_list=nodes)


def test_how_nodes_fared() -> None:
    life = lost(9, 20 * DAY, "n[1-2]")
    lives = [lost(1, -11 * DAY), lost(2, DAY), lost(3, 2 * DAY, "n[1,3]"), lost(4, 21 * DAY), run(5, DAY), life]
    changes = [
        turn("n1", -11 * DAY, reason="long ago"),
        turn("n1", DAY, "MIXED", ("NOT_RESPONDING",)),
        turn("n1", DAY + 60, reason="Not responding"),
        turn("n1", DAY + 600, "IDLE", reason="bad fan"),
        turn("n1", DAY + 700, "IDLE"),
        turn("n1", 3 * DAY, flags=("MAINT",)),
        turn("n1", 20 * DAY + 200),  # by this very end
        turn("n1", 21 * DAY, reason="not known yet"),
        turn("n2", DAY, "IDLE", ("NOT_RESPONDING", "POWERED_DOWN")),
    ]
    with both(lives, changes, nodes=10) as pasts:
        for past in pasts:
            assert past.record(life) == [
                NodeRecord("n1", 30, 3, 2, 0.5, "bad fan"),
                NodeRecord("n2", 30, 1, 0, 0.5, None),
            ]


def test_nothing_is_told_of_nodes_where_nothing_is_kept_of_them() -> None:
    life = lost(9, 0)
    with both([life], [turn("n1", 0)]) as pasts:
        for past in pasts:
            assert past.record(life) == []


def test_a_list_of_hosts_that_is_none() -> None:
    life = lost(9, 0, "n[1-")
    with both([life], nodes=3) as pasts:
        for past in pasts:
            assert past.record(life) == []


# --- both, and what it costs ------------------------------------------------------------------------------------------

STATES = ("COMPLETED", "FAILED", "NODE_FAIL", "REQUEUED", "RUNNING", "TIMEOUT")


@st.composite
def any_life(draw: st.DrawFn) -> Life:
    at, waited, took = (draw(st.integers(0, most)) for most in (100 * DAY, DAY, 2 * DAY))
    at = at // 100 if draw(st.booleans()) else at // 1000 * 1000
    state = draw(st.sampled_from(STATES))
    start = T0 + at + waited
    fields = {
        "user": draw(st.sampled_from("ab")),
        "account": draw(st.sampled_from(("p", "q"))),
        "name": draw(st.sampled_from(("x", "y"))),
        "restarts": draw(st.sampled_from((None, 0, 1, 3))),
        "start_time": start,
        "end_time": start + took,
        "changed_time": start + took,
        "node_list": draw(st.sampled_from(("n1", "n[1-3]", ""))),
        "state": state,
    }
    return replace(made.life(draw(st.integers(1, 5)), submit_time=T0 + at), **fields)


def any_turn() -> st.SearchStrategy[NodeChange]:
    return st.builds(
        turn,
        st.sampled_from(("n1", "n2")),
        st.integers(0, 100 * DAY),
        st.sampled_from(("DOWN", "IDLE")),
        st.sampled_from(((), ("NOT_RESPONDING",), ("MAINT",))),
        st.sampled_from((None, "fan", "")),
    )


@pytest.mark.parametrize("most", [0, MOST_OF_USER], ids=["by name and day", "all of a user"])
@settings(max_examples=50)
@given(
    lives=st.lists(any_life(), min_size=1, max_size=60, unique_by=lambda one: one.key),
    changes=st.lists(any_turn(), max_size=8, unique_by=lambda one: (one.node, one.time)),
    nodes=st.integers(0, 3),
)
def test_both_give_the_same_answers(most: int, lives: list[Life], changes: list[NodeChange], nodes: int) -> None:
    with kept(lives, changes, nodes) as store:
        stored: Past = StorePast(store, CLUSTER, most)
        window: Past = WindowPast(lives, changes, nodes)
        for life in lives:
            assert list(stored.same_work(life)) == list(window.same_work(life))
            assert list(stored.attempts(life)) == list(window.attempts(life))
            assert list(stored.lately(life, DAY)) == list(window.lately(life, DAY))
            assert list(stored.record(life)) == list(window.record(life))


def asked_of_all(store: Store, lives: Sequence[Life], most: int) -> None:
    past: Past = StorePast(store, CLUSTER, most)
    for life in lives:
        past.same_work(life)
        past.attempts(life)
        past.lately(life, DAY)


def test_a_user_is_read_once() -> None:
    """Each of his jobs has a name of its own."""
    lives = [run(at, at * 288, name=f"work{at}", restarts=None) for at in range(3000)]
    with kept(lives) as store:
        asked_of_all(store, lives, MOST_OF_USER)
        assert store.asked <= 50
        assert store.told <= len(lives) + 100


@pytest.mark.parametrize("order", [1, -1], ids=["the oldest first", "the latest first"])
def test_a_user_with_very_many_is_not_asked_about_for_each_job(order: int) -> None:
    """Three thousand jobs by two names over ten days."""
    lives = [run(at, at * 288, name=f"work{at % 2}", restarts=None) for at in range(3000)]
    with kept(lives) as store:
        asked_of_all(store, lives[::order], 1000)
        # for each name and day: a page or two of runs, and those that ended then
        assert store.asked <= 2 * 12 * 4
        assert store.told <= 5 * len(lives)


def test_node_records_are_read_once() -> None:
    lives = [lost(at, at * 600) for at in range(1000)]
    with kept(lives, nodes=5) as store:
        past: Past = StorePast(store, CLUSTER)
        for life in lives:
            assert past.record(life)
        assert store.asked <= 10
        assert store.told == len(lives)
