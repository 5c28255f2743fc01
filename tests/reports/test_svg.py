# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Charts: valid whatever they are of, nothing beyond their edges, nothing on top of something else."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import samples

from slurmscope.reports import axis
from slurmscope.reports.canvas import LABEL, SIZE
from slurmscope.reports.document import Bars, Chart, Drawn, Heat, HeatRow, Level, Series
from slurmscope.reports.shared import NOT_MEASURED
from slurmscope.reports.svg import chart_svg

WORDS = st.text(st.characters(), max_size=40) | st.sampled_from(samples.HOSTILE)
NUMBERS = st.floats() | st.floats(0, 100) | st.integers(0, 10**6).map(float) | st.sampled_from([0.0, 1e308, 5e-324])
VALUES = st.lists(st.none() | NUMBERS, max_size=40).map(tuple)
SERIES = st.lists(st.builds(Series, WORDS, VALUES), max_size=8).map(tuple)
LEVELS = st.lists(st.builds(Level, WORDS, NUMBERS), max_size=6).map(tuple)
TIMES = st.lists(st.integers(-(10**12), 10**12), max_size=40).map(tuple) | st.builds(
    lambda start, step, count: tuple(range(start, start + step * count, step)),
    *(st.integers(0, 4 * 10**9), st.integers(1, 10**6), st.integers(1, 40)),
)
CHARTS = st.builds(
    Chart,
    *(WORDS, WORDS, WORDS, TIMES, st.integers(-10, 10**6), SERIES, LEVELS, WORDS),
    ceiling=st.none() | NUMBERS,
)
ROWS = st.lists(st.builds(HeatRow, WORDS, VALUES, WORDS), max_size=40).map(tuple)
HEATS = st.builds(Heat, *(WORDS, WORDS, WORDS, TIMES, st.integers(-10, 10**6), ROWS, WORDS))
BARS = st.builds(Bars, WORDS, WORDS, WORDS, st.lists(WORDS, max_size=40).map(tuple), SERIES, LEVELS, WORDS)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def extent(text: ElementTree.Element) -> tuple[float, float]:
    """From where to where a text goes, if letters are as wide as they may be."""
    wide, x = axis.width_of(text.text or "", SIZE), float(text.attrib["x"])
    shift = {"end": wide, "middle": wide / 2}.get(text.attrib.get("text-anchor", ""), 0.0)
    return x - shift, x - shift + wide


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in parsed(svg).iter("text")]


@given(CHARTS | BARS | HEATS, st.booleans(), st.sampled_from([300, 560, 900]))
def test_any_chart_is_valid_and_within_its_edges(chart: Drawn, styled: bool, width: int) -> None:
    root = parsed(chart_svg(chart, styled=styled, width=width))
    _, _, wide, high = map(float, root.attrib["viewBox"].split())
    assert wide == width
    for element in root.iter():
        given = element.attrib
        xs = [float(given[name]) for name in ("x", "x1", "x2") if name in given]
        ys = [float(given[name]) for name in ("y", "y1", "y2") if name in given]
        for x, y in re.findall(r"[ML]\s*(\S+) (\S+)", given.get("d", "")):
            xs.append(float(x))
            ys.append(float(y))
        if element.tag == "rect":
            xs.append(xs[0] + float(given["width"]))
            ys.append(ys[0] + float(given["height"]))
        assert all(-0.06 <= x <= wide + 0.06 for x in xs), (element.tag, given)
        assert all(-0.06 <= y <= high + 0.06 for y in ys), (element.tag, given)
        if element.tag == "text":
            first, last = extent(element)
            assert first >= -1 and last <= wide + 1, (first, last, element.text)


