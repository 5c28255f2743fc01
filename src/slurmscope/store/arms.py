# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of a SQLite file: the ways by which lives that are asked for may be found, and which of them is short.

A way is one or several arms: each is a stretch of one index, of one cluster, and no two of a way have a life in
common. All else that is asked is looked at in the rows. SQLite cannot know how many lives a user has, or a node had: so
each way's are counted, as far as it takes to see which has few.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slurmscope.store.classes import Class, by_class
from slurmscope.store.protocol import Lives
from slurmscope.store.traits import lowered

_FEW = (500, 5000, 50_000)
"""Lives of a way up to which they are counted: the first way that has no more is taken."""
_MOST_ARMS = 400  # SQLite unites 500
_MOST_NAMES = 5000

_BY_NODE, _BY_FINDING = (
    f"{table} AS k CROSS JOIN jobs ON jobs.cluster = k.cluster AND jobs.id = k.id AND jobs.submit = k.submit"
    for table in ("job_nodes", "job_findings")
)
_HAS_NODE, _HAS_FINDING = (
    f"EXISTS (SELECT 1 FROM {table} AS x WHERE x.cluster = jobs.cluster AND x.{name} = ? AND x.submit = jobs.submit "  # noqa: S608
    "AND x.fold = jobs.fold AND x.id = jobs.id)"
    for table, name in (("job_nodes", "node"), ("job_findings", "rule"))
)
_NAME = "(SELECT number FROM names WHERE name = ?)"
_HAS_NAME = "instr((SELECT coalesce(lowered, name) FROM names WHERE number = jobs.name), ?) > 0"

Term = tuple[str, list[Any]]


class Arm(msgspec.Struct, frozen=True):
    cluster: int
    index: str  # of jobs; or another table, through which they are found
    where: str
    values: list[Any]
    apart: Term = ("1", [])  # what keeps it apart from the other arms

    @property
    def source(self) -> str:
        return {"job_nodes": _BY_NODE, "job_findings": _BY_FINDING}.get(self.index, f"jobs INDEXED BY {self.index}")

    @property
    def key(self) -> str:
        """What has its submit time, fold and id."""
        return "k" if self.index in ("job_nodes", "job_findings") else "jobs"

    @property
    def alone(self) -> str:
        """The stretch itself, to be counted."""
        return f"{self.index} AS k" if self.key == "k" else self.source


class Way(msgspec.Struct, frozen=True):
    arms: list[Arm]
    told: frozenset[str]  # the terms that hold for all of it
    ordered: bool  # by submit time and fold, as the index has it


