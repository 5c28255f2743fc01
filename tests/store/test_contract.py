# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What holds for every store: each thing that is put is found, under its own identity, in the order that was said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from store.made import (
    D0,
    DAY,
    HOSTILE,
    T0,
    change,
    ended,
    fill_rest,
    kept,
    kept_lives,
    kept_measured,
    kept_usage,
    life,
    opened,
    point,
    summed,
)

from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Lives, Span, Store, UsageAsked
from slurmscope.usage import AMOUNTS, KEYS, UNTYPED, Amounts, Key

LARGE = (2**53 + 1, 2**62 - 3, 2**31, -(2**53) - 1)


def put(store: Store, *lives: object) -> None:
    for cluster in sorted({one.cluster for one in lives}):  # type: ignore[attr-defined]
        with store.writing(cluster) as writer:
            writer.put_lives([one for one in lives if one.cluster == cluster])  # type: ignore[attr-defined, misc]


def ids(store: Store, **asked: object) -> list[tuple[str, int]]:
    return [(one.cluster, one.id) for one in store.lives(Lives(**asked))]  # type: ignore[arg-type]


# --- lives ------------------------------------------------------------------------------------------------------------


def test_an_empty_store_answers_all_that_is_asked(store: Store) -> None:
    assert store.life("alpha", 1, T0) is None
    assert store.lives(Lives()) == [] and store.count(Lives()) == 0 and list(store.each_life("alpha")) == []
    assert store.usage(UsageAsked(since=0, until=1 << 30)) == []
    assert store.nodes("alpha") == [] and store.node_changes("alpha", 0, sys.maxsize) == []
    assert store.points("alpha", None, FINE, 0, sys.maxsize) == [] and store.spans("alpha") == []
    assert store.clusters() == [] and store.check() == []
    found = store.stats()
    assert set(found.counts.values()) == {0} and (found.oldest, found.newest) == (None, None)


def test_a_life_comes_back_as_it_was(store: Store) -> None:
    whole = ended(7, cpu_seconds=5.0, gpus={"": 1, "a.100": 2}, accounted=True, cancelled_by="0", gpu_share=1.0)
    put(store, whole, life(8, submit_time=None), life(9, guess=(T0 + 5, T0 + 9)))
    assert store.life("alpha", 9, T0) == life(9, guess=(T0 + 5, T0 + 9))
    assert store.life("alpha", 7, T0) == whole
    assert store.life("alpha", 8, 0) == life(8, submit_time=None)
    assert store.lives(Lives(id=7)) == [whole]


def test_a_life_is_cluster_id_and_submit_time(store: Store) -> None:
    first, again, elsewhere = ended(1), life(1, submit_time=T0 + 9), life(1, cluster="beta")
    put(store, first, again, elsewhere)
    assert store.count(Lives()) == 3
    assert store.life("alpha", 1, T0) == first
    assert store.life("alpha", 1, T0 + 9) == again
    assert store.life("beta", 1, T0) == elsewhere
    assert store.life("beta", 1, T0 + 9) is None


def test_what_is_put_again_replaces(store: Store) -> None:
    put(store, life(1), life(2))
    put(store, ended(1))
    assert kept_lives(store, "alpha") == [ended(1), life(2)]


def test_a_writer_reads_what_is_there_and_what_it_put(store: Store) -> None:
    put(store, life(1), life(2), life(3, cluster="beta"))
    with store.writing("alpha") as writer:
        assert writer.lives([(1, T0), (2, T0), (3, T0), (9, T0)]) == {(1, T0): life(1), (2, T0): life(2)}
        assert sorted(one.id for one in writer.open_lives()) == [1, 2]
        writer.put_lives([ended(1), life(4)])
        assert writer.lives([(1, T0), (4, T0)]) == {(1, T0): ended(1), (4, T0): life(4)}
        assert sorted(one.id for one in writer.open_lives()) == [2, 4]
        assert writer.lives([]) == {}


def test_the_latest_come_first(store: Store) -> None:
    put(store, life(1), life(3), life(2), life(3, "beta"), life(9, submit_time=T0 - 1), life(5, submit_time=T0 + 1))
    order = [("alpha", 5), ("alpha", 3), ("beta", 3), ("alpha", 2), ("alpha", 1), ("alpha", 9)]
    assert ids(store) == order
    assert ids(store, limit=2, offset=1) == order[1:3]
    assert ids(store, limit=None, offset=4) == order[4:]
    assert ids(store, limit=0) == [] and ids(store, offset=6) == []
    assert store.count(Lives(limit=2, offset=1)) == 6


