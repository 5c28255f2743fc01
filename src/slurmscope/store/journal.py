# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to MongoDB all or nothing, on servers without transactions.

Whoever writes for a cluster holds its lease, which is a document of `leases`. What is to be written is first put into
the cluster's document of `writers`, as a journal, by one update; from then on it counts as written. Then it is
applied, and the journal is taken away. Whoever has the lease next and finds a journal applies it first: its writer
has died.

Batches of a cluster are numbered, and each document has the number of the batch that wrote it last. Applying a batch
touches no document that has its number or a higher one. So applying twice adds once, and a writer that slept through
the end of its lease harms nothing: `writers` knows another owner, so that it cannot put its journal there any more,
and what it still applies is done.

A lease is taken by inserting it, and nobody but its owner's one thread changes it: FerretDB 1 loses one of two changes
of a document at a time, but never lets two insert the same.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import bson
from pymongo import ReplaceOne, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from slurmscope.store.documents import CODEC, JOBS, JOURNAL, LEASES, USAGE, WRITERS, Document, joined
from slurmscope.usage import AMOUNTS

T = TypeVar("T")

PATIENCE = 60.0  # seconds for another writer to end
_LARGEST = 12_000_000  # bytes of a journal in one document; MongoDB takes 16 MB
_AT_ONCE = 5000
_DUPLICATE = 11000


