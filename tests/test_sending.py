# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope serve` with every sink set up, each a real server that goes away and comes back."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from served import Served, serving
from servers import moto
from servers.moto import CloudWatch
from servers.opensearch import Elasticsearch
from servers.process import Server

from slurmscope.life import Life
from slurmscope.store.protocol import Lives
from slurmscope.store.sqlite import SqliteStore

SETTINGS = """
[poll]
interval = 1
[accounting]
interval = 10
[store]
folder = "{folder}"
[elasticsearch]
url = "{search.url}"
user = "{search.user}"
password = "{search.password}"
ca = "{search.ca}"
prefix = "sending"
history = true
[cloudwatch]
enabled = true
region = "{region}"
endpoint_url = "{cloud.url}"
namespace = "Sending"
interval = 1
[pushgateway]
url = "{push.url}"
job = "sending"
interval = 1
"""
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


def until(what: Callable[[], bool], served: Served, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, served.log.read_text()
        time.sleep(0.3)


def documents(search: Elasticsearch, index: str) -> dict[str, dict[str, object]]:
    with search.client() as client:
        client.post(f"/{index}/_refresh")
        answer = client.get(f"/{index}/_search", params={"size": 5000})
        if answer.status_code == 404:
            return {}
        return {hit["_id"]: hit["_source"] for hit in answer.json()["hits"]["hits"]}


def kept(folder: Path) -> list[Life]:
    store = SqliteStore(folder / "slurmscope.db")
    try:
        return store.lives(Lives(limit=None))
    finally:
        store.close()


def pushed(push: Server) -> str:
    with urllib.request.urlopen(f"{push.url}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def measured(cloud: CloudWatch) -> set[str]:
    found = moto.client(cloud).list_metrics(Namespace="Sending")["Metrics"]
    return {one["MetricName"] for one in found}


def test_all_sinks_at_once(
    tmp_path: Path, opensearch: Elasticsearch, cloudwatch: CloudWatch, pushgateway: Server
) -> None:
    folder = tmp_path / "state"
    settings = SETTINGS.format(folder=folder, region=moto.REGION, search=opensearch, cloud=cloudwatch, push=pushgateway)
    with serving(tmp_path, settings, **KEYS) as served:
        served.wait()
        until(lambda: len(documents(opensearch, "sending-jobs")) > 40, served)
        until(lambda: "slurm_up" in pushed(pushgateway), served)
        until(lambda: "slurm_node_idle" in measured(cloudwatch), served)
        assert len(documents(opensearch, "sending-nodes")) == 6
        assert served.get("/readyz")[2] == b"ready\n"

        with opensearch.stopped(), cloudwatch.stopped(), pushgateway.stopped():
            squeue = tmp_path / "bin" / "squeue"
            squeue.write_text(
                squeue.read_text().replace("squeue.txt |", 'squeue.txt | sed "s/|RUNNING|/|SUSPENDED|/" |')
            )
            until(lambda: served.get("/readyz")[2].decode().count(",") == 2, served)
            page = served.get("/metrics/slurmscope")[2].decode()
            for sink in ("elasticsearch", "cloudwatch", "pushgateway"):
                assert f'sink="{sink}"}} 0' in next(
                    line for line in page.splitlines() if line.startswith("slurm_sink_up{") and sink in line
                )
        until(lambda: served.get("/readyz")[2] == b"ready\n", served, 200)
        until(lambda: "slurm_up" in pushed(pushgateway), served)
        until(lambda: "slurm_node_idle" in measured(cloudwatch), served)
    found = documents(opensearch, "sending-jobs")
    lives = kept(folder)
    assert found.keys() == {life.document_id for life in lives}, "the same identity in every sink"
    assert any(life.state == "SUSPENDED" for life in lives), "which happened while nobody took it"
    for life in lives:
        assert found[life.document_id]["state"] == life.state
        assert found[life.document_id].get("end_time") == life.end_time
    events = documents(opensearch, "sending-history")
    assert len([one for one in events.values() if one.get("kind") != "node"]) >= len(lives)
