# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One chart as a picture, for mails: their readers show no SVG."""

from __future__ import annotations

from slurmscope.reports.document import Drawn
from slurmscope.reports.pdf import compiled
from slurmscope.reports.svg import chart_svg


def png(chart: Drawn, *, scale: float = 2, made: int | None = None) -> bytes:
    """So many pixels for each of the chart's own, on white."""
    return compiled("picture.typ", {"svg": chart_svg(chart, styled=True, made=made)}, format="png", ppi=96 * scale)
