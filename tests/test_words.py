# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.words import number, rounded


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (3.0, "3"),
        (3.21, "3.2"),
        (0.042, "0.042"),
        (0.001, "0.001"),
        (0.00056, "< 0.001"),
        (3.9e-06, "< 0.001"),
        (12345.6, "12,346"),
        (-2.5, "-2.5"),
    ],
)
def test_a_number_has_as_many_digits_as_say_something(value: float, words: str) -> None:
    assert number(value) == words


@given(st.floats(0, 1e15), st.integers(2, 6))
def test_what_is_rounded_is_no_power_of_ten_and_about_right(value: float, digits: int) -> None:
    shown = rounded(value, digits)
    if 0 < value < 0.001:
        assert shown == "< 0.001"
    else:
        assert "e" not in shown
        assert float(shown.replace(",", "")) == pytest.approx(value, rel=10 ** (1 - digits))
