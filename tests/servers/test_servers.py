# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Each server starts, keeps what it is given over a stop or a kill, and ends with the tests."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pymongo
import pytest
from botocore.exceptions import EndpointConnectionError
from processes import gone
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import OperationFailure, PyMongoError
from servers.moto import client
from servers.opensearch import GUEST, PASSWORD, Elasticsearch, OpenSearch
from servers.process import HERE, Elsewhere, Server
from servers.proxy import Keyed

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


def test_opensearch_keeps_its_data(opensearch: Elasticsearch, show: Show) -> None:
    show(opensearch)
    with opensearch.client() as client:
        client.put("/servers-keep/_doc/1?refresh=true", json={"state": "RUNNING"}).raise_for_status()
        with opensearch.stopped(), pytest.raises(httpx.TransportError):
            client.get("/")
        assert client.get("/servers-keep/_source/1").json() == {"state": "RUNNING"}
        client.put("/servers-keep/_doc/1?refresh=true", json={"state": "COMPLETED"}).raise_for_status()
        opensearch.kill()
        opensearch.start()
        assert client.get("/servers-keep/_source/1").json() == {"state": "COMPLETED"}


def test_opensearch_takes_bulks_templates_and_streams(opensearch: Elasticsearch) -> None:
    with opensearch.client() as client:
        mappings = {"properties": {"n": {"type": "long"}}}
        plain = {"index_patterns": ["servers-bulk-*"], "template": {"mappings": mappings}, "priority": 500}
        client.put("/_index_template/servers-bulk", json=plain).raise_for_status()
        stream = {"index_patterns": ["servers-stream-*"], "data_stream": {}, "priority": 500}
        client.put("/_index_template/servers-stream", json=stream).raise_for_status()
        client.delete("/servers-bulk-1")
        newer, older = (
            {"index": {"_index": "servers-bulk-1", "_id": "a", "version": v, "version_type": "external"}}
            for v in (5, 4)
        )
        wrong = {"index": {"_index": "servers-bulk-1", "_id": "b"}}
        point = {"create": {"_index": "servers-stream-1"}}
        lines = [newer, {"n": 5}, older, {"n": 4}, wrong, {"n": "x"}, point, {"@timestamp": "2026-01-01T00:00:00Z"}]
        body = "".join(json.dumps(line) + "\n" for line in lines)
        answer = client.post(
            "/_bulk?refresh=true", content=body, headers={"Content-Type": "application/x-ndjson"}
        ).json()
        assert [next(iter(item.values()))["status"] for item in answer["items"]] == [201, 409, 400, 201]
        assert client.get("/servers-bulk-1/_source/a").json() == {"n": 5}
        assert client.get("/_data_stream/servers-stream-1").json()["data_streams"][0]["generation"] == 1


def test_opensearch_knows_its_users(opensearch: Elasticsearch) -> None:
    if not isinstance(opensearch, OpenSearch):
        pytest.skip("another's server has users of its own")
    with opensearch.client() as client:
        assert client.get("/servers-users/_search", auth=("tester", "wrong")).status_code == 401
        assert client.get("/servers-users/_search", auth=(GUEST, PASSWORD)).status_code == 403
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(opensearch.url)


def test_the_proxy_before_opensearch_wants_its_key(opensearch_key: Keyed) -> None:
    trusted = ssl.create_default_context(cafile=opensearch_key.ca)
    with httpx.Client(base_url=opensearch_key.url, verify=trusted) as client:
        right = {"Authorization": f"ApiKey {opensearch_key.key}"}
        for _ in range(2):  # over one connection
            assert client.put("/servers-proxy/_doc/1", json={"n": 1}, headers=right).status_code in (200, 201)
        assert client.get("/servers-proxy/_source/1", headers=right).json() == {"n": 1}
        assert client.get("/servers-proxy/_source/1", headers={"Authorization": "ApiKey d3Jvbmc="}).status_code == 401
        assert client.get("/servers-proxy/_source/1").status_code == 401


def test_cloudwatch_takes_metrics(cloudwatch: Server, show: Show) -> None:
    show(cloudwatch)
    metrics = client(cloudwatch)
    cluster = [{"Name": "cluster", "Value": "lab"}]
    metrics.put_metric_data(Namespace="servers", MetricData=[{"MetricName": "n", "Dimensions": cluster, "Value": 3}])
    found = metrics.list_metrics(Namespace="servers")["Metrics"]
    assert [(metric["MetricName"], metric["Dimensions"]) for metric in found] == [("n", cluster)]
    with cloudwatch.stopped(), pytest.raises(EndpointConnectionError):
        metrics.list_metrics(Namespace="servers")
    assert metrics.list_metrics(Namespace="servers")["Metrics"] == []  # it keeps nothing


def test_pushgateway_keeps_its_data(pushgateway: Server, show: Show) -> None:
    show(pushgateway)
    group = f"{pushgateway.url}/metrics/job/servers"
    httpx.put(group, content="servers_kept 1\n").raise_for_status()
    with pushgateway.stopped(), pytest.raises(httpx.ConnectError):
        httpx.get(pushgateway.url)
    assert 'servers_kept{instance="",job="servers"} 1' in httpx.get(f"{pushgateway.url}/metrics").text
    httpx.delete(group).raise_for_status()


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
