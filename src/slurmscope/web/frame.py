# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What stands around every page: the bar at the left, the way here, the age of the data, who is looking."""

from __future__ import annotations

import msgspec

from slurmscope.metrics.pages import Edition
from slurmscope.web.addresses import within
from slurmscope.web.page import Crumb
from slurmscope.web.visit import Visit

SECTIONS = ("overview", "jobs", "nodes", "accounts", "reports", "health")
TITLES = {
    "overview": "Overview",
    "jobs": "Jobs",
    "nodes": "Nodes",
    "accounts": "Accounts",
    "reports": "Reports",
    "health": "Health",
}
_OLD, _DEAD = 120, 900  # seconds


class Age(msgspec.Struct, frozen=True):
    level: str  # "", old, dead
    text: str
    seconds: int | None = None  # None: it is not known, and does not grow
    time: float | None = None  # when it was read: for paper, where nothing grows
    old: int = _OLD
    dead: int = _DEAD


class Entry(msgspec.Struct, frozen=True):
    title: str
    link: str
    here: bool


def entries(visit: Visit, section: str, cluster: str, there: frozenset[str]) -> list[Entry]:
    """The bar at the left: it stays within a cluster. `there` are the sections that have a page."""
    return [
        Entry(visit.t(TITLES[one]), within(cluster, *([] if one == "overview" else [one])), one == section)
        for one in SECTIONS
        if one in there
    ]


def age(visit: Visit, cluster: str) -> Age:
    """Of what is shown: that of the oldest cluster."""
    editions = [one for one in visit.site.editions() if not cluster or one.snapshot.cluster == cluster]
    t = visit.t
    if not editions:
        return Age("dead", t("not read"))
    oldest = max(editions, key=seconds_old)
    seconds = seconds_old(oldest)
    if seconds == float("inf"):
        return Age("dead", t("not read yet"))
    level = "dead" if seconds >= _DEAD else "old" if seconds >= _OLD or not oldest.up else ""
    return Age(level, t("{span} old", span=t.span(seconds)), round(seconds), oldest.snapshot.jobs.time)


def seconds_old(edition: Edition) -> float:
    when = edition.snapshot.jobs.time
    return float("inf") if when is None else max(0.0, edition.clock() - when)


def title(crumbs: tuple[Crumb, ...], heading: str) -> str:
    """Of a browser's tab: what it is first, for tabs are narrow."""
    return " · ".join([heading, *(one.title for one in reversed(crumbs[1:-1])), "slurmscope"])
