# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A Prometheus of Debian's package that scrapes one address every second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
from servers.process import Server, program


class Prometheus(Server):
    """It keeps its data over a stop."""

    name = "Prometheus"

    def __init__(self, folder: Path, target: str) -> None:
        super().__init__(folder)
        (folder / "prometheus.yml").write_text(
            "scrape_configs:\n"
            "  - job_name: agents\n    honor_labels: true\n    scrape_interval: 1s\n    scrape_timeout: 1s\n"
            f'    static_configs: [{{targets: ["{target}"]}}]\n'
        )

    def command(self) -> Sequence[str | Path]:
        return [
            program("prometheus", "prometheus"),
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def look(self) -> str:
        httpx.get(f"{self.url}/-/ready").raise_for_status()
        return str(httpx.get(f"{self.url}/api/v1/status/buildinfo").raise_for_status().json()["data"]["version"])
