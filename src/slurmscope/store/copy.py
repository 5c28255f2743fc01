# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All of a store into another one, of whatever kind, and whether two hold the same.

Both go through the doors that every store has, some thousands of things at a time. Copying again does no harm, nor
does a copy that was broken off: what is there is replaced by the same, and usage is made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Lives, Point, Progress, Store, StoreError, UsageAsked
from slurmscope.usage import KEYS, Amounts, Key

T = TypeVar("T")
_packed = msgspec.msgpack.Encoder().encode

_HOUR = 3600
_FAR = 1 << 40
# So long a time holds some thousands of points.
_WIDTHS = {FINE: _HOUR, MIDDLE: 24 * _HOUR, COARSE: 240 * _HOUR}
_CHANGES_WIDTH = 30 * 24 * _HOUR


def copy(source: Store, target: Store, progress: Progress = lambda done, of: None) -> None:
    """`progress` counts lives, which are nearly all there is."""
    clusters = source.clusters()
    if others := set(target.clusters()) - set(clusters):
        raise StoreError(
            f"{target.where}: holds other clusters already ({', '.join(sorted(others))}): copy into an empty store"
        )
    if before := source.forgotten():
        target.forget("jobs", before)  # of which nothing comes back: it is what a rebuild has to know
    done, of = 0, source.count(Lives())
    progress(done, of)
    for cluster in clusters:
        for lives in source.each_life(cluster):
            with target.writing(cluster) as writer:
                writer.put_lives(lives)
                writer.put_findings(source.findings(cluster, [one.key for one in lives]))
            done += len(lives)
            progress(done, max(done, of))
        for measured in source.each_measured(cluster):
            with target.writing(cluster) as writer:
                writer.put_measured(measured)
        _copy_usage(source, target, cluster)
        _copy_rest(source, target, cluster)


def _copy_usage(source: Store, target: Store, cluster: str) -> None:
    with target.writing(cluster) as writer:
        writer.clear_usage(0)
    for rows in _usage(source, cluster):
        with target.writing(cluster) as writer:
            writer.add_usage(dict(rows))


def _copy_rest(source: Store, target: Store, cluster: str) -> None:
    nodes, spans = source.nodes(cluster), source.spans(cluster)
    gone = {one.node.name for one in target.nodes(cluster)} - {one.node.name for one in nodes}
    with target.writing(cluster) as writer:
        writer.drop_nodes(gone)
        writer.put_nodes(nodes)
        writer.put_spans(spans)
        writer.put_judged(source.judged(cluster))
    for changes in _windows(_changes(source, cluster), _CHANGES_WIDTH):
        with target.writing(cluster) as writer:
            writer.add_node_changes(changes)
    for step, width in _WIDTHS.items():
        for points in _windows(_points(source, cluster, step), width):
            with target.writing(cluster) as writer:
                writer.put_points(points)


# --- the same in both -------------------------------------------------------------------------------------------------


def differences(source: Store, target: Store) -> list[str]:
    """What the one holds and the other does not hold just so, in words; empty: nothing."""
    found = []
    if source.forgotten() != target.forgotten():
        found.append("the time before which jobs were forgotten is another")
    for cluster in sorted({*source.clusters(), *target.clusters()}):
        for kind, things in _KINDS.items():
            (here, sum_here), (there, sum_there) = (_sum(things(store, cluster)) for store in (source, target))
            if here != there:
                found.append(f"{cluster}: {here} {kind} in {source.where}, {there} in {target.where}")
            elif sum_here != sum_there:
                found.append(f"{cluster}: the {kind} are as many, but not the same")
    return found


def _sum(things: Iterable[Sequence[Any]]) -> tuple[int, int]:
    """How many, and a sum over all of them that is the same in any order."""
    encode = msgspec.msgpack.Encoder(order="deterministic").encode
    count, total = 0, 0
    for some in things:
        for one in some:
            total += int.from_bytes(blake2b(encode(one), digest_size=16).digest(), "big")
        count += len(some)
    return count, total % (1 << 128)


# --- some at a time ---------------------------------------------------------------------------------------------------


def _usage(store: Store, cluster: str) -> Iterator[list[tuple[Key, Amounts]]]:
    only = {"cluster": cluster}
    until = 0
    for day in store.usage(UsageAsked(since=0, until=_FAR, by=("day",), only=only)):
        since = int(day.key[0])
        if since < until:
            continue  # was in the week before
        until = since + 7
        found = store.usage(UsageAsked(since=since, until=until, by=KEYS, only=only))
        yield [(Key._make(one.key), one.amounts) for one in found]


def _changes(store: Store, cluster: str) -> Callable[[int, int], list[Any]]:
    return lambda since, until: store.node_changes(cluster, since, until)


def _points(store: Store, cluster: str, step: int) -> Callable[[int, int], list[Point]]:
    return lambda since, until: store.points(cluster, None, step, since, until)


def _windows(ask: Callable[[int, int], list[T]], width: int) -> Iterator[list[T]]:
    """All that there is, from now on backwards: in windows that grow over times of which there is nothing."""
    until = int(time.time())
    if found := ask(until, _FAR):
        yield found
    wide = width
    while until > 0:
        since = max(0, until - wide)
        found = ask(since, until)
        if found:
            yield found
        wide = width if found else wide * 2
        until = since


_KINDS: dict[str, Callable[[Store, str], Iterable[Sequence[Any]]]] = {
    "jobs": lambda store, cluster: store.each_life(cluster),
    # as bytes, for it has mappings by number, which msgspec does not sort; their order is kept in every store
    "measured jobs": lambda store, cluster: (list(map(_packed, some)) for some in store.each_measured(cluster)),
    "findings": lambda store, cluster: (
        list(store.findings(cluster, [one.key for one in lives]).items()) for lives in store.each_life(cluster)
    ),
    "usage rows": _usage,
    "nodes": lambda store, cluster: [store.nodes(cluster)],
    "node changes": lambda store, cluster: _windows(_changes(store, cluster), _CHANGES_WIDTH),
    "totals": lambda store, cluster: (
        points for step, width in _WIDTHS.items() for points in _windows(_points(store, cluster, step), width)
    ),
    "spans": lambda store, cluster: [store.spans(cluster)],
    "times of judging": lambda store, cluster: [[store.judged(cluster)]],
}
