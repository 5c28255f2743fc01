# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Times of which something is known, as pieces in order that neither overlap nor touch. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Piece = tuple[float, float]
MOST = 32
"""Pieces that are kept; beyond that the two nearest become one, as if what lies between were known."""


def missing(spans: Iterable[Piece], start: float, end: float) -> list[Piece]:
    """What of a time is not in them."""
    found = []
    for first, last in spans:
        if last <= start:
            continue
        if first >= end:
            break
        if first > start:
            found.append((start, first))
        start = last
    if start < end:
        found.append((start, end))
    return found


def joined(spans: Iterable[Piece], *more: Piece) -> list[Piece]:
    """Them and more."""
    found: list[Piece] = []
    for start, end in sorted((*spans, *more)):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif start < end:
            found.append((start, end))
    while len(found) > MOST:
        at = min(range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1])
        found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
    return found
