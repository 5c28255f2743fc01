# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, made here and not in a browser: the same in pages, PDF and mails.

A page's CSS colours what has classes, in both themes; `styled` writes colours and fonts into it, for what has no CSS.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

import msgspec

from slurmscope.reports.axis import figure, labels, sound, ticks, width_of
from slurmscope.reports.bars import bars_svg
from slurmscope.reports.canvas import LABEL, SIZE, Canvas, line_class
from slurmscope.reports.document import Bars, Chart, Drawn, Heat, Level
from slurmscope.reports.heat import heat_svg
from slurmscope.reports.shared import NOT_MEASURED, between, ends, known, level_text, missing, spread, unmeasured
from slurmscope.words import Say, english, offset_words

HEIGHT = 170
_BOTTOM = 20.0  # for the labels of the time
_Point = tuple[float, float, float]  # where a bucket starts and ends, and its value


class _Plot(msgspec.Struct):
    """Where the lines are, and what the axes stand for."""

    left: float
    right: float
    top: float
    bottom: float
    start: int
    end: int
    marks: list[float]
    zone: tzinfo

    def x(self, when: float) -> float:
        share = (when - self.start) / (self.end - self.start)
        return self.left + (self.right - self.left) * max(0.0, min(1.0, share))

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        share = value / (high - low) - low / (high - low)
        return self.bottom - (self.bottom - self.top) * max(0.0, min(1.0, share))


def chart_svg(
    chart: Drawn,
    *,
    styled: bool,
    width: int = 560,
    height: int = HEIGHT,
    made: int | None = None,
    zone: tzinfo = UTC,
    live: bool = False,
    say: Say = english,
) -> str:
    """One chart. It grows beyond `height` where legends, levels or bars need more to stay legible.

    `made` is when: what is of another year says so, and what is after it is not missing. Times are of `zone`, and
    words that are not the chart's own are said by `say`.
    A `live` one over time has its figures with it, for a script that shows them.
    """
    if isinstance(chart, Bars):
        return bars_svg(chart, styled=styled, width=width, height=height, say=say)
    if isinstance(chart, Heat):
        return heat_svg(chart, styled=styled, width=width, made=made, zone=zone, live=live, say=say)
    canvas = Canvas(width, styled=styled, live=live, say=say)
    series = [tuple(map(sound, one.values)) for one in chart.series]
    levels = known(chart.levels)
    told = [value for values in series for value in values if value is not None]
    ceiling = sound(chart.ceiling)
    marks = ticks([*told, *(one.value for one in levels), *([] if ceiling is None else [ceiling])])
    names = labels(marks)
    start, end = ends(chart) or (0, 1)
    left = max(34.0, *(width_of(name, SIZE) + 8 for name in [*names, offset_words(start, zone)]))
    aside = min(width * 0.3, max((width_of(level_text(one), SIZE) for one in levels), default=0.0))
    canvas.text(0, 11, chart.unit, room=width - 4)
    top = 20.0
    if len(chart.series) > 1:
        begin = max(left, width_of(chart.unit, SIZE) + 14)
        top = 6 + canvas.legend([one.name for one in chart.series], min(begin, width * 0.5), 11, lines=True)
    bottom = top + max(height - _BOTTOM - top, 60.0, LABEL * len(levels))
    right = width - (aside + 12 if levels else 6)
    plot = _Plot(left=left, right=right, top=top, bottom=bottom, start=start, end=end, marks=marks, zone=zone)
    _axes(canvas, plot, names, made, dated=bool(chart.times))
    _lines(canvas, plot, chart, series)
    canvas.levels([(level_text(one), plot.y(one.value)) for one in levels], (left, right, top, bottom), aside)
    if not told:
        canvas.text((left + right) / 2, (top + bottom) / 2, say(NOT_MEASURED), anchor="middle", room=right - left)
    data = _data(chart, plot, series) if live and told else ""
    return canvas.drawn(bottom + _BOTTOM, chart.title, _about(chart, series, levels, made, zone, say), data)


