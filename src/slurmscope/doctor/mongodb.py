# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A store in MongoDB: whether we get there and are let in, whose database it is, and whether we may write."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import ConfigurationError, ConnectionFailure, OperationFailure, PyMongoError

from slurmscope.doctor.finding import Wrong
from slurmscope.doctor.kept import last_job
from slurmscope.store.document_schema import MIGRATIONS
from slurmscope.store.documents import JOBS, META, ORDER
from slurmscope.store.url import DOCTOR, MongoPlace

_MILLISECONDS = 4000
_AUTHENTICATION, _OUT_OF_DISK = 18, 14031
_UNAUTHORIZED = (13, 8000)


class _Place(MongoPlace):
    def said(self, error: PyMongoError) -> str:
        """The first words: a driver goes on with all that it knows of the servers."""
        return re.split(r", Timeout:| \(configured timeouts:|, full error:", str(error))[0] if self.plain else "…"

    def grant(self) -> str:
        role = f'{{role: "readWrite", db: "{self.database}"}}'
        return f'`db.grantRolesToUser("{self.user or "USER"}", [{role}])` in mongosh, in the database of that user'


def look(url: str) -> str:
    """Blocking. Raises Wrong."""
    place = _Place(url)
    options: Any = dict.fromkeys(("serverSelectionTimeoutMS", "connectTimeoutMS", "socketTimeoutMS"), _MILLISECONDS)
    with _told(place):
        client: MongoClient[dict[str, Any]] = MongoClient(url, appname="slurmscope doctor", **options)
        with client:
            return _looked(place, client.get_database(place.database))


def _looked(place: _Place, database: Database[dict[str, Any]]) -> str:
    known = len(MIGRATIONS)
    found = database[META].find_one({"_id": "schema"})
    if found is None and database.list_collection_names():
        raise Wrong(
            f"{place.words} is another program's database", "let store.url name a database of our own: …/slurmscope"
        )
    number = found["number"] if found else 0
    if number > known:
        raise Wrong(
            f"{place.words} has schema {number}, and this slurmscope knows {known}: a newer one has written it",
            "update slurmscope here too, or let store.url name another database",
        )
    _write(place, database)
    if found is None:
        return f"{place.words} is empty and may be written: `slurmscope serve` makes what it needs"
    if number < known:
        return f"{place.words} may be written; it has schema {number}, and `slurmscope serve` brings it to {known}"
    newest = None
    with suppress(PyMongoError):  # a server without the index for it may take too long, and nothing is wrong then
        newest = database[JOBS].find_one(projection={"submitted": 1}, sort=ORDER)
    return (
        f"{place.words} may be read and written: schema {number}, {last_job(newest['submitted'] if newest else None)}"
    )


def _write(place: _Place, database: Database[dict[str, Any]]) -> None:
    """Into a collection that is ours alone, and is gone after it."""
    name = f"{DOCTOR}{secrets.token_hex(6)}"
    database[name].insert_one({"_id": "tried"})
    try:
        database.drop_collection(name)
    except OperationFailure as error:
        raise Wrong(
            f"{place.words}: the collection {name} could be made to try it, and not be removed: {place.said(error)}",
            f"{place.grant()}; then `db.{name}.drop()`",
        ) from None


@contextmanager
def _told(place: _Place) -> Iterator[None]:
    """What the driver raises, with a cure. Nothing is chained: what it says may hold a part of the password."""
    try:
        yield
    except ConnectionFailure as error:
        raise _unreachable(place, place.said(error)) from None
    except OperationFailure as error:
        raise _refused(place, error) from None
    except OSError as error:
        raise Wrong(
            f"{place.words}: a file of certificates that store.url names cannot be used: {error.strerror}",
            "correct tlsCAFile and tlsCertificateKeyFile in the options of store.url",
        ) from None
    except (ConfigurationError, ValueError) as error:
        if "DNS" in str(error):
            raise _unreachable(place, "its name is not known") from None
        raise Wrong(
            "store.url is not an URL of MongoDB's",
            "write mongodb://user:password@host:27017/slurmscope, with what is special in user and password "
            "percent-encoded: @ is %40, : is %3A, / is %2F",
        ) from None
    except PyMongoError as error:
        raise Wrong(f"{place.words}: {place.said(error)}", "the log of the server says more") from None


def _unreachable(place: _Place, said: str) -> Wrong:
    words = f"{place.words} cannot be reached: {said}"
    if "certificate verify failed" in said.lower() or "CERTIFICATE_VERIFY_FAILED" in said:
        return Wrong(words, "add tlsCAFile=/path/to/ca.pem to the options of store.url: who signed its certificate")
    return Wrong(
        words, "start the server (`systemctl status mongod` on its host), or correct host and port in store.url"
    )


def _refused(place: _Place, error: OperationFailure) -> Wrong:
    if error.code == _AUTHENTICATION:
        return Wrong(
            f"{place.words} refuses the user or the password",
            "correct them in store.url, what is special in them percent-encoded; a user that was made in another "
            "database needs that one named: …?authSource=admin",
        )
    if error.code in _UNAUTHORIZED:
        if not place.user:
            return Wrong(f"{place.words} wants to know who we are", "set store.url = mongodb://user:password@host/…")
        return Wrong(f"{place.words}: the user may not do this: {place.said(error)}", place.grant())
    if error.code == _OUT_OF_DISK:
        return Wrong(f"{place.words}: the server's disk is full", "make room there, or let store.url name another one")
    return Wrong(f"{place.words}: {place.said(error)}", "the log of the server says more")
