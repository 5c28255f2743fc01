# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The time that a report is of."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slurmscope.reports.period import PeriodError, between, last_days, last_month, month_of

NOW = datetime(2026, 11, 15, 20, 0, tzinfo=UTC).timestamp()


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}T00:00:00+00:00").timestamp())


def test_a_month_and_the_one_before() -> None:
    found = month_of("2026-03", NOW)
    assert (found.start, found.end) == (at("2026-03-01"), at("2026-04-01"))
    assert (found.before.start, found.before.end) == (at("2026-02-01"), at("2026-03-01"))
    assert (found.words, found.before_words) == ("March 2026", "February 2026")


def test_the_last_month_is_over() -> None:
    assert last_month(NOW).words == "October 2026"
    assert last_month(at("2027-01-01")).words == "December 2026"


def test_the_last_days_have_today() -> None:
    found = last_days(30, NOW)
    assert (found.start, found.end) == (at("2026-10-17"), at("2026-11-16"))
    assert found.before.end == found.start
    assert found.before.days == 30
    assert last_days(1, NOW).words == "2026-11-15"


def test_a_month_that_is_not_over() -> None:
    found = month_of("2026-11", NOW)
    assert (found.words, found.days, found.going_on) == ("November 2026, so far", 15, True)
    assert (found.before.start, found.before.end) == (at("2026-10-01"), at("2026-10-16"))
    assert between("2026-11-01", "2027-12-31", NOW).end == at("2026-11-16")


def test_from_a_day_to_another() -> None:
    found = between("2026-10-01", "2026-10-10", NOW)
    assert (found.start, found.end, found.words) == (at("2026-10-01"), at("2026-10-11"), "2026-10-01 to 2026-10-10")
    assert between("2026-11-01", None, NOW).end == at("2026-11-16")


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: month_of("2026-13", NOW), "expected a month such as 2026-10"),
        (lambda: month_of("October", NOW), "expected a month such as 2026-10"),
        (lambda: month_of("2027-01", NOW), "January 2027 has not begun: today is 2026-11-15"),
        (lambda: month_of("9999-12", NOW), "expected a month such as 2026-10"),
        (lambda: month_of("0001-01", NOW), "expected a month such as 2026-10"),
        (lambda: between("0001-01-01", None, NOW), "expected a day such as 2026-10-31"),
        (lambda: between("yesterday", None, NOW), "expected a day such as 2026-10-31"),
        (lambda: between("2026-10-02", "2026-10-01", NOW), "expected a last day that is not before the first"),
        (lambda: between("2030-01-01", "2030-01-02", NOW), "has not begun"),
    ],
)
def test_what_cannot_be_meant(ask: object, told: str) -> None:
    assert callable(ask)
    with pytest.raises(PeriodError, match=told):
        ask()


MONTHS = some.tuples(some.integers(0, 9999), some.integers(0, 13)).map(lambda one: f"{one[0]:04}-{one[1]:02}")


@given(some.one_of(MONTHS, some.text(max_size=12)))
def test_any_text_is_a_month_or_an_error_that_says_so(text: str) -> None:
    try:
        found = month_of(text, NOW)
    except PeriodError:
        return
    assert 1 <= found.days <= 31
    assert found.before.since < found.before.until <= found.since