class Ways:
    """Of one question. `clusters` are those that it is about, by number; `classes` those that there are."""

    def __init__(
        self, db: sqlite3.Connection, asked: Lives, clusters: Mapping[int, str], classes: Mapping[int, Class]
    ) -> None:
        self._db = db
        self._asked = asked
        self._clusters = clusters
        fit = [one for one in classes.values() if one.cluster in clusters and one.fits(asked)]
        self._fit = sorted((one.cluster, one.number) for one in fit) if by_class(asked) else None

    # --- what is asked ------------------------------------------------------------------------------------------------

    def bounds(self, key: str) -> Term:
        """By when it was submitted, and what comes behind `after`."""
        asked, terms, values = self._asked, [], []
        if asked.since is not None:
            terms.append(f"{key}.submit >= ?")
            values.append(asked.since)
        before = None if asked.until is None else (asked.until, -1)
        if asked.after is not None and asked.ascending:
            terms.append(f"({key}.submit, {key}.fold) > (?, ?)")
            values += asked.after
        elif asked.after is not None:
            before = asked.after if before is None else min(before, asked.after)
        if before is not None:
            terms.append(f"({key}.submit, {key}.fold) < (?, ?)")
            values += before
        return " AND ".join(terms) or "1", values

    def terms(self, cluster: int, told: frozenset[str] = frozenset()) -> Term:
        """All that is asked of the lives of a cluster, but for the terms that hold anyway."""
        chosen = [term for name, term in self._terms(cluster) if name not in told]
        return " AND ".join(one for one, _ in chosen) or "1", [value for _, values in chosen for value in values]

    def _terms(self, cluster: int) -> Iterator[tuple[str, Term]]:
        asked = self._asked
        for name, term, value in (
            ("user", "jobs.user = ?", asked.user),
            ("account", "jobs.account = ?", asked.account),
            ("name", f"jobs.name = {_NAME}", asked.name),
            ("ended", "jobs.end >= ?", asked.ended_since),
            ("ended", "jobs.end < ?", asked.ended_before),
            ("active", "(jobs.end IS NULL OR jobs.end >= ?)", asked.active_since),
            ("node", _HAS_NODE, asked.node),
            ("finding", _HAS_FINDING, asked.finding),
            ("named", _HAS_NAME, None if asked.named is None else lowered(asked.named)),
        ):
            if value is not None:
                yield name, (term, [value])
        if asked.open is not None:
            yield "open", (f"jobs.end IS {'' if asked.open else 'NOT '}NULL", [])
        if asked.id is not None:
            yield "id", ("(jobs.id = ? OR jobs.array = ?)", [asked.id, asked.id])
        if self._fit is not None:
            # 0 is none; of no number at all SQLite sees that nothing fits, and refuses to take an index for that
            numbers = ("0", *(str(number) for owner, number in self._fit if owner == cluster))
            yield "class", (f"jobs.class IN ({', '.join(numbers)})", [])
        if asked.sight is not None:
            accounts = self._seen_accounts(cluster)
            listed = ", ".join("?" * len(accounts))
            yield "sight", (f"(jobs.user = ? OR jobs.account IN ({listed}))", [asked.sight.user, *accounts])

    def _seen_accounts(self, cluster: int) -> list[str]:
        sight = self._asked.sight
        name = self._clusters[cluster]
        return sorted(account for where, account in sight.accounts if where == name) if sight is not None else []

    # --- where to find it ---------------------------------------------------------------------------------------------

    def short(self, *, ordered: bool) -> Way:
        """The way with the fewest lives, as far as that is worth counting.

        Of many, where they are wanted in the order of submission: one that has them so.
        """
        ways = [way for way in self._ways() if len(way.arms) <= _MOST_ARMS]
        if empty := next((way for way in ways if not way.arms), None):
            return empty
        if len(ways) == 1 and (ways[0].ordered or not ordered):
            return ways[0]
        for most in _FEW:
            for way in ways:
                if self._has_few(way, most):
                    # to put thousands in order takes longer than to read the newest, which are so already
                    return self._newest_apart() if ordered and most > _FEW[0] and self._only_active() else way
        return next((way for way in ways if way.ordered or not ordered), self.all())

    def _only_active(self) -> bool:
        terms = {name for cluster in self._clusters for name, _ in self._terms(cluster)}
        return terms == {"active"} and not self._asked.ascending

    def _newest_apart(self) -> Way:
        """Those that were submitted since, which are nearly all that are active since, and the few older ones."""
        since = self._asked.active_since
        arms = self._of_each("jobs_cluster", "jobs.submit >= ?", since)
        arms += self._of_each("jobs_open", "jobs.end IS NULL AND jobs.submit < ?", since)
        arms += self._of_each("jobs_end", "jobs.end >= ? AND jobs.submit < ?", since, since)
        return Way(arms, frozenset(), ordered=True)

    def few(self, way: Way) -> bool:
        return self._has_few(way, _FEW[-1])

    def all(self) -> Way:
        return Way(self._of_each("jobs_cluster"), frozenset(), ordered=True)

    def _has_few(self, way: Way, most: int) -> bool:
        left = most
        for arm in way.arms:
            bounds, values = self.bounds(arm.key)
            query = f"SELECT 1 FROM {arm.alone} WHERE {arm.where} AND {bounds} LIMIT ?"  # noqa: S608
            (count,) = self._db.execute(
                f"SELECT count(*) FROM ({query})",  # noqa: S608
                [*arm.values, *values, left],
            ).fetchone()
            left -= count
            if left <= 0:
                return False
        return True

    def _ways(self) -> Iterator[Way]:
        asked = self._asked
        if asked.id is not None:
            own = self._of_each("sqlite_autoindex_jobs_1", "jobs.id = ?", asked.id)
            apart = "jobs.id <> ?", [asked.id]
            tasks = self._of_each("jobs_array", "jobs.array = ?", asked.id, apart=apart)
            yield Way([*own, *tasks], frozenset({"id"}), ordered=False)
        if asked.name is not None and asked.user is not None:
            arms = self._of_each("jobs_name", f"jobs.name = {_NAME} AND jobs.user = ?", asked.name, asked.user)
            yield Way(arms, frozenset({"name", "user"}), ordered=True)
        elif asked.name is not None:
            yield Way(
                self._of_each("jobs_name", f"jobs.name = {_NAME}", asked.name), frozenset({"name"}), ordered=False
            )
        for name, index, term, value in (
            ("finding", "job_findings", "k.rule = ?", asked.finding),
            ("node", "job_nodes", "k.node = ?", asked.node),
            ("user", "jobs_user", "jobs.user = ?", asked.user),
            ("account", "jobs_account", "jobs.account = ?", asked.account),
        ):
            if value is not None:
                yield Way(self._of_each(index, term, value), frozenset({name}), ordered=True)
        if asked.sight is not None:
            yield Way(list(self._seen(asked.sight.user)), frozenset({"sight"}), ordered=True)
        if asked.open:
            yield Way(self._of_each("jobs_open", "jobs.end IS NULL"), frozenset({"open"}), ordered=True)
        if self._fit is not None:
            arms = [Arm(cluster, "jobs_class", "jobs.class = ?", [number]) for cluster, number in self._fit]
            yield Way(arms, frozenset({"class"}), ordered=True)
        yield from self._unordered()

    def _unordered(self) -> Iterator[Way]:
        asked = self._asked
        if asked.named is not None and (numbers := self._names(asked.named)) is not None:
            listed = "jobs.name IN (SELECT value FROM json_each(?))"
            yield Way(self._of_each("jobs_name", listed, json.dumps(numbers)), frozenset({"named"}), ordered=False)
        if asked.ended_since is not None or asked.ended_before is not None:
            times = [("jobs.end >= ?", asked.ended_since), ("jobs.end < ?", asked.ended_before)]
            where = " AND ".join(term for term, value in times if value is not None)
            values = [value for _, value in times if value is not None]
            yield Way(self._of_each("jobs_end", where, *values), frozenset({"ended"}), ordered=False)
        if asked.active_since is not None:
            arms = self._of_each("jobs_open", "jobs.end IS NULL")
            arms += self._of_each("jobs_end", "jobs.end >= ?", asked.active_since)
            yield Way(arms, frozenset({"active"}), ordered=False)

    def _of_each(self, index: str, where: str = "1", *values: Any, apart: Term = ("1", [])) -> list[Arm]:
        """An arm for each cluster."""
        key = "k" if index in ("job_nodes", "job_findings") else "jobs"
        return [
            Arm(cluster, index, f"{key}.cluster = ? AND {where}", [cluster, *values], apart)
            for cluster in self._clusters
        ]

    def _seen(self, user: str) -> Iterator[Arm]:
        yield from self._of_each("jobs_user", "jobs.user = ?", user)
        for cluster in self._clusters:
            for account in self._seen_accounts(cluster):
                where = "jobs.cluster = ? AND jobs.account = ?"
                yield Arm(cluster, "jobs_account", where, [cluster, account], ("jobs.user <> ?", [user]))

    def _names(self, part: str) -> Sequence[int] | None:
        """The numbers of names that have this in them; None: they are very many."""
        query = "SELECT number FROM names WHERE instr(coalesce(lowered, name), ?) > 0 LIMIT ?"
        found = [number for (number,) in self._db.execute(query, (lowered(part), _MOST_NAMES + 1))]
        return found if len(found) <= _MOST_NAMES else None
