# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept, as documents of MongoDB, and back.

Fields have the names that they have here. MongoDB takes no name with a dot or a dollar sign for granted, and GPUs
without a type have none at all: what is a mapping here is a list there, `[{"type": "a100", "count": 4}]`.

Every document has the number of the batch that wrote it (journal.py). A life has some fields more, by which it is
looked for (`sought`), and `findings` once it was judged: these stay when the life is put again. What a job used is in
two collections, for its course is forgotten before its summary: each is binary, as measured.py has it, beside what may
be looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bson import Int64
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from msgspec.structs import asdict

from slurmscope.life import Life, document, document_id, of_document
from slurmscope.model import Node
from slurmscope.store import traits
from slurmscope.store.measured import COLUMNS, columns, packed, to_course, to_summary
from slurmscope.store.protocol import KeptNode, Lives, Measured, NodeChange, Point, Sight, Span, fold_of
from slurmscope.usage import AMOUNTS, KEYS, Key

Document = dict[str, Any]

JOBS, MEASURED, SERIES = "jobs", "measured", "series"
USAGE, NODES, CHANGES, TOTALS, SPANS = "usage", "nodes", "node_changes", "totals", "spans"
JUDGED = "judged"
LEASES, WRITERS, JOURNAL, META = "leases", "writers", "journal", "meta"

# The latest first, and of those that were submitted together the highest numbers; the same in every store.
ORDER = [("submitted", -1), ("fold", -1), ("id", -1), ("cluster", 1)]
INDEXES: Mapping[str, tuple[list[tuple[str, int]], ...]] = {
    JOBS: (
        [("cluster", 1), ("id", 1), ("submitted", 1)],
        [("cluster", 1), ("open", 1)],
        [("id", 1)],
        [("array_id", 1)],
        [("user", 1), *ORDER],
        [("account", 1), *ORDER],
        ORDER,
        [("user", 1), ("name", 1), *ORDER],
        [("cluster", 1), ("end_time", 1)],
        *([(name, 1), *ORDER] for name in ("partition", "qos", "state", "node_names", "gpus.type", "findings")),
    ),
    MEASURED: ([("cluster", 1), ("id", 1), ("submitted", 1)], [("submitted", 1)]),
    SERIES: ([("submitted", 1)], [("last", 1)]),
    USAGE: ([("day", 1)], *([(name, 1), ("day", 1)] for name in ("cluster", "user", "account"))),
    NODES: ([("cluster", 1), ("name", 1)],),
    CHANGES: ([("cluster", 1), ("time", 1), ("node", 1)], [("cluster", 1), ("node", 1), ("time", 1)]),
    TOTALS: (
        [("cluster", 1), ("step", 1), ("time", 1), ("partition", 1)],
        [("cluster", 1), ("partition", 1), ("step", 1), ("time", 1)],
    ),
    JOURNAL: ([("cluster", 1)],),
}


class _Plain(TypeDecoder):
    """Numbers of 64 bits come back as what they were."""

    bson_type = Int64

    def transform_bson(self, value: Any) -> int:
        return int(value)


CODEC: CodecOptions[Document] = CodecOptions(type_registry=TypeRegistry([_Plain()]))


def joined(*parts: str | int) -> str:
    """An `_id` of several parts: readable, and never that of other parts."""
    return ".".join(str(one).replace("%", "%25").replace(".", "%2E") for one in parts)


def of_life(life: Life, batch: int) -> Document:
    own = {"_id": life.document_id, "gpus": _pairs(life.gpus), "batch": batch}
    return document(life) | own | sought(life)


def sought(life: Life) -> Document:
    """What a life is looked for by, and is not a field of its own."""
    return {
        "submitted": life.submit_time or 0,
        "fold": fold_of(life),
        "open": not life.ended,
        "started": traits.started(life),
        "lowered": traits.lowered(life.name),
        "node_names": list(traits.node_names(life)),
    }


def to_life(found: Document) -> Life:
    _float(found, "cpu_seconds")
    _float(found, "gpu_share")
    for step in found["steps"]:
        _float(step, "cpu_seconds")
    found["gpus"] = _mapping(found["gpus"])
    return of_document(found)


def of_summary(cluster: str, measured: Measured, batch: int) -> Document:
    told = dict(zip(COLUMNS, columns(measured.summary), strict=True))
    return _of_job(cluster, measured) | told | {"summary": packed(measured.summary), "batch": batch}


def of_course(cluster: str, measured: Measured, batch: int) -> Document | None:
    if measured.course is None:
        return None
    last = measured.summary.last
    return _of_job(cluster, measured) | {"last": last, "course": packed(measured.course), "batch": batch}


def _of_job(cluster: str, measured: Measured) -> Document:
    id_, submitted = measured.key
    return {"_id": document_id(cluster, id_, submitted), "cluster": cluster, "id": id_, "submitted": submitted}


def to_measured(found: Document, course: bytes | None) -> Measured:
    summary = to_summary(found["summary"])
    return Measured(found["id"], found["submitted"], summary, None if course is None else to_course(course))


def of_usage(key: Key, amounts: Iterable[int], batch: int) -> Document:
    # numbers of 32 bits would not have room for what is added later, on servers that keep to a number's first size
    sums = {name: Int64(amount) for name, amount in zip(AMOUNTS, amounts, strict=True)}
    return {"_id": joined(*key)} | key._asdict() | sums | {"batch": batch}


