# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was before a job, from a store (StorePast) or from lives in memory (WindowPast); both give the same answers.

- Nothing is told that was not known when the job ended: a job can be judged later, or again, and the verdict stays.
- All reads have a bound. Of earlier runs the latest NEAR are looked at, and of those that have ended MOST are told.
- Jobs that are judged together are mostly of the same users. Of one who is asked about often all lives are read at
  once, where they are not too many; of others, once for each name and day.

A StorePast keeps what it read, and so is for one run: what comes into the store later is not seen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from slurmscope.findings.ground import node_names
from slurmscope.findings.past import NodeRecord
from slurmscope.life import Life
from slurmscope.store.protocol import JobKey, Lives, NodeChange, Store, fold_of

MOST = 50
"""Earlier runs that are told."""
NEAR = 100
"""Earlier submitted lives that these are found among."""
LATELY = 200
"""Lives that are told of those that ended lately."""
MOST_OF_USER = 20_000
"""Lives of one user that are read at once."""
DAYS = 30
"""Of a node's record."""
DAY = 86400

_OFTEN = 30  # questions about one user
_GRACE = 600  # seconds after a job was lost, in which a poll sees what became of its node
_MOST_OF_DAY = 20_000  # lives of one name that are read for one day
_MOST_ENDED = 5000  # … and of those that ended on one
_MOST_KEPT = 60_000  # lives in memory
_MOST_FAILED = 10_000
_PAGE, _LARGEST_PAGE = 200, 3200
_DOWN, _SILENT = frozenset({"DOWN", "ERROR"}), "NOT_RESPONDING"
# A node that was taken down on purpose did not fail.
_PLANNED = frozenset(
    {"MAINT", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED"}
)

K = TypeVar("K")
V = TypeVar("V")
_Work = tuple[str, str, str]  # user, account, name
_Order = tuple[int, int, int]  # as stores have it: no two lives of a cluster have the same


def _order(life: Life) -> _Order:
    return life.submit_time or 0, fold_of(life), life.id


def _newest_first(life: Life) -> _Order:
    submit, fold, id_ = _order(life)
    return -submit, -fold, -id_


def _by_end(life: Life) -> tuple[int, int, int]:
    return life.end_time or 0, life.submit_time or 0, life.id


def _work(life: Life) -> _Work:
    return life.user, life.account, life.name


def _runs(near: Iterable[Life], life: Life) -> list[Life]:
    """Those that had ended when it did, the last that did first."""
    known = life.end_time if life.ended else None
    found = [one for one in near if one.ended and (known is None or (one.end_time or 0) <= known)]
    return sorted(found, key=_by_end, reverse=True)[:MOST]


def _tries(near: Iterable[Life], life: Life) -> list[Life]:
    """Earlier lives of the same job. An id that is used again belongs to another user, or has another name."""
    found = (one for one in near if one.id == life.id and one.user == life.user and one.name == life.name)
    return sorted((one for one in found if _order(one) < _order(life)), key=_order)


# --- nodes ------------------------------------------------------------------------------------------------------------


class _Records:
    """When jobs were lost by nodes, and when these went down."""

    def __init__(self) -> None:
        self._failed: dict[JobKey, tuple[int, tuple[str, ...]]] = {}  # by job: when, and its nodes
        self._changes: dict[str, dict[int, NodeChange]] = {}  # by node and time

    def add(self, failed: Iterable[Life], changes: Iterable[NodeChange]) -> None:
        for life in failed:
            self._failed[life.key] = life.end_time or 0, node_names(life)
        for one in changes:
            self._changes.setdefault(one.node, {})[one.time] = one

    def of(self, life: Life, nodes: int) -> list[NodeRecord]:
        """Of each of its nodes, in a cluster of so many; 0: nothing is kept of them."""
        if not nodes:
            return []
        since, until = _window(life)
        lost = Counter(name for at, names in self._failed.values() if since <= at <= until for name in names)
        peers = lost.total() / nodes
        return [self._record(name, lost[name], since, until + _GRACE, peers) for name in node_names(life)]

    def _record(self, name: str, failures: int, since: int, until: int, peers: float) -> NodeRecord:
        changes = [one for at, one in sorted(self._changes.get(name, {}).items()) if since <= at <= until]
        bad = [_fell(one) for one in changes]
        downs = sum(now and not before for before, now in zip([False, *bad], bad, strict=False))
        reason = next((one.reason for one in reversed(changes) if one.reason), None)
        return NodeRecord(name, DAYS, failures, downs, peers, reason)


def _window(life: Life) -> tuple[int, int]:
    end = life.end_time if life.ended and life.end_time is not None else life.changed_time
    return end - DAYS * DAY, end


def _fell(change: NodeChange) -> bool:
    flags = frozenset(change.flags)
    return (change.state in _DOWN or _SILENT in flags) and flags.isdisjoint(_PLANNED)


# --- lives in memory --------------------------------------------------------------------------------------------------


class WindowPast:
    """Of one cluster's lives, and of what became of its nodes, of which there are so many; 0: nobody knows."""

    def __init__(self, lives: Iterable[Life], changes: Iterable[NodeChange] = (), nodes: int = 0) -> None:
        self._works: dict[_Work, list[Life]] = {}
        self._ends: dict[tuple[str, str], list[Life]] = {}
        self._ids: dict[int, list[Life]] = {}
        failed = []
        for life in sorted(lives, key=_order):
            self._works.setdefault(_work(life), []).append(life)
            self._ids.setdefault(life.id, []).append(life)
            if life.ended and life.end_time is not None:
                self._ends.setdefault((life.user, life.name), []).append(life)
            if life.ended and life.state == "NODE_FAIL":
                failed.append(life)
        for ends in self._ends.values():
            ends.sort(key=_by_end)
        self._nodes = nodes
        self._records = _Records()
        self._records.add(failed, changes)

    def same_work(self, life: Life) -> Sequence[Life]:
        return _runs(self._near(life), life)

    def attempts(self, life: Life) -> Sequence[Life]:
        found = _tries(self._near(life), life)
        if len(found) < (life.restarts or 0):
            found = _tries(self._ids.get(life.id, ()), life)
        return [*found, life]

    def lately(self, life: Life, seconds: int) -> Sequence[Life]:
        if not life.ended or life.end_time is None:
            return [life]
        ends = self._ends.get((life.user, life.name), [])
        until = bisect_left(ends, _by_end(life), key=_by_end)
        since = bisect_right(ends, life.end_time - seconds, key=lambda one: one.end_time or 0)
        return [*ends[max(since, until - LATELY + 1) : until], life]

    def record(self, life: Life) -> Sequence[NodeRecord]:
        return self._records.of(life, self._nodes)

    def _near(self, life: Life) -> list[Life]:
        """The latest first."""
        works = self._works.get(_work(life), [])
        until = bisect_left(works, _order(life), key=_order)
        return works[max(0, until - NEAR) : until][::-1]


# --- lives in a store -------------------------------------------------------------------------------------------------


class _Shelf(Generic[K, V]):
    """What was read, as long as it is not too many lives in all: what was not needed for the longest is forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lives = 0

    def get(self, key: K) -> V | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: K, value: V, lives: int) -> None:
        if (before := self._kept.pop(key, None)) is not None:
            self._lives -= before[1]
        self._kept[key] = value, lives
        self._lives += lives
        while self._lives > _MOST_KEPT and len(self._kept) > 1:
            _, (_, fewer) = self._kept.popitem(last=False)
            self._lives -= fewer


class _Runs:
    """Lives of one work that were submitted until the end of a day, the latest first, as far as they were needed."""

    def __init__(self, store: Store, asked: Lives) -> None:
        self.lives: list[Life] = []
        self._store, self._asked = store, asked
        self._read, self._page, self._all = 0, _PAGE, False

    def before(self, life: Life) -> list[Life] | None:
        """The latest ones that were submitted before it; None: too many were submitted after it on that day."""
        while (at := self._place(life)) + NEAR > len(self.lives) and not self._all:
            if self._read >= _MOST_OF_DAY:
                return None
            self._more()
        return self.lives[at : at + NEAR]

    def _place(self, life: Life) -> int:
        return bisect_right(self.lives, _newest_first(life), key=_newest_first)

    def _more(self) -> None:
        found = self._store.lives(replace(self._asked, limit=self._page, offset=self._read))
        self._all = len(found) < self._page
        self._read += len(found)
        self._page = min(_LARGEST_PAGE, 2 * self._page)
        # a life that came into the store meanwhile moves the others: some are read twice, and kept once
        last = _order(self.lives[-1]) if self.lives else None
        self.lives += [one for one in found if last is None or _order(one) < last]


class StorePast:
    """Of one cluster's lives in a store. Raises StoreError."""

    def __init__(self, store: Store, cluster: str, most_of_user: int = MOST_OF_USER) -> None:
        self._store, self._cluster = store, cluster
        self._most_of_user = most_of_user
        self._questions: Counter[str] = Counter()
        self._large: set[str] = set()  # users with more lives than that
        self._users: _Shelf[str, WindowPast] = _Shelf()
        self._works: _Shelf[tuple[_Work, int], _Runs] = _Shelf()
        self._ends: _Shelf[tuple[str, str, int], list[Life]] = _Shelf()
        self._nodes: int | None = None
        self._records = _Records()
        self._known: tuple[int, int] | None = None  # the time of which the records are there

    def same_work(self, life: Life) -> Sequence[Life]:
        user = self._user(life.user)
        return _runs(self._near(life), life) if user is None else user.same_work(life)

    def attempts(self, life: Life) -> Sequence[Life]:
        if (user := self._user(life.user)) is not None:
            return user.attempts(life)
        found = _tries(self._near(life), life)
        if len(found) < (life.restarts or 0):
            found = _tries(self._ask(id=life.id, user=life.user, name=life.name, until=life.submit_time or 0), life)
        return [*found, life]

    def lately(self, life: Life, seconds: int) -> Sequence[Life]:
        if not life.ended or life.end_time is None:
            return [life]
        if (user := self._user(life.user)) is not None:
            return user.lately(life, seconds)
        since, found = life.end_time - seconds, [life]
        for day in range(life.end_time // DAY, since // DAY - 1, -1):
            ends = self._ended(life.user, life.name, day)
            until = bisect_left(ends, _by_end(life), key=_by_end)
            first = bisect_right(ends, since, key=lambda one: one.end_time or 0)
            found += reversed(ends[max(first, until - LATELY + len(found)) : until])
            if len(found) >= LATELY:
                break
        return found[::-1]

    def record(self, life: Life) -> Sequence[NodeRecord]:
        if self._nodes is None:
            self._nodes = len(self._store.nodes(self._cluster))
        since, until = _window(life)
        self._learn(since // DAY * DAY, ((until + _GRACE) // DAY + 1) * DAY)
        return self._records.of(life, self._nodes)

    def _user(self, user: str) -> WindowPast | None:
        """All lives of a user who is asked about often; None: of one who is not, or who has too many."""
        self._questions[user] += 1
        if self._questions[user] <= _OFTEN or user in self._large:
            return None
        found = self._users.get(user)
        if found is None:
            lives = self._ask(self._most_of_user + 1, user=user)
            if len(lives) > self._most_of_user:
                self._large.add(user)
                return None
            found = WindowPast(lives)
            self._users.put(user, found, len(lives))
        return found

    def _near(self, life: Life) -> list[Life]:
        """The latest first."""
        user, account, name = work = _work(life)
        key = work, (life.submit_time or 0) // DAY
        found = self._works.get(key)
        if found is None:
            until = (key[1] + 1) * DAY
            asked = Lives(cluster=self._cluster, user=user, account=account, name=name, until=until)
            found = _Runs(self._store, asked)
        near = found.before(life)
        self._works.put(key, found, len(found.lives))
        if near is None:
            near = self._ask(user=user, account=account, name=name, until=life.submit_time or 0)
        return near

    def _ended(self, user: str, name: str, day: int) -> list[Life]:
        """On that day, by when they did."""
        found = self._ends.get((user, name, day))
        if found is None:
            since, before = day * DAY, (day + 1) * DAY
            found = self._ask(_MOST_ENDED, user=user, name=name, ended_since=since, ended_before=before)
            found.sort(key=_by_end)
            self._ends.put((user, name, day), found, len(found))
        return found

    def _learn(self, since: int, until: int) -> None:
        """What became of nodes from then on until before then: only what is not there yet is asked for."""
        if self._known is None or until < self._known[0] or since > self._known[1]:
            self._records, self._known = _Records(), (since, since)
        first, last = self._known
        for start, end in ((since, first), (last, until)):
            if start < end:
                failed = self._ask(_MOST_FAILED, states=("NODE_FAIL",), ended_since=start, ended_before=end)
                self._records.add(failed, self._store.node_changes(self._cluster, start, end))
        self._known = min(since, first), max(until, last)

    def _ask(self, limit: int = NEAR, **asked: Any) -> list[Life]:
        return self._store.lives(Lives(cluster=self._cluster, limit=limit, **asked))
