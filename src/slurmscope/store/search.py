# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of a SQLite file: lives as they are asked for. arms.py says where to find them; here they are put in order.

Each arm is read no further than is needed, and what the arms give is merged. Of an array of many lives one is read, and
the arm goes on behind it; how many of its tasks are in which state is counted in an index that has all that is asked.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from slurmscope.store.arms import Arm, Term, Way, Ways
from slurmscope.store.classes import Class
from slurmscope.store.protocol import SORTED_AMONG, Fold, Lives
from slurmscope.store.transaction import life

_AT_ONCE = 400
_SORTED_ARMS = 3  # of which each may be read as far as all together need be
_READ_ON = 30  # lives of an array, before it is worth to look for what is behind it

# `now` is a number of ours
_VALUES = {
    "submitted": "NULL",
    "ended": "jobs.end",
    "started": "jobs.started",
    "ran": "CASE WHEN jobs.started IS NOT NULL THEN max(0, coalesce(jobs.end, {now}) - jobs.started) END",
    "waited": "CASE WHEN jobs.started IS NOT NULL THEN max(0, jobs.started - jobs.eligible) "
    "WHEN jobs.end IS NULL THEN max(0, {now} - jobs.eligible) END",
    "cpus": "jobs.cpus",
    "gpus": "jobs.gpus",
    "memory": "jobs.memory",
}

_Row = tuple[int, int, int, int, bool]  # submit time, fold, id, rowid, of an array


