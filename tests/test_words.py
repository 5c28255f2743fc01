# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts in words."""

from __future__ import annotations

import pytest

from slurmscope.words import number


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
