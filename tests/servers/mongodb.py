# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""FerretDB, which speaks MongoDB's protocol, with its data in SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymongo
from servers.process import Server, built

USER, PASSWORD = "tester", "secret"


class MongoDB(Server):
    """It wants a user and a password, by SCRAM-SHA-256 or -1."""

    name = "FerretDB"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        self._program = built("ferretdb") / "ferretdb"
        (folder / "data").mkdir(exist_ok=True)

    @property
    def url(self) -> str:
        return f"mongodb://{USER}:{PASSWORD}@127.0.0.1:{self.port}/"

    def command(self) -> Sequence[str | Path]:
        return [self._program]

    def environment(self) -> Mapping[str, str]:
        settings = {
            "HANDLER": "sqlite",
            # nothing here outlives the machine, so that nothing need wait for its disk
            "SQLITE_URL": f"file:{self.folder}/data/?_pragma=synchronous(off)",
            "STATE_DIR": str(self.folder),
            "LISTEN_ADDR": f"127.0.0.1:{self.port}",
            "DEBUG_ADDR": "-",
            "TELEMETRY": "disable",
            "LOG_LEVEL": "WARN",
            "TEST_ENABLE_NEW_AUTH": "true",
            "SETUP_DATABASE": "admin",
            "SETUP_USERNAME": USER,
            "SETUP_PASSWORD": PASSWORD,
        }
        return {f"FERRETDB_{name}": value for name, value in settings.items()}

    def look(self) -> str:
        return version(self.url)


def version(url: str) -> str:
    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url, serverSelectionTimeoutMS=500)
    with client:
        client.admin.command("listDatabases")  # which, unlike the next, needs the user
        info = client.server_info()
        if own := info.get("ferretdbVersion"):
            return f"{own} (as MongoDB {info['version']})"
        return str(info["version"])
