# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of whole clusters: made once for all of the staff, and again before they are asked for again."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice

import msgspec

from slurmscope.reports import period as periods
from slurmscope.reports.document import Document
from slurmscope.reports.period import Period
from slurmscope.web.site import Site

_OVER = 600  # seconds for which a report of a time that is over may be shown again: it changes little
_GOING_ON = 15  # … of one that goes on, where the cluster is not read
_MOST = 3  # that are made before they are asked for, besides the first


class Asked(msgspec.Struct, frozen=True):
    cluster: str
    period: Period
    short: bool  # the two pages of a month
    told: bool = False  # with what is for scripts


def report(site: Site, asked: Asked) -> Document | None:
    """None: nothing is kept of that time."""
    reports = site.reports(discreet=False)
    make = reports.month if asked.short else reports.cluster
    return site.remembered(asked, _version(site, asked), lambda: make(asked.cluster, asked.period, told=asked.told))


def _version(site: Site, asked: Asked) -> Hashable:
    """Another one with a poll alone, for then it is made at once, and nobody waits for it."""
    polled = site.snapshot(asked.cluster).jobs.time
    if polled is None:
        return site.turn(asked, _GOING_ON if asked.period.going_on else _OVER)
    return polled if asked.period.going_on else polled // _OVER


def prepare(site: Site, cluster: str) -> None:
    """That of the last month, which is the first that is shown, and those that somebody has asked for lately."""
    first = Asked(cluster, periods.last_month(site.now), short=True)
    lately = (one for one in site.looked(Asked) if one.cluster == cluster and one != first)
    for one in (first, *islice(lately, _MOST)):
        report(site, one)
