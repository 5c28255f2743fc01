# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses that say something nobody else could have written: signed with the site's own key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from slurmscope.store.private import make_folder
from slurmscope.store.protocol import Unreachable

T = TypeVar("T", bound=msgspec.Struct)

FILE = "links.key"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 32
_LONGEST = 4096


class LinkError(Exception):
    """It was not made here, or not for this, or is too old."""


class Signer:
    """What is signed for one purpose is worth nothing for another."""

    def __init__(self, key: bytes, purpose: bytes) -> None:
        self._key = key
        self._purpose = purpose

    def token(self, claim: msgspec.Struct) -> str:
        body = msgspec.msgpack.encode(claim)
        return base64.urlsafe_b64encode(self._signature(body) + body).rstrip(b"=").decode()

    def claim(self, token: str, kind: type[T]) -> T:
        """What a token says. Raises LinkError."""
        if len(token) > _LONGEST:
            raise LinkError("This link is not one of ours.")
        try:
            data = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            raise LinkError("This link is not one of ours.") from None
        signature, body = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        # first of all: what nobody signed is not read
        if not hmac.compare_digest(signature, self._signature(body)):
            raise LinkError("This link is not whole, or not one of ours: copy all of it.")
        return msgspec.msgpack.decode(body, type=kind)

    def _signature(self, body: bytes) -> bytes:
        return hmac.new(self._key, self._purpose + b"\0" + body, hashlib.sha256).digest()


def key_of(folder: Path) -> bytes:
    """The site's own, made when it is first needed. Raises Unreachable."""
    path = folder / FILE
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise Unreachable(f"{path}: {error.strerror}: run this as the user of `slurmscope serve`") from error
    if len(key) != _KEY_BYTES:
        raise Unreachable(f"{path}: expected {_KEY_BYTES} bytes, found {len(key)}: delete it, and older links end")
    return key


def _make(path: Path) -> None:
    make_folder(path.parent)
    new = path.with_name(f"{FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was quicker, and its key is the one
            path.hardlink_to(new)
    finally:
        new.unlink(missing_ok=True)
