# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of portal.db."""

from __future__ import annotations

import sqlite3

from slurmscope.store import migrations

APPLICATION_ID = 0x534C706F
"""Marks a file as ours ("SLpo")."""

_FIRST = """
CREATE TABLE accounts (
    name TEXT PRIMARY KEY, hash TEXT NOT NULL, made INTEGER NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY, -- of the cookie's token
    user TEXT NOT NULL, how TEXT NOT NULL,
    made INTEGER NOT NULL, seen INTEGER NOT NULL, expires INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user);
CREATE INDEX sessions_expires ON sessions (expires);
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE, user TEXT NOT NULL, label TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER, expires INTEGER NOT NULL
);
CREATE INDEX tokens_user ON tokens (user, id);
CREATE TABLE attempts (
    key TEXT NOT NULL, time INTEGER NOT NULL -- a wrong password: of a name from an address, from it, of the name
);
CREATE INDEX attempts_key ON attempts (key, time);
CREATE INDEX attempts_time ON attempts (time);
CREATE TABLE known (
    key TEXT PRIMARY KEY, time INTEGER NOT NULL -- one name from one address, when the password was last right
) WITHOUT ROWID;
CREATE INDEX known_time ON known (time);
CREATE TABLE pending (
    hash TEXT PRIMARY KEY, time INTEGER NOT NULL -- of what the browser keeps while its user is at the provider
) WITHOUT ROWID;
CREATE INDEX pending_time ON pending (time);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, who TEXT NOT NULL, address TEXT NOT NULL,
    action TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX audit_time ON audit (time);
CREATE INDEX audit_who ON audit (who, number);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'what was written stays as it is'); END;
"""

MIGRATIONS = (_FIRST,)


def migrate(db: sqlite3.Connection, where: str) -> None:
    """Raises StoreError."""
    migrations.migrate(db, where, MIGRATIONS, APPLICATION_ID, "move it away")
