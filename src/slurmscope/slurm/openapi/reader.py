# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Slurm's JSON to the model: what its commands print with --json, and what slurmrestd answers.

One tolerant reader for openapi v0.0.36 to v0.0.38 (Slurm 21.08 and 22.05) and every data_parser since (23.02 to 26.05).
They differ in small things, each of which is dealt with in one place:

- a number is a number, null, a string, or {"set", "infinite", "number"};
- a state is a word in small letters with flags beside it, a word, or a list of words;
- a list of names is a list, or a string with commas;
- what was flat (`maximum_nodes_per_job`) became nested (`maximums.nodes`), and some things changed their names.

Records are decoded one by one, and only the fields that are wanted, so that a queue of 20,000 jobs does not take much
more memory than its bytes. One that cannot be read costs one row.

A job's name may hold bytes that are not UTF-8, and Slurm writes them as they are, which JSON does not allow: they
become `\\xNN`, as they do in the text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from math import isfinite
from typing import TypeVar

import msgspec

from slurmscope.slurm import values
from slurmscope.slurm.text import Malformed, Parsed, decode
from slurmscope.slurm.values import MINUTE

S = TypeVar("S")
R = TypeVar("R")
MICROS = 1e6
# "no value" and "no limit" of 32 and 64 bits
NO_NUMBERS = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 2**64 - 2, 2**64 - 1, -1, -2})


class Boxed(msgspec.Struct):
    set: bool = True
    infinite: bool = False
    number: float | int | None = None


Number = Boxed | float | int | str | bool | None
Words = list[str] | str | None


def amount(value: Number) -> float | int | None:
    """None where there is none, or no end of it."""
    if isinstance(value, Boxed):
        return value.number if value.set and not value.infinite else None
    if isinstance(value, str):
        return values.decimal(value)
    return value


def whole(value: Number) -> int | None:
    found = amount(value)
    if found is None or found in NO_NUMBERS:
        return None
    if not isfinite(found):
        raise ValueError(f"expected a number, found {value}")
    return int(found)


def count(value: Number) -> int:
    """A number without which the record makes no sense."""
    found = whole(value)
    if found is None:
        raise ValueError(f"expected a number, found {value}")
    return found


def time(value: Number) -> int | None:
    return whole(value) or None


def minutes(value: Number) -> int | None:
    found = whole(value)
    return None if found is None else found * MINUTE


def megabytes(value: Number) -> int | None:
    found = whole(value)
    return None if found is None else found << 20


def words(value: Words) -> list[str]:
    if isinstance(value, str):
        return [] if value in values.ABSENT else value.split(",")
    return value or []


def names(value: Words) -> tuple[str, ...]:
    """ALL and absent are the empty list, as in the text."""
    found = tuple(words(value))
    return () if found == ("ALL",) else found


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    # two backslashes are what a string of JSON needs to hold one
    return "".join(f"\\\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("slurmscope.json", _escape)


class Meta(msgspec.Struct):
    new: msgspec.Raw = msgspec.field(name="slurm", default=msgspec.Raw())
    old: msgspec.Raw = msgspec.field(name="Slurm", default=msgspec.Raw())


class _Error(msgspec.Struct):
    error: str | None = None
    description: str | None = None


_NOTHING = msgspec.Raw()


class Document(msgspec.Struct):
    """What every answer has around the one thing that was asked for."""

    meta: Meta | None = None
    errors: list[_Error] = []
    jobs: list[msgspec.Raw] | None = None
    nodes: list[msgspec.Raw] | None = None
    partitions: list[msgspec.Raw] | None = None
    reservations: list[msgspec.Raw] | None = None
    licenses: list[msgspec.Raw] | None = None
    pings: list[msgspec.Raw] | None = None
    accounts: list[msgspec.Raw] | None = None
    statistics: msgspec.Raw = _NOTHING
    shares: msgspec.Raw = _NOTHING


_document = msgspec.json.Decoder(Document)


# What printf() makes of numbers that are none: no JSON, but Slurm writes it. Only a key's own quote is not escaped.
_ODD_NUMBER = re.compile(rb'(?<!\\)(":\s*)(-?)(nan|inf(?:inity)?)(?=\s*[,}\]])', re.IGNORECASE)


def mended(data: bytes) -> bytes:
    """Numbers that are none are unknown; those without end are the highest there are."""
    return _ODD_NUMBER.sub(lambda found: found[1] + (b"null" if found[3][:1] in b"nN" else found[2] + b"1e308"), data)


def decoded(decoder: msgspec.json.Decoder[S], data: bytes | msgspec.Raw) -> S:
    try:
        return decoder.decode(data)
    except UnicodeDecodeError:
        return decoder.decode(bytes(data).decode("utf-8", "slurmscope.json"))


def opened(data: bytes) -> Document:
    try:
        try:
            found = decoded(_document, data)
        except msgspec.DecodeError:
            found = decoded(_document, mended(data))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"not Slurm's JSON: {error}: {decode(data[:200])!r}") from error
    said = [" ".join(filter(None, (one.error, one.description))) for one in found.errors]
    if said:
        raise Malformed(f"Slurm says: {'; '.join(said)[:1000]}")
    return found


def records(data: bytes, kind: str, shape: type[S], read: Callable[[S], R]) -> Parsed[tuple[R, ...]]:
    """Each record of an answer, one that cannot be read left out."""
    rows: list[msgspec.Raw] | None = getattr(opened(data), kind)
    if rows is None:
        raise Malformed(f"no {kind} in it: {decode(data[:200])!r}")
    decoder = msgspec.json.Decoder(shape)
    parsed: Parsed[tuple[R, ...]] = Parsed((), samples=[])
    found: list[R] = []
    for row in rows:
        try:
            found.append(read(decoded(decoder, row)))
        except (ValueError, LookupError, ArithmeticError, RecursionError) as error:
            parsed.skip(error, decode(bytes(row)[:1000]))
    parsed.check(len(found))
    parsed.value = tuple(found)
    return parsed


def whole_answer(data: bytes, raw: msgspec.Raw, kind: str, shape: type[S]) -> S:
    """The one thing that an answer tells, where it is no list of records."""
    if not bytes(raw):
        raise Malformed(f"no {kind} in it: {decode(data[:200])!r}")
    try:
        return decoded(msgspec.json.Decoder(shape), raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"{kind}: {error}") from error
