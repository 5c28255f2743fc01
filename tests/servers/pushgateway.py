# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Prometheus' Pushgateway, of Debian's package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
from servers.process import Server, program


class Pushgateway(Server):
    """It writes down what it was given at a stop, and within a second while it runs."""

    name = "Pushgateway"

    def command(self) -> Sequence[str | Path]:
        return [
            program("prometheus-pushgateway", "prometheus-pushgateway"),
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--persistence.file={self.folder}/kept",
            "--persistence.interval=1s",
        ]

    def look(self) -> str:
        status = httpx.get(f"{self.url}/api/v1/status").raise_for_status().json()
        return str(status["data"]["build_information"]["version"])
