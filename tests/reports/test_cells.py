# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amounts as cells of a table."""

from __future__ import annotations

import pytest

from slurmscope.reports import cells
from slurmscope.reports.document import BAD, FINE, NOTE, UNKNOWN


@pytest.mark.parametrize(
    ("share", "state", "level"),
    [
        (0.8, "COMPLETED", FINE),
        (0.93, "COMPLETED", NOTE),
        (0.97, "OUT_OF_MEMORY", BAD),
        (0.4, "OUT_OF_MEMORY", BAD),
        (0.1, "COMPLETED", BAD),
        (None, "OUT_OF_MEMORY", UNKNOWN),
    ],
)
def test_memory_that_is_full_is_nothing_good(share: float | None, state: str, level: str) -> None:
    assert cells.memory(share, state).level == level
