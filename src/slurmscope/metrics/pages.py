# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the pages say of one cluster, kept up with its poll. book.py puts the clusters together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from slurmscope.logs import fields
from slurmscope.metrics import catalogue
from slurmscope.metrics.exposition import Block, Topic, render
from slurmscope.metrics.tally import Tally
from slurmscope.metrics.view import Ledger, Queue, Requests, View
from slurmscope.model import Cost, Snapshot
from slurmscope.worker import compute, give_back_memory

log = logging.getLogger(__name__)

Blocks = dict[tuple[str, bool], Block[View]]  # by topic, and whether as OpenMetrics


class Edition(msgspec.Struct, frozen=True):
    """A cluster as a page shows it: all that is on one page is of the same edition."""

    snapshot: Snapshot
    up: bool
    clock: Callable[[], float] = time.time  # by which its age is told; of a recording, its own moment


class _Unread(msgspec.Struct):
    """The ledger of a cluster that nobody reads."""

    costs: dict[tuple[str, str], Cost] = {}
    fallbacks: dict[tuple[str, str], int] = {}


class Pages:
    """Renders what a poll of one cluster brought, once, for as many as ask.

    All rendering is done by the one worker, one thing after the other.
    """

    def __init__(
        self,
        *,
        cluster: str = "",  # where the settings name it: it can be told of before it has answered
        compat: bool = True,
        top: int = 100,
        from_zero: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.source: Ledger = _Unread()
        self.up: Callable[[], bool] = lambda: False
        self.latest = Edition(Snapshot(cluster=cluster), up=False, clock=clock)
        self.failures: dict[str, int] = {}  # topics that could not be rendered, since the start
        self.readers: list[Callable[[], None]] = []  # called by the worker at each new edition
        self._compat = compat
        self._top = top
        self._clock = clock
        self._tally = Tally(from_zero=from_zero)
        self._queue: Queue | None = None
        self._dropped: dict[str, int] = {}
        self._blocks: Blocks = {}
        self._before: Blocks = {}  # while a new edition is made: the blocks of the last

    @property
    def snapshot(self) -> Snapshot:
        return self.latest.snapshot

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes in a new snapshot, of which the parts in `fresh` were read anew."""
        # in the worker: scrapers are served the pages of before until the new ones are there
        await compute(self._renew, snapshot, fresh)

    def _renew(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self._tally.update(snapshot, fresh)
        if "jobs" in fresh or self._queue is None:
            self._queue = Queue(snapshot.jobs.value or (), self._clock())
        renamed = snapshot.cluster != self.snapshot.cluster
        self._before = self._blocks
        self._blocks = {
            key: block for key, block in self._before.items() if not renamed and not block.topic.changes_with(fresh)
        }
        self.latest = Edition(snapshot, self.up(), self._clock)
        try:
            for tell in self.readers:
                tell()
        finally:
            self._before = {}
        give_back_memory()

    def topics(self, profile: str) -> tuple[Topic[View], ...]:
        return catalogue.topics(profile, compat=self._compat)

    def view(self, edition: Edition, requests: Requests) -> View:
        """An edition as of this moment. Sums that are made for a topic are kept in it for the next."""
        return View(
            edition.snapshot,
            self._tally,
            self.source,
            requests,
            self._clock(),
            up=edition.up,
            top=self._top,
            queue=self._queue,
            dropped=self._dropped,
            failures=self.failures,
        )

    def block(self, topic: Topic[View], view: View, *, openmetrics: bool) -> Block[View]:
        """What a topic says of the latest edition. Only the worker may ask for it."""
        key = topic.name, openmetrics and topic.counts
        if key not in self._blocks:
            self._blocks[key] = self._rendered(key, topic, view)
        return self._blocks[key]

    def _rendered(self, key: tuple[str, bool], topic: Topic[View], view: View) -> Block[View]:
        """A topic that cannot be rendered keeps what it showed; the others are not to suffer."""
        try:
            return render(topic, view, view.snapshot.cluster, openmetrics=key[1])
        except Exception:
            log.exception(
                "a topic could not be rendered", extra=fields(topic=topic.name, cluster=view.snapshot.cluster)
            )
            self.failures[topic.name] = self.failures.get(topic.name, 0) + 1
            return self._before.get(key) or Block(topic, b"", ())
