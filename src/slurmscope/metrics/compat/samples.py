# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the pages of older exporters have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.exposition import Sample
from slurmscope.metrics.view import Amounts, View
from slurmscope.model import Scheduler

Samples = Callable[[View], Iterable[Sample]]


def of_scheduler(value: Callable[[Scheduler], float | None]) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.scheduler.value
        return () if found is None else [((), value(found))]

    return samples


def micros(seconds: float | None) -> int | None:
    """The unit in which sdiag counts, and the older exporters with it."""
    return None if seconds is None else round(seconds * 1e6)


def capped(view: View, family: str, field: str) -> Amounts:
    """Sums by a name and the state; the names that the cap leaves out are one, and are reported."""
    found, view.dropped[family] = view.queue.capped(field, view.top)
    return found
