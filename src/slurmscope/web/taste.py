# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How a reader likes it: light or dark, the language, the zone. Kept in the reader's own cookies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec

THEMES = ("system", "light", "dark")
LANGUAGES = {"en": "English", "fr": "Français"}


class Taste(msgspec.Struct, frozen=True):
    theme: str = "system"
    language: str = "en"
    zone_name: str = "UTC"

    @property
    def zone(self) -> tzinfo:
        return zone_of(self.zone_name) or UTC


def taste_of(cookies: Mapping[str, str], accept_language: str) -> Taste:
    theme, language, zone = (cookies.get(name, "") for name in ("theme", "language", "zone"))
    return Taste(
        theme=theme if theme in THEMES else "system",
        language=language if language in LANGUAGES else _accepted(accept_language),
        zone_name=zone if zone_of(zone) is not None else "UTC",
    )


def _accepted(header: str) -> str:
    for one in header.split(","):
        code = one.partition(";")[0].strip().partition("-")[0].lower()
        if code in LANGUAGES:
            return code
    return "en"


@lru_cache(maxsize=700)  # as many as there are
def zone_of(name: str) -> tzinfo | None:
    """None: there is none by that name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name) if name in zones() else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    return frozenset(available_timezones())
