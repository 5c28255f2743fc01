# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Bars as SVG: lying where there are few, with whole labels; standing where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from slurmscope.reports.axis import figure, labels, sound, ticks, width_of
from slurmscope.reports.canvas import LABEL, SIZE, Canvas
from slurmscope.reports.document import Bars, Level
from slurmscope.reports.shared import NOT_MEASURED, known, level_text, spread
from slurmscope.words import Say, english

_FEW = 8  # always lie
_MANY = 24  # always stand
_ROW = 20.0
_LEVEL = 14.0
_Parts = list[list[float | None]]


def bars_svg(bars: Bars, *, styled: bool, width: int, height: int, say: Say = english) -> str:
    canvas = Canvas(width, styled=styled, say=say)
    parts = parts_of(bars)
    sums = [whole_of(some) for some in parts]
    told = [one for one in sums if one is not None]
    levels = known(bars.levels)
    marks = ticks([*told, *(max(0.0, one.value) for one in levels)])
    canvas.text(0, 11, bars.unit, room=width - 4)
    top = 20.0
    if len(bars.series) > 1:
        begin = min(width * 0.5, max(34.0, width_of(bars.unit, SIZE) + 14))
        top = 6 + canvas.legend([one.name for one in bars.series], begin, 11, lines=False)
    fit = all(width_of(label, SIZE) + 4 <= (width - 50) / len(bars.labels) for label in bars.labels)
    if bars.labels and (len(bars.labels) > _MANY or (len(bars.labels) > _FEW and fit)):
        end = _standing(canvas, bars, parts, marks, levels, top, height)
    else:
        end = _lying(canvas, bars, parts, marks, levels, top)
    if not told:
        canvas.text(width / 2, (top + end) / 2 - 8, say(NOT_MEASURED), anchor="middle", room=width)
    return canvas.drawn(end, bars.title, _about(bars, sums, levels, say))


def parts_of(bars: Bars) -> _Parts:
    """For each label the parts of its bar. What is negative has no length."""
    found: _Parts = []
    for at in range(len(bars.labels)):
        values = [sound(one.values[at]) if at < len(one.values) else None for one in bars.series]
        found.append([None if value is None else max(0.0, value) for value in values])
    return found


def whole_of(parts: Sequence[float | None]) -> float | None:
    """The length of a bar: of its parts that are known, if any is."""
    told = [one for one in parts if one is not None]
    return min(1e300, sum(told)) if told else None


def _lying(canvas: Canvas, bars: Bars, parts: _Parts, marks: list[float], levels: Sequence[Level], top: float) -> float:
    values = ["" if (whole := whole_of(some)) is None else figure(whole) for some in parts]
    left = min(canvas.width * 0.36, max((width_of(one, SIZE) for one in bars.labels), default=20.0) + 10)
    right = canvas.width - min(canvas.width * 0.25, max([10.0, *(width_of(one, SIZE) for one in values)]) + 10)
    begin = top + _LEVEL * len(levels)
    bottom = begin + _ROW * max(2, len(bars.labels))

    def x(value: float) -> float:
        return left + (right - left) * max(0.0, min(1.0, value / marks[-1]))

    taken = 0.0
    for mark, name in zip(marks, labels(marks), strict=True):
        canvas.line("base" if mark == 0 else "axis", x(mark), begin, x(mark), bottom)
        half = width_of(name, SIZE) / 2
        place = min(x(mark), canvas.width - half)
        if place - half > taken + 4:
            canvas.text(place, bottom + 15, name, anchor="middle", room=canvas.width)
            taken = place + half
    for at, some in enumerate(parts):
        y = begin + _ROW * at
        canvas.text(left - 6, y + 14, bars.labels[at], anchor="end", room=left - 6, name="ink", behind=": ")
        end = 0.0
        for index, value in enumerate(some):
            if value:
                title = f"{bars.labels[at]}, {bars.series[index].name}: {figure(value)} {bars.unit}"
                canvas.part(index, x(end), y + 4, max(0.6, x(end + value) - x(end) - 0.5), _ROW - 8, title)
                end += value
        if values[at]:
            room = canvas.width - right - 4
            canvas.text(canvas.width - 1, y + 14, values[at], anchor="end", room=room, name="ink", behind="; ")
        else:
            canvas.line("none", left, y + 10, min(right, left + 40), y + 10)
            canvas.read(f"{canvas.say(NOT_MEASURED)}; ")
    for at, level in enumerate(sorted(levels, key=lambda one: one.value)):
        place, y = x(level.value), top + _LEVEL * at
        canvas.line("ask", place, y + 2, place, bottom)
        before = place > canvas.width / 2
        room = place - 6 if before else canvas.width - place - 6
        canvas.text(
            *(place - 4 if before else place + 4, y + 10, level_text(level)),
            anchor="end" if before else "start",
            room=room,
            name="ink",
        )
    return bottom + 20


