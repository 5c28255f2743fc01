# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of metrics, and the bytes that Prometheus reads.

What a topic says of one cluster is a block, rendered when one of the parts that it is made of was read anew. A page is
a row of chunks, one for each topic: the blocks of all clusters, joined family by family. A chunk is made when one of its
blocks is new, and is then served as it is, plain or compressed, to any number of scrapers. Only the last chunk of a page
is made for each request: the ages of the data and what this process uses.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Generic, Protocol, TypeVar

import msgspec


class Viewed(Protocol):
    """What families look at."""

    def known(self, part: str) -> bool:
        """Whether a part of the snapshot was ever read."""
        ...


V = TypeVar("V", bound=Viewed)

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Histogram(msgspec.Struct):
    """Counts below each bound, not yet summed up."""

    bounds: tuple[float, ...]
    counts: list[int]  # one more than bounds: the last is for all that is above
    sum: float = 0.0

    @classmethod
    def empty(cls, bounds: tuple[float, ...]) -> Histogram:
        return cls(bounds, [0] * (len(bounds) + 1))

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


Value = int | float | Histogram | None
Sample = tuple[tuple[str, ...], Value]


class Family(msgspec.Struct, Generic[V], frozen=True):
    """One row of the table of metrics. `cluster` is the first label of all and is not listed."""

    name: str
    type: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[V], Iterable[Sample]]  # a value of None is unknown and is left out


class Topic(msgspec.Struct, Generic[V], frozen=True):
    """Families that are made of the same parts, and so change together.

    While the part that they are `of` was never read they say nothing: what is unknown is not 0.
    """

    name: str
    of: str | None  # a part of the snapshot; None: made for each request
    also: frozenset[str]  # other parts that change what is said
    families: tuple[Family[V], ...]
    common: bool = False  # of this process and not of a cluster: said once, however many clusters there are

    def changes_with(self, fresh: frozenset[str]) -> bool:
        return self.of in fresh or not self.also.isdisjoint(fresh)

    @property
    def counts(self) -> bool:
        """It has counters, which are all that the two formats write differently."""
        return any(family.type == COUNTER for family in self.families)


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Escaped(dict[str, str]):
    """Label values as they are written. They repeat by the thousand, and most need nothing done."""

    def __missing__(self, value: str) -> str:
        if len(self) > 200_000:
            self.clear()
        # what is no UTF-8 is written out before it is escaped: a reader knows no other escapes than these three
        plain = value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value
        found = self[value] = plain.translate(_ESCAPES)
        return found


_escape = _Escaped().__getitem__


_ODD = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


def _number(value: float) -> str:
    text = repr(value)
    return _ODD.get(text, text)


def _histogram_lines(name: str, labels: str, found: Histogram) -> Iterable[str]:
    below = 0
    for bound, count in zip((*found.bounds, inf), found.counts, strict=True):
        below += count
        yield f'{name}_bucket{{{labels},le="{_number(float(bound))}"}} {below}\n'
    yield f"{name}_count{{{labels}}} {below}\n"
    yield f"{name}_sum{{{labels}}} {_number(found.sum)}\n"


def _head(family: Family[V], openmetrics: bool) -> str:
    shown, kind = family.name, family.type
    if openmetrics and kind == COUNTER:
        # there a counter's family is named without the suffix that its samples must have
        shown = family.name.removesuffix("_total")
        if shown == family.name:
            kind = "unknown"
    return f"# HELP {shown} {family.help}\n# TYPE {shown} {kind}\n"


def _lines(family: Family[V], view: V, cluster: str) -> list[str]:
    name = family.name
    lines: list[str] = []
    first = f'cluster="{_escape(cluster)}"'
    names = "".join([f',{label}="%s"' for label in family.labels])
    template = f"{name}{{{first.replace('%', '%%')}{names}}} %s\n"
    for labels, value in family.samples(view):
        if value.__class__ is int:
            lines.append(template % (*map(_escape, labels), value))
        elif value.__class__ is float:
            lines.append(template % (*map(_escape, labels), _number(value)))
        elif isinstance(value, int):  # a bool
            lines.append(template % (*map(_escape, labels), int(value)))
        elif isinstance(value, Histogram):
            pairs = zip(family.labels, labels, strict=True)
            text = ",".join((first, *(f'{label}="{_escape(one)}"' for label, one in pairs)))
            lines.extend(_histogram_lines(name, text, value))
    return lines


class Block(msgspec.Struct, Generic[V], frozen=True):
    """What a topic says of one cluster, and where in it each family is, so that others' samples can go between."""

    topic: Topic[V]
    plain: bytes
    spans: tuple[tuple[int, int, int], ...]  # of each family: where its head and its samples begin, and where it ends


def render(topic: Topic[V], view: V, cluster: str, *, openmetrics: bool) -> Block[V]:
    if topic.of is not None and not view.known(topic.of):
        return Block(topic, b"", ())
    pieces: list[bytes] = []
    spans: list[tuple[int, int, int]] = []
    start = 0
    for family in topic.families:
        head, samples = b"", b""
        if lines := _lines(family, view, cluster):  # a family without samples says nothing
            head = _head(family, openmetrics).encode()
            samples = "".join(lines).encode()
            pieces += (head, samples)
        end = start + len(head) + len(samples)
        spans.append((start, start + len(head), end))
        start = end
    return Block(topic, b"".join(pieces), tuple(spans))


def join(blocks: Iterable[Block[V]]) -> bytes:
    """The blocks of one topic as one: the samples of a family stand together, under one head."""
    telling = [block for block in blocks if block.plain]
    if len(telling) < 2:
        return telling[0].plain if telling else b""
    pieces: list[memoryview] = []
    for family in zip(*(block.spans for block in telling), strict=True):
        headed = False
        for block, (start, samples, end) in zip(telling, family, strict=True):
            if samples < end:
                pieces.append(memoryview(block.plain)[samples if headed else start : end])
                headed = True
    return b"".join(pieces)


class Chunk:
    """Some of a page's bytes, plain and as a piece of a deflate stream that other pieces can follow."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        # a full flush ends on a whole byte and forgets what came before, so that pieces may be joined
        self.deflated = packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)


_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_DEFLATE_END = b"\x03\x00"


class Page:
    """The chunks of a page that are ready. The same for all scrapers until the next poll."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = [chunk for chunk in chunks if chunk.plain]
        crc = size = 0
        for chunk in self._chunks:
            crc = zlib.crc32(chunk.plain, crc)
            size += len(chunk.plain)
        self._checksum = crc, size

    def body(self, last: bytes, *, gzip: bool) -> list[bytes]:
        """The page in pieces, with `last` behind what was ready."""
        if not gzip:
            return [*(chunk.plain for chunk in self._chunks), last]
        crc, size = self._checksum
        tail = struct.pack("<II", zlib.crc32(last, crc), (size + len(last)) & 0xFFFFFFFF)
        pieces = [chunk.deflated for chunk in self._chunks]
        return [_GZIP_HEAD, *pieces, Chunk(last).deflated, _DEFLATE_END + tail]
