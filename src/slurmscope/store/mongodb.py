# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The store in MongoDB, or in what speaks its protocol.

It needs no transactions: journal.py says how all of a batch is written, or nothing. A reader may see a batch half
applied for the moment that this takes; whoever reads within `writing()` does not. documents.py says what is there to
be read by others.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from slurmscope.course import Course
from slurmscope.life import Life, document_id
from slurmscope.store import backups
from slurmscope.store.copy import copy
from slurmscope.store.measured import to_course, to_summary
from slurmscope.store.protocol import (
    COARSE,
    FINE,
    KINDS,
    MIDDLE,
    Fold,
    JobKey,
    KeptNode,
    Lives,
    Measured,
    NameKind,
    NewerSchema,
    NodeChange,
    Point,
    Progress,
    Sight,
    Span,
    Stats,
    StoreError,
    Unreachable,
    UsageAsked,
    UsageSum,
)
from slurmscope.store.sqlite import SqliteStore
from slurmscope.store.url import DATABASE, DOCTOR, MongoPlace
from slurmscope.summary import Summary
from slurmscope.usage import AMOUNTS, DAY, KEYS, Amounts

try:
    from bson.errors import BSONError
    from pymongo import MongoClient
    from pymongo.errors import (
        BulkWriteError,
        ConfigurationError,
        ConnectionFailure,
        ExecutionTimeout,
        OperationFailure,
        PyMongoError,
        WTimeoutError,
    )

    from slurmscope.store import document_search, documents
    from slurmscope.store.batch import Batch
    from slurmscope.store.document_schema import MIGRATIONS
    from slurmscope.store.documents import (
        CHANGES,
        JOBS,
        JUDGED,
        MEASURED,
        META,
        NODES,
        SERIES,
        SPANS,
        TOTALS,
        USAGE,
        WRITERS,
        Document,
    )
    from slurmscope.store.journal import Lease, Lost, leftovers, some
except ImportError as missing:
    raise StoreError(f"a store in MongoDB needs pymongo ({missing}): pip install 'slurmscope[mongodb]'") from missing

LEASE_SECONDS = 30.0
_PAGE = 5000
_SERIES_PAGE = 200  # a course takes some 100 kB of memory
# What an URL may say otherwise. A batch is in the journal when most servers have it on disk.
_OPTIONS = {
    "serverSelectionTimeoutMS": 5000,
    "connectTimeoutMS": 5000,
    "socketTimeoutMS": 120_000,
    "w": "majority",
    "journal": True,
    "appname": "slurmscope",
}
_STEPS = {"totals_fine": FINE, "totals_middle": MIDDLE, "totals_coarse": COARSE}
_COUNTED = (JOBS, MEASURED, SERIES, USAGE, NODES, CHANGES, TOTALS)


# --- what may go wrong ------------------------------------------------------------------------------------------------


@contextmanager
def _told(where: str) -> Iterator[None]:
    """What the driver raises, as what a store raises."""
    try:
        yield
    except (ConnectionFailure, ExecutionTimeout, WTimeoutError) as error:
        raise Unreachable(
            f"{where}: cannot be reached ({_said(error)}): does the server run, and does store.url name it?"
        ) from None
    except OperationFailure as error:
        raise _refused(where, error) from None
    except ConfigurationError as error:
        if "DNS" in str(error):
            raise Unreachable(f"{where}: cannot be found: does store.url name the right host?") from None
        raise StoreError(
            f"{where}: store.url is not an URL of MongoDB's: mongodb://user:password@host:27017/{DATABASE}, "
            "with what is special in user and password percent-encoded"
        ) from None
    except Lost as error:
        raise Unreachable(f"{where}: {error}") from None
    except (BSONError, OverflowError) as error:
        raise StoreError(f"{where}: MongoDB cannot keep this: {error}") from None
    except PyMongoError as error:
        raise StoreError(f"{where}: {_said(error)}") from None
    except TimeoutError:
        raise  # whoever works within was too slow
    except OSError as error:  # a file that an option of the URL names: tlsCAFile, tlsCertificateKeyFile
        raise StoreError(f"{where}: store.url names a file that cannot be used: {error}") from None


