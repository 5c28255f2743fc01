# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A line of values in one row of characters."""

from __future__ import annotations

from slurmscope.reports.spark import bars_of


def test_bars() -> None:
    assert bars_of([0, 1, 2, None, 7], 60) == "▁▂▃·█"
    assert bars_of([None, None], 60) == "··"
    assert bars_of([0.0, 0.0], 60) == "▁▁"
    assert bars_of([], 60) == ""
    assert bars_of([1.0] * 100 + [None] * 100, 4) == "██··"
    assert bars_of([-1.0, 1.0], 60) == "▁█"
    # what is ahead is no gap
    assert bars_of([1.0, None, 1.0, None, None], 60, [False, True, False, False, False]) == "█·█  "
