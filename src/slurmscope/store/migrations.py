# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How a SQLite file of ours comes to its latest schema: numbered scripts, of which `user_version` says how many it had.

Scripts are never changed once they were released; what is new is a new one at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from slurmscope.store.protocol import NewerSchema, StoreError

Step = str | Callable[[sqlite3.Connection], None]
Script = Step | tuple[Step, ...]
"""Statements, or what only Python can do, or several of these."""


def migrate(db: sqlite3.Connection, where: str, scripts: Sequence[Script], mark: int, cure: str) -> bool:
    """Brings a file to the latest schema, or leaves it as it was; says whether it had an older one.

    `mark` is its `application_id`, by which it is ours; `cure` is what to do with one that is not. Raises StoreError.
    """
    version, marked, tables = _state(db)
    if version > len(scripts):
        raise NewerSchema(
            f"{where}: has schema {version}, and this slurmscope knows {len(scripts)}: "
            "it was written by a newer one, which is needed here too"
        )
    if marked != mark and tables:
        raise StoreError(f"{where}: is another program's database: {cure}")
    if version == len(scripts):
        return False
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()  # another process may have been quicker
        for number, script in enumerate(scripts[version:], version + 1):
            run(db, script)
            db.execute(f"PRAGMA user_version = {number}")
        db.execute(f"PRAGMA application_id = {mark}")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return bool(version)


def run(db: sqlite3.Connection, script: Script) -> None:
    """Within a transaction, which `executescript` would end."""
    for step in script if isinstance(script, tuple) else (script,):
        if callable(step):
            step(db)
            continue
        for statement in step.split(";\n"):
            db.execute(statement)


def _state(db: sqlite3.Connection) -> tuple[int, int, int]:
    """Version, mark and how many tables, as of one moment: another process may be making them."""
    db.execute("BEGIN")
    try:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (marked,) = db.execute("PRAGMA application_id").fetchone()
    finally:
        db.execute("ROLLBACK")
    return version, marked, tables
