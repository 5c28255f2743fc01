# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""moto's server, which answers as CloudWatch does. It keeps its data in memory: a stop loses them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from servers.process import Server

REGION = "eu-central-1"


class CloudWatch(Server):
    name = "moto"

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def look(self) -> str:
        httpx.get(f"{self.url}/moto-api/data.json").raise_for_status()
        return version("moto")


def client(server: Server) -> Any:
    """boto3's client of it; any credentials will do."""
    import boto3

    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "secret"}
    return boto3.client("cloudwatch", endpoint_url=server.url, region_name=REGION, **keys)
