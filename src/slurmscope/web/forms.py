# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Forms that only our own pages can send.

A browser keeps a secret in a cookie that other sites can neither read nor have sent along; each form holds a key made
of it. The key is another one on every page, so that nothing can be learned from how well a page compresses.
"""

from __future__ import annotations

import hmac
import secrets

from slurmscope.web.errors import Forbidden
from slurmscope.web.people.tokens import presented
from slurmscope.web.request import Request

COOKIE, FIELD = "form", "key"
_BYTES = 16


def secret_of(kept: str) -> str:
    """The browser's, or a new one that it is to keep."""
    return kept if len(kept) == 2 * _BYTES and kept.isascii() and kept.isalnum() else secrets.token_hex(_BYTES)


def key(secret: str) -> str:
    salt = secrets.token_hex(_BYTES)
    return salt + _mac(secret, salt)


def check(request: Request, kept: str, home: str) -> None:
    """With the secret that the browser keeps. Raises Forbidden, where a form was not sent by a page of ours. `home` is
    where people are to come from, if it is known."""
    if presented(request.headers):
        # else one that was stolen could make others, which stay when it is revoked
        raise Forbidden("A token reads, and changes nothing.", "Sign in to do that.", "/sign-in")
    offered = request.one(FIELD)
    salt, mac = offered[: 2 * _BYTES], offered[2 * _BYTES :]
    known = bool(kept) and offered.isascii() and hmac.compare_digest(mac, _mac(kept, salt))
    # a browser says where a form comes from; what is no browser need not
    site = request.headers.get("sec-fetch-site", "same-origin")
    if not kept and site == "same-origin":
        # by http, for one, where the portal is meant to be opened by https
        where = f"at {home}" if home else "again"
        raise Forbidden(
            "It was not sent, because the browser has not kept this site's cookie.",
            f"Let it keep cookies, and open the page {where}.",
        )
    if not known or site != "same-origin":
        raise Forbidden("It was not sent, because its page is too old or not of this site.", "Open the page again.")


def _mac(secret: str, salt: str) -> str:
    return hmac.new(secret.encode(), salt.encode(), "sha256").hexdigest()
