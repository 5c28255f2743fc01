# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Rules as people read them: when one fires, and what a threshold means."""

from __future__ import annotations

import re
from importlib import import_module

from slurmscope.findings import rules
from slurmscope.findings.rule import BYTES, SECONDS, SHARE, Rule
from slurmscope.words import number, size, span

_GIB_HOUR = (1 << 30) * 3600
_NOTHING = re.compile(r"(?<=\d) (\w+) 0 \w+$")  # `1 h 0 min` is an hour


def fires_when(rule: Rule) -> str:
    """What its file says of it, in a sentence."""
    text = import_module(f"{rules.__name__}.{rule.name}").__doc__ or ""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def written(value: float) -> str:
    """As it is set: 0.6, 3600."""
    return f"{value:.0f}" if value == int(value) else f"{value:.12g}"


def meant(value: float, unit: str) -> str:
    """`60 %`, `1 h`, `50 GiB`; empty where the number says all."""
    if unit == SHARE:
        return f"{number(value * 100)} %"
    if unit == SECONDS:
        return _NOTHING.sub(r" \1", span(value))
    if unit == BYTES:
        return size(value)
    return f"{number(value / _GIB_HOUR)} GiB-hours" if unit == "byte-seconds" else ""
