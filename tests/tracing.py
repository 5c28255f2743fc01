# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The wrapper as a process, and servers of every kind for it to speak to."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from served import SLURMSCOPE

from slurmscope.trace import wrapper

WRAPPER = Path(wrapper.__file__)
WAYS = {"wrapper.py": [sys.executable, str(WRAPPER)], "slurmscope run": [str(SLURMSCOPE), "run"]}

ABSENT, SLOW, REFUSING, GARBAGE, GOOD = "absent", "slow", "refusing", "garbage", "good"
KINDS = (ABSENT, SLOW, REFUSING, GARBAGE, GOOD)


class Request:
    def __init__(self, head: str, body: bytes) -> None:
        first, *lines = head.split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines if line)}
        self.body = body

    @property
    def samples(self) -> list[dict[str, Any]]:
        found = json.loads(self.body)
        return found if isinstance(found, list) else [found]


class Server(socketserver.ThreadingTCPServer):
    """Answers each request with the next of `answers`, and then always with the last."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100

    def __init__(self, kind: str, port: int = 0) -> None:
        self.kind = kind
        self.requests: list[Request] = []
        self.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"taken": 1}']
        if kind == REFUSING:
            self.answers = [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 12\r\n\r\nwho are you?"]
        if kind == GARBAGE:
            self.answers = [b"\x00\xffSSH-2.0-nonsense\r\n" * 100]
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/trace"

    @property
    def samples(self) -> list[dict[str, Any]]:
        return [sample for request in list(self.requests) for sample in request.samples]

    def answer(self) -> bytes:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self.rfile.readline()
                if not line:
                    return
                head += line
            request = Request(head.decode().rstrip("\r\n"), b"")
            request.body = self.rfile.read(int(request.headers.get("content-length", "0")))
            self.server.requests.append(request)
            if self.server.kind == SLOW:
                self.server.ended.wait()
            else:
                self.wfile.write(self.server.answer())


@contextlib.contextmanager
def server(kind: str = GOOD, port: int = 0) -> Iterator[Server]:
    with Server(kind, port) as found:
        if kind == ABSENT:
            found.server_close()
        else:
            threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield found
        finally:
            found.ended.set()
            if kind != ABSENT:
                found.shutdown()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def environment(url: str = "", **more: str) -> dict[str, str]:
    """Of a job; nothing else is taken over from whoever runs the tests."""
    found = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "SLURMD_NODENAME": "n1", "USER": "alice"}
    found |= {"SLURM_EXPORTER": url} if url else {}
    return found | {"SAMPLE_RATE": "0.2"} | more


def run(
    *command: str, by: list[str] | None = None, env: dict[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    argv = [*(by or WAYS["wrapper.py"]), *command]
    return subprocess.run(
        argv, env=environment() if env is None else env, capture_output=True, text=True, check=False, timeout=60, **more
    )
