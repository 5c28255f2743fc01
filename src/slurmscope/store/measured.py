# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a job used, as every store keeps it: the same bytes in a file and in MongoDB.

Both are msgpack with the names of the fields, compressed. So a later version may add a field that has a default, and
reads what is there already; a name that was released stays. Without names a course would be a tenth smaller, which is
not worth a migration of all of them. A higher level of compression makes them hardly smaller, and takes twice as long.
"""

from __future__ import annotations

import zlib

import msgspec

from slurmscope.course import AMOUNTS, Course
from slurmscope.summary import Summary

_LEVEL = 1

_encode = msgspec.msgpack.Encoder().encode
_summary = msgspec.msgpack.Decoder(Summary).decode
_course = msgspec.msgpack.Decoder(Course).decode

COLUMNS = (
    "source",
    "first",
    "last",
    "coverage",
    "cpu_seconds",
    "cpu_share",
    "memory_peak",
    "memory_share",
    "read_bytes",
    "written_bytes",
    "gpu_share",
    "gpu_energy",
)
"""What is kept of a summary beside it, for those who look for jobs by what they used."""


def columns(summary: Summary) -> tuple[str | int | float | None, ...]:
    return (
        summary.source,
        summary.first,
        summary.last,
        summary.coverage,
        summary.cpu_seconds,
        summary.cpu_share,
        None if summary.memory is None else int(summary.memory.peak),
        summary.memory_share,
        summary.read_bytes,
        summary.written_bytes,
        None if summary.gpu is None else summary.gpu.mean,
        summary.gpu_energy,
    )


def packed(thing: Summary | Course) -> bytes:
    return zlib.compress(_encode(thing), _LEVEL)


def storable(summary: Summary, course: Course) -> bool:
    """Whether a store can hold it: its numbers may be larger than any store's."""
    try:
        _encode(summary)
        _encode(course)
        numbers = [one for one in columns(summary) if isinstance(one, int)]
    except (ArithmeticError, ValueError, msgspec.MsgspecError):
        return False
    return all(-(1 << 63) <= one < 1 << 63 for one in numbers)


def to_summary(data: bytes) -> Summary:
    return _summary(zlib.decompress(data))


def to_course(data: bytes) -> Course:
    found = _course(zlib.decompress(data))
    for name in AMOUNTS:  # one that is younger than the course was not measured then
        found.amounts.setdefault(name, [0] * found.length)
    return found
