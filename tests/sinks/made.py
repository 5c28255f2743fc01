# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs, nodes and servers for the tests of sinks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import msgspec

from slurmscope import life as lives
from slurmscope.life import Life
from slurmscope.model import Job, Node
from slurmscope.sinks.sink import Sink

NOW = 1_700_000_000
NASTY = 'a"b\\c\n{"index":{}}\n\t\x00\x1f\x7f é ☃ \U0001f600 =,|\'; </script> ' + "x" * 1200

JOB = Job(
    id=1,
    array_id=None,
    array_tasks=None,
    tasks=1,
    name="train",
    user="alice",
    account="physics",
    partition="gpu",
    qos="normal",
    state="PENDING",
    reason="Resources",
    priority=4294901759,
    submit_time=NOW,
    eligible_time=NOW,
    start_time=None,
    end_time=None,
    time_limit=3600,
    cpus=8,
    memory=2**34,
    gpus={"a100": 2, "": 1},
    nodes=1,
    node_list="",
    reservation=None,
    dependency=None,
    features=None,
    licenses=None,
    login_node="login1",
    restarts=0,
    exit_code=None,
)
NODE = Node(
    name="n1",
    state="MIXED",
    flags=frozenset({"PLANNED", "CLOUD"}),
    partitions=("gpu", "all"),
    cpus=64,
    cpus_effective=62,
    cpus_allocated=8,
    load=7.5,
    memory=2**38,
    memory_reserved=None,
    memory_allocated=2**34,
    memory_free=2**37,
    gpus={"a100": 4},
    gpus_allocated={"a100": 2},
    weight=1,
    version="24.11.5",
    features=("ib", "a100"),
    boot_time=NOW - 86400,
    reason=None,
    reason_user=None,
    reason_time=None,
)


def job(**changes: object) -> Job:
    return msgspec.structs.replace(JOB, **changes)


def node(**changes: object) -> Node:
    return msgspec.structs.replace(NODE, **changes)


def pending(id_: int, cluster: str = "alpha", **changes: object) -> Life:
    return lives.seen(None, cluster, job(id=id_, **changes), NOW + 1)


def started(life: Life) -> Life:
    now = {"state": "RUNNING", "reason": None, "start_time": NOW + 60, "node_list": "n1"}
    return lives.seen(life, life.cluster, job(id=life.id, name=life.name, **now), NOW + 61)


def ended(life: Life) -> Life:
    now = {"state": "COMPLETED", "reason": None, "start_time": NOW + 60, "node_list": "n1", "end_time": NOW + 120}
    return lives.seen(life, life.cluster, job(id=life.id, name=life.name, **now, exit_code="0:0"), NOW + 121)


@asynccontextmanager
async def running(sink: Sink) -> AsyncIterator[None]:
    """Its loop runs for as long as the block lasts."""
    task = asyncio.create_task(sink.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool], seconds: float = 180) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


class Question(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Reply = tuple[int, dict[str, str], bytes]


@contextmanager
def mock(answer: Callable[[Question], Reply]) -> Iterator[str]:
    """A stand-in server, for answers that a real one cannot be made to give; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, said = answer(Question(self.command, self.path, dict(self.headers), body))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(said))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Not told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
