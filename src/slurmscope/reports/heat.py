# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A heat map as SVG: a row for each node, a shade for each piece of time, and hatching where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from statistics import fmean

from slurmscope.reports.axis import sound, width_of
from slurmscope.reports.canvas import SHADES, SIZE, Canvas, hatched
from slurmscope.reports.document import Heat, HeatRow
from slurmscope.reports.shared import NOT_MEASURED, between, ends, missing, spread, unmeasured
from slurmscope.words import Say, english, offset_words, percent

_FEW = 24  # rows that have more room
_HIGH, _LOW = 19.0, 14.0
_MEAN = 42.0  # room for the mean of a row
_SWATCH = 14.0
_LINE = 15.0
_Run = tuple[float, float, int | None]  # from where to where, and which shade; None: not measured


def heat_svg(
    heat: Heat,
    *,
    styled: bool,
    width: int,
    made: int | None = None,
    zone: tzinfo = UTC,
    live: bool = False,
    say: Say = english,
) -> str:
    """As high as its rows need. In a `live` one the name of a row is a link, where it has one."""
    canvas = Canvas(width, styled=styled, live=live, say=say)
    start, end = ends(heat) or (0, 1)
    words = [offset_words(start, zone), *(one.name for one in heat.rows)]
    left = min(width * 0.36, max([34.0, *(width_of(one, SIZE) + 10 for one in words)]))
    right = width - _MEAN
    top = _legend(canvas, heat.unit)
    high = _HIGH if len(heat.rows) <= _FEW else _LOW
    bottom = top + high * max(1, len(heat.rows))

    def x(when: float) -> float:
        return left + (right - left) * max(0.0, min(1.0, (when - start) / (end - start)))

    for at, row in enumerate(heat.rows):
        y, lacking = top + high * at, missing(heat, _sound(row), made)
        middle, room = y + high / 2 + 4, left - 6
        canvas.text(room, middle, row.name, anchor="end", room=room, name="ink", link=row.link, behind=": ")
        canvas.open_group(f"{row.name}: {row_words(row, lacking, say)}")
        _cells(canvas, _runs(heat, row, lacking, x), y + 1, high - 2)
        mean = _mean(row)
        if mean is None:
            canvas.read(f"{say(NOT_MEASURED)}; ")
        else:
            canvas.text(width - 1, middle, percent(mean), anchor="end", room=_MEAN - 4, behind="; ")
        canvas.close_group()
    if not any(_mean(row) is not None for row in heat.rows):
        canvas.text((left + right) / 2, (top + bottom) / 2 + 4, say(NOT_MEASURED), anchor="middle", room=right - left)
    if heat.times:
        canvas.line("base", left, bottom, right, bottom)
        canvas.times((start, end), (left, right), bottom, made, zone)
    return canvas.drawn(bottom + 20, heat.title, about(heat, made, zone, say), role="group" if live else "img")


def row_words(row: HeatRow, lacking: Sequence[bool] = (), say: Say = english) -> str:
    """What is to be seen in a row."""
    told = [one for one in _sound(row) if one is not None]
    if not told:
        return say(NOT_MEASURED)
    gaps = f", {unmeasured(sum(lacking), len(lacking), say)}" if any(lacking) else ""
    ends = spread(percent(min(told)), percent(max(told)), say)
    return f"{percent(fmean(told))} {say('on average')}, {ends}{gaps}"


def about(heat: Heat, made: int | None = None, zone: tzinfo = UTC, say: Say = english) -> str:
    """What is to be seen in all of it."""
    of = ends(heat)
    when = f", {between(heat, made, zone, say)} {offset_words(of[0], zone)}" if of else ""
    means = [mean for row in heat.rows if (mean := _mean(row)) is not None]
    some = (
        f"{spread(percent(min(means)), percent(max(means)), say)} {say('on average')}" if means else say(NOT_MEASURED)
    )
    rows = say("1 row") if len(heat.rows) == 1 else say("{count} rows", count=f"{len(heat.rows):,}")
    return f"{rows}, {heat.unit}{when}: {some}"


def _sound(row: HeatRow) -> list[float | None]:
    known = map(sound, row.values)
    return [None if one is None else max(0.0, min(1.0, one)) for one in known]


def _mean(row: HeatRow) -> float | None:
    told = [one for one in _sound(row) if one is not None]
    return fmean(told) if told else None


def _legend(canvas: Canvas, unit: str) -> float:
    """Returns where what is under it begins."""
    canvas.text(0, 11, unit, room=canvas.width - 4)
    step = 100 // SHADES
    names = [spread(str(at * step), f"{(at + 1) * step} %", canvas.say) for at in range(SHADES)]
    first = min(canvas.width * 0.5, width_of(unit, SIZE) + 16)
    x, y = first, 11.0
    for at, name in enumerate([*names, canvas.say(NOT_MEASURED)]):
        wide = _SWATCH + width_of(name, SIZE) + 12
        if x > first and x + wide > canvas.width:
            x, y = first, y + _LINE
        _cells(canvas, [(x, x + 10, at if at < SHADES else None)], y - 9, 10)
        canvas.text(x + _SWATCH, y, name, room=canvas.width - x - _SWATCH)
        x += wide
    return y + 9


def _runs(heat: Heat, row: HeatRow, lacking: Sequence[bool], x: Callable[[float], float]) -> list[_Run]:
    """Pieces of time of one shade that follow each other are one piece."""
    step = max(1, heat.step)
    found: list[_Run] = []
    for when, value, gap in sorted(zip(heat.times, _sound(row), lacking, strict=False), key=lambda one: one[0]):
        if value is None and not gap:
            continue  # it is still to come
        shade = None if value is None else min(SHADES - 1, int(value * SHADES))
        start, end = x(when), x(when + step)
        if found and found[-1][2] == shade and abs(found[-1][1] - start) < 0.01:
            found[-1] = found[-1][0], end, shade
        else:
            found.append((start, end, shade))
    return found


def _cells(canvas: Canvas, runs: Sequence[_Run], y: float, high: float) -> None:
    drawn: dict[int, list[str]] = {}
    for start, end, shade in runs:
        if shade is not None:
            place = f"M{start:.1f} {y:.1f} h{end - start:.1f} v{high:.1f} h{start - end:.1f} Z"
            drawn.setdefault(shade, []).append(place)
        else:
            thin = f"M{start:.1f} {y + high / 2:.1f} h{end - start:.1f}"
            canvas.path("gap", hatched(1, start, y, end - start, high) or thin)
    for shade, places in sorted(drawn.items()):
        canvas.path(f"h h{shade}", " ".join(places))
