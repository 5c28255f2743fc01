# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a store does. sqlite.py and mongodb.py do it; one set of contract tests holds for both.

Stores are blocking, and are used from threads. A store may be written by several processes (serve, import): all that
is written within `writing()` is written at once, or not at all, and what is read there is what nobody else changes.

  StoreError      it cannot be used; the message says which, why, and what to do
    Unreachable   … now: it may be there later (a server that is down, a disk that is full)
    NewerSchema   … by this version of slurmscope
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from slurmscope.course import Course
from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.summary import Summary
from slurmscope.usage import Amounts, Key

JobKey = tuple[int, int]  # id and submit time
Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


class StoreError(Exception):
    pass


class Unreachable(StoreError):
    pass


class NewerSchema(StoreError):
    pass


# --- what is kept besides lives and usage ---------------------------------------------------------------------------


class KeptNode(msgspec.Struct, frozen=True):
    """A node as it was last seen."""

    cluster: str
    node: Node
    time: int  # when it was seen so
    since: int  # when its condition last changed


class NodeChange(msgspec.Struct, frozen=True):
    """A node came into another condition. That a node is IDLE, MIXED or ALLOCATED is one condition: those follow from
    the jobs on it."""

    cluster: str
    node: str
    time: int
    state: str  # "" when the node is not there any more
    flags: tuple[str, ...]  # in the order of the alphabet
    reason: str | None
    reason_user: str | None
    reason_time: int | None


FINE, MIDDLE, COARSE = 10, 300, 3600
"""The steps, in seconds, at which totals are kept; FINE stands for "as polled"."""


class Point(msgspec.Struct, frozen=True):
    """Totals of a cluster, or of a partition, at a moment, or as the mean of a step that began then."""

    cluster: str
    partition: str  # "" for the whole cluster
    step: int  # FINE, MIDDLE or COARSE
    time: int
    samples: int  # how many moments it is the mean of
    values: dict[str, float]  # cpus_allocated, jobs_pending, gpus_allocated/a100, …


class Span(msgspec.Struct, frozen=True, order=True):
    """A time of which the accounting was read: since its start, until before its end."""

    start: int
    end: int


class Measured(msgspec.Struct, frozen=True):
    """What a job used, as far as it was measured. Its summary is kept for as long as the job, its course may be
    forgotten earlier."""

    id: int
    submit_time: int
    summary: Summary
    course: Course | None  # None: it was forgotten

    @property
    def key(self) -> JobKey:
        return self.id, self.submit_time


# --- what is asked ----------------------------------------------------------------------------------------------------


class Sight(msgspec.Struct, frozen=True):
    """Whose lives somebody may see: their own, and those of some accounts."""

    user: str
    accounts: frozenset[tuple[str, str]] = frozenset()  # cluster and account


Order = Literal["submitted", "ended", "started", "ran", "waited", "cpus", "gpus", "memory"]

SORTED_AMONG = 20_000
"""The newest that match, among which all orders but "submitted" and "ended" are made."""


class Lives(msgspec.Struct, frozen=True, kw_only=True):
    """Which lives are asked for: those for which all that is given holds, the latest submitted ones first.

    In any other order, those of which it is not known come last, and of those that are alike the newest come first.
    Orders other than "submitted" and "ended" are made among the newest SORTED_AMONG. "ran" and "waited" are up to now
    of those that still do; one that ended and never started has none. Of those that were submitted in one second that
    with the highest fold (fold_of) is the newest, then that with the highest id.
    """

    cluster: str | None = None
    id: int | None = None  # a job's number, or that of its array
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    name: str | None = None  # exactly this
    named: str | None = None  # has this in its name, without regard to case
    states: tuple[str, ...] = ()
    node: str | None = None  # holds it, or held it
    gpu_type: str | None = None  # has GPUs of this type; "": of none that was named
    finding: str | None = None  # the name of a rule that found something
    open: bool | None = None  # has not ended
    since: int | None = None  # submitted then or later
    until: int | None = None  # submitted before
    ended_since: int | None = None  # ended then or later
    ended_before: int | None = None
    active_since: int | None = None  # has not ended, or ended then or later
    sight: Sight | None = None  # only what they may see
    order: Order = "submitted"
    ascending: bool = False
    # Submit time and fold (fold_of): what comes behind it, by these. Only for the order "submitted".
    after: tuple[int, int] | None = None
    limit: int | None = 50
    offset: int = 0


def fold_of(life: Life) -> int:
    """What the tasks of an array have in common: its number; of any other job its own."""
    return life.id if life.array_id is None else life.array_id


class Fold(msgspec.Struct, frozen=True):
    """A job, or all lives of one array that were asked for: those that were submitted together."""

    life: Life  # the one with the highest id
    tasks: int  # of all of them; a life may stand for many that wait
    states: dict[str, int]  # these tasks by state, in the order of the alphabet

    @property
    def after(self) -> tuple[int, int]:
        """For Lives: what comes behind this."""
        return self.life.submit_time or 0, fold_of(self.life)


NameKind = Literal["user", "account", "node", "partition", "qos", "gpu_type", "name"]


class UsageAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Which sums are asked for: of the days from `since` to before `until`, by some of the names of a Key."""

    since: int  # a day: days since 1970-01-01
    until: int
    by: tuple[str, ...] = ()
    only: Mapping[str, str] = {}  # names of a Key, and the one value that counts


class UsageSum(msgspec.Struct, frozen=True):
    key: tuple[str | int, ...]  # the values of what was asked for `by`
    amounts: Amounts


class Stats(msgspec.Struct, frozen=True):
    where: str
    schema: int
    bytes: int | None  # on disk; None: it cannot be told
    counts: dict[str, int]  # lives, usage, nodes, …: rows or documents
    clusters: tuple[str, ...]
    oldest: int | None  # submit times of the first and the last life
    newest: int | None


KINDS = ("jobs", "series", "node_changes", "usage", "totals_fine", "totals_middle", "totals_coarse")
"""What may be forgotten after a time, each by itself; `series` are the courses of what jobs used."""


# --- the doors --------------------------------------------------------------------------------------------------------


class Writer(Protocol):
    """Writing for one cluster. Whatever is put replaces what has the same identity."""

    def lives(self, keys: Collection[JobKey]) -> dict[JobKey, Life]: ...

    def open_lives(self) -> list[Life]:
        """Those that have not ended."""
        ...

    def put_lives(self, lives: Sequence[Life]) -> None: ...

    def put_findings(self, findings: Mapping[JobKey, tuple[str, ...]]) -> None:
        """The names of the rules that found something; none: it was judged, and nothing was found.

        Of lives that are there, or were put before; they stay when the life is put again, and go with it.
        """
        ...

    def put_judged(self, time: int) -> None:
        """Lives that ended before this time were judged."""
        ...

    def put_measured(self, measured: Sequence[Measured]) -> None:
        """Summaries and courses. Their jobs need not be there: an agent may know of one before a poll does."""
        ...

    def add_usage(self, deltas: Mapping[Key, Amounts]) -> None:
        """Adds to the sums; amounts may be below zero."""
        ...

    def clear_usage(self, since: int) -> None:
        """Forgets this cluster's sums of a day (since 1970) and later ones, to be made anew."""
        ...

    def put_nodes(self, nodes: Sequence[KeptNode]) -> None: ...

    def drop_nodes(self, names: Collection[str]) -> None: ...

    def add_node_changes(self, changes: Sequence[NodeChange]) -> None:
        """A change that is there already (cluster, node, time) is replaced."""
        ...

    def put_points(self, points: Sequence[Point]) -> None: ...

    def put_spans(self, spans: Sequence[Span]) -> None:
        """All the spans of this cluster; those that were there are replaced."""
        ...


class Store(Protocol):
    @property
    def where(self) -> str:
        """The store for people; never with a password."""
        ...

    @property
    def identity(self) -> str:
        """The same for the same store, by whatever name it was opened."""
        ...

    def writing(self, cluster: str) -> AbstractContextManager[Writer]:
        """Written when the context is left, all of it; nothing of it when an exception leaves it."""
        ...

    def life(self, cluster: str, id_: int, submit_time: int) -> Life | None: ...

    def lives(self, asked: Lives) -> list[Life]: ...

    def count(self, asked: Lives, most: int | None = None) -> int:
        """How many there are, whatever the limit; no more than `most` are counted."""
        ...

    def folded(self, asked: Lives) -> list[Fold]:
        """Jobs, with all tasks of an array as one, the latest submitted first, whatever order is asked for.

        Go on with `after`, and not with an offset. Of two clusters' jobs of one number and second, where a page ends
        between them, the second is left out.
        """
        ...

    def names(
        self,
        kind: NameKind,
        beginning: str = "",
        cluster: str | None = None,
        limit: int = 20,
        sight: Sight | None = None,
    ) -> list[str]:
        """The values that lives have (nodes: that are kept) and that begin so, in the order of the alphabet.

        With `sight`, users, accounts and names only of what they may see.
        """
        ...

    def findings(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, tuple[str, ...]]:
        """Of those lives that were judged."""
        ...

    def judged(self, cluster: str) -> int:
        """Lives that ended before this time were judged; 0: none were."""
        ...

    def each_life(self, cluster: str) -> Iterator[list[Life]]:
        """All of a cluster's, some thousands at a time, by id and submit time."""
        ...

    def summary(self, cluster: str, id_: int, submit_time: int) -> Summary | None: ...

    def summaries(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, Summary]:
        """Of those jobs that have one."""
        ...

    def course(self, cluster: str, id_: int, submit_time: int) -> Course | None: ...

    def each_measured(self, cluster: str) -> Iterator[list[Measured]]:
        """All of a cluster's, some hundreds at a time, by id and submit time."""
        ...

    def usage(self, asked: UsageAsked) -> list[UsageSum]:
        """In the order of the keys; without those of which all amounts are zero."""
        ...

    def first_used(self, since: int, until: int, cluster: str | None = None) -> int | None:
        """The first of these days of which there is any usage; `until` is not among them."""
        ...

    def nodes(self, cluster: str) -> list[KeptNode]:
        """By name."""
        ...

    def node_changes(self, cluster: str, since: int, until: int, node: str | None = None) -> list[NodeChange]:
        """In the order of time, then of names."""
        ...

    def points(self, cluster: str, partition: str | None, step: int, since: int, until: int) -> list[Point]:
        """In the order of time, then of partitions; None for all of them."""
        ...

    def spans(self, cluster: str) -> list[Span]: ...

    def clusters(self) -> list[str]:
        """By name: all that anything is kept of."""
        ...

    def forget(self, kind: str, before: int) -> int:
        """Forgets what is of before a time, of one of KINDS; says how many. Lives that have not ended stay.

        With the jobs goes what they used; and so does, of those that were submitted before, what no job is there for.
        """
        ...

    def forgotten(self) -> int:
        """Lives that ended before this time are not kept any more; 0: all are."""
        ...

    def stats(self) -> Stats: ...

    def check(self) -> list[str]:
        """What is wrong with it; empty: nothing."""
        ...

    def vacuum(self) -> None:
        """Gives room back that is not needed any more."""
        ...

    def backup(self, path: str, progress: Progress = lambda done, of: None) -> None:
        """A copy as of one moment, while it is written on."""
        ...

    def close(self) -> None: ...
