# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody asked for: an address, what stands behind its question mark, and a form's fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec

from slurmscope.server import Scope, request_headers
from slurmscope.web.route import SUFFIXES
from slurmscope.words import printable

T = TypeVar("T", bound=msgspec.Struct)
Fields = Mapping[str, Sequence[str]]

MOST_FIELDS = 200
_LONG = 60  # characters of what cannot be meant that are told
_WRITTEN = "/%!$&'()*+,;=:@"  # what a path may have besides letters, digits, and signs that need no escape


class WrongAsked(ValueError):
    """What is asked for cannot be meant; the message says what was expected."""


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str  # as it was written, of ASCII alone
    segments: tuple[str, ...]  # of the path, without escapes
    suffix: str  # of the last of them: one of SUFFIXES, or ""
    query: Fields
    headers: Mapping[str, str]  # names in lower case; of one that is given twice, the last
    cookies: Mapping[str, str]
    peer: str  # the address of who is connected, which may be a proxy's
    secure: bool  # by TLS to us
    lines: tuple[tuple[bytes, bytes], ...] = ()  # the headers as they came, each as often as it was sent
    form: Fields = {}

    def one(self, name: str) -> str:
        """A field of the form; "" where there is none."""
        return self.form[name][-1] if self.form.get(name) else ""


def request_of(scope: Scope) -> Request:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    headers = request_headers(scope)
    parts = [one for one in raw.decode("latin-1").split("/") if one]
    # looked for before it is unescaped: a dot that is escaped is a name's own
    _, dot, suffix = parts[-1].rpartition(".") if parts else ("", "", "")
    return Request(
        method=scope["method"],
        path="/" + quote("/".join(parts).encode("latin-1"), safe=_WRITTEN),
        # split before it is unescaped: a name may hold a slash; nothing that is known has a name that is no text
        segments=tuple(unquote(one, errors="replace") for one in parts),
        suffix=suffix if dot and suffix in SUFFIXES else "",
        query=fields_of(scope.get("query_string", b"")),
        headers=headers,
        cookies=_cookies(headers.get("cookie", "")),
        peer=(scope.get("client") or ("", 0))[0],
        secure=scope.get("scheme") == "https",
        lines=tuple(scope["headers"]),
    )


def fields_of(encoded: bytes) -> Fields:
    """Raises WrongAsked."""
    try:
        return parse_qs(encoded.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise WrongAsked(f"more than {MOST_FIELDS} fields") from None


def _cookies(header: str) -> dict[str, str]:
    """However strange one is that another program on this host has set, ours are found beside it."""
    pairs = (one.partition("=") for one in header.split(";"))
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def asked_of(kind: type[T], params: Mapping[str, str], query: Fields) -> T:
    """What a page is asked, from its address. What it does not know is left aside, and so is what is empty: a form
    sends all of its fields. Raises WrongAsked."""
    found: dict[str, Any] = {}
    for name, several in _names(kind):
        if name in params:
            found[name] = params[name]
            continue
        given = [one for one in query.get(name, ()) if one != ""]
        if given:
            found[name] = given if several else given[-1]
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise WrongAsked(_words(error, kind, found)) from None


@cache
def _names(kind: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    """What a page may be asked, and whether several times: found once, for it takes longer than some pages."""
    return [(one.encode_name, _several(one.type)) for one in msgspec.structs.fields(kind)]


def _words(error: msgspec.ValidationError, kind: type[msgspec.Struct], given: Mapping[str, Any]) -> str:
    """What was asked, and what can be: for people, who know of no types."""
    said, _, where = str(error).partition(" - at `$.")
    name = where.rstrip("`").partition("[")[0]
    if name not in given:
        return said
    found = given[name]
    shown = ", ".join(map(printable, found)) if isinstance(found, list) else printable(found)
    hint = get_type_hints(kind, include_extras=True)[name]
    if choices := [str(one) for one in _choices(hint) if one != ""]:
        return f"{name}: expected one of {', '.join(choices)}, found {shown[:_LONG]!r}"
    about = next((one.description for one in getattr(hint, "__metadata__", ()) if one.description), said)
    bound = re.search(r"([<>])= (\d+)$", said)
    room = "" if bound is None else f" ({'at most' if bound[1] == '<' else 'at least'} {bound[2]})"
    return f"{name}: {shown[:_LONG]!r} cannot be meant{room}. {about.rstrip('.')}"


def _choices(hint: Any) -> list[Any]:
    """Of which it is one; none where it may be anything."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [one for inner in get_args(hint) for one in _choices(inner)]


def _several(kind: Any) -> bool:
    return get_origin(kind) in (tuple, list) or any(get_origin(one) in (tuple, list) for one in get_args(kind))


def address_of(path: str, asked: Mapping[str, Any]) -> str:
    """An address with what is asked behind it; what is None or empty is left out."""
    given = {name: value for name, value in asked.items() if value not in (None, "", (), [])}
    encoded = urlencode(given, doseq=True, errors="surrogateescape")
    return f"{path}?{encoded}" if encoded else path
