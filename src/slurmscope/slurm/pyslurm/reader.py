# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document that probe.py makes of PySlurm's answer, and what both of PySlurm's APIs have of small languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.slurm import values
from slurmscope.slurm.probe import NEW_API, OLD_API
from slurmscope.slurm.text import Malformed, Parsed, decode, read_rows

Number = int | float | str | None
Words = list[str] | str | None

# "no value" and "no limit" of 32 and 64 bits; those of 16 bits may be numbers of their own
_NO_NUMBERS = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 2**64 - 2, 2**64 - 1})
_NO_LIMITS = frozenset({"UNLIMITED", "INFINITE", "Partition_Limit"})


class Answer(msgspec.Struct):
    """One part, as probe.py prints it."""

    api: str
    records: msgspec.Raw
    time: float
    pyslurm: str
    users: dict[str, str] = {}

    def user(self, number: int | None) -> str | None:
        return None if number is None else intern(self.users.get(str(number), str(number)))


def opened(data: bytes) -> Answer:
    try:
        found = msgspec.json.decode(data, type=Answer)
    except ValueError as error:
        raise Malformed(f"not what probe.py says of PySlurm: {error}: {decode(data)[:200]!r}") from error
    if found.api not in (OLD_API, NEW_API):
        raise Malformed(f"no API of PySlurm's is called {found.api[:80]!r}")
    return found


def rows(data: bytes, kinds: Mapping[str, Any], readers: Mapping[str, Callable[..., Any]]) -> Parsed[Any]:
    """Each record with its key by itself, so that one that cannot be read costs one row."""
    answer = opened(data)
    try:
        records = msgspec.json.decode(answer.records, type=dict[str, msgspec.Raw])
    except ValueError as error:
        raise Malformed(f"PySlurm's records are no table: {error}") from error
    decoder = msgspec.json.Decoder(tuple[str, kinds[answer.api]])  # type: ignore[valid-type, name-defined]
    read = readers[answer.api]
    # nothing is kept for the next time: a record says how long its job has run, and so is never the same
    parsed = read_rows(map(msgspec.json.encode, records.items()), lambda row: read(*decoder.decode(row), answer), {})
    parsed.memo = {}
    return parsed


def record(data: bytes, kinds: Mapping[str, Any]) -> Any:
    answer = opened(data)
    try:
        return msgspec.json.decode(answer.records, type=kinds[answer.api])
    except ValueError as error:
        raise Malformed(f"PySlurm's {answer.api} API told something else: {error}") from error


def number(value: Number) -> int | None:
    if isinstance(value, str):
        return None if value in values.ABSENT or value in _NO_LIMITS else int(value)
    return None if value is None or value in _NO_NUMBERS else int(value)


def time(value: Number) -> int | None:
    return number(value) or None


def scaled(value: Number, scale: int) -> int | None:
    found = number(value)
    return None if found is None else found * scale


def mebibytes(value: Number) -> int | None:
    return scaled(value, 1 << 20)


def joined(value: Words) -> str | None:
    """A list that was a string with commas before PySlurm took it apart."""
    return values.text(",".join(value) if isinstance(value, list) else value or "")


def names(value: Words) -> tuple[str, ...]:
    return values.names(joined(value) or "")


def licenses(value: dict[str, Number] | Words) -> str | None:
    """The old API has {"matlab": "2"}, and 1 where no number was written."""
    if isinstance(value, dict):
        return ",".join(name if count == 1 else f"{name}:{count}" for name, count in value.items()) or None
    return joined(value)


def gpus(found: dict[str, Any] | None) -> dict[str, int]:
    """GPUs by type in {"gres/gpu:a100": 2}, {"gpu": 2} or {"gpu": 2, "gpu:a100": 2}: there the total stands too."""
    return values.gpus_of_tres({f"gres/{name.removeprefix('gres/')}": int(n) for name, n in (found or {}).items()})
