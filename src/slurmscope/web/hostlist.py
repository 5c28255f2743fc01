# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names of nodes folded as Slurm writes them: `cn[101-103,107],gn014`."""

from __future__ import annotations

import re
from collections.abc import Iterable

# the last number of a name; of one that is longer than any number, its last digits
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)", re.DOTALL)
_OWN = frozenset("[],")  # what means something in a list


def folded(names: Iterable[str]) -> str:
    """Each once, by name and number. What stands in brackets is exactly what was given: `n[08-10]`, `n[9-10]`."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(set(names)):
        found = _NUMBERED.fullmatch(name) if _OWN.isdisjoint(name) else None
        key, digits = ((name, ""), "") if found is None else ((found[1], found[3]), found[2])
        groups.setdefault(key, []).append(digits)
    return ",".join(_group(*key, digits) for key, digits in sorted(groups.items()))


def _group(before: str, behind: str, digits: list[str]) -> str:
    plain = [before + behind] if "" in digits else []
    spans = _spans([one for one in digits if one])
    if len(spans) == 1 and spans[0][0] == spans[0][1]:
        plain.append(f"{before}{spans[0][0]}{behind}")
    elif spans:
        inside = ",".join(first if first == last else f"{first}-{last}" for first, last in spans)
        plain.append(f"{before}[{inside}]{behind}")
    return ",".join(plain)


def _spans(digits: list[str]) -> list[tuple[str, str]]:
    """Numbers that follow each other, each as wide as the first one says."""
    found: list[tuple[str, str]] = []
    for one in sorted(digits, key=lambda text: (int(text), len(text))):
        if found and one == f"{int(found[-1][1]) + 1:0{len(found[-1][0])}d}":
            found[-1] = found[-1][0], one
        else:
            found.append((one, one))
    return found