class Search:
    """One question. `clusters` are those that it is about, by number; `classes` those that there are."""

    def __init__(
        self, db: sqlite3.Connection, asked: Lives, clusters: Mapping[int, str], classes: Mapping[int, Class]
    ) -> None:
        self._db = db
        self._asked = asked
        self._clusters = clusters
        self._classes = classes
        self._ways = Ways(db, asked, clusters, classes)
        self._ranks = {number: at for at, number in enumerate(sorted(clusters, key=lambda one: clusters[one]))}

    def count(self, most: int | None) -> int:
        way = self._ways.short(ordered=False)
        total = 0
        for arm in way.arms:
            query, values = self._query(arm, way, "1")
            left = -1 if most is None else most - total
            (count,) = self._db.execute(f"SELECT count(*) FROM ({query} LIMIT ?)", [*values, left]).fetchone()  # noqa: S608
            total += count
            if most is not None and total >= most:
                break
        return total

    def rows(self) -> list[int]:
        """The rowids of what is asked for, in its order."""
        asked = self._asked
        last = -1 if asked.limit is None else asked.limit
        many = -1 if asked.limit is None else asked.limit + asked.offset
        newest = "s DESC, f DESC, i DESC, c"
        order = f"v IS NULL, v {'ASC' if asked.ascending else 'DESC'}, {newest}"
        if asked.order == "ended":
            way = self._by_end()
        else:
            way = self._ways.short(ordered=asked.order != "submitted" or last >= 0)
        if not way.arms:
            return []
        if asked.order == "submitted":
            order = "s ASC, f ASC, i ASC, c DESC" if asked.ascending else newest
            found, values = self._united(way, order, many)
        elif asked.order == "ended":
            found, values = self._united(way, order, many)
        elif len(way.arms) > _SORTED_ARMS:
            return self._sorted(way)[asked.offset :][: asked.limit]
        else:
            found, values = self._united(way, newest, SORTED_AMONG)
            found = f"SELECT * FROM ({found}) ORDER BY {newest} LIMIT {SORTED_AMONG}"  # noqa: S608
        query = f"SELECT r FROM ({found}) ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608
        return [row for (row,) in self._db.execute(query, [*values, last, asked.offset])]

    def _sorted(self, way: Way) -> list[int]:
        """Among the newest of many arms, of which none need be read far."""
        value, sign = self._value(), 1 if self._asked.ascending else -1
        arms = []
        for arm in way.arms:
            key, rank = arm.key, self._ranks[arm.cluster]
            columns = f"-{key}.submit, -{key}.fold, -{key}.id, {rank}, jobs.rowid, {value}"
            query, values = self._query(arm, way, columns)
            arms.append(self._db.execute(f"{query} ORDER BY {self._arm_order(arm, '')}", values))
        newest = [(row, value) for *_, row, value in islice(heapq.merge(*arms), SORTED_AMONG)]
        known = [(sign * value, row) for row, value in newest if value is not None]
        known.sort(key=lambda one: one[0])  # of those that are alike the newest stays the first
        return [row for _, row in known] + [row for row, value in newest if value is None]

    def _value(self) -> str:
        """What is sorted by."""
        return _VALUES[self._asked.order].format(now=int(time.time()))

    def _by_end(self) -> Way:
        """One that has few, or all in the order of their end, before those that have not ended."""
        way = self._ways.short(ordered=True)
        if way.told and self._ways.few(way):
            return way
        arms = []
        for cluster in self._clusters:
            for index, term in (("jobs_end", "jobs.end IS NOT NULL"), ("jobs_open", "jobs.end IS NULL")):
                arms.append(Arm(cluster, index, f"jobs.cluster = ? AND {term}", [cluster]))
        return Way(arms, frozenset(), ordered=False)

    def _united(self, way: Way, order: str, most: int) -> Term:
        """The lives of all arms, so many of each; empty: there are none."""
        value = self._value()
        parts, given = [], []
        for arm in way.arms:
            key = arm.key
            rank = self._ranks[arm.cluster]
            columns = f"{key}.submit AS s, {key}.fold AS f, {key}.id AS i, {rank} AS c, jobs.rowid AS r, {value} AS v"
            query, values = self._query(arm, way, columns)
            own = self._arm_order(arm, order)
            parts.append(f"SELECT * FROM ({query} ORDER BY {own} LIMIT {most})")  # noqa: S608
            given += values
        return " UNION ALL ".join(parts), given

    def _arm_order(self, arm: Arm, order: str) -> str:
        """In the words of the index, for SQLite to see that it has this order."""
        key = arm.key
        if self._asked.order == "ended" and arm.index == "jobs_end":
            return (
                f"jobs.end {'ASC' if self._asked.ascending else 'DESC'}, jobs.submit DESC, jobs.fold DESC, jobs.id DESC"
            )
        if self._asked.order == "ended" and arm.index != "jobs_open":
            return order
        way = "ASC" if self._asked.order == "submitted" and self._asked.ascending else "DESC"
        return f"{key}.submit {way}, {key}.fold {way}, {key}.id {way}"

    def _query(self, arm: Arm, way: Way, columns: str, bounds: Term | None = None) -> Term:
        times, times_values = bounds or self._ways.bounds(arm.key)
        terms, terms_values = self._ways.terms(arm.cluster, way.told)
        apart, apart_values = arm.apart
        where = f"{arm.where} AND {times} AND {apart} AND {terms}"
        return f"SELECT {columns} FROM {arm.source} WHERE {where}", [  # noqa: S608
            *arm.values,
            *times_values,
            *apart_values,
            *terms_values,
        ]

    # --- arrays folded ------------------------------------------------------------------------------------------------

    def folds(self) -> Iterator[Fold]:
        """All of them, the latest first: to be read as far as they are wanted."""
        way = self._ways.short(ordered=True)
        arms = [self._walk(arm, way) for arm in way.arms]
        last: tuple[int, int] | None = None
        there: set[int] = set()
        for *_, rank, (submit, fold, _, rowid, many) in heapq.merge(*arms):
            if last != (submit, fold):
                last, there = (submit, fold), set()
            if rank in there:
                continue  # lives of one array come from several arms
            there.add(rank)
            found = self._db.execute("SELECT life FROM jobs WHERE rowid = ?", (rowid,)).fetchone()
            if found is None:
                continue  # it was forgotten just now
            one = life(found[0])
            states = self._states(self._numbered(rank), submit, fold) if many else {one.state: one.tasks}
            if states:
                yield Fold(one, sum(states.values()), states)

    def _numbered(self, rank: int) -> int:
        return next(number for number, at in self._ranks.items() if at == rank)

    def _walk(self, arm: Arm, way: Way) -> Iterator[tuple[int, int, int, int, _Row]]:
        """The first life of each fold, with what it is ordered by before it."""
        key, rank = arm.key, self._ranks[arm.cluster]
        columns = f"{key}.submit, {key}.fold, {key}.id, jobs.rowid, jobs.array IS NOT NULL"
        order = f" ORDER BY {key}.submit DESC, {key}.fold DESC, {key}.id DESC"
        ways = self._ways
        last: tuple[int, int] | None = None
        while True:
            query, values = self._query(arm, way, columns, ways.bounds(key))
            passed = 0
            for row in self._db.execute(query + order, values):
                if row[:2] == last:
                    passed += 1
                    if passed > _READ_ON and way.ordered:
                        break
                    continue
                last, passed = row[:2], 0
                yield -row[0], -row[1], -row[2], rank, row
            else:
                return
            ways = Ways(self._db, replace(self._asked, after=last, ascending=False), self._clusters, self._classes)

    def _states(self, cluster: int, submit: int, array: int) -> dict[str, int]:
        terms, values = self._ways.terms(cluster)
        query = (
            "SELECT jobs.class, sum(jobs.tasks) FROM jobs INDEXED BY jobs_array "  # noqa: S608
            f"WHERE jobs.cluster = ? AND jobs.array = ? AND jobs.submit = ? AND {terms} GROUP BY jobs.class"
        )
        found: Counter[str] = Counter()
        for number, tasks in self._db.execute(query, [cluster, array, submit, *values]):
            found[self._classes[number].state] += tasks
        return dict(sorted(found.items()))


def lives_of(db: sqlite3.Connection, rows: Sequence[int]) -> Iterator[bytes]:
    """By their rowids, in the same order, without those that were forgotten just now."""
    for at in range(0, len(rows), _AT_ONCE):
        some = rows[at : at + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found = dict(db.execute(f"SELECT rowid, life FROM jobs WHERE rowid IN ({marks})", some))  # noqa: S608
        yield from (found[row] for row in some if row in found)
