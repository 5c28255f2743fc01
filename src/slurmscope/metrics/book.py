# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages that are served: all clusters on each, ready before they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import msgspec

from slurmscope.logs import Once
from slurmscope.metrics import catalogue
from slurmscope.metrics.exposition import Block, Chunk, Page, Topic, join, render
from slurmscope.metrics.pages import Edition, Pages
from slurmscope.metrics.view import Requests, View
from slurmscope.worker import compute

log = logging.getLogger(__name__)

Wanted = tuple[str, bool]  # a profile, and whether as OpenMetrics


class Issue(msgspec.Struct):
    """The pages of a moment: each cluster's latest edition, and what was made of these so far."""

    editions: tuple[Edition, ...]
    pages: dict[Wanted, Page] = {}

    @property
    def shown(self) -> list[int]:
        """The places of the clusters that pages tell of: all but those that are without a name, or have another's.

        A cluster that is read alone may have no name yet.
        """
        names = self._names
        return [at for at, name in enumerate(names) if name not in names[:at] and (name or len(names) == 1)]

    @property
    def left_out(self) -> list[int]:
        """… of those that have the name of one before them: their series would be on the page twice, and Prometheus
        would refuse all of it."""
        names = self._names
        return [at for at, name in enumerate(names) if name and name in names[:at]]

    @property
    def _names(self) -> list[str]:
        return [edition.snapshot.cluster for edition in self.editions]


class Book:
    """Puts together what is said of each cluster.

    Pages that were asked for before are made ready as soon as a poll of any cluster is over, so that no scraper waits;
    the others when they are first asked for. All making is done by the one worker, one thing after the other.
    """

    def __init__(self, clusters: Sequence[Pages]) -> None:
        self.requests = Requests(total={})
        self._clusters = tuple(clusters)
        self._chunks: dict[tuple[str, bool], tuple[tuple[Block[View], ...], Chunk]] = {}  # and of which blocks
        self._wanted: set[Wanted] = {(catalogue.DEFAULT, False)}
        self._once = Once()
        self.issue = self._gathered()  # what is served
        for one in clusters:
            one.readers.append(self._reissue)

    def _gathered(self) -> Issue:
        return Issue(tuple(one.latest for one in self._clusters), {})

    def _reissue(self) -> None:
        issue = self._gathered()
        for at in issue.left_out:
            name = issue.editions[at].snapshot.cluster
            told = "two clusters have the same name, and only the first is shown: name each as [clusters.NAME]"
            self._once(log, logging.ERROR, name, told, cluster=name)
        self._bind(issue, self._wanted)
        # all at once, so that ages and numbers are of the same snapshots
        self.issue = issue

    def _make(self, wanted: Wanted) -> None:
        self._wanted.add(wanted)
        self._bind(self.issue, [wanted])

    def _bind(self, issue: Issue, wanted: Iterable[Wanted]) -> None:
        # series without a cluster would only stay behind as another cluster's once its name is known
        named = [at for at in issue.shown if issue.editions[at].snapshot.cluster]
        views = [(self._clusters[at], self._view(issue, at)) for at in named]
        for profile, openmetrics in wanted:
            row = [self._chunk(topic, views, openmetrics) for topic in self._topics(profile) if topic.of is not None]
            issue.pages[profile, openmetrics] = Page(row)

    def _view(self, issue: Issue, at: int) -> View:
        return self._clusters[at].view(issue.editions[at], self.requests)

    def views(self) -> list[View]:
        """The clusters that pages tell of, as of this moment: for whoever tells the same in another form."""
        issue = self.issue
        return [self._view(issue, at) for at in issue.shown]

    def _chunk(self, topic: Topic[View], views: list[tuple[Pages, View]], openmetrics: bool) -> Chunk:
        blocks = tuple(one.block(topic, view, openmetrics=openmetrics) for one, view in views)
        key = topic.name, openmetrics and topic.counts
        of, chunk = self._chunks.get(key, ((), None))
        # the very same blocks, and not ones that are alike, which would take long to find out
        if chunk is None or list(map(id, of)) != list(map(id, blocks)):
            chunk = Chunk(join(blocks))
            self._chunks[key] = blocks, chunk
        return chunk

    def _topics(self, profile: str) -> tuple[Topic[View], ...]:
        return self._clusters[0].topics(profile)  # which is a setting for all

    async def body(self, profile: str, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        """A page in pieces: what is ready, and behind it what is of this moment."""
        wanted = profile, openmetrics
        while wanted not in (issue := self.issue).pages:
            await compute(self._make, wanted)
        live = [topic for topic in self._topics(profile) if topic.of is None]
        last = self._last(issue, live, openmetrics)
        return issue.pages[wanted].body(last + (b"# EOF\n" if openmetrics else b""), gzip=gzip)

    def _last(self, issue: Issue, topics: list[Topic[View]], openmetrics: bool) -> bytes:
        """What is of this moment. Of this process it is said under the name of the cluster that it reads, or under
        none when it reads several, which to Prometheus is no label at all."""
        of_clusters = [(self._view(issue, at), issue.editions[at].snapshot.cluster) for at in issue.shown]
        of_process = [(self._view(issue, 0), issue.editions[0].snapshot.cluster if len(issue.editions) == 1 else "")]
        return b"".join(
            join(
                render(topic, view, name, openmetrics=openmetrics)
                for view, name in (of_process if topic.common else of_clusters)
            )
            for topic in topics
        )
