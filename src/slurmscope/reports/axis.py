# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Round ticks for amounts and for times, and how wide words are: what an axis is made of."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from slurmscope.words import number

MOST = 1e300  # beyond it, and below its reciprocal, sums would overflow
LATEST = 32_503_680_000  # the year 3000
_MINUTE, _HOUR, DAY = 60, 3600, 86400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * some for some in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * some for some in (1, 2, 3, 6, 12)),
    *(DAY * some for some in (1, 2, 7, 14)),
)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600)


def sound(value: float | None) -> float | None:
    """A value that can be drawn, or None."""
    if value is None or math.isnan(value) or math.isinf(value):
        return None
    return 0.0 if abs(value) < 1 / MOST else max(-MOST, min(MOST, float(value)))


def figure(value: float) -> str:
    """A number as people read it, of any size."""
    known = sound(value)
    return "unknown" if known is None else number(known) if abs(known) < 1e15 else f"{known:.3g}"


def ticks(values: Iterable[float], intervals: int = 4) -> list[float]:
    """Round numbers from 0, or from below the least where that is negative, to the most or above."""
    told = list(values)
    low, high = min([0.0, *told]), max([0.0, *told])
    if low == high:
        return [0.0, 1.0]
    rough = (high / intervals) - (low / intervals)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((one * power for one in (1, 2, 2.5, 5) if one * power >= rough * 0.999), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [at * step for at in range(first, last + 1)]


def labels(marks: list[float]) -> list[str]:
    """All with as many digits as their step needs."""
    step = marks[1] - marks[0]
    most = max(abs(marks[0]), abs(marks[-1]))
    if most >= 1e15 or most < 1e-4:
        return ["0" if mark == 0 else f"{mark:.3g}" for mark in marks]
    scale, unit = next(((some, name) for some, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if most >= some), (1, ""))
    # 2.5 needs a digit more than its power of ten says
    digits = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    if abs(step / scale * 10**digits - round(step / scale * 10**digits)) > 1e-6:
        digits += 1
    return [f"{mark / scale:,.{digits}f}{unit if mark else ''}" for mark in marks]


def moments(start: int, end: int, most: int, made: int | None = None, zone: tzinfo = UTC) -> list[tuple[int, str]]:
    """At most so many round times between the two, with what stands at them.

    Where they are not all of the year in which it is `made`, the first of each year says it.
    """
    step = next((one for one in _STEPS if (end - start) / one <= most), None)
    found = _months(start, end, most, zone) if step is None else _even(start, end, step, _offset(start, zone))
    years = [datetime.fromtimestamp(when, zone).year for when in found]
    told = made is not None and set(years) != {datetime.fromtimestamp(made, zone).year}
    return [
        (when, _moment(when, step, zone, first=at == 0, year=told and years[at] not in years[:at]))
        for at, when in enumerate(found)
    ]


def _offset(when: int, zone: tzinfo) -> int:
    found = datetime.fromtimestamp(when, zone).utcoffset()
    return 0 if found is None else int(found.total_seconds())


def _even(start: int, end: int, step: int, offset: int) -> list[int]:
    # weeks begin on Mondays, and the epoch on a Thursday
    shift = (4 * DAY if step % (7 * DAY) == 0 else 0) - offset
    first = -(-(start - shift) // step) * step + shift
    return list(range(first, end + 1, step))


def _months(start: int, end: int, most: int, zone: tzinfo) -> list[int]:
    since = datetime.fromtimestamp(start, zone)
    first = since.year * 12 + since.month - 1
    count = (end - start) / (30.4 * DAY)
    step = next((one for one in _MONTHS if count / one <= most), _MONTHS[-1])
    found = []
    for month in range(first // step * step, first + int(count) + step + 1, step):
        when = int(datetime(month // 12, month % 12 + 1, 1, tzinfo=zone).timestamp())
        if start <= when <= end:
            found.append(when)
    return found


def _moment(when: int, step: int | None, zone: tzinfo, *, first: bool, year: bool) -> str:
    at = datetime.fromtimestamp(when, zone)
    day = f"{at.day} {at:%b} {at:%Y}" if year else f"{at.day} {at:%b}"
    if step is None:
        return f"{at:%b %Y}"
    if step >= DAY:
        return day
    clock = f"{at:%H:%M:%S}" if step < _MINUTE else f"{at:%H:%M}"
    return day if at.hour == at.minute == at.second == 0 else f"{day} {clock}" if first else clock


@lru_cache(maxsize=4096)
def width_of(text: str, size: float) -> float:
    """About as wide as it is in any of the fonts that may be used, and rather more than less."""
    return sum(_share(char) for char in text) * size


def _share(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if char.isascii():
        return 0.92 if char in "MW@%" else 0.62
    return 1.15 if unicodedata.east_asian_width(char) in "WF" else 0.8


def cut(text: str, room: float, size: float) -> str:
    """As much of it as there is room for, and a sign where something is left out."""
    if width_of(text, size) <= room:
        return text
    kept = text
    while kept and width_of(kept, size) + size > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"