def of_node(kept: KeptNode, batch: int) -> Document:
    node = kept.node
    return asdict(node) | {
        "_id": joined(kept.cluster, node.name),
        "cluster": kept.cluster,
        "time": kept.time,
        "since": kept.since,
        "flags": sorted(node.flags),
        "partitions": list(node.partitions),
        "features": list(node.features),
        "gpus": _pairs(node.gpus),
        "gpus_allocated": _pairs(node.gpus_allocated),
        "batch": batch,
    }


def to_node(found: Document) -> KeptNode:
    _float(found, "load")
    fields = {name: found[name] for name in Node.__struct_fields__ if name in found} | {
        "flags": frozenset(found["flags"]),
        "partitions": tuple(found["partitions"]),
        "features": tuple(found["features"]),
        "gpus": _mapping(found["gpus"]),
        "gpus_allocated": _mapping(found["gpus_allocated"]),
    }
    return KeptNode(found["cluster"], Node(**fields), found["time"], found["since"])


def of_change(change: NodeChange, batch: int) -> Document:
    _id = joined(change.cluster, change.node, change.time)
    return asdict(change) | {"_id": _id, "flags": list(change.flags), "batch": batch}


def to_change(found: Document) -> NodeChange:
    fields = {name: found[name] for name in NodeChange.__struct_fields__}
    return NodeChange(**fields | {"flags": tuple(found["flags"])})


def of_point(point: Point, batch: int) -> Document:
    return asdict(point) | {
        "_id": joined(point.cluster, point.partition, point.step, point.time),
        "values": [{"name": name, "value": float(value)} for name, value in point.values.items()],
        "batch": batch,
    }


def to_point(found: Document) -> Point:
    fields = {name: found[name] for name in Point.__struct_fields__}
    return Point(**fields | {"values": {one["name"]: one["value"] for one in found["values"]}})


def of_spans(cluster: str, spans: Iterable[Span], batch: int) -> Document:
    return {"_id": joined(cluster), "cluster": cluster, "spans": [asdict(one) for one in spans], "batch": batch}


def to_spans(found: Document | None) -> list[Span]:
    return sorted(Span(one["start"], one["end"]) for one in found["spans"]) if found else []


def of_judged(cluster: str, time: int, batch: int) -> Document:
    return {"_id": joined(cluster), "cluster": cluster, "time": time, "batch": batch}


NO_GPU_USE = {"gpu_used_ms": Int64(0), "gpu_known_seconds": Int64(0)}
"""What a sum has that was made before these were counted."""


def asked(lives: Lives) -> Document:
    """How lives are asked for."""
    found: Document = {}
    for field, value in (
        ("cluster", lives.cluster),
        ("user", lives.user),
        ("account", lives.account),
        ("partition", lives.partition),
        ("qos", lives.qos),
        ("name", lives.name),
        ("open", lives.open),
        ("node_names", lives.node),
        ("gpus.type", lives.gpu_type),
        ("findings", lives.finding),
    ):
        if value is not None:
            found[field] = value
    if lives.states:
        found["state"] = {"$in": list(lives.states)}
    if submitted := _times(lives.since, lives.until):
        found["submitted"] = submitted
    if lives.named is not None:
        found["lowered"] = {"$regex": re.escape(traits.lowered(lives.named)).replace("\0", "\\x00")}
    if more := list(_more(lives)):
        found["$and"] = more
    return found


def _more(lives: Lives) -> Iterator[Document]:
    """What names a field that another may name, too."""
    if lives.id is not None:
        yield {"$or": [{"id": lives.id}, {"array_id": lives.id}]}
    if ended := _times(lives.ended_since, lives.ended_before):
        yield {"open": False, "end_time": ended}  # of one that goes on, this is when it must end
    if lives.active_since is not None:
        yield {"$or": [{"open": True}, {"open": False, "end_time": {"$gte": lives.active_since}}]}
    if lives.sight is not None:
        yield {"$or": list(seen(lives.sight))}
    if lives.after is not None:
        (submitted, fold), beyond = lives.after, "$gt" if lives.ascending else "$lt"
        yield {"submitted": {f"{beyond}e": submitted}}
        yield {"$or": [{"submitted": {beyond: submitted}}, {"submitted": submitted, "fold": {beyond: fold}}]}


def seen(sight: Sight) -> Iterator[Document]:
    """One of these holds for what they may see. Each is found by an index in the order that is wanted."""
    yield {"user": sight.user}
    for cluster, account in sorted(sight.accounts):
        yield {"cluster": cluster, "account": account}


def _times(since: int | None, before: int | None) -> Document:
    return {name: time for name, time in (("$gte", since), ("$lt", before)) if time is not None}


def group(by: Iterable[str]) -> Document:
    """A stage that sums up usage by some names of its key."""
    names = {name: f"${name}" for name in KEYS if name in set(by)}
    return {"$group": {"_id": names or None, **{name: {"$sum": f"${name}"} for name in AMOUNTS}}}


def used(since: int, until: int, cluster: str | None) -> Document:
    """Usage of some days that is not zero."""
    of = {} if cluster is None else {"cluster": cluster}
    return {"day": {"$gte": since, "$lt": until}, "$or": [{name: {"$gt": 0}} for name in AMOUNTS], **of}


def _pairs(counts: Mapping[str, int]) -> list[Document]:
    return [{"type": kind, "count": count} for kind, count in counts.items()]


def _mapping(pairs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return {one["type"]: one["count"] for one in pairs}


def _float(found: Document, name: str) -> None:
    """What is a fraction here may have been put as a whole number."""
    if found.get(name) is not None:
        found[name] = float(found[name])
