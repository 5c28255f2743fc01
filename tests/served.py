# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A running `slurmscope serve` over recorded answers, as a test holds it."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from recorded import commands

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
Answer = tuple[int, dict[str, str], bytes]


class Served:
    def __init__(self, folder: Path, settings: str = "", **environment: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self.port: int = sock.getsockname()[1]
        config = folder / "slurmscope.toml"
        bin_dir = commands("24.11", folder / "bin")
        config.write_text(f'[slurm]\nbin_dir = "{bin_dir}"\n[serve]\nlisten = "127.0.0.1:{self.port}"\n{settings}\n')
        self.log = folder / "log"
        self.context: ssl.SSLContext | None = None
        self.process = subprocess.Popen(
            [SLURMSCOPE, "serve", "--config", str(config)],
            env={**os.environ, **environment},
            stderr=self.log.open("wb"),
            cwd=folder,
        )

    def get(self, path: str = "/metrics", method: str = "GET", **headers: str) -> Answer:
        connection: http.client.HTTPConnection
        if self.context:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()

    def wait(self) -> Served:
        for _ in range(2400):
            with contextlib.suppress(OSError):
                if self.get("/readyz")[0] == 200:
                    return self
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(folder: Path, settings: str = "", **environment: str) -> Iterator[Served]:
    served = Served(folder, settings, **environment)
    try:
        yield served
    finally:
        assert served.stop() == 0, served.log.read_text()
        assert "Traceback" not in served.log.read_text()
