# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The time that a report is of: whole days of UTC, as usage is kept."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import msgspec

from slurmscope.usage import DAY

_MONTH = re.compile(r"(\d{4})-(\d{1,2})")
_EPOCH = date(1970, 1, 1)
_YEARS = range(1971, 9999)


class PeriodError(ValueError):
    """A time that cannot be meant; the message says what was expected."""


class Period(msgspec.Struct, frozen=True):
    since: int  # days since 1970-01-01
    until: int  # the day after the last
    month: bool = False
    going_on: bool = False  # its last day is not over

    @property
    def start(self) -> int:
        return self.since * DAY

    @property
    def end(self) -> int:
        return self.until * DAY

    @property
    def days(self) -> int:
        return self.until - self.since

    @property
    def words(self) -> str:
        if self.month:
            return _date(self.since).strftime("%B %Y") + (", so far" if self.going_on else "")
        if self.days == 1:
            return f"{_date(self.since)}"
        return f"{_date(self.since)} to {_date(self.until - 1)}"

    @property
    def before(self) -> Period:
        """The one that it is compared with: as long, and just before; of a month, as much of the month before."""
        if not self.month:
            return Period(self.since - self.days, self.since)
        whole = _month(_date(self.since) - timedelta(days=1))
        return Period(whole.since, min(whole.until, whole.since + self.days)) if self.going_on else whole

    @property
    def before_words(self) -> str:
        if self.month:
            return self.before.words
        return "the day before" if self.days == 1 else f"the {self.days:,} days before"


def last_days(days: int, now: float) -> Period:
    """Today among them."""
    today = int(now) // DAY
    return Period(today + 1 - days, today + 1, going_on=True)


def last_month(now: float) -> Period:
    """The last one that is over."""
    return _month(datetime.fromtimestamp(now, UTC).date().replace(day=1) - timedelta(days=1))


def month_of(text: str, now: float) -> Period:
    """`2026-10`. Raises PeriodError."""
    found = _MONTH.fullmatch(text)
    try:
        first = date(int(found[1]), int(found[2]), 1) if found and int(found[1]) in _YEARS else None
    except ValueError:
        first = None
    if first is None:
        raise PeriodError(f"expected a month such as 2026-10, found {text!r}")
    return _up_to_now(_month(first), now)


def between(since: str, until: str | None, now: float) -> Period:
    """From a day to another, both among them; to today where there is no other. Raises PeriodError."""
    first = _day(since)
    last = int(now) // DAY if until is None else _day(until)
    if last < first:
        raise PeriodError(f"expected a last day that is not before the first, {_date(first)}, found {_date(last)}")
    return _up_to_now(Period(first, last + 1), now)


def _up_to_now(period: Period, now: float) -> Period:
    """As much of it as there has been."""
    today = int(now) // DAY
    if period.since > today:
        raise PeriodError(f"{period.words} has not begun: today is {_date(today)}")
    return msgspec.structs.replace(period, until=today + 1, going_on=True) if period.until > today else period


def _month(any_day: date) -> Period:
    first = any_day.replace(day=1)
    after = (first + timedelta(days=32)).replace(day=1)
    return Period((first - _EPOCH).days, (after - _EPOCH).days, month=True)


def _day(text: str) -> int:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.year not in _YEARS:
        raise PeriodError(f"expected a day such as 2026-10-31, found {text!r}")
    return (found - _EPOCH).days


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)
