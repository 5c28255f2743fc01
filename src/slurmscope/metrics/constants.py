# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what the site has set and nobody measures: allocations, weights, numbers of its own."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.settings import Allocation, Settings


class ConstantsView(msgspec.Struct, frozen=True):
    """Of one cluster; that of no name has what holds for all."""

    constants: dict[str, float]
    allocations: Sequence[Allocation]
    weights: dict[str, float]
    unit: str

    def known(self, part: str) -> bool:
        return True


def views(settings: Settings) -> dict[str, ConstantsView]:
    """By cluster, in the order of their names."""
    clusters = sorted({"", *(one.cluster for one in settings.allocations)})
    return {
        name: ConstantsView(
            {} if name else settings.constants,
            [one for one in settings.allocations if one.cluster == name],
            {} if name else settings.cost.gpu_weights,
            settings.cost.gpu_unit,
        )
        for name in clusters
    }


_LABELS = ("account", "resource", "start", "end")


def _labels(one: Allocation) -> tuple[str, ...]:
    return one.account, one.resource, str(one.start), str(one.end)


def _years(view: ConstantsView) -> list[Sample]:
    return [(_labels(one), one.amount) for one in view.allocations]


def _all_the_time(view: ConstantsView) -> list[Sample]:
    """As so many of them at any moment, for a line in a graph of GPUs in use."""
    return [(_labels(one), one.amount * 365 / (one.end - one.start).days) for one in view.allocations]


def _times(view: ConstantsView, name: str) -> list[Sample]:
    return [(_labels(one), _epoch(getattr(one, name))) for one in view.allocations]


def _epoch(day: datetime.date) -> int:
    return (day - datetime.date(1970, 1, 1)).days * 86400


TOPIC: Topic[ConstantsView] = Topic(
    "constants",
    None,
    frozenset(),
    (
        Family(
            "slurm_constant",
            GAUGE,
            "A number that the site has set (constants).",
            ("name",),
            lambda view: (((name,), value) for name, value in sorted(view.constants.items())),
        ),
        Family(
            "slurm_allocation_years",
            GAUGE,
            "Years of a resource (gpu, core, or unit: cost.gpu_unit) that are allocated from start until before end.",
            _LABELS,
            _years,
        ),
        Family(
            "slurm_allocation_resources",
            GAUGE,
            "The same as so many of the resource all the time.",
            _LABELS,
            _all_the_time,
        ),
        Family(
            "slurm_allocation_start_timestamp_seconds",
            GAUGE,
            "When the allocation begins.",
            _LABELS,
            lambda view: _times(view, "start"),
        ),
        Family(
            "slurm_allocation_end_timestamp_seconds",
            GAUGE,
            "When the allocation has ended.",
            _LABELS,
            lambda view: _times(view, "end"),
        ),
        Family(
            "slurm_gpu_weight",
            GAUGE,
            "How many units (cost.gpu_unit) a GPU of a type is.",
            ("type", "unit"),
            lambda view: (((kind, view.unit), value) for kind, value in sorted(view.weights.items())),
        ),
    ),
)
