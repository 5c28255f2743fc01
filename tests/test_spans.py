# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slurmscope.spans import MOST, Piece, joined, missing


@st.composite
def pieces(draw: st.DrawFn, most: int = 12) -> list[Piece]:
    found = draw(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30)), max_size=most))
    return [(float(start), float(start + length)) for start, length in found]


def seconds(spans: list[Piece]) -> set[int]:
    return {at for start, end in spans for at in range(int(start), int(end))}


@given(pieces(), pieces())
def test_they_are_in_order_and_apart(some: list[Piece], more: list[Piece]) -> None:
    found = joined(joined([], *some), *more)
    assert seconds(found) == seconds(some) | seconds(more)
    assert all(start < end for start, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@given(pieces(), st.integers(0, 120), st.integers(1, 40))
def test_what_is_missing_is_what_is_not_there(some: list[Piece], start: int, length: int) -> None:
    found = missing(joined([], *some), start, start + length)
    assert seconds(found) == set(range(start, start + length)) - seconds(some)
    assert all(one < other for one, other in found)


def test_there_are_never_too_many() -> None:
    found = joined([], *((10.0 * at, 10.0 * at + 5) for at in range(100)))
    assert len(found) == MOST and (found[0][0], found[-1][1]) == (0.0, 995.0)
