# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A line of values over time in one row of characters."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "·"


def bars_of(
    values: Sequence[float | None], width: int, missing: Sequence[bool] | None = None, full: float | None = None
) -> str:
    """A line of so many characters at most, from 0 to `full`, or to the largest; what is unknown is a gap.

    Where it is said which values are `missing`, all others that are not there are blanks.
    """
    width = min(width, len(values))
    bins = [slice(at * len(values) // width, (at + 1) * len(values) // width) for at in range(width)]
    means = [fmean(told) if (told := [one for one in values[some] if one is not None]) else None for some in bins]
    most = max((one for one in means if one is not None), default=0.0) if full is None else full
    last = len(_BARS) - 1
    gaps = [_GAP if missing is None or any(missing[some]) else " " for some in bins]
    return "".join(
        gap if one is None else _BARS[round(min(1.0, max(0.0, one) / most) * last) if most > 0 else 0]
        for one, gap in zip(means, gaps, strict=True)
    )
