# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Agents of a test: reports with known numbers, and how they are sent."""

from __future__ import annotations

import contextlib
import gzip
import http.client
from typing import Any

import msgspec
from served import Served

from slurmscope.auth import hash_token
from slurmscope.measure import Measure, Report

TOKEN = "long-and-random"
AGENTS = f'[poll]\ninterval = 1\n[agents]\nenabled = true\ntokens = ["{hash_token(TOKEN)}"]\n'
MIB = 1 << 20


def measure(job: int, at: float, **more: Any) -> Measure:
    """What a job of which two of four cores are in use has, `at` seconds after it began."""
    told: dict[str, Any] = {
        "job": job,
        "user": "somebody",
        "account": "else",
        "cpus": 4,
        "cpu_seconds": 2.0 * at,
        "anonymous": 600 * MIB,
        "shared": 40 * MIB,
        "peak": 1000 * MIB,
        "limit": 1280 * MIB,
        "read_bytes": int(1000 * at),
        "written_bytes": int(500 * at),
        "processes": 3,
        "threads": 9,
    }
    return Measure(**told | more)


def report(node: str, time: float, *jobs: Measure, cluster: str = "lab24", **more: Any) -> Report:
    return Report(cluster=cluster, node=node, time=time, seconds=0.01, jobs=jobs, **more)


def post(
    served: Served,
    body: object,
    *,
    token: str | None = TOKEN,
    packed: bool = False,
    path: str = "/agent",
    **headers: str,
) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if packed:
        data, headers["content_encoding"] = gzip.compress(data), "gzip"
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it answers before it has read all
            connection.request("POST", path, data, named)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read().decode()
        except http.client.IncompleteRead:  # it closed, with some of what was sent unread
            return answer.status, ""
