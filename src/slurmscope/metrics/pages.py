# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages that are ready to be served, kept up with the poll."""

from __future__ import annotations

import time
from collections.abc import Callable

from slurmscope.metrics import catalogue
from slurmscope.metrics.exposition import Chunk, Page, Topic, render
from slurmscope.metrics.tally import Tally
from slurmscope.metrics.view import Queue, Requests, View
from slurmscope.model import Cost, Snapshot
from slurmscope.worker import compute, give_back_memory

Wanted = tuple[str, bool]  # a profile, and whether as OpenMetrics


class Pages:
    """Renders what a poll brought, once, for as many as ask.

    Pages that were asked for before are made ready as soon as a poll is over, so that no scraper waits; the others
    when they are first asked for.
    """

    def __init__(self, *, compat: bool = True, top: int = 100, clock: Callable[[], float] = time.time) -> None:
        self.requests = Requests(total={})
        self.costs: dict[str, Cost] = {}
        self.up: Callable[[], bool] = lambda: False
        self.snapshot = Snapshot()
        self._compat = compat
        self._top = top
        self._clock = clock
        self._tally = Tally()
        self._queue: Queue | None = None
        self._dropped: dict[str, int] = {}
        self._chunks: dict[tuple[str, bool], Chunk] = {}
        self._pages: dict[Wanted, Page] = {}
        self._wanted: set[Wanted] = {(catalogue.DEFAULT, False)}

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """Takes in a new snapshot, of which the parts in `fresh` were read anew."""
        # in a thread: scrapers are served the pages of before until the new ones are there
        await compute(self._renew, snapshot, fresh)

    def _renew(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self._tally.update(snapshot, fresh)
        renamed = snapshot.cluster != self.snapshot.cluster
        self.snapshot = snapshot
        view = self._view(None if "jobs" in fresh else self._queue)
        chunks = {
            key: chunk
            for key, chunk in self._chunks.items()
            if not renamed and not _BY_NAME[key[0]].changes_with(fresh)
        }
        pages = {wanted: self._page(wanted, view, chunks) for wanted in self._wanted}
        self._queue = view.queue
        self._chunks, self._pages = chunks, pages
        give_back_memory()

    def _view(self, queue: Queue | None) -> View:
        return View(
            self.snapshot,
            self._tally,
            self.costs,
            self.requests,
            self._clock(),
            up=self.up(),
            top=self._top,
            queue=queue,
            dropped=self._dropped,
        )

    def _page(self, wanted: Wanted, view: View, chunks: dict[tuple[str, bool], Chunk]) -> Page:
        profile, openmetrics = wanted
        row = []
        for topic in self._topics(profile):
            if topic.of is None:
                continue
            key = topic.name, openmetrics and topic.counts
            if key not in chunks:
                chunk = Chunk(render(topic, view, self.snapshot.cluster, openmetrics=openmetrics))
                chunks[key] = chunk
            row.append(chunks[key])
        return Page(row)

    def _topics(self, profile: str) -> tuple[Topic[View], ...]:
        return catalogue.topics(profile, compat=self._compat)

    async def body(self, profile: str, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        """A page in pieces: what is ready, and behind it what is of this moment."""
        wanted = profile, openmetrics
        view = self._view(self._queue)
        if wanted not in self._pages:
            self._wanted.add(wanted)
            self._pages[wanted] = await compute(self._page, wanted, view, self._chunks)
        live = [topic for topic in self._topics(profile) if topic.of is None]
        last = b"".join(render(topic, view, self.snapshot.cluster, openmetrics=openmetrics) for topic in live)
        return self._pages[wanted].body(last + (b"# EOF\n" if openmetrics else b""), gzip=gzip)


_BY_NAME = {topic.name: topic for profile in catalogue.PROFILES.values() for topic in profile}
