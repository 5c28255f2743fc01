# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The few files that pages are drawn with: named by what is in them, so that a browser may keep them for ever."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from slurmscope.server import Answer, accepts_gzip

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOLDERS = ("slurmscope.web", "slurmscope.reports")
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")


@cache
def _all() -> dict[str, Traversable]:
    folders = [resources.files(one).joinpath("static") for one in _FOLDERS]
    return {
        file.name: file for folder in folders for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES
    }


@cache
def _content(name: str) -> bytes:
    return _all()[name].read_bytes()


@cache
def address(name: str) -> str:
    """Where a file is; another address when it changes."""
    return f"/static/{hashlib.sha256(_content(name)).hexdigest()[:12]}/{name}"


def has(name: str) -> bool:
    return name in _all()


@cache
def _squeezed(name: str) -> bytes:
    return gzip.compress(_content(name), mtime=0)


def answer(segments: tuple[str, ...], accept_encoding: str = "") -> Answer | None:
    """What is at /static/…; None: nothing."""
    if len(segments) != 3 or segments[2] not in _all():
        return None
    name = segments[2]
    more = [_FOR_EVER] if address(name) == "/" + "/".join(segments) else []
    body = _content(name)
    if accepts_gzip(accept_encoding):
        body = _squeezed(name)
        more.append((b"content-encoding", b"gzip"))
    return Answer(200, body, _TYPES[name.rpartition(".")[2]], [*more, (b"vary", b"Accept-Encoding")])
