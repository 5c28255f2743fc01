# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How a database of MongoDB comes to its latest schema."""

from __future__ import annotations

from collections.abc import Callable

from pymongo import IndexModel, UpdateOne
from pymongo.database import Database

from slurmscope.store import documents
from slurmscope.store.documents import (
    CHANGES,
    JOBS,
    JOURNAL,
    MEASURED,
    NODES,
    ORDER,
    SERIES,
    TOTALS,
    USAGE,
    Document,
)

_AT_ONCE = 5000
# What indexes of jobs ended in before arrays were folded.
_OLDER_ORDER = [("submitted", -1), ("id", -1), ("cluster", 1)]

Migration = Callable[[Database[Document]], None]


def _indexes_of(*names: str) -> Migration:
    def make(database: Database[Document]) -> None:
        for name in names:
            # FerretDB 1 breaks off the connection over one that is there
            there = [list(one["key"].items()) for one in database[name].list_indexes()]
            if missing := [IndexModel(one) for one in documents.INDEXES[name] if one not in there]:
                database[name].create_indexes(missing)

    return make


def _gpu_sums(database: Database[Document]) -> None:
    _indexes_of(JOBS)(database)
    database[USAGE].update_many({"gpu_used_ms": {"$exists": False}}, {"$set": documents.NO_GPU_USE})


def _sought(database: Database[Document]) -> None:
    """What lives are looked for by since there are pages."""
    jobs = database[JOBS]
    while some := list(jobs.find({"fold": {"$exists": False}}, limit=_AT_ONCE)):
        jobs.bulk_write(
            [UpdateOne({"_id": one["_id"]}, {"$set": documents.sought(documents.to_life(one))}) for one in some],
            ordered=False,
        )
    _indexes_of(JOBS, USAGE)(database)
    size = len(ORDER)
    older = [[*one[:-size], *_OLDER_ORDER] for one in documents.INDEXES[JOBS] if one[-size:] == ORDER]
    for name in [one["name"] for one in jobs.list_indexes() if list(one["key"].items()) in older]:
        jobs.drop_index(name)


MIGRATIONS: tuple[Migration, ...] = (
    _indexes_of(JOBS, USAGE, NODES, CHANGES, TOTALS, JOURNAL),
    _indexes_of(MEASURED, SERIES),
    _gpu_sums,
    _sought,
)
"""Never changed once they were released; what is new is a new one at the end. Each may be run again."""