def _axes(canvas: Canvas, plot: _Plot, names: Sequence[str], made: int | None, *, dated: bool) -> None:
    for mark, name in zip(plot.marks, names, strict=True):
        y = plot.y(mark)
        canvas.line("base" if mark == 0 else "axis", plot.left, y, plot.right, y)
        canvas.text(plot.left - 6, min(y + 4, plot.bottom + 3), name, anchor="end", room=plot.left)
    if dated:
        canvas.times((plot.start, plot.end), (plot.left, plot.right), plot.bottom, made, plot.zone)


def _lines(canvas: Canvas, plot: _Plot, chart: Chart, series: Sequence[Sequence[float | None]]) -> None:
    """The first series is an area with an edge, further ones are lines; each ends where something is not known."""
    canvas.begin("lines")
    for index, values in enumerate(series):
        for run in _runs(chart, values):
            middles = [((a + b) / 2, value) for a, b, value in run]
            points = [(run[0][0], run[0][2]), *middles, (run[-1][1], run[-1][2])]
            drawn = [f"{plot.x(when):.1f} {plot.y(value):.1f}" for when, value in points]
            if index == 0:
                zero = plot.y(0)
                closed = f"L{plot.x(run[-1][1]):.1f} {zero:.1f} L{plot.x(run[0][0]):.1f} {zero:.1f} Z"
                canvas.path("area", f"M{' L'.join(drawn)} {closed}")
            canvas.path(line_class(index), f"M{' L'.join(drawn)}")
    canvas.end()


def _data(chart: Chart, plot: _Plot, series: Sequence[Sequence[float | None]]) -> str:
    """What is drawn and where, as JSON: times from the start on, values to what can be read off."""
    order = sorted(range(min([len(chart.times), *map(len, series)])), key=lambda at: chart.times[at])
    found = {
        "box": [round(one, 1) for one in (plot.left, plot.right, plot.top, plot.bottom)],
        "ends": [plot.start, plot.end],
        "range": [plot.marks[0], plot.marks[-1]],
        "step": max(1, chart.step),
        "unit": chart.unit,
        "times": [chart.times[at] - plot.start for at in order],
        "series": [
            {"name": one.name, "values": [None if (v := values[at]) is None else float(f"{v:.5g}") for at in order]}
            for one, values in zip(chart.series, series, strict=True)
        ],
    }
    return msgspec.json.encode(found).decode()


def _runs(chart: Chart, values: Sequence[float | None]) -> list[list[_Point]]:
    """Buckets that follow each other and are known."""
    step = max(1, chart.step)
    runs: list[list[_Point]] = []
    before: int | None = None
    for when, value in sorted(zip(chart.times, values, strict=False), key=lambda one: one[0]):
        if value is None:
            before = None
            continue
        if before is None or when - before > 1.5 * step:
            runs.append([])
        runs[-1].append((float(when), float(when + step), value))
        before = when
    return runs


def _about(
    chart: Chart,
    series: Sequence[Sequence[float | None]],
    levels: Sequence[Level],
    made: int | None,
    zone: tzinfo,
    say: Say,
) -> str:
    """What is to be seen, in words."""
    of = ends(chart)
    when = f", {between(chart, made, zone, say)} {offset_words(of[0], zone)}" if of else ""
    said = [f"{chart.unit}{when}"]
    for one, values in zip(chart.series, series, strict=True):
        told = [value for value in values if value is not None]
        gaps = sum(missing(chart, values, made))
        some = spread(figure(min(told)), figure(max(told)), say) if told else say(NOT_MEASURED)
        without = f", {unmeasured(gaps, len(values), say)}" if told and gaps else ""
        said.append(f"{one.name}: {some}{without}")
    return "; ".join([*said, *map(level_text, levels)])
