# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of a SQLite file: what users, accounts, nodes, partitions, … are called there, by the beginning."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from slurmscope.store.classes import Class
from slurmscope.store.protocol import NameKind, Sight

LAST = "\U0010ffff"
"""Behind whatever a name may go on with."""
_MOST_LOOKED_AT = 1000  # names of jobs, of which few may be somebody's


def titles(db: sqlite3.Connection, beginning: str, limit: int, used: Callable[[str], bool]) -> list[str]:
    """Names of jobs."""
    query = "SELECT name FROM names WHERE name >= ? AND name < ? ORDER BY name LIMIT ?"
    rows = db.execute(query, (beginning, beginning + LAST, _MOST_LOOKED_AT)).fetchall()
    return list(islice((name for (name,) in rows if used(name)), limit))


def of_classes(
    db: sqlite3.Connection,
    kind: NameKind,
    beginning: str,
    clusters: Mapping[int, str],
    limit: int,
    classes: Iterable[Class],
) -> list[str]:
    """Partitions, QOS and types of GPUs, without those that no life has any more."""
    found: dict[str, list[int]] = {}
    for one in classes:
        values = one.gpu_types if kind == "gpu_type" else (one.partition if kind == "partition" else one.qos,)
        for value in values:
            if one.cluster in clusters and value.startswith(beginning):
                found.setdefault(value, []).append(one.number)

    def used(numbers: Iterable[int]) -> bool:
        return any(db.execute("SELECT 1 FROM jobs WHERE class = ? LIMIT 1", (one,)).fetchone() for one in numbers)

    return list(islice((value for value in sorted(found) if used(found[value])), limit))


def listed(
    db: sqlite3.Connection,
    kind: NameKind,
    beginning: str,
    clusters: Mapping[int, str],
    limit: int,
    sight: Sight | None,
) -> list[str]:
    """Users and accounts, of which all there are of each are kept together; nodes."""
    found: set[str] = set()
    for number, name in clusters.items():
        if kind == "node":
            query = "SELECT name FROM nodes WHERE cluster = ? AND name >= ? AND name < ? ORDER BY name LIMIT ?"
            found.update(one for (one,) in db.execute(query, (number, beginning, beginning + LAST, limit)))
            continue
        used = f"SELECT 1 FROM jobs WHERE cluster = ? AND {kind} = ? LIMIT 1"  # noqa: S608
        values = set()
        for account, user in db.execute("SELECT account, user FROM people WHERE cluster = ?", (number,)):
            value = user if kind == "user" else account
            if value.startswith(beginning) and _seen(sight, name, account, user):
                values.add(value)
        # a life may have changed hands
        own = (value for value in sorted(values) if db.execute(used, (number, value)).fetchone())
        found.update(islice(own, limit))
    return sorted(found)[:limit]


def _seen(sight: Sight | None, cluster: str, account: str, user: str) -> bool:
    return sight is None or user == sight.user or (cluster, account) in sight.accounts
