# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two ways of reading a cluster say the same, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from slurmscope.life import Accounted, Step
from slurmscope.model import Job

# What is no difference: sshare prints six decimals and whole seconds.
_DECIMALS = 1.01e-6
_WHOLE = {"raw_usage"}


def keyed(value: Any) -> dict[Any, Any]:
    """The records of a part by what names them; what is one record by nothing."""
    if not isinstance(value, tuple):
        return {"": value}
    if value and isinstance(value[0], Job):
        value = folded(value)
    return {_name(record): record for record in value}


def folded(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Waiting tasks that have a record of their own put into their array's, as squeue does; its table says so."""
    arrays = {(job.array_id, job.name, job.partition): job for job in jobs if job.waiting and job.id == job.array_id}
    found = []
    for job in jobs:
        key = job.array_id, job.name, job.partition
        if job.waiting and key in arrays and arrays[key].id != job.id:
            one = arrays[key]
            spec = f"{job.array_tasks},{one.array_tasks}"
            arrays[key] = msgspec.structs.replace(one, tasks=one.tasks + job.tasks, array_tasks=spec)
        elif key not in arrays or arrays[key].id != job.id:
            found.append(job)
    return (*found, *(msgspec.structs.replace(job, array_tasks=_ids(job.array_tasks or "")) for job in arrays.values()))


def _ids(spec: str) -> str:
    """An array's tasks one by one, for the same may be written in many ways."""
    tasks, percent, throttle = spec.partition("%")
    ids: set[int] = set()
    for item in tasks.split(","):
        span, _, step = item.partition(":")
        first, _, last = span.partition("-")
        ids.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return ",".join(map(str, sorted(ids))) + percent + throttle


def _name(record: Any) -> Any:
    for fields in (
        ("id", "submit_time"),
        ("account", "user", "partition"),
        ("account", "user"),
        ("name", "nodes"),
        ("host",),
    ):
        if isinstance(record, Accounted):
            return record.job.key
        if type(record).__name__ == "Node":
            return record.name
        if all(hasattr(record, field) for field in fields):
            return tuple(getattr(record, field) for field in fields)
    raise TypeError(f"no name for a {type(record).__name__}")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(field, value), with the fields of structs inside; RPCs and steps, whose order means nothing, by name."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from flat(getattr(value, field), f"{path}.{field}".lstrip("."))
    elif path in ("rpcs", "rpc_users"):
        for field in ("id", "calls", "seconds"):
            yield f"{path}.{field}", {rpc.name: getattr(rpc, field) for rpc in value}
    elif path == "steps":
        for field in Step.__struct_fields__:
            yield f"{path}.{field}", {step.id: getattr(step, field) for step in value}
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
