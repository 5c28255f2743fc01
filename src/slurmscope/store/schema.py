# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of the SQLite store, as numbered migrations: `user_version` says how many of them a file has had."""

from __future__ import annotations

APPLICATION_ID = 0x534C7363
"""Marks a file as ours ("SLsc"), for `file` and for us."""

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

MIGRATIONS = (_LIVES, _MEASURED)
"""Never changed once they were released; what is new is a new one at the end."""
