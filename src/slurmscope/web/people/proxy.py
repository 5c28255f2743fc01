# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a reverse proxy says of who somebody is and from where. Only those that the settings name are believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from slurmscope.settings import Portal
from slurmscope.web.people import names
from slurmscope.words import printable

Headers = Iterable[tuple[bytes, bytes]]
"""As a request has them: names in lower case, each as often as it was sent."""
_FORWARDED = b"x-forwarded-for"
_MOST_SHOWN = 60


class ProxyError(Exception):
    """A proxy that is believed says something that cannot be; the message says what to do."""


def name_of(peer: str, headers: Headers, portal: Portal) -> str | None:
    """The user whom the proxy names; None where it names nobody, or is none that is believed. Raises ProxyError."""
    if not _believed(_address(peer), portal):
        return None
    values = _values(headers, portal.proxy_header.lower().encode())
    if not values or values == [""]:
        return None
    if len(values) > 1:
        raise ProxyError(
            f"The proxy {peer} sent {portal.proxy_header} {len(values)} times: it must remove what people send "
            "by that name."
        )
    if not names.plausible(values[0]):
        shown = printable(values[0])[:_MOST_SHOWN]
        raise ProxyError(
            f"The proxy {peer} says that somebody is called {shown!r} ({portal.proxy_header}): "
            f"expected {names.EXPECTED}."
        )
    return values[0]


def client_of(peer: str, headers: Headers, portal: Portal) -> str:
    """From where somebody comes: who is connected, or whom the proxies before us say.

    Each proxy adds at the end whom it heard from. What stands before the first that is not believed is anybody's.
    """
    here = _address(peer)
    if not _believed(here, portal):
        return peer if here is None else str(here)
    for one in reversed(",".join(_values(headers, _FORWARDED)).split(",")):
        said = _address(_without_port(one.strip()))
        if said is None:
            break
        here = said
        if not _believed(said, portal):
            break
    return str(here)


def _believed(address: IPv4Address | IPv6Address | None, portal: Portal) -> bool:
    return address is not None and any(address in ipaddress.ip_network(one) for one in portal.proxies)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # on a socket for both, IPv4 comes as ::ffff:10.0.0.7
    return getattr(found, "ipv4_mapped", None) or found


def _without_port(text: str) -> str:
    """Some proxies add it: 10.0.0.7:4711, [fd00::7]:4711."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _values(headers: Headers, name: bytes) -> Sequence[str]:
    return [value.decode("latin-1").strip() for header, value in headers if header.lower() == name]
