# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages of a cluster are made of is made when a poll has ended, and not when the first reader asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from slurmscope.model import Snapshot
from slurmscope.web import cluster_report, inventory, outlook, tree
from slurmscope.web.site import Site

log = logging.getLogger(__name__)


class Preparation:
    """All of it happens in the loop that serves, but for the work itself."""

    def __init__(self, site: Site, tell: Callable[[Snapshot, frozenset[str]], Awaitable[None]]) -> None:
        """`tell` is called when all is ready, so that those who are told find it so."""
        self._site = site
        self._tell = tell
        self._going: dict[str, asyncio.Task[None]] = {}
        self._latest: dict[str, tuple[Snapshot, frozenset[str]]] = {}  # of clusters that are not done with

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        """A poll has ended. It is not kept waiting."""
        self._site.forget()
        cluster = snapshot.cluster
        if not fresh:
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
                try:
                    await asyncio.to_thread(prepare, self._site, cluster)
                except Exception:
                    log.exception("what pages are made of could not be made")
                await self._tell(snapshot, fresh)
        finally:
            del self._going[cluster]


def prepare(site: Site, cluster: str) -> None:
    """Of what readers are shown, which may be newer than the poll that has ended."""
    snapshot = site.snapshot(cluster)
    outlook.prepared(site, cluster)
    tree.shape(site, snapshot)
    tree.facts(site, snapshot)
    inventory.held(site, cluster, snapshot.jobs.value)
    cluster_report.prepare(site, cluster)
