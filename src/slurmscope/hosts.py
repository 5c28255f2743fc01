# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""By which name somebody came.

Whoever owns a name can make it lead to loopback (DNS rebinding). A browser that was on a page of that name then takes
what is served here for that site's own, and its scripts may read it. The name is in the Host header all the same.
"""

from __future__ import annotations

from ipaddress import ip_address

_HERE = ("localhost", "localhost.localdomain")
"""Names that no site of others can have; and so are those below the first."""

_MOST_STRANGERS = 20  # of which it is told: else any page could fill the log


def host_of(header: str) -> str:
    """The name or address that a Host header has, in lower case and without its port."""
    host = header.strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].removesuffix(".")


class Hosts:
    """The names by which this machine is meant, where only what runs on it can come."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(one.lower() for one in (*_HERE, *names) if one)
        self._strangers: set[str] = set()

    def mean(self, header: str | None) -> bool:
        """Whether this machine was meant. A number is nobody's name, and what names no host is no browser."""
        if header is None:
            return True
        name = host_of(header)
        return name in self._names or name.endswith(f".{_HERE[0]}") or _is_address(name)

    def stranger(self, header: str) -> str:
        """The name, where it has come for the first time; "" then, and when there have been many."""
        name = host_of(header)
        if name in self._strangers or len(self._strangers) >= _MOST_STRANGERS:
            return ""
        self._strangers.add(name)
        return name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
