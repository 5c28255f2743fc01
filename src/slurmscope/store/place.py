# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where things are kept, as the settings say it."""

from __future__ import annotations

import os
from pathlib import Path

from slurmscope.settings import Store as Settings
from slurmscope.store.protocol import Store, StoreError
from slurmscope.store.url import sqlite_path

NONE = "none"
_FILE = "slurmscope.db"
_SYSTEM = Path("/var/lib/slurmscope")


def folder_of(settings: Settings) -> Path:
    """The folder of what is kept on this machine."""
    if settings.folder:
        return Path(settings.folder)
    if given := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(given)
    if os.access(_SYSTEM, os.W_OK) or (not _SYSTEM.exists() and os.access(_SYSTEM.parent, os.W_OK)):
        return _SYSTEM
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "slurmscope"


def url_of(settings: Settings) -> str:
    return settings.url or f"sqlite:{folder_of(settings) / _FILE}"


def open_store(url: str, *, must_exist: bool = False) -> Store:
    """The store of a URL. Raises StoreError."""
    if url.startswith(("mongodb://", "mongodb+srv://")):
        # only here: most sites do without, and its client takes memory
        from slurmscope.store.mongodb import open_mongodb  # noqa: PLC0415

        return open_mongodb(url)
    path = sqlite_path(url)
    if path is None:
        raise StoreError(
            f"{url.partition(':')[0]}:…: no store that is known; "
            "`sqlite:/path/to/file.db` and `mongodb://user:password@host/database` are"
        )
    from slurmscope.store.sqlite import SqliteStore  # noqa: PLC0415 - for the same reason

    if must_exist and not path.exists():
        raise StoreError(f"sqlite:{path}: is not there: `slurmscope serve` or `slurmscope import` makes it")
    return SqliteStore(path)
