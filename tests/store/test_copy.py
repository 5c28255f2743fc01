# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A copy holds the same, in whatever kind of store, and however often it is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from store.made import D0, T0, fill_rest, kept, kept_measured, kept_usage, life, measured, month, opened, summed

from slurmscope.store.copy import copy, differences
from slurmscope.store.protocol import Lives, Store, StoreError
from slurmscope.usage import Amounts, Key

LATER = T0 + 5 * 86400


def fill(store: Store) -> None:
    for cluster in ("alpha", "beta"):
        lives = list(month(30, 1, cluster))
        with store.writing(cluster) as writer:
            writer.put_lives(lives)
            writer.add_usage(summed(lives))
        fill_rest(store, cluster)
    store.forget("jobs", T0 + 3 * 86400)
    for cluster in ("alpha", "beta"):
        with store.writing(cluster) as writer:
            writer.put_measured([measured(at, LATER + at, nodes=1 + at % 3) for at in range(9)])
            writer.put_measured([replace(measured(9, LATER), course=None)])
            there = [one for some in store.each_life(cluster) for one in some]
            writer.put_findings({one.key: ("timeout", "swap")[: one.id % 3] for one in there if one.id % 4})
            writer.put_judged(LATER)


@pytest.fixture
def other(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """Of the other kind."""
    if url.startswith("mongodb"):
        return opened(f"sqlite:{tmp_path / 'other.db'}")
    return opened(str(request.getfixturevalue("mongodb_url")))


def test_a_copy_holds_the_same(store: Store, other: Store) -> None:
    fill(store)
    assert differences(store, other)
    told: list[tuple[int, int]] = []
    copy(store, other, lambda done, of: told.append((done, of)))
    assert differences(store, other) == [] and differences(other, store) == []
    assert other.forgotten() == store.forgotten()
    assert told[0] == (0, told[-1][1]) and told[-1][0] == told[-1][1] > 20
    copy(store, other, lambda done, of: None)
    assert differences(store, other) == []
    assert kept_usage(other, "alpha") == kept_usage(store, "alpha")
    assert other.judged("beta") == LATER and 0 < other.count(Lives(finding="swap")) == store.count(
        Lives(finding="swap")
    )
    found = kept_measured(other, "alpha")
    assert found == kept_measured(store, "alpha") and {one.course is None for one in found} == {True, False}
    store.forget("series", found[3].summary.last)
    assert "measured jobs" in "\n".join(differences(store, other))
    copy(store, other, lambda done, of: None)
    assert differences(store, other) == []
    other.close()


def test_a_copy_that_was_broken_off_is_made_whole(store: Store, other: Store) -> None:
    fill(store)
    with other.writing("alpha") as writer:
        writer.put_lives(list(month(30, 1, "alpha"))[20:])
        writer.add_usage({Key(D0, "alpha", "a", "u", "p", "q", ""): Amounts(3)})
        writer.put_nodes([kept("gone")])
    copy(store, other, lambda done, of: None)
    assert differences(store, other) == []
    other.close()


def test_every_difference_is_told(store: Store, other: Store) -> None:
    fill(store)
    copy(store, other, lambda done, of: None)
    with other.writing("alpha") as writer:
        (first, *_) = next(store.each_life("alpha"))
        writer.put_lives([life(first.id, submit_time=first.submit_time, name="another")])
        writer.add_usage({Key(D0, "alpha", "a", "u", "p", "q", ""): Amounts(3)})
        writer.drop_nodes(["n1"])
        writer.put_spans([])
        writer.put_measured([measured(99, LATER)])
        writer.put_findings({first.key: ("another",)})
        writer.put_judged(LATER + 1)
    with other.writing("gamma") as writer:
        writer.put_lives([life(1, "gamma")])
    other.forget("jobs", T0 + 4 * 86400 - 1)
    other.forget("totals_coarse", T0 + 3600)
    other.forget("node_changes", T0 + 600)
    found = "\n".join(differences(store, other))
    for told in (
        "forgotten is another",
        "usage rows in",
        "12 nodes in",
        "node changes in",
        "totals in",
        "spans in",
        "measured",
        "alpha: the times of judging are as many, but not the same",
        "findings",
    ):
        assert told in found
    assert "gamma: 0 jobs" in found
    assert "hidden" not in found and "secret" not in found
    other.close()


def test_what_is_another_stores_is_not_written_over(store: Store, other: Store) -> None:
    fill(store)
    with other.writing("gamma") as writer:
        writer.put_lives([life(1, "gamma")])
    with pytest.raises(StoreError, match="holds other clusters already \\(gamma\\)"):
        copy(store, other, lambda done, of: None)
    other.close()
