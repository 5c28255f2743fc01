# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the SQLite store."""

from __future__ import annotations

import sqlite3

import msgspec

from slurmscope.store import migrations
from slurmscope.store.migrations import Script
from slurmscope.store.shapes import Shapes
from slurmscope.store.transaction import Transaction, life

APPLICATION_ID = 0x534C7363
"""Marks a file as ours ("SLsc"), for `file` and for us."""

_AT_ONCE = 5000

_LIVES = """
CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE clusters (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE jobs (
    cluster INTEGER NOT NULL, id INTEGER NOT NULL, submit INTEGER NOT NULL,
    array INTEGER,
    user TEXT NOT NULL, account TEXT NOT NULL, partition TEXT NOT NULL, state TEXT NOT NULL,
    end INTEGER, -- NULL: it has not ended
    life BLOB NOT NULL,
    UNIQUE (cluster, id, submit)
);
CREATE INDEX jobs_array ON jobs (cluster, array) WHERE array IS NOT NULL;
CREATE INDEX jobs_user ON jobs (user, submit);
CREATE INDEX jobs_account ON jobs (account, submit);
CREATE INDEX jobs_submit ON jobs (submit);
CREATE INDEX jobs_open ON jobs (cluster) WHERE end IS NULL;
CREATE TABLE nodes (
    cluster INTEGER NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL, since INTEGER NOT NULL, node BLOB NOT NULL,
    PRIMARY KEY (cluster, name)
) WITHOUT ROWID;
CREATE TABLE node_changes (
    cluster INTEGER NOT NULL, node TEXT NOT NULL, time INTEGER NOT NULL, change BLOB NOT NULL,
    PRIMARY KEY (cluster, node, time)
) WITHOUT ROWID;
CREATE INDEX node_changes_time ON node_changes (cluster, time);
CREATE TABLE usage (
    day INTEGER NOT NULL, cluster INTEGER NOT NULL,
    account TEXT NOT NULL, user TEXT NOT NULL, partition TEXT NOT NULL, qos TEXT NOT NULL, gpu_type TEXT NOT NULL,
    submitted INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL,
    completed INTEGER NOT NULL, failed INTEGER NOT NULL, timed_out INTEGER NOT NULL, cancelled INTEGER NOT NULL,
    other INTEGER NOT NULL,
    wait_seconds INTEGER NOT NULL, cpu_seconds INTEGER NOT NULL, gpu_seconds INTEGER NOT NULL,
    memory_mib_seconds INTEGER NOT NULL, cpu_used_ms INTEGER NOT NULL, cpu_known_seconds INTEGER NOT NULL,
    memory_used_mib_seconds INTEGER NOT NULL, memory_known_mib_seconds INTEGER NOT NULL,
    energy_joules INTEGER NOT NULL,
    PRIMARY KEY (day, cluster, account, user, partition, qos, gpu_type)
) WITHOUT ROWID;
CREATE TABLE shapes (number INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE);
CREATE TABLE points (
    cluster INTEGER NOT NULL, step INTEGER NOT NULL, partition TEXT NOT NULL, time INTEGER NOT NULL,
    samples INTEGER NOT NULL, shape INTEGER NOT NULL, amounts BLOB NOT NULL,
    PRIMARY KEY (cluster, step, partition, time)
) WITHOUT ROWID;
CREATE TABLE spans (
    cluster INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, PRIMARY KEY (cluster, start)
) WITHOUT ROWID;
"""

_MEASURED = """
CREATE TABLE measured (
    cluster INTEGER NOT NULL, id INTEGER NOT NULL, submit INTEGER NOT NULL,
    source TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    coverage REAL, cpu_seconds REAL, cpu_share REAL, memory_peak INTEGER, memory_share REAL,
    read_bytes INTEGER, written_bytes INTEGER, gpu_share REAL, gpu_energy INTEGER,
    summary BLOB NOT NULL,
    UNIQUE (cluster, id, submit)
);
CREATE INDEX measured_submit ON measured (submit);
CREATE TABLE series (
    cluster INTEGER NOT NULL, id INTEGER NOT NULL, submit INTEGER NOT NULL,
    last INTEGER NOT NULL, -- the time of the last sample
    course BLOB NOT NULL,
    UNIQUE (cluster, id, submit)
);
CREATE INDEX series_submit ON series (submit);
CREATE INDEX series_last ON series (last);
"""

# A job's name is in its life, too: here it is to be found by it.
_ASKED_BY_REPORTS = """
ALTER TABLE usage ADD COLUMN gpu_used_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN gpu_known_seconds INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE jobs SET name = name_of(life);
CREATE INDEX jobs_name ON jobs (user, name, submit);
CREATE INDEX jobs_end ON jobs (cluster, end) WHERE end IS NOT NULL;
CREATE INDEX jobs_cluster ON jobs (cluster, submit);
"""

