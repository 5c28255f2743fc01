# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the portal may be opened, as the settings have it."""

from __future__ import annotations

import importlib.util

from slurmscope import listening
from slurmscope.settings import Settings
from slurmscope.web.people import checks


def problems(settings: Settings) -> list[str]:
    """Why it may not; none where all is well."""
    portal, url = settings.portal, settings.mail.url
    local = listening.is_local(settings.serve)
    found = [f"{key}: {expected}" for key, expected in checks.conflicts(_values(settings))]
    if not portal.sign_in:
        cure = "let people sign in (docs/sign-in.md)"
        if not local:
            found.append(
                f"portal.sign_in: is empty, and whoever reaches {settings.serve.listen} (serve.listen) would see "
                f"everybody's jobs: {cure}, or listen on 127.0.0.1"
            )
        elif url and not checks.is_here(url):
            found.append(
                f"portal.sign_in: is empty, and whoever reaches {url} (mail.url) would see everybody's jobs: {cure}"
            )
    secret = local or settings.serve.tls_cert or url.startswith("https://")
    if not secret and {checks.LOCAL, checks.OIDC} & set(portal.sign_in):
        found.append(
            f"portal.sign_in: passwords and sessions could be read on the way to {settings.serve.listen}: "
            "set serve.tls_cert, or put a proxy with TLS before it and its https address into mail.url"
        )
    if checks.OIDC in portal.sign_in and importlib.util.find_spec("joserfc") is None:
        found.append("portal.sign_in: oidc needs `pip install 'slurmscope[oidc]'`")
    return found


def _values(settings: Settings) -> dict[str, object]:
    """Those that are looked at together, by their names."""
    portal = settings.portal
    return {
        "portal.sign_in": portal.sign_in,
        "portal.proxies": portal.proxies,
        "portal.oidc_issuer": portal.oidc_issuer,
        "portal.oidc_client_id": portal.oidc_client_id,
        "mail.url": settings.mail.url,
    }
