# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal of the settings, for `serve`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.metrics.pages import Edition
from slurmscope.metrics.view import View
from slurmscope.settings import Settings
from slurmscope.web.identity import Identity
from slurmscope.web.people.doors import problems
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site
from slurmscope.web.table import ROUTES

log = logging.getLogger(__name__)


def portal_of(
    settings: Settings,
    url: str,
    editions: Callable[[], Sequence[Edition]],
    clock: Callable[[], float] = time.time,
    views: Callable[[], Sequence[View]] = list,
    script: Callable[[Life], str | None] = lambda life: None,
    served: Mapping[str, str] = {},
) -> Portal | None:
    """None where it may not be opened as the settings are; the log says why."""
    found = problems(settings)
    for one in found:
        log.warning("the portal is not opened", extra=fields(problem=one))
    if found:
        return None
    site = Site(settings, url, editions, clock, views, script, served)
    return Portal(site, ROUTES, Identity(settings, site))