# Small columns stand before the life, which may be long. What few lives differ in, and names, which many share, are
# numbers of tables of their own: so the indexes by them are small, and a part of a name is looked for in few.
_ASKED_BY_PAGES = """
CREATE TABLE classes (
    number INTEGER PRIMARY KEY,
    cluster INTEGER NOT NULL, partition TEXT NOT NULL, qos TEXT NOT NULL, state TEXT NOT NULL,
    gpu_types TEXT NOT NULL, -- a list, as JSON
    UNIQUE (cluster, partition, qos, state, gpu_types)
);
CREATE TABLE names (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    lowered TEXT -- NULL: as it is
);
CREATE TABLE people (
    cluster INTEGER NOT NULL, account TEXT NOT NULL, user TEXT NOT NULL, PRIMARY KEY (cluster, account, user)
) WITHOUT ROWID;
CREATE TABLE job_nodes (
    cluster INTEGER NOT NULL, node TEXT NOT NULL, submit INTEGER NOT NULL, fold INTEGER NOT NULL, id INTEGER NOT NULL,
    PRIMARY KEY (cluster, node, submit, fold, id)
) WITHOUT ROWID;
CREATE TABLE job_findings (
    cluster INTEGER NOT NULL, rule TEXT NOT NULL, submit INTEGER NOT NULL, fold INTEGER NOT NULL, id INTEGER NOT NULL,
    PRIMARY KEY (cluster, rule, submit, fold, id)
) WITHOUT ROWID;
ALTER TABLE clusters ADD COLUMN judged INTEGER NOT NULL DEFAULT 0;
DROP INDEX jobs_array;
DROP INDEX jobs_user;
DROP INDEX jobs_account;
DROP INDEX jobs_submit;
DROP INDEX jobs_open;
DROP INDEX jobs_name;
DROP INDEX jobs_end;
DROP INDEX jobs_cluster;
ALTER TABLE jobs RENAME TO older_jobs;
CREATE TABLE jobs (
    cluster INTEGER NOT NULL, id INTEGER NOT NULL, submit INTEGER NOT NULL,
    array INTEGER,
    fold INTEGER NOT NULL, -- the array, or else the id
    class INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, name INTEGER NOT NULL,
    tasks INTEGER NOT NULL, eligible INTEGER NOT NULL,
    started INTEGER, -- NULL: it never did
    end INTEGER, -- NULL: it has not ended
    cpus INTEGER NOT NULL, gpus INTEGER NOT NULL, memory INTEGER,
    findings TEXT, -- a list, as JSON; NULL: it was not judged
    life BLOB NOT NULL,
    UNIQUE (cluster, id, submit)
);
"""

# … made when the table is full, which is faster.
_INDEXES = """
DROP TABLE older_jobs;
CREATE INDEX jobs_array ON jobs (cluster, array, submit, class, tasks, user, account, end, name, id)
    WHERE array IS NOT NULL;
CREATE INDEX jobs_user ON jobs (cluster, user, submit, fold, id);
CREATE INDEX jobs_account ON jobs (cluster, account, submit, fold, id);
CREATE INDEX jobs_cluster ON jobs (cluster, submit, fold, id);
CREATE INDEX jobs_class ON jobs (class, submit, fold, id);
CREATE INDEX jobs_name ON jobs (name, cluster, user, submit, fold, id);
CREATE INDEX jobs_open ON jobs (cluster, submit, fold, id) WHERE end IS NULL;
CREATE INDEX jobs_end ON jobs (cluster, end, submit, fold, id) WHERE end IS NOT NULL;
CREATE INDEX usage_user ON usage (user, day);
CREATE INDEX usage_account ON usage (account, day);
"""


def _refill(db: sqlite3.Connection) -> None:
    """Every life again, with what it is looked for by."""
    for number, cluster in db.execute("SELECT number, name FROM clusters").fetchall():
        rows = db.execute("SELECT life FROM older_jobs WHERE cluster = ? ORDER BY rowid", (number,))
        while some := rows.fetchmany(_AT_ONCE):
            Transaction(db, cluster, number, Shapes()).put_new([life(data) for (data,) in some])


MIGRATIONS: tuple[Script, ...] = (
    _LIVES,
    _MEASURED,
    _ASKED_BY_REPORTS,
    (_ASKED_BY_PAGES, _refill, _INDEXES),
)


class _Named(msgspec.Struct, array_like=True):
    """The first fields of a life, as it is kept: what follows is not looked at."""

    id: int
    array_id: int | None
    array_tasks: str | None
    tasks: int
    name: str


_named = msgspec.msgpack.Decoder(_Named).decode


def migrate(db: sqlite3.Connection, where: str) -> None:
    """Raises StoreError."""
    db.create_function("name_of", 1, lambda life: _named(life).name)
    if migrations.migrate(db, where, MIGRATIONS, APPLICATION_ID, "let store.url name a file of its own"):
        learn(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log has become as large as the file


def learn(db: sqlite3.Connection) -> None:
    """Lets SQLite look at what is in the tables, without which it takes bad ways through them."""
    db.execute("PRAGMA analysis_limit = 1000")
    db.execute("ANALYZE")
    # by these a question about a whole cluster would be answered for each of its people, one after the other
    db.execute("UPDATE sqlite_stat1 SET stat = stat || ' noskipscan' WHERE idx IN ('usage_user', 'usage_account')")
    db.execute("ANALYZE sqlite_schema")  # which reads that
