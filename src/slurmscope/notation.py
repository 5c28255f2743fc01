# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Settings as people write them, and as they are shown to them."""

import json
import re

from msgspec import inspect as types

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 200
# What is not to be repeated even where it does not belong: a JSON Web Token, and the password of an address.
_SECRET = re.compile(r"eyJ[\w-]*\.|://[^/]*@")


def toml(value: object) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_json(k)} = {_json(v)}" for k, v in value.items()) + "}"
        case _:
            return _json(value)


def toml_key(name: str) -> str:
    """One part of a dotted key as TOML writes it: in quotes where it must."""
    return name if _BARE.fullmatch(name) else _json(name)


def parsed(text: str, type_: types.Type) -> object:
    """The text of a variable or an option as TOML would have given it. Raises ValueError."""
    match type_:
        case types.FloatType():
            # unlike msgspec, takes "10.", which older deployments write
            return float(text)
        case types.LiteralType():
            word = text.strip().lower()
            # as Python and others call the level
            return "warn" if word == "warning" else word
        case types.ListType():
            return [part.strip() for part in text.split(",") if part.strip()]
        case types.DictType():
            pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
            if not all(equals for _, equals, _ in pairs):
                raise ValueError("a pair without =")
            return {name.strip(): value.strip() for name, _, value in pairs}
        case types.StrType():
            return text
        case _:
            return text.strip()


def shown(value: object) -> str:
    """A value that was found wrong, on one line."""
    # a whole key pasted where its file's name belongs is not to be repeated
    if isinstance(value, str) and (len(value) > _LONGEST or "\n" in value or _SECRET.search(value)):
        return f"text of {len(value)} characters"
    try:
        text = _json(value)
    except (RecursionError, ValueError):  # nested too deep, or a number of too many digits
        text = ""
    return text if 0 < len(text) <= _LONGEST else "what is too long to be repeated"


def name(text: str) -> str:
    """An unknown name, on one line."""
    return text if text.isprintable() else _json(text)


def _json(value: object) -> str:
    """JSON on one line, in which only what a terminal cannot show is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(value, default=str)
