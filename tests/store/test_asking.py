# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages ask of a store: lives by any of what they are, in any order, with arrays folded; and names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from store import asked as made
from store.made import DAY, HOSTILE, T0, ended, kept, life, opened

from slurmscope.store import arms, search
from slurmscope.store.protocol import Fold, Lives, Sight, Store
from slurmscope.store.sqlite import SqliteStore

QUEUE = made.queue(45)
FINDINGS = made.judged(QUEUE)
BEA = Sight("bea", frozenset({("alpha", "physics"), ("b.c", "a.b"), ("nowhere", "bio")}))
ASKED = (
    Lives(qos="high"),
    Lives(node="n2"),
    Lives(node="m.1", cluster="alpha", user="ana"),
    Lives(gpu_type="a100", limit=None),
    Lives(gpu_type="", states=("FAILED", "TIMEOUT")),
    Lives(finding="low_cpu"),
    Lives(finding="$or", user="bea", cluster="b.c"),
    Lives(named="TRAIN"),
    Lives(named="STRASSE", limit=None),
    Lives(named="%_[a-Z]*"),
    Lives(named="x\0"),
    Lives(named=".é"),
    Lives(named=""),
    Lives(active_since=T0 + 6000, limit=None),
    Lives(active_since=T0 + 6000, cluster="alpha", states=("COMPLETED",), sight=BEA),
    Lives(sight=BEA, limit=None),
    Lives(sight=BEA, account="physics", partition="gpu"),
    Lives(sight=Sight("nobody")),
    Lives(sight=BEA, node="n1", ended_since=T0 + 3000, ended_before=T0 + 9000),
    Lives(sight=BEA, after=(T0 + 1800, 1500), limit=7),
    Lives(after=(T0 + 1800, 1500), ascending=True, until=T0 + 3000),
    Lives(after=(T0 + 1800, 1500), order="cpus"),
    Lives(after=(T0 + 1800, 1500), since=T0, until=T0 + 900),
    Lives(ascending=True, limit=9, offset=3),
    Lives(order="ended", limit=20),
    Lives(order="ended", ascending=True, sight=BEA, limit=None),
    Lives(order="ended", open=True, limit=5),
    Lives(order="ended", user="ana", limit=10, offset=1000),
    Lives(order="ended", open=False, cluster="alpha", limit=None, offset=4),
    Lives(order="started", limit=None),
    Lives(order="ran", ascending=True, user="ana", limit=None),
    Lives(order="ran", limit=30, offset=10),
    Lives(order="waited", limit=None),
    Lives(order="cpus", limit=None),
    Lives(order="gpus", ascending=True, qos="normal", limit=None),
    Lives(order="memory", node="n1", limit=None),
    Lives(order="memory", ascending=True, limit=0),
    Lives(qos="nowhere"),
    Lives(node="nowhere"),
    Lives(finding="nowhere"),
    Lives(cluster="nowhere", sight=BEA, order="ran"),
)


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of each kind, with the same lives; the last are put twice."""
    if request.param == "mongodb":
        server = request.getfixturevalue("mongodb")
        store = opened(f"{server.url}test_asking_{time.time_ns()}?authSource=admin")
    else:
        store = opened(f"sqlite:{tmp_path_factory.mktemp('asking') / 'store.db'}")
    before = [replace(one, state="PENDING", node_list="n[1-9]", name="before", user="dan") for one in QUEUE[-40:]]
    made.put(store, QUEUE[:-40] + before, {})
    made.put(store, QUEUE, FINDINGS)
    yield store
    store.close()


both = pytest.mark.parametrize(
    "filled", ["sqlite", pytest.param("mongodb", marks=pytest.mark.mongodb)], indirect=True, scope="module"
)
sqlite = pytest.mark.parametrize("filled", ["sqlite"], indirect=True, scope="module")


def check(store: Store, asked: Lives) -> None:
    for now in (int(time.time()), int(time.time())):  # a second may pass between two looks at the clock
        found, right = store.lives(asked), made.expected(QUEUE, asked, FINDINGS, now)
        if found == right:
            break
    assert found == right
    count = len(made.matching(QUEUE, asked, FINDINGS))
    assert store.count(asked) == count and store.count(asked, 5) == min(count, 5) and store.count(asked, 0) == 0
    # FerretDB 1 looks at all of them for every page
    size = 13 if isinstance(store, SqliteStore) else 40
    assert pages(store, asked, size) == list(made.folds(QUEUE, replace(asked, after=None), FINDINGS))


def pages(store: Store, asked: Lives, size: int) -> list[Fold]:
    """One after the other, until there is none."""
    found: list[Fold] = []
    at = replace(asked, after=None, limit=size)
    while some := store.folded(at):
        assert len(some) <= size
        found += some
        at = replace(at, after=some[-1].after)
    return found


@both
@pytest.mark.parametrize("asked", ASKED, ids=range(len(ASKED)))
def test_what_is_asked_for_is_found(filled: Store, asked: Lives) -> None:
    check(filled, asked)


choices: dict[str, Any] = {
    "cluster": st.sampled_from(["alpha", "b.c", "nowhere"]),
    "id": st.integers(1000, 1300),
    "user": st.sampled_from(["ana", "bea"]),
    "account": st.sampled_from(["bio", "a.b"]),
    "partition": st.sampled_from(["cpu", "cpu,gpu"]),
    "qos": st.just("high"),
    "name": st.sampled_from(["Train", "", "straße"]),
    "named": st.sampled_from(["train", "s", "-"]),
    "states": st.sampled_from([("FAILED",), ("PENDING", "RUNNING"), ("COMPLETED", "TIMEOUT")]),
    "node": st.sampled_from(["n1", "m.1"]),
    "gpu_type": st.sampled_from(["a100", ""]),
    "finding": st.sampled_from(made.RULES),
    "open": st.booleans(),
    "since": st.integers(T0, T0 + 4800),
    "until": st.integers(T0, T0 + 4800),
    "ended_since": st.integers(T0, T0 + 9000),
    "ended_before": st.integers(T0, T0 + 9000),
    "active_since": st.integers(T0, T0 + 9000),
    "sight": st.sampled_from([BEA, Sight("ana"), Sight("", frozenset({("alpha", "bio")}))]),
    "order": st.sampled_from(["submitted", "ended", "started", "cpus", "gpus", "memory"]),
    "ascending": st.booleans(),
    "after": st.tuples(st.integers(T0, T0 + 4800), st.integers(1000, 4000)),
    "limit": st.sampled_from([None, 1, 20]),
    "offset": st.integers(0, 9),
}


@sqlite
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    few=st.sampled_from([(500,), (1, 4, 16), (1,), (16,)]),
    fields=st.sets(st.sampled_from(sorted(choices)), max_size=4).flatmap(
        lambda names: st.fixed_dictionaries({name: choices[name] for name in sorted(names)})
    ),
)
def test_by_whatever_way_the_same_is_found(filled: Store, few: tuple[int, ...], fields: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arms, "_FEW", few)  # so that of few lives those of one way are many
        patch.setattr(search, "_READ_ON", few[-1])
        patch.setattr(search, "_SORTED_ARMS", few[0])
        check(filled, Lives(**fields))


def test_a_life_is_found_by_what_it_is_now(store: Store) -> None:
    """And not by what it was: its nodes, its class, its name, its array."""
    with store.writing("alpha") as writer:
        writer.put_lives([life(1, name="before", node_list="n[1-2]", gpus={"a100": 1}, account="bio")])
        writer.put_findings({(1, T0): ("timeout", "low_cpu")})
    after = ended(1, name="after", array_id=7, qos="high", gpus={"h100": 1})
    with store.writing("alpha") as writer:
        writer.put_lives([replace(after, node_list="n[2-3]")])
    there = [replace(after, node_list="n[2-3]")]
    for asked in (
        Lives(node="n1"),
        Lives(gpu_type="a100"),
        Lives(qos="normal"),
        Lives(named="before"),
        Lives(open=True),
    ):
        assert store.lives(asked) == [] and store.folded(asked) == [] and store.count(asked) == 0, asked
    for asked in (Lives(node="n3"), Lives(gpu_type="h100"), Lives(qos="high"), Lives(named="after"), Lives(id=7)):
        assert store.lives(asked) == there and [one.life for one in store.folded(asked)] == there, asked
    for rule in ("timeout", "low_cpu"):
        assert store.lives(Lives(finding=rule)) == there
        assert store.folded(Lives(finding=rule)) == [Fold(there[0], 1, {"COMPLETED": 1})]


def test_an_array_is_one_however_long_it_is(store: Store) -> None:
    tasks = [
        ended(100 + at, array_id=100, array_tasks=str(at), state="FAILED" if at < 3 else "COMPLETED")
        for at in range(150)
    ]
    rest = life(99, array_id=100, array_tasks="200-299", tasks=100)
    again = ended(300, array_id=100, submit_time=T0 + 9)
    with store.writing("alpha") as writer:
        writer.put_lives([*tasks, rest, again, ended(400), ended(50)])
    found = store.folded(Lives())
    assert [(one.life.id, one.tasks) for one in found] == [(300, 1), (400, 1), (249, 250), (50, 1)]
    assert found[2].states == {"COMPLETED": 147, "FAILED": 3, "PENDING": 100} and found[2].after == (T0, 100)
    assert [one.life.id for one in store.folded(Lives(after=found[2].after))] == [50]
    failed = store.folded(Lives(states=("FAILED",)))
    assert [(one.life.id, one.states) for one in failed] == [(102, {"FAILED": 3})]
    assert store.folded(Lives(limit=0)) == [] and len(store.folded(Lives(limit=2))) == 2


# --- findings ---------------------------------------------------------------------------------------------------------


def test_findings_are_replaced_and_stay_with_the_life(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1), ended(2), ended(3)])
        writer.put_findings({(1, T0): ("timeout",), (2, T0): (), (9, T0): ("timeout",)})
    keys = [(1, T0), (2, T0), (3, T0), (9, T0)]
    assert store.findings("alpha", keys) == {(1, T0): ("timeout",), (2, T0): ()}
    assert store.findings("beta", keys) == {} and store.findings("alpha", []) == {}
    with store.writing("alpha") as writer:
        writer.put_findings({(1, T0): ("low_cpu", "swap")})
        writer.put_lives([ended(1, accounted=True)])
    assert store.findings("alpha", keys)[1, T0] == ("low_cpu", "swap")
    assert store.count(Lives(finding="timeout")) == 0 and store.count(Lives(finding="swap")) == 1
    with pytest.raises(ZeroDivisionError), store.writing("alpha") as writer:
        writer.put_findings({(1, T0): ()})
        raise ZeroDivisionError
    assert store.findings("alpha", keys)[1, T0] == ("low_cpu", "swap")


def test_findings_go_with_the_life(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1), ended(2, submit_time=T0 + 9 * DAY, start_time=T0 + 9 * DAY)])
        writer.put_findings({(1, T0): ("timeout",), (2, T0 + 9 * DAY): ("timeout",)})
    assert store.forget("jobs", T0 + 5 * DAY) == 1
    assert [one.id for one in store.lives(Lives(finding="timeout"))] == [2]
    assert [one.id for one in store.lives(Lives(node="n1"))] == [2]
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1)])
    assert store.findings("alpha", [(1, T0)]) == {} and store.count(Lives(finding="timeout")) == 1


def test_how_far_a_cluster_was_judged(store: Store) -> None:
    assert store.judged("alpha") == 0
    with store.writing("alpha") as writer:
        writer.put_judged(T0)
    with store.writing("beta") as writer:
        writer.put_judged(5)
    assert (store.judged("alpha"), store.judged("beta"), store.judged("nowhere")) == (T0, 5, 0)
    with store.writing("alpha") as writer:
        writer.put_judged(T0 - 1)
    assert store.judged("alpha") == T0 - 1


# --- names ------------------------------------------------------------------------------------------------------------


@both
def test_names_are_told_by_their_beginning(filled: Store) -> None:
    for kind in ("user", "account", "partition", "qos", "name"):
        for beginning in ("", "a", "c", "tr", "z"):
            for cluster in (None, "alpha", "nowhere"):
                lives = [one for one in QUEUE if cluster in (None, one.cluster)]
                right = sorted({value for one in lives if (value := getattr(one, kind)).startswith(beginning)})
                assert filled.names(kind, beginning, cluster) == right
                assert filled.names(kind, beginning, cluster, limit=1) == right[:1]
    assert filled.names("gpu_type") == ["", "a100", "h.100"] and filled.names("gpu_type", "h") == ["h.100"]


@both
def test_names_are_told_only_of_what_somebody_may_see(filled: Store) -> None:
    for sight in (BEA, Sight("ana"), Sight("nobody")):
        seen = made.matching(QUEUE, Lives(sight=sight), FINDINGS)
        for kind in ("user", "account", "name"):
            assert filled.names(kind, sight=sight) == sorted({getattr(one, kind) for one in seen})


def test_names_may_hold_anything_and_nodes_are_those_that_are_kept(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([ended(at, name=name, user=name, account=name) for at, name in enumerate(HOSTILE, 1)])
        writer.put_nodes([kept("n10"), kept("n2"), kept("m.1")])
    with store.writing("beta") as writer:
        writer.put_nodes([kept("n3", "beta"), kept("n2", "beta")])
    for name in HOSTILE:
        assert store.names("user", name, limit=100)[0] == store.names("name", name, limit=100)[0] == name
    assert store.names("user", limit=100) == sorted(HOSTILE)
    assert store.names("node", "n") == ["n10", "n2", "n3"] and store.names("node", "n", "beta") == ["n2", "n3"]
    store.forget("jobs", T0 + 9 * DAY)
    assert store.names("user") == store.names("name") == store.names("partition") == []


def test_a_store_in_a_file_forgets_names_that_nobody_has(tmp_path: Any) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1, name="old"), ended(2, name="new", submit_time=T0 + DAY, start_time=T0 + DAY)])
    store.forget("jobs", T0 + DAY)
    for table, count in (("names", 1), ("people", 1), ("job_nodes", 2), ("jobs", 1)):
        assert store._ask(f"SELECT count(*) FROM {table}").fetchone() == (count,), table
    store.close()
