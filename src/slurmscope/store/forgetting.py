# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of a SQLite file: what has been kept for long enough goes, and what nothing refers to any more."""

from __future__ import annotations

import sqlite3

from slurmscope.store import schema
from slurmscope.store.protocol import COARSE, FINE, MIDDLE

FORGOTTEN = "forgotten"
_MARK = """
INSERT INTO marks (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""
_FORGET = {
    "jobs": "DELETE FROM jobs WHERE cluster IN (SELECT number FROM clusters) AND end < ?1 AND submit < ?1",
    "series": "DELETE FROM series WHERE last < ?",
    "node_changes": "DELETE FROM node_changes WHERE time < ?",
    "usage": "DELETE FROM usage WHERE day < ? / 86400",
    **{
        f"totals_{name}": f"DELETE FROM points WHERE step = {step} AND time < ?"  # noqa: S608
        for name, step in (("fine", FINE), ("middle", MIDDLE), ("coarse", COARSE))
    },
}

_LEFT_OVER = [
    f"DELETE FROM {one} WHERE submit < ? AND NOT EXISTS (SELECT 1 FROM jobs "  # noqa: S608
    f"WHERE jobs.cluster = {one}.cluster AND jobs.id = {one}.id AND jobs.submit = {one}.submit)"
    for one in ("measured", "series")
]
_UNUSED = (
    "DELETE FROM names WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.name = names.number)",
    "DELETE FROM people WHERE NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_user "
    "WHERE jobs.cluster = people.cluster AND jobs.user = people.user AND jobs.account = people.account)",
)


def forget(db: sqlite3.Connection, kind: str, before: int) -> int:
    """How many were forgotten."""
    if kind == "jobs":  # before it is true: better to think that some are missing that are there
        db.execute(_MARK, (FORGOTTEN, before))
        schema.learn(db)
    count = db.execute(_FORGET[kind], (before,)).rowcount
    if kind == "jobs":  # what is left over if this is cut short goes the next time
        for statement in _LEFT_OVER:
            db.execute(statement, (before,))
        for table, name in (("job_nodes", "node"), ("job_findings", "rule")):
            _forget_stretches(db, table, name, before)
        for statement in _UNUSED if count else ():
            db.execute(statement)
    return count


def _forget_stretches(db: sqlite3.Connection, table: str, name: str, before: int) -> None:
    """Each node's, or rule's, by itself: what is old stands together there."""
    following = f"SELECT cluster, {name} FROM {table} WHERE (cluster, {name}) > (?, ?) ORDER BY cluster, {name} LIMIT 1"  # noqa: S608
    old = (
        f"DELETE FROM {table} WHERE cluster = ? AND {name} = ? AND submit < ? AND NOT EXISTS (SELECT 1 FROM jobs "  # noqa: S608
        f"WHERE jobs.cluster = {table}.cluster AND jobs.id = {table}.id AND jobs.submit = {table}.submit)"
    )
    at: tuple[int, str] = (0, "")
    while found := db.execute(following, at).fetchone():
        at = found
        db.execute(old, (*at, before))
