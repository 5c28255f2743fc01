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

_GOING_ON = 60  # seconds for which a report may be shown again, as those of people are
_OVER = 300  # … of a time that is over: it changes little
_MOST = 3  # that are made before they are asked for, besides the first


class Asked(msgspec.Struct, frozen=True):
    cluster: str
    period: Period
    short: bool  # the two pages of a month
    told: bool = False  # with what is for scripts


def report(site: Site, asked: Asked) -> Document | None:
    """None: nothing is kept of that time."""
    reports = site.reports(discreet=False)
    of = reports.month if asked.short else reports.cluster

    def make() -> Document | None:
        return of(asked.cluster, asked.period, told=asked.told)

    # that there is nothing is soon found out, and is not so any more once somebody has imported it
    return site.remembered(asked, _version(site, asked), make) or make()


def _version(site: Site, asked: Asked) -> Hashable:
    """Another one with a poll alone, for then it is made at once, and nobody waits for it. While polls fail jobs may
    be kept that others tell of."""
    edition = site.edition(asked.cluster)
    polled = edition.snapshot.jobs.time if edition is not None and edition.up else None
    seconds = _GOING_ON if asked.period.going_on else _OVER
    return site.turn(asked, seconds) if polled is None else polled // seconds


def prepare(site: Site, cluster: str) -> None:
    """That of the last month, which is the first that is shown, and those that somebody has read lately."""
    first = Asked(cluster, periods.last_month(site.now), short=True)
    lately = (one for one in site.reports_read() if one.cluster == cluster and one != first)
    for one in (first, *islice(lately, _MOST)):
        report(site, one)
