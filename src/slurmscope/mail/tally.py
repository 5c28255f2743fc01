# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How mail fares in `serve`, since the start."""

from __future__ import annotations

import msgspec


class Tally(msgspec.Struct):
    rounds: int = 0  # that were made, with or without news
    failures: int = 0  # … that could not be
    last_success: float | None = None
    last_error: str = ""  # of the last round; "": it was made
    waiting: int | None = None  # notices that are to be sent, after the last round