def test_lives_are_told_apart_by_what_is_asked(store: Store) -> None:
    put(
        store,
        life(1, user="bea", account="bio"),
        ended(2, user="bea", state="FAILED"),
        ended(3, partition="cpu", state="TIMEOUT"),
        life(41, array_id=40),
        life(40, "beta", submit_time=T0 + 10),
    )
    assert ids(store, user="bea") == [("alpha", 2), ("alpha", 1)]
    assert ids(store, user="bea", account="bio") == [("alpha", 1)]
    assert ids(store, partition="cpu") == [("alpha", 3)]
    assert ids(store, states=("FAILED", "TIMEOUT")) == [("alpha", 3), ("alpha", 2)]
    assert ids(store, id=40) == [("beta", 40), ("alpha", 41)]
    assert ids(store, id=40, cluster="alpha") == [("alpha", 41)]
    assert ids(store, open=True) == [("beta", 40), ("alpha", 41), ("alpha", 1)]
    assert ids(store, open=False) == [("alpha", 3), ("alpha", 2)]
    assert ids(store, since=T0 + 10) == [("beta", 40)]
    assert ids(store, until=T0 + 10, cluster="beta") == [] and ids(store, user="bea", cluster="beta") == []
    assert store.count(Lives(open=True, cluster="alpha")) == 2


def test_lives_are_found_by_when_they_ended(store: Store) -> None:
    """One that goes on may have a time by which it must end."""
    put(
        store,
        *(ended(at, end_time=T0 + at) for at in range(1, 6)),
        ended(3, "beta", end_time=T0 + 3),
        life(9, state="RUNNING", start_time=T0, end_time=T0 + 3),
    )
    assert ids(store, ended_since=T0 + 2, ended_before=T0 + 4) == [("alpha", 3), ("beta", 3), ("alpha", 2)]
    assert ids(store, cluster="alpha", ended_since=T0 + 4) == [("alpha", 5), ("alpha", 4)]
    assert ids(store, cluster="alpha", ended_before=T0 + 2, open=False) == [("alpha", 1)]
    assert ids(store, ended_since=T0, open=True) == [] and ids(store, ended_before=T0 + 1) == []
    assert ids(store, ended_since=T0, since=T0 + 1) == [] and ids(store, ended_since=T0, id=3, cluster="beta") != []
    assert store.count(Lives(cluster="alpha", ended_since=T0 + 2, limit=1)) == 4


def test_lives_are_found_by_their_name(store: Store) -> None:
    names = ["train", "Train", "train ", "$gt", *HOSTILE]
    put(store, *(life(at, name=name) for at, name in enumerate(names, 1)), life(99, name="train", user="bea"))
    for at, name in enumerate(names, 1):
        assert ids(store, user="ana", name=name) == [("alpha", at)], name
    assert ids(store, name="train") == [("alpha", 99), ("alpha", 1)]
    put(store, life(1, name="another"))
    assert ids(store, name="train") == [("alpha", 99)] and ids(store, user="ana", name="another") == [("alpha", 1)]


def test_all_lives_are_given_by_id_and_time(store: Store) -> None:
    put(store, *(life(id_, submit_time=T0 + at) for id_ in (30, 2, 11) for at in (5, 0)), life(1, "beta"))
    assert [one.key for one in kept_lives(store, "alpha")] == [(i, T0 + at) for i in (2, 11, 30) for at in (0, 5)]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_may_hold_anything(store: Store, name: str) -> None:
    cluster = name or "c"
    whole = ended(
        1,
        cluster,
        name=name,
        user=name,
        account=name,
        partition=name,
        qos=name,
        reason=name,
        gpus={name: 2, "other": 1},
        features=name,
    )
    put(store, whole, life(1, "other"))
    deltas = summed([whole])
    with store.writing(cluster) as writer:
        writer.add_usage(deltas)
        writer.put_nodes([kept(name, cluster, gpus={name: 1}, features=(name,), reason=name)])
        writer.add_node_changes([change(name, T0, cluster, state=name)])
        writer.put_points([point(T0, name, FINE, cluster, **{name: 1.5})])
    assert store.life(cluster, 1, T0) == whole
    assert store.lives(Lives(cluster=cluster, user=name, account=name, partition=name)) == [whole]
    assert kept_usage(store, cluster) == deltas
    assert store.nodes(cluster) == [kept(name, cluster, gpus={name: 1}, features=(name,), reason=name)]
    assert store.node_changes(cluster, T0, T0 + 1, name) == [change(name, T0, cluster, state=name)]
    assert store.points(cluster, name, FINE, T0, T0 + 1) == [point(T0, name, FINE, cluster, **{name: 1.5})]
    assert store.clusters() == sorted({cluster, "other"})
    assert store.check() == []


