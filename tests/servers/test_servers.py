# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Each server starts, keeps what it is given over a stop or a kill, and ends with the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymongo
import pytest
from processes import gone
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import OperationFailure, PyMongoError
from servers.process import HERE, Elsewhere, Server

Show = Callable[[Server], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Say which server it is, whatever becomes of the test."""

    def say(server: Server) -> None:
        with capsys.disabled():
            print(f"\n{server.name} {server.version}".rstrip())

    return say


def test_mongodb_keeps_its_data(mongodb: Server, show: Show) -> None:
    show(mongodb)
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(mongodb.url, serverSelectionTimeoutMS=2000)
    with client:
        jobs = client.servers_keep.jobs
        jobs.drop()
        jobs.insert_one({"_id": "1", "state": "RUNNING"})
        with mongodb.stopped(), pytest.raises(PyMongoError):
            jobs.find_one()
        assert jobs.find_one() == {"_id": "1", "state": "RUNNING"}
        jobs.update_one({"_id": "1"}, {"$set": {"state": "COMPLETED"}})
        mongodb.kill()
        mongodb.start()
        assert jobs.find_one() == {"_id": "1", "state": "COMPLETED"}


def test_mongodb_wants_a_password(mongodb: Server) -> None:
    if isinstance(mongodb, Elsewhere):
        pytest.skip("another's server may need none")
    for other in (mongodb.url.replace("secret", "wrong"), mongodb.url.replace("tester:secret@", "")):
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(other, serverSelectionTimeoutMS=2000)
        with client, pytest.raises(OperationFailure, match="uthentication"):
            client.servers.jobs.find_one()


def test_mongodb_writes_as_the_store_does(mongodb: Server) -> None:
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(mongodb.url, serverSelectionTimeoutMS=2000)
    with client:
        jobs = client.servers_writes.jobs
        jobs.drop()
        first = jobs.bulk_write([_count(n) for n in range(0, 600, 2)], ordered=False)
        second = jobs.bulk_write([_count(n) for n in range(600)], ordered=False)
        assert (first.upserted_count, second.upserted_count, second.modified_count) == (300, 300, 300)
        assert sorted(second.upserted_ids or {}) == list(range(1, 600, 2))
        assert jobs.find_one({"_id": "2"}) == {"_id": "2", "seen": 2, "first": True, "half": 0}
        # among others at the same time, none is lost
        turns = [threading.Thread(target=_turn, args=(mongodb.url,)) for _ in range(4)]
        for turn in turns:
            turn.start()
        for turn in turns:
            turn.join()
        assert jobs.find_one({"_id": "turns"}) == {"_id": "turns", "n": 100}

        assert jobs.create_index([("half", 1), ("seen", -1)]) in jobs.index_information()
        found = jobs.find({"half": {"$gte": 1}, "$or": [{"seen": 1}, {"_id": {"$in": ["2", "4"]}}]}, {"seen": 1})
        assert list(found.sort("_id", -1).limit(2)) == [{"_id": "599", "seen": 1}, {"_id": "597", "seen": 1}]
        groups = jobs.aggregate(
            [
                {"$match": {"half": {"$gte": 0}}},
                {"$group": {"_id": "$half", "n": {"$sum": 1}, "seen": {"$sum": "$seen"}}},
            ]
        )
        assert sorted(groups, key=lambda group: group["_id"]) == [
            {"_id": 0, "n": 300, "seen": 450},
            {"_id": 1, "n": 300, "seen": 450},
        ]


def _count(n: int) -> UpdateOne:
    change = {"$inc": {"seen": 1}, "$set": {"half": n // 300}, "$setOnInsert": {"first": True}}
    return UpdateOne({"_id": str(n)}, change, upsert=True)


def _turn(url: str) -> None:
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
    with client:
        for _ in range(25):
            client.servers_writes.jobs.find_one_and_update(
                {"_id": "turns"}, {"$inc": {"n": 1}}, upsert=True, return_document=ReturnDocument.AFTER
            )


def test_a_server_ends_with_the_tests_though_they_are_killed(mongodb: Server, tmp_path: Path) -> None:
    if isinstance(mongodb, Elsewhere):
        pytest.skip("nothing was started")
    program = (
        "import pathlib, sys, time\nfrom servers.mongodb import MongoDB\nserver = MongoDB(pathlib.Path(sys.argv[1]))\n"
        "server.start()\nprint(server.pid, flush=True)\ntime.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    tests = subprocess.Popen([sys.executable, "-c", program, tmp_path], env=environment, stdout=subprocess.PIPE)
    assert tests.stdout is not None
    pid = int(tests.stdout.readline())
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    assert gone(pid)
