# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Lives in MongoDB as they are asked for: in any order, with arrays folded, and what things are called there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace
from pymongo.collection import Collection
from pymongo.database import Database

from slurmscope.life import Life
from slurmscope.store import documents
from slurmscope.store.documents import JOBS, NODES, ORDER, Document
from slurmscope.store.names import LAST
from slurmscope.store.protocol import SORTED_AMONG, Fold, Lives, NameKind, Sight

_READ_ON = 100  # lives that are looked at, before it goes on behind the array that they end in
_SORTED_BY = ("submitted", "open", "started", "end_time", "eligible_time", "cpus", "gpus", "memory")
_NAMED = {"gpu_type": "gpus.type"}
_BACKWARDS = [(name, -order) for name, order in ORDER]


def lives(jobs: Collection[Document], asked: Lives) -> list[Life]:
    if asked.limit == 0:
        return []  # which would be all of them for MongoDB
    if asked.order == "submitted":
        order = _BACKWARDS if asked.ascending else ORDER
        found = jobs.find(documents.asked(asked), sort=order, skip=asked.offset, limit=asked.limit or 0)
        return [documents.to_life(one) for one in found]
    asked = replace(asked, after=None)
    if asked.order == "ended":
        return _by_end(jobs, asked)
    among = jobs.find(documents.asked(asked), dict.fromkeys(_SORTED_BY, 1), sort=ORDER, limit=SORTED_AMONG)
    now = int(time.time())
    known: list[tuple[int, str]] = []
    unknown: list[str] = []
    for one in among:
        value = _value(one, asked.order, now)
        if value is None:
            unknown.append(one["_id"])
        else:
            known.append((value if asked.ascending else -value, one["_id"]))
    known.sort(key=lambda one: one[0])  # of those that are alike the newest stays the first
    ids = [id_ for _, id_ in known] + unknown
    return of_ids(jobs, ids[asked.offset :][: asked.limit])


def of_ids(jobs: Collection[Document], ids: Sequence[str]) -> list[Life]:
    """In the same order, without those that are not there any more."""
    found = {one["_id"]: documents.to_life(one) for one in jobs.find({"_id": {"$in": list(ids)}})} if ids else {}
    return [found[one] for one in ids if one in found]


def _by_end(jobs: Collection[Document], asked: Lives) -> list[Life]:
    """Those that have ended, and behind them those that have not."""
    ended = documents.asked(replace(asked, open=False)) if asked.open is not True else None
    found: list[Life] = []
    offset, limit = asked.offset, asked.limit
    if ended is not None:
        order = [("end_time", 1 if asked.ascending else -1), *ORDER]
        rows = jobs.find(ended, sort=order, skip=offset, limit=limit or 0)
        found = [documents.to_life(one) for one in rows]
        if asked.open is False or (limit is not None and len(found) == limit):
            return found
        offset = 0 if found else offset - jobs.count_documents(ended)
    left = None if limit is None else limit - len(found)
    rest = replace(asked, open=True, order="submitted", ascending=False, offset=offset, limit=left)
    return found + lives(jobs, rest)


def _value(one: Document, order: str, now: int) -> int | None:
    """By which a life is ordered; None: it has none."""
    started: int | None = one["started"]
    if order == "gpus":
        return sum(int(gpu["count"]) for gpu in one["gpus"])
    if order == "ran":
        end = now if one["open"] else one["end_time"]
        return None if started is None else max(0, int(now if end is None else end) - started)
    if order == "waited":
        until = now if started is None and one["open"] else started
        return None if until is None else max(0, until - max(one["eligible_time"] or 0, one["submitted"]))
    value: int | None = one[order]
    return value


# --- arrays folded ----------------------------------------------------------------------------------------------------


def folded(jobs: Collection[Document], asked: Lives) -> list[Fold]:
    asked = replace(asked, order="submitted", ascending=False)
    first: dict[tuple[int, int, str], Document] = {}
    names = dict.fromkeys(("submitted", "fold", "id", "cluster", "array_id", "state", "tasks"), 1)
    while asked.limit is None or len(first) < asked.limit:
        rows = list(jobs.find(documents.asked(asked), names, sort=ORDER, limit=_READ_ON))
        for one in rows:
            first.setdefault((one["submitted"], one["fold"], one["cluster"]), one)
        if len(rows) < _READ_ON:
            break
        asked = replace(asked, after=(rows[-1]["submitted"], rows[-1]["fold"]))
    page = list(first.values())[: asked.limit]
    there = {one.document_id: one for one in of_ids(jobs, [one["_id"] for one in page])}
    found = []
    for one in page:
        states = _states(jobs, one, asked) if one["array_id"] is not None else {one["state"]: one["tasks"]}
        if one["_id"] in there and states:
            found.append(Fold(there[one["_id"]], sum(states.values()), states))
    return found


def _states(jobs: Collection[Document], one: Document, asked: Lives) -> dict[str, int]:
    of_array = {"cluster": one["cluster"], "array_id": one["array_id"], "submitted": one["submitted"]}
    where = {"$and": [of_array, documents.asked(replace(asked, after=None))]}
    rows = jobs.aggregate([{"$match": where}, {"$group": {"_id": "$state", "tasks": {"$sum": "$tasks"}}}])
    return {row["_id"]: row["tasks"] for row in sorted(rows, key=lambda row: str(row["_id"]))}


# --- what things are called -------------------------------------------------------------------------------------------


def names(
    database: Database[Document], kind: NameKind, beginning: str, cluster: str | None, limit: int, sight: Sight | None
) -> list[str]:
    field = _NAMED.get(kind, "name" if kind == "node" else kind)
    where: Document = {field: {"$gte": beginning, "$lt": beginning + LAST}}
    if cluster is not None:
        where["cluster"] = cluster
    if sight is not None and kind in ("user", "account", "name"):
        where["$or"] = list(documents.seen(sight))
    found: Iterator[Any] = iter(database[NODES if kind == "node" else JOBS].distinct(field, where))
    # of one with several types of GPUs, all of them
    return sorted({one for one in found if isinstance(one, str) and one.startswith(beginning)})[:limit]