def test_joined_names_are_not_mixed_up(store: Store) -> None:
    with store.writing("a.b") as writer:
        writer.put_nodes([kept("c", "a.b")])
        writer.add_usage({Key(D0, "a.b", "x.y", "z", "", "", ""): Amounts(1)})
        writer.add_usage({Key(D0, "a.b", "x", "y.z", "", "", ""): Amounts(2)})
    with store.writing("a") as writer:
        writer.put_nodes([kept("b.c", "a")])
    assert store.nodes("a.b") == [kept("c", "a.b")] and store.nodes("a") == [kept("b.c", "a")]
    assert [one.amounts.submitted for one in store.usage(UsageAsked(since=D0, until=D0 + 1, by=("user",)))] == [2, 1]


@pytest.mark.parametrize("number", LARGE)
def test_large_numbers_are_exact(store: Store, number: int) -> None:
    large = ended(3, memory=number, energy=number, priority=number)
    put(store, large)
    key = Key(D0, "alpha", "a", "u", "p", "q", "")
    with store.writing("alpha") as writer:
        writer.add_usage({key: Amounts(*[number] * len(AMOUNTS))})
    with store.writing("alpha") as writer:
        writer.add_usage({key: Amounts(*[1] * len(AMOUNTS))})
    assert store.life("alpha", 3, T0) == large
    assert kept_usage(store, "alpha") == {key: Amounts(*[number + 1] * len(AMOUNTS))}


# --- usage ------------------------------------------------------------------------------------------------------------


def test_usage_is_added_taken_away_and_summed(store: Store) -> None:
    lives = [ended(1), ended(2, user="bea", gpus={"a100": 2, "": 1}), ended(3, "beta", start_time=T0 + 3 * DAY)]
    for cluster in ("alpha", "beta"):
        with store.writing(cluster) as writer:
            writer.add_usage(summed(one for one in lives if one.cluster == cluster))
    (whole,) = store.usage(UsageAsked(since=0, until=1 << 30))
    assert whole.key == () and whole.amounts.cpu_seconds == 3 * 4 * 3600 and whole.amounts.completed == 3
    by_user = store.usage(UsageAsked(since=D0, until=D0 + 9, by=("user", "gpu_type")))
    assert [one.key for one in by_user] == [("ana", ""), ("bea", "a100"), ("bea", UNTYPED)]
    assert [one.amounts.gpu_seconds for one in by_user] == [0, 7200, 3600]
    only = store.usage(UsageAsked(since=D0, until=D0 + 9, by=("day", "cluster"), only={"cluster": "beta"}))
    assert [one.key for one in only] == [(D0, "beta"), (D0 + 3, "beta")]
    assert len(store.usage(UsageAsked(since=D0 + 3, until=D0 + 4, by=KEYS))) == 1
    assert store.usage(UsageAsked(since=D0 + 4, until=D0 + 9)) == []
    with store.writing("alpha") as writer:
        writer.add_usage({key: Amounts(*(-one for one in row)) for key, row in summed(lives[:1]).items()})
    assert [one.key for one in store.usage(UsageAsked(since=D0, until=D0 + 2, by=("user",)))] == [("ana",), ("bea",)]
    assert kept_usage(store, "alpha") == summed(lives[1:2])


def test_usage_is_added_more_than_once_in_a_writing(store: Store) -> None:
    key = Key(D0, "alpha", "a", "u", "p", "q", "")
    with store.writing("alpha") as writer:
        writer.add_usage({key: Amounts(submitted=2)})
        writer.add_usage({key: Amounts(submitted=3, ended=1)})
        writer.add_usage({})
    assert kept_usage(store, "alpha") == {key: Amounts(submitted=5, ended=1)}


