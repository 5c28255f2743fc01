# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From what a source gave for a setting to a value that can be used, or to what was expected instead."""

import ipaddress
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from slurmscope import auth
from slurmscope.fields import FIELDS, Field
from slurmscope.notation import parsed, shown


class Found(NamedTuple):
    """A value as a source gives it; from anywhere but TOML it is text."""

    value: object
    origin: str
    text: bool


class WrongError(Exception):
    """What was expected of one value, and what was found; never a secret."""


def checked(key: str, found: Found) -> object:
    """The value of this setting. Raises WrongError."""
    field = FIELDS[key]
    try:
        value = parsed(found.value, field.type) if found.text and isinstance(found.value, str) else found.value
        value = msgspec.convert(value, field.hint, strict=not found.text)
    except (ValueError, OverflowError, msgspec.ValidationError):
        raise _wrong(field, field.words, found.value) from None
    # TOML and Python know inf, which is above every bound
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(field, field.words, found.value)
    expected = _CHECKS[key](value) if key in _CHECKS else None
    if expected is not None:
        raise _wrong(field, expected, found.value)
    return value


def _wrong(field: Field, expected: str, value: object) -> WrongError:
    return WrongError(f"expected {expected}" + ("" if field.secret else f", found {shown(value)}"))


# Addresses


ADDRESS_WORDS = "host:port, such as 127.0.0.1:9092, [::1]:9092 or :9092"
_HOST_NAME = r"[A-Za-z0-9._-]"
_ADDRESS = re.compile(rf"(?:\[([^\]]+)\]|({_HOST_NAME}*)):([0-9]{{1,5}})")
# a query, a fragment or a password has no place in an address to which paths are added
_URL = re.compile(rf"https?://(?:\[([^\]]+)\]|{_HOST_NAME}+)(?::([0-9]{{1,5}}))?(?:/[!-~]*)?")
_NOT_IN_A_PREFIX = re.compile("[?#@]")


def address(listen: str) -> tuple[str, int] | None:
    """Host and port, None where it is no address."""
    found = _ADDRESS.fullmatch(listen)
    if found is None or int(found[3]) > 65535 or not _ipv6(found[1]):
        return None
    return found[1] or found[2], int(found[3])


def _ipv6(host: str | None) -> bool:
    """Whether what is in brackets, if anything is, may be there."""
    if host is not None:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
    return True


def _check_listen(listen: str) -> str | None:
    return None if address(listen) else ADDRESS_WORDS


def _is_url(url: str) -> bool:
    found = _URL.fullmatch(url)
    if found is None or _NOT_IN_A_PREFIX.search(url):
        return False
    return _ipv6(found[1]) and 0 < int(found[2] or "1") <= 65535


def _check_url(url: str) -> str | None:
    return None if not url or _is_url(url) else "http://host[:port][/prefix] or https://host[:port][/prefix]"


def _check_rest_url(url: str) -> str | None:
    socket = url.startswith("unix:/") and url.isprintable() and not url.endswith("/")
    if not url or socket or _is_url(url):
        return None
    return "http://host[:port][/prefix], https://host[:port][/prefix] or unix:/absolute/path"


def _check_ssh(target: str) -> str | None:
    # what begins with - would be taken for an option, and options can run programs
    host = target.rpartition("@")[2]
    right = host and target.isprintable() and " " not in target and not target.startswith("-") and host[0] != "-"
    return None if right or not target else "host or user@host, without spaces and not beginning with -"


def _check_command(command: str) -> str | None:
    try:
        return None if not command or shlex.split(command) else "a command"
    except ValueError:
        return "a command with its quotes closed"


# Files and secrets


def _check_file(path: str) -> str | None:
    if path:
        try:
            with Path(path).open("rb"):
                pass
        except (OSError, ValueError):
            return "a file that exists and can be read"
    return None


def _check_users(users: dict[str, str]) -> str | None:
    # Users are counted, not named: written the wrong way round, the name is the secret.
    for number, (name, stored) in enumerate(users.items(), start=1):
        if not name or ":" in name:
            return f"names without a colon, which user {number} of {len(users)} is not"
        if not auth.valid_hash(stored):
            return f"a password hash for user {number} of {len(users)}: run `slurmscope hash-password`"
    return None


def _check_tokens(tokens: list[str]) -> str | None:
    for number, stored in enumerate(tokens, start=1):
        if not auth.valid_token_hash(stored):
            return (
                f"a SHA-256 in 64 lower-case hex digits for token {number} of {len(tokens)}: "
                'run `printf %s "$TOKEN" | sha256sum`'
            )
    return None


# each gives what was expected, None where the value is right
_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "slurm.ssh": _check_ssh,
    "slurm.ssh_config": _check_file,
    "slurm.rest_url": _check_rest_url,
    "slurm.rest_token_command": _check_command,
    "slurm.rest_ca": _check_file,
    "slurm.rest_token_file": _check_file,
    "serve.listen": _check_listen,
    "serve.tls_cert": _check_file,
    "serve.tls_key": _check_file,
    "serve.users": _check_users,
    "serve.tokens": _check_tokens,
    "prometheus.url": _check_url,
}
