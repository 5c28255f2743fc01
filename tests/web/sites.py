# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Portals for tests: over a real store in a folder, with clusters as they are told to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from slurmscope import usage
from slurmscope.life import Life
from slurmscope.metrics.pages import Edition
from slurmscope.model import Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Settings
from slurmscope.settings import Store as StoreSettings
from slurmscope.store.place import open_store
from slurmscope.web.identity import Identity
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site
from slurmscope.web.table import ROUTES

NOW = 1_767_225_600  # 2026-01-01 00:00 UTC


def url_of(folder: Path) -> str:
    """Of the store of a site there."""
    return f"sqlite:{folder / 'slurmscope.db'}"


def site_of(
    folder: Path,
    snapshots: Sequence[Snapshot] = (),
    portal: PortalSettings | None = None,
    clock: Callable[[], float] = lambda: NOW,
    url: str = "",
) -> Site:
    settings = Settings(portal=portal or PortalSettings(), store=StoreSettings(folder=str(folder)))
    editions = [Edition(one, True, clock) for one in snapshots]
    return Site(settings, url or url_of(folder), lambda: editions, clock)


def portal_of(site: Site) -> Portal:
    return Portal(site, ROUTES, Identity(site.settings, site))


def keep(site: Site, lives: Iterable[Life]) -> None:
    """Lives in the site's store, each with its cluster."""
    by_cluster: dict[str, list[Life]] = {}
    for one in lives:
        by_cluster.setdefault(one.cluster, []).append(one)
    store = open_store(site.url)
    try:
        for cluster, some in by_cluster.items():
            sums: usage.Sums = {}
            for one in some:
                usage.add(sums, one, 1)
            with store.writing(cluster) as writer:
                writer.put_lives(some)
                writer.add_usage(usage.deltas(sums))
    finally:
        store.close()
