# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who is told besides the user, when telling the user has changed nothing. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from slurmscope.mail.etiquette import DAY, Told
from slurmscope.settings import Mail

PI, STAFF = "pi", "staff"


class Rung(msgspec.Struct, frozen=True):
    role: str
    address: str
    accounts: tuple[str, ...] = ()  # whose jobs it is told of; (): all


def earlier(told: Iterable[Told], kind: str, rules: Collection[str], settings: Mail, now: int) -> int:
    """How often the person was told the same, lately: of several rules, that of which it was most often."""
    since = now - settings.ladder_days * DAY
    times = Counter(one.rule for one in told if one.kind == kind and one.rule in rules and one.time >= since)
    return max(times.values(), default=0)


def rungs(number: int, accounts: Iterable[str], settings: Mail) -> list[Rung]:
    """Who is told too, of the user's `number`-th warning of a rule, which is 1 for the first."""
    found: list[Rung] = []
    if settings.to_pi and number >= settings.to_pi:
        answers: dict[str, list[str]] = {}
        for name in dict.fromkeys(accounts):
            if name in settings.pis:
                answers.setdefault(settings.pis[name], []).append(name)
        found += [Rung(PI, address, tuple(names)) for address, names in answers.items()]
    if settings.staff and settings.to_staff and number >= settings.to_staff:
        found.append(Rung(STAFF, settings.staff))
    return found
