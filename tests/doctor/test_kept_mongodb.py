# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A store in a server that speaks MongoDB's protocol."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from doctor.patients import examined, keeping, of
from pymongo.errors import OperationFailure
from servers.process import Server
from sinks import made

from slurmscope.doctor import mongodb as looks
from slurmscope.doctor.finding import Check, Finding, Status, Wrong
from slurmscope.settings import Store
from slurmscope.store.document_schema import MIGRATIONS
from slurmscope.store.mongodb import open_mongodb

PASSWORD = "se%2Fam%40hush"


def looked(url: str) -> Finding:
    started = time.monotonic()
    found = of(examined(keeping(store=Store(url=url))), Check.STORE)
    assert time.monotonic() - started < 120
    return found


@pytest.fixture
def name() -> str:
    return f"doctor_{secrets.token_hex(6)}"


@pytest.fixture
def url(mongodb: Server, name: str) -> str:
    return f"{mongodb.url}{name}?authSource=admin"


@pytest.fixture
def database(url: str, name: str) -> Iterator[pymongo.database.Database[dict[str, Any]]]:
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        yield client[name]
        client.drop_database(name)


Database = pymongo.database.Database[dict[str, Any]]


def shown(url: str) -> str:
    return url.replace(":secret", "").partition("?")[0]


def test_an_empty_database(url: str, database: Database) -> None:
    found = looked(url)
    assert (found.status, found.next_step) == (Status.OK, "")
    assert found.message == f"{shown(url)} is empty and may be written: `slurmscope serve` makes what it needs"
    assert database.list_collection_names() == []
    open_mongodb(url).close()  # it is still nobody's


def test_a_store_that_is_well(url: str, database: Database) -> None:
    store = open_mongodb(url)
    there = set(database.list_collection_names())
    ready = f"{shown(url)} may be read and written: schema {len(MIGRATIONS)}, "
    assert looked(url).message == f"{ready}no job yet"
    with store.writing("alpha") as writer:
        writer.put_lives([made.pending(1, submit_time=int(time.time()) - 200)])
    store.close()
    there |= set(database.list_collection_names())
    found = looked(url)
    assert (found.status, found.message) == (Status.OK, f"{ready}the last job was submitted 3 minutes ago")
    assert set(database.list_collection_names()) == there


def test_schemas(url: str, database: Database) -> None:
    database["meta"].insert_one({"_id": "schema", "number": 0})
    older = looked(url)
    assert older.status is Status.OK and "it has schema 0, and `slurmscope serve` brings it to " in older.message
    database["meta"].update_one({"_id": "schema"}, {"$set": {"number": 99}})
    newer = looked(url)
    assert newer.status is Status.FAILED and "has schema 99, and this slurmscope knows " in newer.message
    assert newer.next_step == "update slurmscope here too, or let store.url name another database"


def test_another_programs_database(url: str, database: Database) -> None:
    database["theirs"].insert_one({"x": 1})
    found = looked(url)
    assert (found.status, found.message) == (Status.FAILED, f"{shown(url)} is another program's database")
    assert database.list_collection_names() == ["theirs"]


def test_a_wrong_password(mongodb: Server) -> None:
    found = looked(f"{mongodb.url.replace('secret', PASSWORD)}x?authSource=admin")
    assert found.status is Status.FAILED and found.message.endswith("/x refuses the user or the password")
    assert "authSource=admin" in found.next_step
    assert "hush" not in found.message + found.next_step


def test_no_user(mongodb: Server) -> None:
    found = looked(f"mongodb://{mongodb.url.rpartition('@')[2]}x")
    assert found.status is Status.FAILED and found.message.endswith("/x wants to know who we are")


def test_a_server_that_is_away(mongodb: Server) -> None:
    with mongodb.stopped():
        found = looked(f"{mongodb.url}x?authSource=admin&serverSelectionTimeoutMS=600000")
    assert found.status is Status.FAILED and "cannot be reached: 127.0.0.1:" in found.message
    assert "Connection refused" in found.message and "Topology" not in found.message
    assert "correct host and port in store.url" in found.next_step
    assert "secret" not in found.message + found.next_step


def test_no_such_host() -> None:
    found = looked("mongodb://user:hush@nowhere.invalid/x")
    assert found.status is Status.FAILED and "mongodb://user@nowhere.invalid/x cannot be reached" in found.message


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://",
        "mongodb://user:hush@",
        "mongodb://user:hu@sh@host/x",
        "mongodb://user:hush/sh@host/x",
        "mongodb://user:1hush@host:port/x",
        "mongodb://user:%hush@host/x",
        "mongodb+srv://user:hush@host:27017/x",
    ],
)
def test_no_url_of_mongodb(url: str) -> None:
    found = looked(url)
    assert (found.status, found.message) == (Status.FAILED, "store.url is not an URL of MongoDB's")
    assert "percent-encoded" in found.next_step
    assert "hush" not in found.message + found.next_step


@pytest.mark.parametrize("file", ["/nowhere/ca.pem", "/etc/passwd"])
def test_a_file_that_holds_no_certificates(file: str) -> None:
    found = looked(f"mongodb://user:hush@127.0.0.1:9/x?tls=true&tlsCAFile={file}")
    assert found.status is Status.FAILED and "a file of certificates that store.url names" in found.message
    assert "tlsCAFile" in found.next_step


def test_a_password_where_a_host_should_be() -> None:
    found = looked("mongodb://user:1234/hush@host")
    assert (found.status, found.message) == (Status.FAILED, "mongodb://… cannot be reached: …")


@pytest.mark.parametrize(
    ("error", "words", "cure"),
    [
        (OperationFailure("not authorized on x", 13), "the user may not do this: not authorized on x", "readWrite"),
        (OperationFailure("no room", 14031), "the server's disk is full", "make room there"),
        (OperationFailure("odd", 1), "mongodb://alice@h/x: odd", "the log of the server"),
        (
            pymongo.errors.ServerSelectionTimeoutError(
                "SSL handshake failed: h: certificate verify failed, Timeout: 4"
            ),
            "certificate verify failed",
            "tlsCAFile",
        ),
    ],
)
def test_what_only_a_real_mongodb_says(
    error: Exception, words: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise error

    monkeypatch.setattr(looks, "_looked", refuse)
    with pytest.raises(Wrong) as wrong:
        looks.look("mongodb://alice:hush@h/x")
    assert words in str(wrong.value) and cure in wrong.value.next_step


def test_a_collection_that_cannot_be_removed(url: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, name: str) -> None:
        raise OperationFailure("not authorized to drop", 13)

    monkeypatch.setattr(pymongo.database.Database, "drop_collection", refuse)
    found = looked(url)
    (left,) = database.list_collection_names()
    assert found.status is Status.FAILED and f"the collection {left} could be made to try it" in found.message
    assert found.next_step.endswith(f"then `db.{left}.drop()`") and "grantRolesToUser" in found.next_step


def test_no_pymongo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymongo", None)
    found = looked("mongodb://user:hush@h/x")
    assert found.message == "a store in MongoDB needs pymongo, which is not installed"
    assert found.next_step == "`pip install 'slurmscope[mongodb]'`"