def test_usage_is_cleared_for_one_cluster_and_made_anew(store: Store) -> None:
    keys = {cluster: Key(D0, cluster, "a", "u", "p", "q", "") for cluster in ("alpha", "beta")}
    for cluster, key in keys.items():
        with store.writing(cluster) as writer:
            writer.add_usage({key: Amounts(1), key._replace(user="gone"): Amounts(2)})
    with store.writing("alpha") as writer:
        writer.add_usage({keys["alpha"]: Amounts(100)})
        writer.add_usage({keys["alpha"]._replace(day=D0 - 1): Amounts(5)})
        writer.clear_usage(D0)
        writer.add_usage({keys["alpha"]: Amounts(7)})
    assert kept_usage(store, "alpha") == {keys["alpha"]: Amounts(7), keys["alpha"]._replace(day=D0 - 1): Amounts(5)}
    assert kept_usage(store, "beta") == {keys["beta"]: Amounts(1), keys["beta"]._replace(user="gone"): Amounts(2)}
    with store.writing("beta") as writer:
        writer.clear_usage(0)
    assert kept_usage(store, "beta") == {}


def test_the_first_day_of_which_there_is_usage(store: Store) -> None:
    days = {"alpha": (D0 + 2, D0 + 5), "beta": (D0 + 1,)}
    for cluster, some in days.items():
        with store.writing(cluster) as writer:
            writer.add_usage({Key(day, cluster, "a", "u", "p", "q", ""): Amounts(energy_joules=1) for day in some})
            writer.add_usage({Key(D0, cluster, "a", "u", "p", "q", ""): Amounts(1)})
            writer.add_usage({Key(D0, cluster, "a", "u", "p", "q", ""): Amounts(-1)})
    assert store.first_used(D0, D0 + 9) == D0 + 1
    assert store.first_used(D0, D0 + 9, "alpha") == D0 + 2
    assert store.first_used(D0 + 3, D0 + 9, "alpha") == D0 + 5
    assert store.first_used(D0 + 3, D0 + 5, "alpha") is None
    assert store.first_used(D0, D0 + 9, "nowhere") is None


