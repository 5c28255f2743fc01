# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of notices.db."""

from __future__ import annotations

import sqlite3

from slurmscope.store import migrations

APPLICATION_ID = 0x534C6E6F
"""Marks a file as ours ("SLno")."""

_FIRST = """
CREATE TABLE notices (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL, person TEXT NOT NULL, recipient TEXT NOT NULL, rule TEXT NOT NULL, cluster TEXT NOT NULL,
    job TEXT NOT NULL, time INTEGER NOT NULL, subject TEXT NOT NULL,
    state TEXT NOT NULL, attempts INTEGER NOT NULL, next_try INTEGER NOT NULL,
    changed INTEGER NOT NULL, -- when it came into its state
    first_try INTEGER, -- when it was first tried to send it
    work TEXT NOT NULL, accounts TEXT NOT NULL, partitions TEXT NOT NULL, -- the last two as JSON
    message BLOB -- until it is sent
) WITHOUT ROWID;
CREATE INDEX notices_due ON notices (next_try) WHERE state IN ('queued', 'handed');
CREATE INDEX notices_person ON notices (person, rule, time);
CREATE INDEX notices_changed ON notices (changed);
CREATE TABLE notice_rules (
    notice TEXT NOT NULL, rule TEXT NOT NULL, PRIMARY KEY (notice, rule) -- all that it tells of
) WITHOUT ROWID;
CREATE TABLE opt_outs (person TEXT PRIMARY KEY, time INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE feedback (
    person TEXT NOT NULL, rule TEXT NOT NULL, work TEXT NOT NULL, job TEXT NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (person, rule, work)
) WITHOUT ROWID;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, event TEXT NOT NULL,
    person TEXT NOT NULL, kind TEXT NOT NULL, rule TEXT NOT NULL, cluster TEXT NOT NULL, job TEXT NOT NULL,
    notice TEXT NOT NULL, why TEXT NOT NULL
);
CREATE INDEX audit_person ON audit (person, number);
CREATE INDEX audit_once ON audit (person, job, event, kind, rule);
CREATE INDEX audit_time ON audit (time);
CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

MIGRATIONS = (_FIRST,)


def migrate(db: sqlite3.Connection, where: str) -> None:
    """Raises StoreError."""
    migrations.migrate(db, where, MIGRATIONS, APPLICATION_ID, "move it away")
