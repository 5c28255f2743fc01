# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two ways of reading a cluster say the same, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

# What is no difference: sshare prints six decimals and whole seconds.
_DECIMALS = 1.01e-6
_WHOLE = {"raw_usage"}


def keyed(value: Any) -> dict[Any, Any]:
    """The records of a part by what names them; what is one record by nothing."""
    if not isinstance(value, tuple):
        return {"": value}
    return {_name(record): record for record in value}


def _name(record: Any) -> Any:
    for fields in (("id", "submit_time"), ("account", "user", "partition"), ("name", "nodes"), ("host",)):
        if type(record).__name__ == "Node":
            return record.name
        if all(hasattr(record, field) for field in fields):
            return tuple(getattr(record, field) for field in fields)
    raise TypeError(f"no name for a {type(record).__name__}")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(field, value), with the fields of structs inside; RPCs, whose order means nothing, by name."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from flat(getattr(value, field), f"{path}.{field}".lstrip("."))
    elif path in ("rpcs", "rpc_users"):
        for field in ("id", "calls", "seconds"):
            yield f"{path}.{field}", {rpc.name: getattr(rpc, field) for rpc in value}
    else:
        yield path, value


def _unknown(value: Any) -> bool:
    return value is None or value in ("", (), {}) or (isinstance(value, dict) and set(value.values()) == {None})


def _same(field: str, one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) < (1.0 if field in _WHOLE else _DECIMALS)
    return bool(one == other)


def differences(by_text: Any, by_other: Any, lacks: Mapping[str, str]) -> list[str]:
    """What is not the same, and not in the list of what the other way cannot know."""
    ours, theirs = keyed(by_text), keyed(by_other)
    found = [f"only one has {name}" for name in ours.keys() ^ theirs.keys()]
    for name in ours.keys() & theirs.keys():
        for (field, one), (_, other) in zip(flat(ours[name]), flat(theirs[name]), strict=True):
            untold = (field in lacks or field.partition(".")[0] in lacks) and _unknown(other)
            if not untold and not _same(field, one, other):
                found.append(f"{name} {field}: text {one!r}, other {other!r}")
    return found


def fields(value: Any) -> int:
    """How many fields were compared."""
    return sum(1 for record in keyed(value).values() for _ in flat(record))
