# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`/constants` and `/metrics/constants`: what the site has set, as JSON and for Prometheus; read at the start."""

from __future__ import annotations

import msgspec

from slurmscope.metrics.constants import TOPIC, views
from slurmscope.metrics.exposition import Chunk, Page, join, render
from slurmscope.settings import Settings

PATH, METRICS_PATH = "/constants", "/metrics/constants"


def document(settings: Settings) -> bytes:
    found = {
        "constants": settings.constants,
        "allocations": settings.allocations,
        "gpu_unit": settings.cost.gpu_unit,
        "gpu_weights": settings.cost.gpu_weights,
    }
    return msgspec.json.encode(found) + b"\n"


class ConstantsPage:
    def __init__(self, settings: Settings) -> None:
        self._pages = {openmetrics: _page(settings, openmetrics=openmetrics) for openmetrics in (False, True)}

    async def body(self, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        return self._pages[openmetrics].body(b"# EOF\n" if openmetrics else b"", gzip=gzip)


def _page(settings: Settings, *, openmetrics: bool) -> Page:
    blocks = [render(TOPIC, view, cluster, openmetrics=openmetrics) for cluster, view in views(settings).items()]
    return Page([Chunk(join(blocks))])
