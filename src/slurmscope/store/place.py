# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where things are kept, as the settings say it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from slurmscope.settings import Store as Settings
from slurmscope.store.private import make_folder
from slurmscope.store.protocol import Store, StoreError, Unreachable
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


def prepared_url(settings: Settings) -> str:
    """The same, with its folder there where it is ours to choose; one that somebody named may be mistyped."""
    if not settings.url:
        with suppress(OSError):  # which is told when it is opened
            make_folder(folder_of(settings))
    return url_of(settings)


def open_store(url: str, *, must_exist: bool = False) -> Store:
    """The store of a URL. Raises StoreError."""
    if url.startswith(("mongodb://", "mongodb+srv://")):
        # only here: most sites do without, and its client takes memory
        from slurmscope.store.mongodb import open_mongodb  # noqa: PLC0415

        return open_mongodb(url)
    path = sqlite_path(url)
    if path is None:
        # what has an @ in it may have a password too
        shown = url if "@" not in url else f"{url.partition(':')[0]}:…"
        raise StoreError(
            f"{shown}: no store that is known; "
            "`sqlite:/path/to/file.db` and `mongodb://user:password@host/database` are"
        )
    from slurmscope.store.sqlite import SqliteStore  # noqa: PLC0415 - for the same reason

    try:
        if path.is_dir():
            raise StoreError(f"sqlite:{path}: is a folder: name a file in it")
        if must_exist and not path.exists():
            demos = [f"; the demo's is sqlite:{one} (SLURMSCOPE_STORE_URL)" for one in path.parent.glob("demo-*.db")]
            raise StoreError(
                f"sqlite:{path}: is not there: `slurmscope serve` or `slurmscope import` makes it{''.join(demos[:1])}"
            )
        if not path.parent.is_dir():
            raise Unreachable(f"sqlite:{path}: its folder is not there: make it, or let store.url name another")
    except OSError as error:
        raise StoreError(f"sqlite:{path}: {error.strerror}: run this as the user of `slurmscope serve`") from error
    return SqliteStore(path)
