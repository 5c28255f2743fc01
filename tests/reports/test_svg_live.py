# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Charts for pages with scripts: the same picture, with its figures beside it."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import msgspec
import pytest

from slurmscope.reports.document import Chart, Series
from slurmscope.reports.svg import chart_svg

DAY = 1_767_225_600  # 2026-01-01 00:00 UTC
CHART = Chart(
    name="cpu",
    title="CPU",
    unit='"cores" <&>',
    times=(DAY + 600, DAY, DAY + 300),
    step=300,
    series=(Series('a"b', (3.0, 1.23456789, None)), Series("<script>", (0.0, 2.0, 4.0))),
)


def test_figures_are_in_the_order_of_time_and_gaps_are_gaps() -> None:
    svg = ElementTree.fromstring(chart_svg(CHART, styled=False, live=True))
    data = msgspec.json.decode(svg.attrib["data-chart"])
    assert data["ends"] == [DAY, DAY + 900]
    assert data["times"] == [0, 300, 600]
    assert data["step"] == 300 and data["unit"] == CHART.unit
    assert data["series"] == [
        {"name": 'a"b', "values": [1.2346, None, 3.0]},
        {"name": "<script>", "values": [2.0, 4.0, 0.0]},
    ]
    left, right, top, bottom = data["box"]
    for path in svg.findall("./g[@class='lines']/path"):
        for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.attrib["d"]):
            assert left <= float(x) <= right and top <= float(y) <= bottom


def test_it_is_the_same_picture() -> None:
    lively = chart_svg(CHART, styled=False, live=True)
    bare = re.sub(r'</?g\b[^>]*>| data-chart="[^"]*"', "", lively)
    assert bare == re.sub(r"</?g\b[^>]*>", "", chart_svg(CHART, styled=False))


def test_what_has_no_figures_or_no_script_has_none() -> None:
    empty = msgspec.structs.replace(CHART, series=(Series("a", (None, None, None)),))
    assert "data-chart" not in chart_svg(empty, styled=False, live=True)
    assert "data-chart" not in chart_svg(CHART, styled=False)


@pytest.mark.parametrize(("zone", "words"), [(UTC, "UTC"), (ZoneInfo("America/St_Johns"), "-03:30")])
def test_how_far_the_zone_is_from_utc_has_room(zone: tzinfo, words: str) -> None:
    svg = ElementTree.fromstring(chart_svg(CHART, styled=False, zone=zone))
    assert words in [one.text for one in svg.iter("text")]
