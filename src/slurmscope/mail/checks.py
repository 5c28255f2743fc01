# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is expected of the settings of mail, one by one. Each gives what was expected, None where the value is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from slurmscope.mail.address import of_sender, usable
from slurmscope.mail.etiquette import WEEKDAYS, quiet_hours
from slurmscope.notation import shown

_ADDRESS = "an address such as help@example.org"
HERE = ("localhost", "127.", "::1")  # how hosts begin that are this machine


def _check_sender(sender: str) -> str | None:
    if sender.isprintable() and usable(of_sender(sender)[1]):
        return None
    return "an address, or a name and an address: Cluster <slurm@example.org>"


def _check_address(address: str) -> str | None:
    return None if not address or usable(address) else _ADDRESS


def _check_template(address: str) -> str | None:
    right = "{user}" in address and usable(address.replace("{user}", "name"))
    return None if right else "an address with {user} in it: {user}@example.org"


def _check_addresses(addresses: dict[str, str]) -> str | None:
    wrong = next((name for name, address in addresses.items() if not usable(address)), None)
    return None if wrong is None else f"{_ADDRESS} for each, which that of {shown(wrong)} is not"


def _check_folder(path: str) -> str | None:
    try:
        right = not path or Path(path).is_dir()
    except (OSError, ValueError):
        right = False
    return None if right else "a folder that is there"


def _check_zone(name: str) -> str | None:
    if name:
        try:
            ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            return "a time zone of this machine, such as Europe/Paris or UTC"
    return None


def _check_days(days: list[str]) -> str | None:
    return None if all(day in WEEKDAYS or _is_date(day) for day in days) else "days: mon to sun, or 2026-12-25"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _check_hours(hours: str) -> str | None:
    return None if not hours or quiet_hours(hours) else "hours from and until, such as 20:00-07:00"


def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings that are right one by one and wrong together: which one, and what was expected of it."""
    host = str(values.get("mail.host") or "localhost")
    if values.get("mail.security") == "none" and values.get("mail.user") and not host.startswith(HERE):
        yield (
            "mail.security",
            f"expected starttls or tls where mail.user is set, found none: {shown(host)} is not this machine, and "
            "the password could be read on the way",
        )


CHECKS: dict[str, Callable[[Any], str | None]] = {
    "mail.sender": _check_sender,
    "mail.reply_to": _check_address,
    "mail.address": _check_template,
    "mail.addresses": _check_addresses,
    "mail.pis": _check_addresses,
    "mail.staff": _check_address,
    "mail.templates": _check_folder,
    "mail.time_zone": _check_zone,
    "mail.quiet_days": _check_days,
    "mail.quiet_hours": _check_hours,
}