def _said(error: PyMongoError) -> str:
    """The first words: a driver goes on with all that it knows of the servers."""
    return str(error).partition(", Timeout:")[0].partition(" (configured timeouts:")[0].partition(", full error:")[0]


def _refused(where: str, error: OperationFailure) -> StoreError:
    code, said = error.code, _said(error)
    if isinstance(error, BulkWriteError) and error.details["writeErrors"]:
        code, said = error.details["writeErrors"][0]["code"], error.details["writeErrors"][0]["errmsg"]
    if code == 18:
        return StoreError(f"{where}: the user or the password of store.url is wrong, or authSource is missing there")
    if code in (13, 8000):
        return StoreError(
            f"{where}: the user of store.url may not do this: give them the role readWrite there ({said})"
        )
    if code == 14031:
        return Unreachable(f"{where}: the server's disk is full: make room there, or let store.url name another place")
    if error.has_error_label("RetryableWriteError"):
        return Unreachable(f"{where}: the server gave up, and may be back soon ({said})")
    return StoreError(f"{where}: {said}")


# --- the store --------------------------------------------------------------------------------------------------------


def open_mongodb(uri: str) -> MongoStore:
    """The database is that of the URL's path."""
    return MongoStore(uri, MongoPlace(uri).database)


class MongoStore:
    def __init__(self, uri: str, database: str = DATABASE, lease_seconds: float = LEASE_SECONDS) -> None:
        self._where = MongoPlace(uri, database).words
        self._lease_seconds = lease_seconds
        self._left: set[str] = set()
        given = {one.partition("=")[0].lower() for one in re.split("[?&]", uri)[1:]}
        options: Any = {name: value for name, value in _OPTIONS.items() if name.lower() not in given}
        try:
            with _told(self._where):
                self._client: MongoClient[Document] = MongoClient(uri, readPreference="primary", **options)
        except ValueError:
            # a port that is none; what the driver says of it may hold a part of the password
            raise StoreError(f"{self._where}: store.url is not an URL of MongoDB's: see its host and port") from None
        try:
            with _told(self._where):
                self._db = self._client.get_database(database, codec_options=documents.CODEC)
                self._migrate()
                self._identity = self._named_once()
                self._groups = self._can_group()
        except BaseException:
            self.close()
            raise

    @property
    def where(self) -> str:
        return self._where

    @property
    def identity(self) -> str:
        return f"mongodb {self._identity}"

    def _named_once(self) -> str:
        """A word of its own that this database was given when it was first opened."""
        new = {"$setOnInsert": {"value": secrets.token_hex(12)}}
        self._db[META].update_one({"_id": "identity"}, new, upsert=True)
        found = self._db[META].find_one({"_id": "identity"})
        return str(found["value"]) if found else ""

    def _migrate(self) -> None:
        meta = self._db[META]
        found = meta.find_one({"_id": "schema"})
        if found is None:
            if any(not name.startswith(DOCTOR) for name in self._db.list_collection_names()):
                raise StoreError(f"{self._where}: is another program's database: let store.url name one of its own")
            meta.update_one({"_id": "schema"}, {"$setOnInsert": {"number": 0}}, upsert=True)
        number = found["number"] if found else 0
        if number > len(MIGRATIONS):
            raise NewerSchema(
                f"{self._where}: has schema {number}, and this slurmscope knows {len(MIGRATIONS)}: "
                "it was written by a newer one, which is needed here too"
            )
        for at, migration in enumerate(MIGRATIONS[number:], number + 1):
            migration(self._db)
            meta.update_one({"_id": "schema", "number": {"$lt": at}}, {"$set": {"number": at}})

    def _can_group(self) -> bool:
        """Whether the server sums up. FerretDB 1 does so for the first of several sums, and has 0 for the others."""
        ones: Document = {"_id": None, "first": {"$sum": 1}, "second": {"$sum": 1}}
        found = list(self._db[META].aggregate([{"$match": {"_id": "schema"}}, {"$group": ones}]))
        return [one["second"] for one in found] == [1]

    # --- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, cluster: str) -> Iterator[Batch]:
        lease = Lease(self._db, cluster, self._lease_seconds)
        with _told(self._where):
            try:
                lease.take(self._left)
                with lease.kept():
                    lease.begin()
                    writer = Batch(self._db, cluster, lease.batch)
                    yield writer
                    if operations := writer.operations():
                        lease.commit(operations)
            finally:
                try:
                    lease.release()
                except PyMongoError:
                    self._left.add(lease.owner)  # so that this process need not wait for the end of its own lease

    # --- reading ------------------------------------------------------------------------------------------------------

    def life(self, cluster: str, id_: int, submit_time: int) -> Life | None:
        with _told(self._where):
            found = self._db[JOBS].find_one({"_id": document_id(cluster, id_, submit_time)})
        return None if found is None else documents.to_life(found)

    def lives(self, asked: Lives) -> list[Life]:
        with _told(self._where):
            return document_search.lives(self._db[JOBS], asked)

    def count(self, asked: Lives, most: int | None = None) -> int:
        if most == 0:
            return 0
        with _told(self._where):
            where = documents.asked(replace(asked, after=None))
            bound: Any = {} if most is None else {"limit": most}
            return self._db[JOBS].count_documents(where, **bound)

    def folded(self, asked: Lives) -> list[Fold]:
        with _told(self._where):
            return document_search.folded(self._db[JOBS], asked)

    def names(
        self,
        kind: NameKind,
        beginning: str = "",
        cluster: str | None = None,
        limit: int = 20,
        sight: Sight | None = None,
    ) -> list[str]:
        with _told(self._where):
            return document_search.names(self._db, kind, beginning, cluster, limit, sight)

    def findings(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, tuple[str, ...]]:
        found: dict[JobKey, tuple[str, ...]] = {}
        names = {"id": 1, "submitted": 1, "findings": 1}
        for few in some([document_id(cluster, *key) for key in keys]):
            with _told(self._where):
                for one in self._db[JOBS].find({"_id": {"$in": list(few)}}, names):
                    if "findings" in one:
                        found[one["id"], one["submitted"]] = tuple(one["findings"])
        return found

    def judged(self, cluster: str) -> int:
        with _told(self._where):
            found = self._db[JUDGED].find_one({"_id": documents.joined(cluster)})
        return found["time"] if found else 0

    def each_life(self, cluster: str) -> Iterator[list[Life]]:
        for found in self._pages(JOBS, cluster, _PAGE):
            yield [documents.to_life(one) for one in found]

    def _pages(self, name: str, cluster: str, size: int) -> Iterator[list[Document]]:
        """By pages, for a server closes a cursor that is not read on for some minutes."""
        id_, submitted = -1, -1
        while True:
            after = [{"id": {"$gt": id_}}, {"submitted": {"$gt": submitted}}]
            with _told(self._where):
                found = list(
                    self._db[name].find(
                        {"cluster": cluster, "id": {"$gte": id_}, "$or": after},
                        sort=[("id", 1), ("submitted", 1)],
                        limit=size,
                    )
                )
            if not found:
                return
            id_, submitted = found[-1]["id"], found[-1]["submitted"]
            yield found

    def summary(self, cluster: str, id_: int, submit_time: int) -> Summary | None:
        return self.summaries(cluster, [(id_, submit_time)]).get((id_, submit_time))

    def summaries(self, cluster: str, keys: Collection[JobKey]) -> dict[JobKey, Summary]:
        found: dict[JobKey, Summary] = {}
        for few in some([document_id(cluster, *key) for key in keys]):
            with _told(self._where):
                for one in self._db[MEASURED].find({"_id": {"$in": list(few)}}):
                    found[one["id"], one["submitted"]] = to_summary(one["summary"])
        return found

    def course(self, cluster: str, id_: int, submit_time: int) -> Course | None:
        with _told(self._where):
            found = self._db[SERIES].find_one({"_id": document_id(cluster, id_, submit_time)})
        return None if found is None else to_course(found["course"])

    def each_measured(self, cluster: str) -> Iterator[list[Measured]]:
        for found in self._pages(MEASURED, cluster, _SERIES_PAGE):
            ids = [one["_id"] for one in found]
            with _told(self._where):
                courses = {one["_id"]: one["course"] for one in self._db[SERIES].find({"_id": {"$in": ids}})}
            yield [documents.to_measured(one, courses.get(one["_id"])) for one in found]

    def usage(self, asked: UsageAsked) -> list[UsageSum]:
        if unknown := {*asked.by, *asked.only} - set(KEYS):
            raise ValueError(f"usage is by {', '.join(KEYS)}, and not by {', '.join(sorted(unknown))}")
        days = {"$gte": asked.since, "$lt": asked.until}
        where = {"$and": [{"day": days}, *({name: value} for name, value in asked.only.items())]}
        sums: dict[tuple[str | int, ...], list[int]] = {}
        with _told(self._where):
            if self._groups:
                rows = self._db[USAGE].aggregate([{"$match": where}, documents.group(asked.by)])
                found = (((row["_id"] or {}), row) for row in rows)
            else:
                found = ((row, row) for row in self._db[USAGE].find(where))
            for names, row in found:
                sum_ = sums.setdefault(tuple(names[name] for name in asked.by), [0] * len(AMOUNTS))
                for at, name in enumerate(AMOUNTS):
                    sum_[at] += row.get(name, 0)
        return [UsageSum(key, Amounts(*sums[key])) for key in sorted(sums) if any(sums[key])]

    def first_used(self, since: int, until: int, cluster: str | None = None) -> int | None:
        with _told(self._where):
            found = self._db[USAGE].find_one(documents.used(since, until, cluster), sort=[("day", 1)])
            return None if found is None else int(found["day"])

    def nodes(self, cluster: str) -> list[KeptNode]:
        with _told(self._where):
            found = self._db[NODES].find({"cluster": cluster}, sort=[("name", 1)])
            return [documents.to_node(one) for one in found]

    def node_changes(self, cluster: str, since: int, until: int, node: str | None = None) -> list[NodeChange]:
        asked: Document = {"cluster": cluster, "time": {"$gte": since, "$lt": until}}
        if node is not None:
            asked["node"] = node
        with _told(self._where):
            found = self._db[CHANGES].find(asked, sort=[("time", 1), ("node", 1)])
            return [documents.to_change(one) for one in found]

    def points(self, cluster: str, partition: str | None, step: int, since: int, until: int) -> list[Point]:
        asked: Document = {"cluster": cluster, "step": step, "time": {"$gte": since, "$lt": until}}
        if partition is not None:
            asked["partition"] = partition
        with _told(self._where):
            found = self._db[TOTALS].find(asked, sort=[("time", 1), ("partition", 1)])
            return [documents.to_point(one) for one in found]

    def spans(self, cluster: str) -> list[Span]:
        with _told(self._where):
            return documents.to_spans(self._db[SPANS].find_one({"_id": documents.joined(cluster)}))

    def clusters(self) -> list[str]:
        with _told(self._where):
            return sorted(one["_id"] for one in self._db[WRITERS].find({"batch": {"$gt": 0}}, {"_id": 1}))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def forget(self, kind: str, before: int) -> int:
        if kind == "jobs":
            where, asked = JOBS, {"submitted": {"$lt": before}, "open": False, "end_time": {"$lt": before}}
        elif kind == "series":
            where, asked = SERIES, {"last": {"$lt": before}}
        elif kind == "usage":
            where, asked = USAGE, {"day": {"$lt": before // DAY}}
        elif kind in KINDS:
            # the clusters are named for the sake of the indexes, which begin with them
            where, asked = CHANGES, {"cluster": {"$in": self.clusters()}, "time": {"$lt": before}}
            if kind in _STEPS:
                where, asked = TOTALS, asked | {"step": _STEPS[kind]}
        else:
            raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
        with _told(self._where):
            if kind == "jobs":  # before it is true: better to think that some are missing that are there
                self._db[META].update_one({"_id": "forgotten"}, {"$max": {"time": before}}, upsert=True)
            count = self._db[where].delete_many(asked).deleted_count
            if kind == "jobs":  # what is left over if this is cut short goes the next time
                for name in (MEASURED, SERIES):
                    self._forget_left_over(name, before)
            return count

    def _forget_left_over(self, name: str, before: int) -> None:
        """What was used by jobs that are not there."""
        found = [one["_id"] for one in self._db[name].find({"submitted": {"$lt": before}}, {"_id": 1})]
        for few in some(found):
            there = {one["_id"] for one in self._db[JOBS].find({"_id": {"$in": list(few)}}, {"_id": 1})}
            self._db[name].delete_many({"_id": {"$in": [one for one in few if one not in there]}})

    def forgotten(self) -> int:
        with _told(self._where):
            found = self._db[META].find_one({"_id": "forgotten"})
        return found["time"] if found else 0

    def stats(self) -> Stats:
        with _told(self._where):
            counts = {name: self._db[name].count_documents({}) for name in _COUNTED}
            first = self._db[JOBS].find_one(sort=[(name, -order) for name, order in documents.ORDER])
            last = self._db[JOBS].find_one(sort=documents.ORDER)
            size = self._db.command("dbStats").get("totalSize")
            schema = self._db[META].find_one({"_id": "schema"})
        return Stats(
            self._where,
            schema["number"] if schema else 0,
            None if size is None else int(size),
            counts,
            tuple(self.clusters()),
            first["submitted"] if first else None,
            last["submitted"] if last else None,
        )

    def check(self) -> list[str]:
        found = []
        with _told(self._where):
            for cluster in leftovers(self._db):
                found.append(
                    f"{cluster}: a writer died while it wrote; the next one that writes for this cluster ends its work"
                )
            wrong = self._db[USAGE].count_documents({"$or": [{name: {"$lt": 0}} for name in AMOUNTS]})
            if wrong:
                found.append(f"{wrong} sums of usage are below zero: `slurmscope store rebuild` makes them anew")
            strange = [
                one["_id"]
                for name in (JOBS, MEASURED, SERIES)
                for one in self._db[name].find({}, {"cluster": 1, "id": 1, "submitted": 1})
                if one["_id"] != document_id(one["cluster"], one["id"], one["submitted"])
            ]
        return found + [f"{one}: a job's document of this name tells of another job" for one in strange[:20]]

    def vacuum(self) -> None:
        for name in documents.INDEXES:
            try:
                with _told(self._where):
                    self._db.command("compact", name)
            except Unreachable:
                raise
            except StoreError:
                return  # a server that has no such command gives room back by itself, or never

    def backup(self, path: str, progress: Progress = lambda done, of: None) -> None:
        """Into a file of SQLite. Writers wait meanwhile: there is no other way to have all as of one moment."""
        target = Path(path).resolve()  # a link stays one
        backups.refuse(target)
        part = target.with_name(f"{target.name}.part")
        try:
            backups.clear(part)
        except OSError as error:
            raise StoreError(f"{target}: cannot be written: {error.strerror}: name another place") from error
        with ExitStack() as leases:
            for cluster in self.clusters():
                leases.enter_context(self.writing(cluster))
            made = SqliteStore(part)
            try:
                copy(self, made, progress)
                made.vacuum()
            except BaseException:
                made.close()
                backups.clear(part)
                raise
            made.close()
        part.replace(target)

    def close(self) -> None:
        self._client.close()
