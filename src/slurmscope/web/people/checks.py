# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is expected of the portal's settings, one by one and together."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from slurmscope.notation import shown
from slurmscope.web.people import names

LOCAL, PROXY, OIDC = "local", "proxy", "oidc"
WAYS = (LOCAL, PROXY, OIDC)
"""How people sign in."""
SECRETS = ("oidc_client_secret", "oidc_client_secret_file")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# what says something else, and is set by others than the proxy
_NO_NAMES = ("authorization", "cookie", "host", "x-forwarded-for", "content-length", "connection")
_WORD = re.compile(r"[!-~]+")


def is_here(url: str) -> bool:
    """Whether an address is of this machine, where nobody listens on the way."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_safe(url: str) -> bool:
    """Whether what is said there stays between the two."""
    return url.startswith("https://") or is_here(url)


def _check_ways(ways: list[str]) -> str | None:
    return None if set(ways) <= set(WAYS) else f"any of {', '.join(WAYS)}"


def _check_staff(staff: list[str]) -> str | None:
    wrong = next((name for name in staff if not names.plausible(name)), None)
    return None if wrong is None else f"names of users ({names.EXPECTED}), which {shown(wrong)} is not"


def _check_proxies(proxies: list[str]) -> str | None:
    for one in proxies:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            return f"addresses, or networks such as 10.1.0.0/24, which {shown(one)} is not"
    return None


def _check_header(header: str) -> str | None:
    right = _HEADER.fullmatch(header) and header.lower() not in _NO_NAMES
    return None if right else "the name of a header that only the proxy sets, such as X-Remote-User"


def _check_issuer(issuer: str) -> str | None:
    # a password belongs to none of it, and what the provider calls itself has neither a query nor a fragment
    right = _WORD.fullmatch(issuer) and not re.search("[?#@]", issuer) and is_safe(issuer)
    return None if not issuer or (right and urlsplit(issuer).hostname) else "https://host[:port][/path]"


def _check_word(word: str) -> str | None:
    return None if not word or _WORD.fullmatch(word) else "letters, digits and signs of ASCII, without spaces"


def _check_claim(claim: str) -> str | None:
    return None if _WORD.fullmatch(claim) else "the name of a claim, such as preferred_username"


def _check_scopes(scopes: list[str]) -> str | None:
    return None if all(map(_WORD.fullmatch, scopes)) else "words such as email and groups"


def conflicts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings that are right one by one and wrong together: which one, and what was expected of it.

    Of a setting that is wrong by itself there is no value.
    """
    ways = values.get("portal.sign_in") or ()
    needed = {
        PROXY: ("portal.proxies",),
        OIDC: ("portal.oidc_issuer", "portal.oidc_client_id", "mail.url"),
    }
    for way, keys in needed.items():
        if way in ways:
            for key in keys:
                if key in values and not values[key]:
                    yield "portal.sign_in", f"expected {key} to be set too where it has {way}, found it empty"


CHECKS: dict[str, Callable[[Any], str | None]] = {
    "portal.sign_in": _check_ways,
    "portal.staff": _check_staff,
    "portal.proxies": _check_proxies,
    "portal.proxy_header": _check_header,
    "portal.oidc_issuer": _check_issuer,
    "portal.oidc_client_id": _check_word,
    "portal.oidc_client_secret": _check_word,
    "portal.oidc_claim": _check_claim,
    "portal.oidc_scopes": _check_scopes,
}
