# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Both stores answer every question alike: after any sequence of news, and over a month of two clusters."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from servers.process import Server
from store.made import (
    HOSTILE,
    T0,
    fill_rest,
    job,
    kept_lives,
    kept_measured,
    kept_usage,
    measured,
    month,
    opened,
    questions,
    summed,
)

from slurmscope import usage
from slurmscope.life import Accounted, Life, given_up, seen, succeeded, told, unseen
from slurmscope.store.protocol import Store
from slurmscope.store.sqlite import SqliteStore

LIVES = int(os.environ.get("SLURMSCOPE_TEST_LIVES", "2000"))
"""Of each cluster. FerretDB 1 looks at all of them for nearly every question; a real MongoDB takes many more."""
News = tuple[str, str, int, int, int, str, str]


# --- any sequence -----------------------------------------------------------------------------------------------------

news = st.lists(
    st.tuples(
        st.sampled_from(["seen", "told", "unseen", "succeeded", "given up", "measured", "judged", "forgotten"]),
        st.sampled_from(["alpha", "a.b"]),
        st.integers(1, 3),  # the job
        st.integers(0, 2),  # its life
        st.integers(0, 3 * usage.DAY),  # when
        st.sampled_from(["PENDING", "RUNNING", "COMPLETED", "TIMEOUT", "CANCELLED", "REQUEUED"]),
        st.sampled_from(HOSTILE),
    ),
    max_size=12,
)


def changed(known: Life | None, one: News) -> Life | None:
    how, cluster, id_, number, at, state, name = one
    time = T0 + 10 + at
    over = state not in ("PENDING", "RUNNING")
    found = job(
        id=id_,
        submit_time=T0 + number,
        state=state,
        name=name,
        user=name,
        gpus={name: 2} if number else {},
        start_time=None if state == "PENDING" else T0 + 5,
        node_list="" if state == "PENDING" else "n1",
        end_time=time if over else None,
    )
    if how == "seen":
        return seen(known, cluster, found, time)
    if how == "told":
        return told(known, cluster, Accounted(found, (), at % 7, 1.5 * at, at, "0:0", None), time)
    if known is None:
        return None
    if how == "unseen":
        return unseen(known, time)
    return succeeded(known, time) if how == "succeeded" else given_up(known, time)


def record(store: Store, one: News) -> None:
    """A recorder in small: a life is read, changed and put, with what this does to usage."""
    key = one[2], T0 + one[3]
    if one[0] == "forgotten":
        store.forget("series", T0 + one[4] // 100)
        return
    with store.writing(one[1]) as writer:
        if one[0] == "measured":
            writer.put_measured([measured(*key, seconds=1 + one[4] // 100, gpus=one[3], programs=[one[6]])])
            return
        if one[0] == "judged":
            writer.put_findings({key: (one[6], "swap")[: one[4] % 3]})
            return
        known = writer.lives([key]).get(key)
        after = changed(known, one)
        if after is None or after == known:
            return
        sums: usage.Sums = {}
        if known is not None:
            usage.add(sums, known, -1)
        usage.add(sums, after, 1)
        writer.put_lives([after])
        writer.add_usage(usage.deltas(sums))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(news=news)
def test_after_any_news_both_hold_the_same(mongodb: Server, tmp_path: Path, news: list[News]) -> None:
    name = secrets.token_hex(6)
    stores = [SqliteStore(tmp_path / f"{name}.db"), opened(f"{mongodb.url}test_{name}?authSource=admin")]
    for one in news:
        for store in stores:
            record(store, one)
    sqlite, mongo = stores
    for asked, ask in questions(("alpha", "a.b")):
        if asked not in ("clusters", "stats"):  # of a cluster of which nothing was put one may know, the other not
            assert ask(sqlite) == ask(mongo), asked
    for store in stores:
        for cluster in ("alpha", "a.b"):
            assert kept_usage(store, cluster) == summed(kept_lives(store, cluster))
    assert sqlite.forget("jobs", T0 + usage.DAY) == mongo.forget("jobs", T0 + usage.DAY)
    for cluster in ("alpha", "a.b"):
        there = {life.key for life in kept_lives(sqlite, cluster)}
        found = kept_measured(sqlite, cluster)
        assert found == kept_measured(mongo, cluster)
        assert {one.key for one in found} <= there, "nothing is left of jobs that are not there"
    for store in stores:
        store.close()


# --- a month ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stores(mongodb: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    """The same month in both; some lives were put twice, as they are when they go on."""
    found = [
        SqliteStore(tmp_path_factory.mktemp("month") / "store.db"),
        opened(f"{mongodb.url}test_{secrets.token_hex(6)}?authSource=admin"),
    ]
    for cluster in ("alpha", "beta"):
        lives = list(month(LIVES, 7, cluster))
        for store in found:
            with store.writing(cluster) as writer:
                writer.put_lives([replace(one, state="PENDING", accounted=False) for one in lives[:3]])
            with store.writing(cluster) as writer:
                writer.put_lives(lives)
                writer.add_usage(summed(lives))
            fill_rest(store, cluster)
    yield found
    for store in found:
        store.close()


@pytest.mark.parametrize("asked", [name for name, _ in questions()])
def test_both_answer_alike_over_a_month(stores: list[Store], asked: str) -> None:
    ask = dict(questions())[asked]
    one, other = (ask(store) for store in stores)
    assert one == other
    assert one not in ([], 0, ()) or "nowhere" in asked or "limit=0" in asked or "points" in asked


def test_usage_of_a_month_is_what_a_rebuild_makes(stores: list[Store]) -> None:
    for store in stores:
        for cluster in ("alpha", "beta"):
            assert kept_usage(store, cluster) == summed(month(LIVES, 7, cluster))
        assert store.check() == []
