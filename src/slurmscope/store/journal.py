# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to MongoDB all or nothing, on servers without transactions.

Whoever writes for a cluster holds its lease, which is a document of `writers`. What is to be written is first put
there, as a journal, by one update of that document; from then on it counts as written. Then it is applied, and the
journal is taken away. Whoever takes the lease next and finds a journal applies it first: its writer has died.

Batches of a cluster are numbered, and each document has the number of the batch that wrote it last. Applying a batch
touches no document that has its number or a higher one. So applying twice adds once, and a writer that slept through
the end of its lease harms nothing: it cannot put its journal there any more, and what it still applies is done.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import bson
from bson import Binary
from pymongo import ReplaceOne, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, PyMongoError

from slurmscope.store.documents import CODEC, JOURNAL, USAGE, WRITERS, Document, joined
from slurmscope.store.protocol import Unreachable
from slurmscope.usage import AMOUNTS

T = TypeVar("T")

PATIENCE = 60.0  # seconds for another writer to end
_LARGEST = 12_000_000  # bytes of a journal in one document; MongoDB takes 16 MB
_AT_ONCE = 5000
_DUPLICATE = 11000


def some(rows: Sequence[T], at_once: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    for at in range(0, len(rows), at_once):
        yield rows[at : at + at_once]


# --- the lease --------------------------------------------------------------------------------------------------------


class Lease:
    """The right to write for a cluster."""

    def __init__(self, database: Database[Document], cluster: str, seconds: float) -> None:
        self.owner = secrets.token_hex(12)
        self.batch = 0
        self._writers = database[WRITERS]
        self._chunks = database[JOURNAL]
        self._database = database
        self._cluster = cluster
        self._seconds = seconds

    def take(self, left: set[str]) -> None:
        """Waits for it; `left` are the owners that this process was, and could not tell the server so."""
        end = time.monotonic() + PATIENCE
        pause = 0.01
        while (before := self._try(left)) is None:
            holder = self._writers.find_one({"_id": self._cluster})
            if holder is None:
                self._writers.update_one(
                    {"_id": self._cluster}, {"$setOnInsert": {"owner": None, "batch": 0}}, upsert=True
                )
            elif time.monotonic() > end:
                raise Unreachable(f"{holder.get('holder')} has been writing for {self._cluster} for {PATIENCE:.0f} s")
            else:
                time.sleep(pause)
                pause = min(0.25, pause * 1.5)
        self.batch = before["batch"] + 1
        if before.get("journal") is not None:
            apply(self._database, self._cluster, before["batch"], self._read(before["journal"]))
            self._update({"$set": {"journal": None}})
        if before.get("owner") is not None or before.get("journal") is not None:
            self._chunks.delete_many({"cluster": self._cluster})

    def _try(self, left: set[str]) -> Document | None:
        now = _now(self._database)
        free: list[Document] = [{"owner": None}, {"expires": {"$lt": now}}, {"owner": {"$in": sorted(left)}}]
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        return self._writers.find_one_and_update(
            {"_id": self._cluster, "$or": free},
            {"$set": {"owner": self.owner, "holder": holder, "expires": now + round(self._seconds * 1000)}},
        )

    def _update(self, update: Document) -> bool:
        return self._writers.update_one({"_id": self._cluster, "owner": self.owner}, update).matched_count > 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renews the lease for as long as the work lasts."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(self._seconds / 3):
                try:
                    self._update({"$set": {"expires": _now(self._database) + round(self._seconds * 1000)}})
                except PyMongoError:
                    continue  # the work itself meets the same, and tells

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def commit(self, operations: Sequence[Document]) -> None:
        """What is in the journal when this returns will be applied, whatever happens."""
        chunks = list(_chunks(operations))
        journal: Any = chunks[0]
        if len(chunks) > 1:
            # these alone are nothing yet: that the journal tells of them makes them count
            for at, data in enumerate(chunks):
                self._chunks.insert_one({"_id": joined(self.owner, at), "cluster": self._cluster, "data": Binary(data)})
            journal = {"owner": self.owner, "chunks": len(chunks)}
        if not self._update({"$set": {"journal": journal, "batch": self.batch}}):
            raise Unreachable(f"the right to write for {self._cluster} was lost while this process was too slow")
        apply(self._database, self._cluster, self.batch, operations)
        self._update({"$set": {"owner": None, "journal": None}})
        if len(chunks) > 1:
            self._chunks.delete_many({"_id": {"$in": [joined(self.owner, at) for at in range(len(chunks))]}})

    def release(self) -> None:
        """Leaves it to others. A journal stays there, for the next one to apply."""
        self._update({"$set": {"owner": None}})

    def _read(self, journal: Any) -> list[Document]:
        if isinstance(journal, bytes):
            return bson.decode_all(journal, CODEC)
        found = []
        for at in range(journal["chunks"]):
            chunk = self._chunks.find_one({"_id": joined(journal["owner"], at)})
            found += bson.decode_all(chunk["data"], CODEC) if chunk else []
        return found


def _now(database: Database[Document]) -> int:
    """Milliseconds, by the server's clock: those of its clients may differ."""
    told: datetime = database.client.admin.command("hello")["localTime"]
    return round(told.replace(tzinfo=UTC).timestamp() * 1000)


def _chunks(operations: Iterable[Document]) -> Iterator[bytes]:
    data = bytearray()
    for one in operations:
        encoded = bson.encode(one)
        if data and len(data) + len(encoded) > _LARGEST:
            yield bytes(data)
            data.clear()
        data += encoded
    yield bytes(data)


# --- operations -------------------------------------------------------------------------------------------------------
# {"in": collection, "put": document}, {"in": collection, "drop": _id}, {"clear": day}, {"add": document of usage}


def apply(database: Database[Document], cluster: str, batch: int, operations: Iterable[Document]) -> None:
    """Does what it has not done yet of a batch."""
    put: dict[str, list[Document]] = {}
    drop: dict[str, list[str]] = {}
    add = []
    clear = []
    for one in operations:
        if "put" in one:
            put.setdefault(one["in"], []).append(one["put"])
        elif "drop" in one:
            drop.setdefault(one["in"], []).append(one["drop"])
        elif "add" in one:
            add.append(one["add"])
        else:
            clear.append(one["clear"])
    for name, documents in put.items():
        for few in some(documents):
            _put(database[name], few, batch)
    for name, ids in drop.items():
        for ids_ in some(ids):
            database[name].delete_many({"_id": {"$in": list(ids_)}, "batch": {"$lt": batch}})
    for since in clear:
        database[USAGE].delete_many({"cluster": cluster, "day": {"$gte": since}, "batch": {"$lt": batch}})
    for few in some(add):
        _add(database[USAGE], few, batch)


def _put(collection: Collection[Document], documents: Sequence[Document], batch: int) -> None:
    there = _there(collection, documents)
    _insert(collection, [one for one in documents if one["_id"] not in there])
    older = [
        ReplaceOne({"_id": one["_id"], "batch": there[one["_id"]]}, one)
        for one in documents
        if there.get(one["_id"], batch) < batch
    ]
    if older:
        collection.bulk_write(older, ordered=False)


def _add(collection: Collection[Document], rows: Sequence[Document], batch: int) -> None:
    there = _there(collection, rows)
    _insert(collection, [one for one in rows if one["_id"] not in there])
    older = [
        UpdateOne(
            {"_id": one["_id"], "batch": there[one["_id"]]},
            {"$inc": {name: bson.Int64(one[name]) for name in AMOUNTS if one[name]}, "$set": {"batch": batch}},
        )
        for one in rows
        if there.get(one["_id"], batch) < batch
    ]
    if older:
        collection.bulk_write(older, ordered=False)


def _there(collection: Collection[Document], documents: Iterable[Document]) -> Mapping[str, int]:
    """The batches that wrote those that are there already."""
    ids = [one["_id"] for one in documents]
    return {one["_id"]: one["batch"] for one in collection.find({"_id": {"$in": ids}}, {"batch": 1})}


def _insert(collection: Collection[Document], documents: Sequence[Document]) -> None:
    if not documents:
        return
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        # two may apply the same journal at a time: what one has inserted is what the other would insert
        if any(one["code"] != _DUPLICATE for one in error.details["writeErrors"]):
            raise


def leftovers(database: Database[Document]) -> list[str]:
    """The clusters with journals that nobody has applied yet, and whose writers are gone."""
    found = database[WRITERS].find({"journal": {"$ne": None}}, {"expires": 1, "owner": 1})
    now = _now(database)
    return sorted(str(one["_id"]) for one in found if one.get("owner") is None or one["expires"] < now)