@given(CHARTS)
def test_names_of_levels_and_times_keep_their_distance(chart: Chart) -> None:
    root = parsed(chart_svg(chart, styled=False))
    leads = [one for one in root.iter("line") if one.attrib["class"] == "lead"]
    heights = sorted(float(one.attrib["y2"]) for one in leads)
    assert all(b - a >= LABEL - 0.2 for a, b in pairwise(heights))
    _, _, _, high = map(float, root.attrib["viewBox"].split())
    under = sorted(extent(one) for one in root.iter("text") if float(one.attrib["y"]) > high - 8)
    assert all(a[1] <= b[0] + 0.1 for a, b in pairwise(under))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([16.0, 3.0], ["0", "5", "10", "15", "20"]),
        ([256.0], ["0", "100", "200", "300"]),
        ([1.0], ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        ([100.0], ["0", "25", "50", "75", "100"]),
        ([0.0], ["0", "1"]),
        ([], ["0", "1"]),
        ([0.003], ["0.000", "0.001", "0.002", "0.003"]),
        ([2e-7], ["0", "5e-08", "1e-07", "1.5e-07", "2e-07"]),
        ([3.2e6], ["0", "1M", "2M", "3M", "4M"]),
        ([64_000.0], ["0", "20,000", "40,000", "60,000", "80,000"]),
        ([-4.0, 4.0], ["-4", "-2", "0", "2", "4"]),
        ([1e300], ["0", "2.5e+299", "5e+299", "7.5e+299", "1e+300"]),
    ],
)
def test_ticks_are_round(values: list[float], expected: list[str]) -> None:
    assert axis.labels(axis.ticks(values)) == expected


@given(st.lists(NUMBERS.map(axis.sound).filter(lambda one: one is not None), max_size=5))
def test_ticks_hold_all_values(values: list[float]) -> None:
    marks = axis.ticks(values)
    assert 2 <= len(marks) <= 8
    assert marks == sorted(set(marks))
    assert len(axis.labels(marks)) == len(marks)
    hair = (marks[1] - marks[0]) * 1e-6
    assert marks[0] <= min([0.0, *values]) + hair and marks[-1] >= max([0.0, *values]) - hair


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (40, ["14 Nov 08:00:00", "08:00:10", "08:00:20", "08:00:30", "08:00:40"]),
        (3600, ["14 Nov 08:00", "08:15", "08:30", "08:45", "09:00"]),
        (86400, ["14 Nov 12:00", "18:00", "15 Nov", "06:00"]),
        (4 * 86400, ["15 Nov", "16 Nov", "17 Nov", "18 Nov"]),
        (30 * 86400, ["17 Nov", "24 Nov", "1 Dec", "8 Dec"]),
        (200 * 86400, ["Jan 2026", "Mar 2026", "May 2026"]),
        (1500 * 86400, ["Jan 2026", "Jan 2027", "Jan 2028", "Jan 2029"]),
    ],
)
def test_times_are_round(seconds: int, expected: list[str]) -> None:
    assert [name for _, name in axis.moments(samples.START, samples.START + seconds, 5)] == expected


@pytest.mark.parametrize(
    ("days", "made", "expected"),
    [
        (30, samples.NOW, ["17 Nov", "24 Nov", "1 Dec", "8 Dec"]),
        (30, samples.NOW + 365 * 86400, ["17 Nov 2025", "24 Nov", "1 Dec", "8 Dec"]),
        (60, samples.NOW + 100 * 86400, ["24 Nov 2025", "8 Dec", "22 Dec", "5 Jan 2026"]),
    ],
)
def test_the_first_time_of_another_year_says_it(days: int, made: int, expected: list[str]) -> None:
    found = axis.moments(samples.START, samples.START + days * 86400, 5, made)
    assert [name for _, name in found] == expected


def test_gaps_stay_gaps() -> None:
    times = (0, 60, 120, 180, 300)
    svg = chart_svg(Chart("c", "c", "u", times, 60, (Series("a", (1.0, None, 2.0, 3.0, 4.0)),)), styled=False)
    # one bucket, then two, then one after a bucket that is not there at all
    assert svg.count('class="area"') == svg.count('class="l l0"') == 3


def test_what_is_not_measured_is_said_and_not_drawn() -> None:
    for values in ((), (None, None), (float("nan"),)):
        svg = chart_svg(Chart("c", "c", "u", (0, 60), 60, (Series("a", values),)), styled=False)
        assert NOT_MEASURED in texts(svg) and "area" not in svg and "nan" not in svg
        svg = chart_svg(Bars("b", "b", "u", ("x",), (Series("a", values),)), styled=False)
        assert NOT_MEASURED in texts(svg) and "<rect" not in svg
    zero = chart_svg(Chart("c", "c", "u", (0, 60), 60, (Series("a", (0.0, 0.0)),)), styled=False)
    assert NOT_MEASURED not in texts(zero) and "area" in zero