def some(rows: Sequence[T], at_once: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    for at in range(0, len(rows), at_once):
        yield rows[at : at + at_once]


class Lost(Exception):
    """Somebody else writes."""


# --- the lease --------------------------------------------------------------------------------------------------------


class Lease:
    """The right to write for a cluster."""

    def __init__(self, database: Database[Document], cluster: str, seconds: float) -> None:
        self.owner = secrets.token_hex(12)
        self.batch = 0
        self._database = database
        self._leases, self._writers, self._chunks = database[LEASES], database[WRITERS], database[JOURNAL]
        self._cluster = cluster
        self._seconds = seconds

    def take(self, left: set[str]) -> None:
        """Waits for it; `left` are the owners that this process was, and could not tell the server so."""
        end, pause = time.monotonic() + PATIENCE, 0.01
        while not self._insert():
            held = self._leases.find_one({"_id": self._cluster})
            if held is None:
                continue
            if held["expires"] < _now(self._database) or held["owner"] in left:
                self._leases.delete_one({"_id": self._cluster, "owner": held["owner"], "expires": held["expires"]})
            elif time.monotonic() > end:
                raise Lost(f"{held['holder']} has been writing for {self._cluster} for {PATIENCE:.0f} s")
            else:
                time.sleep(pause)
                pause = min(0.25, pause * 1.5)

    def _insert(self) -> bool:
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        try:
            self._leases.insert_one(
                {"_id": self._cluster, "owner": self.owner, "holder": holder, "expires": self._end()}
            )
        except DuplicateKeyError:
            return False
        return True

    def _end(self) -> int:
        return _now(self._database) + round(self._seconds * 1000)

    def begin(self) -> None:
        """Ends the work of one that died, and numbers what is written now."""
        # before anything is read: from here on nobody else can put a journal there
        self._writers.update_one(
            {"_id": self._cluster},
            {"$set": {"owner": self.owner}, "$setOnInsert": {"batch": 0}},
            upsert=True,
        )
        state = self._writers.find_one({"_id": self._cluster})
        if state is None:
            raise Lost(f"what was written for {self._cluster} has just been deleted by somebody else")
        if (journal := state.get("journal")) is not None:
            apply(self._database, self._cluster, state["batch"], self._read(journal))
            self._update({"journal": None})
        self._chunks.delete_many({"cluster": self._cluster})
        self.batch = state["batch"] + 1

    def _update(self, fields: Document) -> bool:
        return self._writers.update_one({"_id": self._cluster, "owner": self.owner}, {"$set": fields}).matched_count > 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renews the lease for as long as the work lasts."""
        over = threading.Event()

        def renew() -> None:
            good = time.monotonic()
            while not over.wait(self._seconds / 3) and time.monotonic() - good < self._seconds:
                with suppress(PyMongoError):  # the work itself meets the same, and tells
                    self._leases.update_one(
                        {"_id": self._cluster, "owner": self.owner}, {"$set": {"expires": self._end()}}
                    )
                    good = time.monotonic()

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def commit(self, operations: Sequence[Document]) -> None:
        """What is in the journal will be applied, whatever happens."""
        chunks = list(_chunks(operations))
        journal: Any = chunks[0]
        if len(chunks) > 1:
            # these alone are nothing yet: that the journal tells of them makes them count
            for at, data in enumerate(chunks):
                self._chunks.insert_one(
                    {"_id": joined(self.owner, at), "cluster": self._cluster, "owner": self.owner, "data": data}
                )
            journal = {"owner": self.owner, "chunks": len(chunks)}
        if not self._update({"journal": journal, "batch": self.batch}):
            raise Lost(f"the right to write for {self._cluster} was lost while this process was too slow")
        apply(self._database, self._cluster, self.batch, operations)
        self._update({"journal": None})
        if len(chunks) > 1:
            # only its own: a writer that slept through the end of its lease must not touch another's
            self._chunks.delete_many({"cluster": self._cluster, "owner": self.owner})

    def release(self) -> None:
        """Leaves it to others. A journal stays there, for the next one to apply."""
        self._leases.delete_one({"_id": self._cluster, "owner": self.owner})

    def _read(self, journal: Any) -> list[Document]:
        if isinstance(journal, bytes):
            return bson.decode_all(journal, CODEC)
        found = []
        for at in range(journal["chunks"]):
            chunk = self._chunks.find_one({"_id": joined(journal["owner"], at)})
            if chunk is None:
                raise Lost(f"a part of the journal for {self._cluster} is missing: `slurmscope store check` tells more")
            found += bson.decode_all(chunk["data"], CODEC)
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
# {"in": collection, "put": document}, {"in": collection, "drop": _id}, {"in": jobs, "find": _id, "rules": names},
# {"clear": day}, {"add": document of usage}


def apply(database: Database[Document], cluster: str, batch: int, operations: Sequence[Document]) -> None:
    """Does what it has not done yet of a batch."""
    put: dict[str, list[Document]] = {}
    drop: dict[str, list[str]] = {}
    add = []
    clear = []
    find = [one for one in operations if "find" in one]
    for one in operations:
        if "put" in one:
            put.setdefault(one["in"], []).append(one["put"])
        elif "drop" in one:
            drop.setdefault(one["in"], []).append(one["drop"])
        elif "add" in one:
            add.append(one["add"])
        elif "clear" in one:
            clear.append(one["clear"])
    for name, documents in put.items():
        for few in some(documents):
            _put(database[name], few, batch)
    for few in some(find):
        _find(database[JOBS], few, batch)
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
        # what was found in a job stays
        ReplaceOne({"_id": one["_id"], "batch": there[one["_id"]]["batch"]}, there[one["_id"]] | one)
        for one in documents
        if one["_id"] in there and there[one["_id"]]["batch"] < batch
    ]
    if older:
        collection.bulk_write(older, ordered=False)


def _find(collection: Collection[Document], found: Sequence[Document], batch: int) -> None:
    """A job that the same batch has put has its number already. To set the same again does no harm."""
    collection.bulk_write(
        [
            UpdateOne(
                {"_id": one["find"], "batch": {"$lte": batch}}, {"$set": {"findings": one["rules"], "batch": batch}}
            )
            for one in found
        ],
        ordered=False,
    )


def _add(collection: Collection[Document], rows: Sequence[Document], batch: int) -> None:
    there = _there(collection, rows)
    _insert(collection, [one for one in rows if one["_id"] not in there])
    older = [
        UpdateOne(
            {"_id": one["_id"], "batch": there[one["_id"]]["batch"]},
            # an older version's journal does not have all of them
            {"$inc": {name: bson.Int64(one[name]) for name in AMOUNTS if one.get(name)}, "$set": {"batch": batch}},
        )
        for one in rows
        if one["_id"] in there and there[one["_id"]]["batch"] < batch
    ]
    if older:
        collection.bulk_write(older, ordered=False)


def _there(collection: Collection[Document], documents: Iterable[Document]) -> Mapping[str, Document]:
    """Of those that are there already: the batches that wrote them, and what was found in a job."""
    ids = [one["_id"] for one in documents]
    return {one["_id"]: one for one in collection.find({"_id": {"$in": ids}}, {"batch": 1, "findings": 1})}


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
    now = _now(database)
    alive = {one["_id"] for one in database[LEASES].find({"expires": {"$gte": now}})}
    found = database[WRITERS].find({"journal": {"$ne": None}}, {"_id": 1})
    return sorted(str(one["_id"]) for one in found if one["_id"] not in alive)
