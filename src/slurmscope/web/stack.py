# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One bar with four meanings: used, free, stranded, unavailable. Each has a pattern besides its colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slurmscope.web.translation import Translation
from slurmscope.words import number, percent

KINDS = ("used", "free", "held", "bad")
WORDS = {"used": "used", "free": "free", "held": "stranded", "bad": "unavailable"}
_WIDTH, _HEIGHT = 300.0, 14
_LEAST = 2.0  # what is there is seen, however little it is

# Lines across what is stranded and what is unavailable; the same in every bar, so that a page has them once.
PATTERNS = (
    '<svg class="hidden" aria-hidden="true" width="0" height="0"><defs>'
    '<pattern id="held" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" class="held"/><rect width="3" height="8" class="gap"/></pattern>'
    '<pattern id="bad" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect width="5" height="5" class="paper"/><rect width="2" height="5" class="bad"/></pattern>'
    "</defs></svg>"
)


def stack(amounts: Sequence[float], t: Translation, words: Callable[[float], str] = number) -> str:
    """Of `amounts` in the order of KINDS; `words` says one of them."""
    total = sum(amounts)
    told = ", ".join(f"{words(value)} {t(WORDS[kind])}" for kind, value in zip(KINDS, amounts, strict=True) if value)
    share = f"{percent(amounts[0] / total)} {t('used')}" if total else t("none")  # read where nothing is drawn
    label = t("{parts} of {all}", parts=told or t("none"), all=words(total))
    x, drawn = 0.0, []
    for kind, value in zip(KINDS, amounts, strict=True):
        if not value or not total:
            continue
        width = max(_LEAST, _WIDTH * value / total)
        drawn.append(f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="{_HEIGHT}"/>')
        x += width
    return (
        f'<svg class="stack" viewBox="0 0 {max(x, 1.0):.1f} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{"".join(drawn)}<text>{share}</text></svg>'
    )


def swatch(kind: str) -> str:
    """What a legend shows of a kind."""
    return f'<svg viewBox="0 0 12 12" aria-hidden="true"><rect class="{kind}" width="12" height="12"/></svg>'
