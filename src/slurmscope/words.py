# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts as people read them: the one place where base units become words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo

UNKNOWN = "unknown"
Say = Callable[..., str]
"""Says a text in the reader's language; what stands in its braces is given by name, and put in afterwards."""


def english(text: str, **values: object) -> str:
    """As it is written."""
    return text.format(**values) if values else text


def dated(text: str, say: Say) -> str:
    """A time with the names of its day and month: each word is looked up, and figures are in no catalogue."""
    return text if say is english else " ".join(map(say, text.split(" ")))


def printable(text: str) -> str:
    """Without what could steer a terminal or a page, or is no character: controls, directions, halves of characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def amount(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def rounded(value: float, digits: int) -> str:
    """To so many digits that say something, and never as a power of ten: 0.437, 7.05, 12,345, < 0.001."""
    if 0 < value < 0.001:
        return "< 0.001"
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def number(value: float, digits: int = 1) -> str:
    """As many digits behind the point as say something: 3, 3.2, 0.04, 12,345, < 0.001."""
    if 0 < value < 0.001:
        return "< 0.001"
    if value == 0 or abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    shown = f"{value:,.{digits}f}"
    return shown if abs(value) >= 10**-digits else f"{value:,.2g}"


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    if 0 < share < 0.01:
        return "less than 1 %"
    return f"{share * 100:,.0f} %"


def size(count: float | None) -> str:
    if count is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{number(count)} {unit}"
        count /= 1024
    return f"{number(count)} TiB"


def span(seconds: float | None, say: Say = english) -> str:
    """The two units that matter: 2 d 3 h, 3 h 20 min, 40 s."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    days, hours, minutes = whole // 86400, whole % 86400 // 3600, whole % 3600 // 60
    if days:
        return f"{days:,} {say('d')} {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def hours(seconds: float, of: str) -> str:
    """Core-hours, GPU-hours: `22 GPU-hours`."""
    return f"{number(seconds / 3600)} {of}-hours"


def moment(when: float | None) -> str:
    return UNKNOWN if when is None else datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def minute(when: float | None, made: float | None = None, *, year: bool = False, zone: tzinfo = UTC) -> str:
    """With the year where it is asked for, or is not that in which it is `made`."""
    if when is None:
        return UNKNOWN
    at = datetime.fromtimestamp(when, zone)
    other = made is not None and datetime.fromtimestamp(made, zone).year != at.year
    return at.strftime("%a %d %b %Y %H:%M" if year or other else "%a %d %b %H:%M")


def offset_words(when: float, zone: tzinfo) -> str:
    """How far a zone is from UTC at that time: `UTC`, `+01:00`."""
    found = datetime.fromtimestamp(when, zone).strftime("%z")[:5]
    return "UTC" if found == "+0000" else f"{found[:3]}:{found[3:]}"


def date(when: float | None) -> str:
    return UNKNOWN if when is None else datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d")


def listed(names: list[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"
