# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages that are ready to be served, kept up with the poll."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from slurmscope.logs import fields
from slurmscope.metrics import catalogue
from slurmscope.metrics.exposition import Chunk, Page, Topic, render
from slurmscope.metrics.tally import Tally
from slurmscope.metrics.view import Queue, Requests, View
from slurmscope.model import Cost, Snapshot
from slurmscope.worker import compute, give_back_memory

log = logging.getLogger(__name__)

Wanted = tuple[str, bool]  # a profile, and whether as OpenMetrics
Chunks = dict[tuple[str, bool], Chunk]  # by topic, and whether as OpenMetrics


class Pages:
    """Renders what a poll brought, once, for as many as ask.

    Pages that were asked for before are made ready as soon as a poll is over, so that no scraper waits; the others
    when they are first asked for. All making is done by the one worker, one thing after the other.
    """

    def __init__(
        self,
        *,
        compat: bool = True,
        top: int = 100,
        from_zero: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.requests = Requests(total={})
        self.costs: dict[str, Cost] = {}
        self.up: Callable[[], bool] = lambda: False
        self.snapshot = Snapshot()  # what the pages show
        self.failures: dict[str, int] = {}  # topics that could not be rendered, since the start
        self._compat = compat
        self._top = top
        self._clock = clock
        self._tally = Tally(from_zero=from_zero)
        self._queue: Queue | None = None
        self._dropped: dict[str, int] = {}
        self._chunks: Chunks = {}
        self._pages: dict[Wanted, Page] = {}
        self._wanted: set[Wanted] = {(catalogue.DEFAULT, False)}
        self._shown_up = False

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes in a new snapshot, of which the parts in `fresh` were read anew."""
        # in the worker: scrapers are served the pages of before until the new ones are there
        await compute(self._renew, snapshot, fresh)

    def _renew(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self._tally.update(snapshot, fresh)
        view = self._view(snapshot, None if "jobs" in fresh else self._queue)
        renamed = snapshot.cluster != self.snapshot.cluster
        chunks = {
            key: chunk
            for key, chunk in self._chunks.items()
            if not renamed and not _BY_NAME[key[0]].changes_with(fresh)
        }
        pages = {wanted: self._page(wanted, view, chunks) for wanted in tuple(self._wanted)}
        # all at once, so that ages and numbers are of the same snapshot
        self.snapshot, self._queue, self._chunks, self._pages = snapshot, view.queue, chunks, pages
        self._shown_up = self.up()
        give_back_memory()

    def _view(self, snapshot: Snapshot, queue: Queue | None) -> View:
        return View(
            snapshot,
            self._tally,
            self.costs,
            self.requests,
            self._clock(),
            up=self._shown_up,
            top=self._top,
            queue=queue,
            dropped=self._dropped,
            failures=self.failures,
        )

    def _page(self, wanted: Wanted, view: View, chunks: Chunks) -> Page:
        profile, openmetrics = wanted
        row = []
        for topic in self._topics(profile):
            # series without a cluster would only stay behind as another cluster's once its name is known
            if topic.of is None or not view.snapshot.cluster:
                continue
            key = topic.name, openmetrics and topic.counts
            if key not in chunks:
                chunks[key] = self._chunk(topic, view, openmetrics)
            row.append(chunks[key])
        return Page(row)

    def _chunk(self, topic: Topic[View], view: View, openmetrics: bool) -> Chunk:
        """A topic that cannot be rendered keeps what it showed; the others are not to suffer."""
        try:
            return Chunk(render(topic, view, view.snapshot.cluster, openmetrics=openmetrics))
        except Exception:
            log.exception("a topic could not be rendered", extra=fields(topic=topic.name))
            self.failures[topic.name] = self.failures.get(topic.name, 0) + 1
            return self._chunks.get((topic.name, openmetrics and topic.counts)) or Chunk(b"")

    def _make(self, wanted: Wanted) -> None:
        self._wanted.add(wanted)
        self._pages[wanted] = self._page(wanted, self._view(self.snapshot, self._queue), self._chunks)

    def _topics(self, profile: str) -> tuple[Topic[View], ...]:
        return catalogue.topics(profile, compat=self._compat)

    async def body(self, profile: str, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        """A page in pieces: what is ready, and behind it what is of this moment."""
        wanted = profile, openmetrics
        while (page := self._pages.get(wanted)) is None:
            await compute(self._make, wanted)
        view = self._view(self.snapshot, self._queue)
        live = [topic for topic in self._topics(profile) if topic.of is None]
        last = b"".join(render(topic, view, self.snapshot.cluster, openmetrics=openmetrics) for topic in live)
        return page.body(last + (b"# EOF\n" if openmetrics else b""), gzip=gzip)


_BY_NAME = {topic.name: topic for profile in catalogue.PROFILES.values() for topic in profile}
