# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where a backup may be written: where nothing is, or an older one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from slurmscope.store import schema
from slurmscope.store.protocol import StoreError

_BESIDE = ("-wal", "-shm", "-journal")


def refuse(target: Path, store: Path | None = None) -> None:
    """Raises StoreError where a backup would replace something else."""
    if not target.parent.is_dir():
        raise StoreError(f"{target}: its folder is not there: make it, or name another")
    if not target.exists():
        return
    if not target.is_file():
        raise StoreError(f"{target}: is no file: name one for the backup")
    own = [] if store is None else [store, *(store.with_name(store.name + end) for end in _BESIDE)]
    if any(one.exists() and one.samefile(target) for one in own):
        raise StoreError(f"{target}: is the store itself: name another file for the backup")
    if target.stat().st_size and not _ours(target):
        raise StoreError(f"{target}: is there, and is no older backup: name another file")


def _ours(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
            return bool(db.execute("PRAGMA application_id").fetchone()[0] == schema.APPLICATION_ID)
    except sqlite3.Error:
        return False


def clear(path: Path) -> None:
    """A backup that was not finished."""
    for end in ("", *_BESIDE):
        path.with_name(path.name + end).unlink(missing_ok=True)