def test_many_bars_stand_and_few_lie() -> None:
    cores = Bars("c", "Cores", "%", tuple(map(str, range(256))), (Series("used", (50.0,) * 256),))
    root = parsed(chart_svg(cores, styled=False))
    assert len({one.attrib["x"] for one in root.iter("rect")}) == 256
    few = Bars("c", "c", "h", ("a" * 90, "b"), (Series("used", (50.0, 20.0)), Series("lost", (5.0, 2.0))))
    svg = chart_svg(few, styled=False)
    assert len({one.attrib["y"] for one in parsed(svg).iter("rect") if float(one.attrib["height"]) > 11}) == 2
    assert {"used", "lost", "55", "22", "b"} <= set(texts(svg)) and any(one.endswith("a…") for one in texts(svg))


def test_lines_are_told_apart_without_colour() -> None:
    series = tuple(Series(f"GPU {at}", (float(at), 2.0)) for at in range(4))
    svg = chart_svg(Chart("c", "c", "%", (0, 60), 60, series), styled=True)
    dashes = re.findall(
        r'stroke="(#\w+)" stroke-width="1.6" stroke-linejoin="round"(?: stroke-dasharray="([^"]+)")?', svg
    )
    assert len(set(dashes)) == 4 == len({dash for _, dash in dashes})
    assert {f"GPU {at}" for at in range(4)} <= set(texts(svg))


@pytest.mark.parametrize("styled", [True, False])
def test_parts_of_bars_are_told_apart_without_colour(styled: bool) -> None:
    def hatches(parts: int) -> list[str]:
        series = tuple(Series(f"part {at}", (40.0, 20.0)) for at in range(parts))
        root = parsed(chart_svg(Bars("c", "c", "h", ("a", "b"), series), styled=styled))
        paths = [one for one in root.iter("path") if one.attrib.get("class") == "hatch" or "stroke-width" in one.attrib]
        return [one.attrib["d"] for one in paths]

    # of the legend and of two bars, for each part but the first
    assert [len(hatches(parts)) for parts in (1, 2, 3, 4)] == [0, 3, 6, 9]
    ways = {re.sub(r"[^-]", "", re.findall(r"l\S+ (-?)", path)[0]) for path in hatches(3)}
    assert ways == {"-", ""}


def test_readers_of_screens_are_told() -> None:
    for chart in (*samples.job().charts(), *samples.cluster().charts()):
        root = parsed(chart_svg(chart, styled=False))
        assert root.attrib["role"] == "img"
        assert root[0].tag == "title" and root[0].text == chart.title
        assert root[1].tag == "desc" and chart.unit in (root[1].text or "")


def test_styles_are_on_the_spot_or_nowhere() -> None:
    for chart in samples.job().charts():
        bare, styled = chart_svg(chart, styled=False), chart_svg(chart, styled=True)
        assert not re.search(r'fill="#|stroke="#|font-family', bare) and "http" not in bare
        assert "class=" not in styled


def test_a_heat_map_has_a_shade_for_each_piece_and_hatching_where_nothing_was_measured() -> None:
    rows = (HeatRow("n1", (0.0, 0.1, 0.95, None), "/jobs/1?node=n1"), HeatRow("n2", (None,) * 4))
    heat = Heat("nodes", "Its nodes over time", "of its cores busy", (0, 60, 120, 180), 60, rows)
    root = parsed(chart_svg(heat, styled=False, made=1000, live=True))
    first, second = (one for one in root.findall("g") if one.attrib.get("role") == "img")
    assert [one.attrib["class"] for one in first.iter("path")] == ["gap", "h h0", "h h4"]
    assert [one.attrib["class"] for one in second.iter("path")] == ["gap"]
    assert first.findtext("title") == "n1: 35 % on average, 0 % to 95 %, 1 part of 4 not measured"
    assert second.findtext("title") == f"n2: {NOT_MEASURED}"
    assert [one.attrib["href"] for one in root.iter("a")] == ["/jobs/1?node=n1"]
    assert not list(parsed(chart_svg(heat, styled=False)).iter("a")), "no page is there that it could lead to"
    assert "0 to 20 %" in texts(chart_svg(heat, styled=True)) and "80 to 100 %" in texts(chart_svg(heat, styled=True))
