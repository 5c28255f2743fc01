# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Cookies: of which no script knows, and which no other site has sent along but by a link."""

from __future__ import annotations

from urllib.parse import quote


def own(name: str, *, secure: bool) -> str:
    """As a cookie is called on which something depends. By TLS a browser takes one of this beginning from this very
    host alone: no neighbour in the same domain, and nobody on the way, can put another in its place."""
    return f"__Host-{name}" if secure else name


def cookie(name: str, value: str, seconds: int | None, *, secure: bool, script: bool = False) -> str:
    """One to keep for so long; None: until the browser ends. `script`: nothing depends on it, and pages' own script may
    read it."""
    kept = "" if seconds is None else f"; Max-Age={seconds}"
    hidden = "" if script else "; HttpOnly"
    called = name if script else own(name, secure=secure)
    return f"{called}={quote(value, safe='')}; Path=/{hidden}; SameSite=Lax{'; Secure' if secure else ''}{kept}"


def gone(name: str, *, secure: bool) -> str:
    return cookie(name, "", 0, secure=secure)
