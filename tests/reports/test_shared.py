# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What all renderings do alike."""

from __future__ import annotations

from datetime import datetime

import pytest

from slurmscope.reports.document import NOTE, Cell, Chart, Column, Paragraph, Section, Series, Table
from slurmscope.reports.shared import between, missing, rows


def half(title: str, *cells: Cell, number: bool = False) -> Section:
    """Of a table with these cells, each in a column of its own; without any it has words alone."""
    columns = tuple(Column(f"c{at}", f"c{at}", number) for at in range(len(cells)))
    return Section(title, (Table("t", columns, (cells,)) if cells else Paragraph("x"),), half=True)


BEGIN = 1_767_225_600  # 2026-01-01
WHOLE = Section("whole", (Paragraph("x"),))
FEW = half("few", Cell("1"), Cell("2"), Cell("3"), Cell("4"))
MANY = half("many", *(Cell("1"),) * 5)
METERS = half("meters", *(Cell("less than 1 %", 0.004, 0.004, NOTE),) * 3)
NUMBERS = half("numbers", *(Cell("1,234,567 CPU-hours"),) * 3, number=True)
WORDS = half("words", *(Cell("words of which a line can be made anywhere"),) * 3)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ((half("a"), half("b"), half("c")), ["a b", "c"]),
        ((half("a"), WHOLE, half("b"), half("c")), ["a", "whole", "b c"]),
        ((FEW, WORDS), ["few words"]),
        ((FEW, MANY, half("a"), half("b")), ["few", "many", "a b"]),
        ((METERS, half("a")), ["meters", "a"]),
        ((half("a"), NUMBERS), ["a", "numbers"]),
        ((), []),
    ],
)
def test_halves_stand_side_by_side_where_their_tables_have_room(
    sections: tuple[Section, ...], expected: list[str]
) -> None:
    assert [" ".join(one.title for one in row) for row in rows(sections)] == expected


@pytest.mark.parametrize(
    ("days", "made", "expected"),
    [
        (1, "2026-06-01", "Thu 01 Jan 00:00 to Fri 02 Jan 00:00"),
        (1, "2027-06-01", "Thu 01 Jan 2026 00:00 to Fri 02 Jan 2026 00:00"),
        (330, "2026-12-01", "Thu 01 Jan 2026 00:00 to Fri 27 Nov 2026 00:00"),
    ],
)
def test_times_have_their_year_where_it_could_be_another(days: int, made: str, expected: str) -> None:
    chart = Chart("c", "c", "u", tuple(BEGIN + at * 86400 for at in range(days)), 86400, (Series("a", ()),))
    assert between(chart, int(datetime.fromisoformat(f"{made}T00:00Z").timestamp())) == expected


def test_what_is_ahead_is_not_missing() -> None:
    chart = Chart("c", "c", "u", tuple(range(0, 600, 100)), 100, ())
    used, pace = (1.0, None, 3.0, None, None, None), (None, None, 3.0, 4.0, 5.0, 6.0)
    # the third of them is not over, so that it may be unknown still
    assert missing(chart, used, 350) == [False, True, False, False, False, False]
    assert missing(chart, used, 400) == [False, True, False, True, False, False]
    # what looks ahead was never to be measured
    assert not any(missing(chart, pace, 350))
    assert missing(chart, used, None) == [value is None for value in used]
    assert missing(chart, (*used, None, None), 350)[-2:] == [False, False]