def _standing(
    canvas: Canvas, bars: Bars, parts: _Parts, marks: list[float], levels: Sequence[Level], top: float, height: float
) -> float:
    names = labels(marks)
    left = max(34.0, max(width_of(name, SIZE) for name in names) + 8)
    aside = min(canvas.width * 0.3, max((width_of(level_text(one), SIZE) for one in levels), default=0.0))
    right = canvas.width - (aside + 12 if levels else 6)
    bottom = top + max(height - 20 - top, 60.0, LABEL * len(levels))
    slot = (right - left) / len(bars.labels)

    def y(value: float) -> float:
        return bottom - (bottom - top) * max(0.0, min(1.0, value / marks[-1]))

    for mark, name in zip(marks, names, strict=True):
        canvas.line("base" if mark == 0 else "axis", left, y(mark), right, y(mark))
        canvas.text(left - 6, y(mark) + 4, name, anchor="end", room=left)
    for at, some in enumerate(parts):
        x, wide, end = left + slot * (at + 0.1), max(0.3, slot * 0.8), 0.0
        if whole_of(some) is None:
            canvas.line("none", x, bottom - 2, x + wide, bottom - 2)
        for index, value in enumerate(some):
            if value:
                title = f"{bars.labels[at]}, {bars.series[index].name}: {figure(value)} {bars.unit}"
                high = max(0.6, y(end) - y(end + value) - (0.5 if slot > 4 else 0))
                canvas.part(index, x, min(bottom - high, y(end + value)), wide, high, title)
                end += value
    _under(canvas, bars.labels, left, slot, bottom + 15)
    canvas.levels([(level_text(one), y(one.value)) for one in levels], (left, right, top, bottom), aside)
    return bottom + 20


def _under(canvas: Canvas, names: Sequence[str], left: float, slot: float, y: float) -> None:
    """As many of the labels as have room."""
    room = max(slot, 60.0)
    wide = min(room, max(width_of(one, SIZE) for one in names))
    every = next(some for some in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1 << 30) if slot * some >= wide + 6)
    for at in range(0, len(names), every):
        half = min(width_of(names[at], SIZE), room) / 2
        x = left + slot * (at + 0.5)
        canvas.text(max(half, min(canvas.width - half, x)), y, names[at], anchor="middle", room=room)


def _about(bars: Bars, sums: Sequence[float | None], levels: Sequence[Level], say: Say) -> str:
    told = [one for one in sums if one is not None]
    some = spread(figure(min(told)), figure(max(told)), say) if told else say(NOT_MEASURED)
    lacking = len(sums) - len(told)
    without = f", {_bars(lacking, say)} {say(NOT_MEASURED)}" if told and lacking else ""
    parts = f"; {say('parts')}: {', '.join(one.name for one in bars.series)}" if len(bars.series) > 1 else ""
    said = f"{_bars(len(bars.labels), say)}, {bars.unit}: {some}{without}{parts}"
    return "; ".join([said, *map(level_text, levels)])


def _bars(count: int, say: Say) -> str:
    return say("1 bar") if count == 1 else say("{count} bars", count=f"{count:,}")
