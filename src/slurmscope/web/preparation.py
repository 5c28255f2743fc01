# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages of a cluster are made of is made when a poll has ended, and not when the first reader asks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from slurmscope.model import Job, Snapshot
from slurmscope.store.protocol import StoreError
from slurmscope.web import cluster_report, inventory, outlook, tree
from slurmscope.web.site import Site

log = logging.getLogger(__name__)

_MOST = 8  # partitions, or lists of them, that are read beforehand


class Preparation:
    """All of it happens in the loop that serves, but for the work itself, which one thread does for all clusters."""

    def __init__(self, site: Site, tell: Callable[[Snapshot, frozenset[str]], Awaitable[None]]) -> None:
        """`tell` is called when all that is of a poll is ready, so that those who are told find it so."""
        self._site = site
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, "preparation")
        self._going: dict[str, asyncio.Task[None]] = {}
        self._latest: dict[str, tuple[Snapshot, frozenset[str]]] = {}  # of clusters that are not done with

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """A poll has ended. It is not kept waiting."""
        self._site.forget()
        cluster = snapshot.cluster
        if not (cluster and fresh):
            await self._tell(snapshot, fresh)
            return
        # of polls that ended while an earlier one was prepared, the last is told, with what all of them brought
        before = self._latest[cluster][1] if cluster in self._latest else frozenset()
        self._latest[cluster] = snapshot, fresh | before
        if cluster not in self._going:
            self._going[cluster] = asyncio.create_task(self._prepare(cluster))

    async def _prepare(self, cluster: str) -> None:
        try:
            while cluster in self._latest:
                snapshot, fresh = self._latest.pop(cluster)
                await self._do(prepare_polled, cluster)
                await self._tell(snapshot, fresh)
                await self._do(prepare_kept, cluster)
        finally:
            del self._going[cluster]

    async def _do(self, work: Callable[[Site, str], None], cluster: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work, self._site, cluster)
        except StoreError:
            pass  # who keeps history says so, and so does each page
        except Exception:
            log.exception("what pages are made of could not be made")

    def close(self) -> None:
        """Waits for what is being made."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def prepare_polled(site: Site, cluster: str) -> None:
    """Of what readers are shown, which may be newer than the poll that has ended."""
    snapshot = site.snapshot(cluster)
    outlook.prepared(site, cluster)
    tree.shape(site, snapshot)
    tree.facts(site, snapshot)
    inventory.held(site, cluster, snapshot.jobs.value)


def prepare_kept(site: Site, cluster: str) -> None:
    """What is read from the store: it may take a while, and nobody looks at it just because of a poll."""
    cluster_report.prepare(site, cluster)
    _starts(site, cluster, site.snapshot(cluster).jobs.value or ())


def _starts(site: Site, cluster: str, jobs: Sequence[Job]) -> None:
    """How jobs of the partitions in which most wait started lately: pages of those that wait tell it."""
    waiting = Counter(tuple(job.partitions) for job in jobs if job.waiting)
    reports = site.reports(discreet=False)
    for partitions, _ in waiting.most_common(_MOST):
        reports.starts(cluster, partitions)