def test_usage_is_by_names_of_its_key(store: Store) -> None:
    for asked in (UsageAsked(since=0, until=1, by=("name",)), UsageAsked(since=0, until=1, only={"day; --": "1"})):
        with pytest.raises(ValueError, match="usage is by day, cluster"):
            store.usage(asked)


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_nodes_are_put_and_dropped(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_nodes([kept("n2"), kept("n10"), kept("n1", load=None, flags=frozenset(), gpus={})])
        writer.put_nodes([kept("n2", cpus=1)])
    with store.writing("beta") as writer:
        writer.put_nodes([kept("n1", "beta")])
    assert [one.node.name for one in store.nodes("alpha")] == ["n1", "n10", "n2"]
    assert store.nodes("alpha")[2] == kept("n2", cpus=1)
    with store.writing("alpha") as writer:
        writer.drop_nodes(["n10", "n2", "nowhere"])
        writer.put_nodes([kept("n2")])
    assert store.nodes("alpha") == [kept("n1", load=None, flags=frozenset(), gpus={}), kept("n2")]
    assert store.nodes("beta") == [kept("n1", "beta")]


def test_node_changes_are_in_the_order_of_time_and_name(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.add_node_changes([change("n2", T0), change("n1", T0), change("n1", T0 + 5), change("n1", T0 - 5)])
        writer.add_node_changes([change("n1", T0, state="IDLE")])
    found = store.node_changes("alpha", T0 - 5, T0 + 5)
    assert [(one.time, one.node) for one in found] == [(T0 - 5, "n1"), (T0, "n1"), (T0, "n2")]
    assert found[1] == change("n1", T0, state="IDLE")
    assert store.node_changes("alpha", 0, sys.maxsize, "n2") == [change("n2", T0)]
    assert store.node_changes("beta", 0, sys.maxsize) == []


def test_points_are_kept_by_step_and_partition(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_points([point(T0 + at, name) for at in (20, 0, 10) for name in ("gpu", "", "cpu")])
        writer.put_points([point(T0, "", MIDDLE, jobs=0.1), point(T0, "", MIDDLE, jobs=1e300)])
    found = store.points("alpha", None, FINE, T0, T0 + 20)
    assert [(one.time - T0, one.partition) for one in found] == [(a, p) for a in (0, 10) for p in ("", "cpu", "gpu")]
    assert store.points("alpha", "", MIDDLE, T0, T0 + 1) == [point(T0, "", MIDDLE, jobs=1e300)]
    assert store.points("alpha", "", COARSE, T0, T0 + 1) == []
    assert len(store.points("alpha", "gpu", FINE, 0, sys.maxsize)) == 3


def test_spans_are_replaced(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_spans([Span(20, 30), Span(1, 5)])
    assert store.spans("alpha") == [Span(1, 5), Span(20, 30)]
    with store.writing("alpha") as writer:
        writer.put_spans([Span(1, 30)])
    with store.writing("beta") as writer:
        writer.put_spans([])
    assert store.spans("alpha") == [Span(1, 30)] and store.spans("beta") == []


# --- keeping ----------------------------------------------------------------------------------------------------------


def test_each_kind_is_forgotten_by_itself(store: Store) -> None:
    old = ended(1), ended(2, start_time=T0 + 10 * DAY), life(3)
    put(store, *old, ended(4, submit_time=T0 + 9 * DAY, start_time=T0 + 9 * DAY))
    with store.writing("alpha") as writer:
        writer.add_usage({Key(D0 + at, "alpha", "a", "u", "p", "q", ""): Amounts(1) for at in range(4)})
        writer.add_node_changes([change("n1", T0), change("n1", T0 + 1)])
        writer.put_points([point(T0 + at, "", step) for at in (0, 1) for step in (FINE, MIDDLE, COARSE)])
    assert store.forgotten() == 0
    assert store.forget("jobs", T0 + 9 * DAY) == 1
    assert store.forget("jobs", T0) == 0
    assert store.forgotten() == T0 + 9 * DAY
    assert [one.id for one in kept_lives(store, "alpha")] == [2, 3, 4]
    assert store.forget("usage", (D0 + 2) * DAY) == 2
    assert sorted(key.day for key in kept_usage(store, "alpha")) == [D0 + 2, D0 + 3]
    assert store.forget("node_changes", T0 + 1) == 1
    assert store.node_changes("alpha", 0, sys.maxsize) == [change("n1", T0 + 1)]
    assert store.forget("totals_middle", T0 + 1) == 1
    counts = [len(store.points("alpha", None, step, 0, sys.maxsize)) for step in (FINE, MIDDLE, COARSE)]
    assert counts == [2, 1, 2]
    assert store.forget("totals_fine", T0 + 9) == 2 and store.forget("totals_coarse", T0) == 0


def test_a_store_tells_of_itself(store: Store, url: str) -> None:
    put(store, life(1), ended(2, "beta", submit_time=T0 + 5))
    fill_rest(store, "alpha")
    found = store.stats()
    assert found.where == store.where and found.schema == 4 and found.clusters == ("alpha", "beta")
    rest = {"usage": 0, "nodes": 12, "node_changes": 10, "totals": 20}
    assert found.counts == {"jobs": 2, "measured": 11, "series": 10} | rest
    assert (found.oldest, found.newest) == (T0, T0 + 5) and (found.bytes or 1) > 0
    assert store.clusters() == ["alpha", "beta"]
    assert "secret" not in store.where
    store.vacuum()
    assert store.check() == [] and store.count(Lives()) == 2
    again = opened(url)
    assert kept_lives(again, "alpha") == [life(1)]
    again.close()


def test_sums_below_zero_are_found(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.add_usage({Key(D0, "alpha", "a", "u", "p", "q", ""): Amounts(ended=-1)})
    (found,) = store.check()
    assert "below zero" in found and "rebuild" in found


def test_a_backup_is_a_store_with_the_same(store: Store, tmp_path: Path) -> None:
    put(store, *(ended(at) for at in range(1, 30)), life(1, "beta"))
    fill_rest(store, "alpha")
    with store.writing("alpha") as writer:
        writer.add_usage(summed(kept_lives(store, "alpha")))
    told: list[tuple[int, int]] = []
    store.backup(str(tmp_path / "copy.db"), lambda done, of: told.append((done, of)))
    made = opened(f"sqlite:{tmp_path / 'copy.db'}")
    for cluster in ("alpha", "beta"):
        assert kept_lives(made, cluster) == kept_lives(store, cluster)
        assert kept_usage(made, cluster) == kept_usage(store, cluster)
        assert kept_measured(made, cluster) == kept_measured(store, cluster)
        assert made.nodes(cluster) == store.nodes(cluster) and made.spans(cluster) == store.spans(cluster)
    assert told and told[-1][0] == told[-1][1]
    made.close()
