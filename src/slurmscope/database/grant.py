# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The view of users and their jobs in slurmdbd's database, and the user who may read it and nothing else.

What is made is made of what is there at the moment: to do it again brings in clusters that have come, lets go of
those that were removed, and changes nothing otherwise.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from slurmscope.database.connection import Connection, DatabaseError

_TABLE = "_job_table"
_MASK = "'********'"
_NO_SUCH_TABLE = 1146
# no accounts, no folders, no scripts: which job is whose, and by which name, number and time people know it
_COLUMNS = ("id_user", "id_job", "id_array_job", "id_array_task", "time_submit")


class Wanted(NamedTuple):
    database: str
    view: str
    user: str
    hosts: tuple[str, ...] = ()
    """From which the user may come."""

    @property
    def place(self) -> str:
        return f"{identifier(self.database)}.{identifier(self.view)}"


class Found(NamedTuple):
    """What there is before anything is made."""

    clusters: tuple[str, ...]
    removed: tuple[str, ...]
    """Those that have jobs, and are no clusters of slurmdbd's any more."""
    hosts: tuple[str, ...]
    """From which the user may come already."""


class Statement(NamedTuple):
    sql: str
    secret: str = ""

    @property
    def shown(self) -> str:
        return self.sql.replace(self.secret, _MASK) if self.secret else self.sql


# --- words of SQL -----------------------------------------------------------------------------------------------------


def identifier(name: str) -> str:
    """A name as SQL has it, whatever is in it. Raises DatabaseError."""
    if not name or "\0" in name:
        raise DatabaseError(f"{name!r}: no name that a database could have")
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as SQL has it, in the mode that `prepared` sets."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


def _account(user: str, host: str) -> str:
    return f"{identifier(user)}@{identifier(host)}"


def prepared() -> list[Statement]:
    """How the server must read what follows: quotes and backslashes mean what they mean here."""
    return [Statement("SET NAMES utf8mb4"), Statement("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")]


def view(wanted: Wanted, clusters: Sequence[str]) -> Statement:
    """The view over these clusters' tables; whoever makes it lends it his own rights to them."""
    jobs = [
        # one order of letters and plain bytes, for the tables of two clusters may differ in their character sets
        f"SELECT _utf8mb4 {literal(cluster)} COLLATE utf8mb4_bin AS `cluster`, "  # noqa: S608
        f"{', '.join(map(identifier, _COLUMNS))}, CAST(`job_name` AS BINARY) AS `job_name`\n"
        f"  FROM {identifier(wanted.database)}.{identifier(cluster + _TABLE)} WHERE `deleted` = 0"
        for cluster in clusters
    ]
    head = f"CREATE OR REPLACE DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW {wanted.place} AS\n"
    return Statement(head + "\nUNION ALL\n".join(jobs))


def new_password() -> str:
    # a letter of each kind, a digit and a sign, as servers may demand
    return f"{secrets.token_urlsafe(24)}.aA1"


# --- what is there ----------------------------------------------------------------------------------------------------


def look(connection: Connection, wanted: Wanted) -> Found:
    """Raises DatabaseError, also where the user is somebody who may do other things."""
    if not connection.rows("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", wanted.database):
        raise DatabaseError(
            f"there is no database {wanted.database}, or this user may not see it: database.name must be "
            "StorageLoc of slurmdbd.conf"
        )
    try:
        rows = connection.rows(f"SELECT name FROM {identifier(wanted.database)}.cluster_table WHERE deleted = 0")  # noqa: S608
    except DatabaseError as error:
        if error.code != _NO_SUCH_TABLE:
            raise
        raise DatabaseError(
            f"{wanted.database} is no database of slurmdbd's, for it has no cluster_table: database.name must be "
            "StorageLoc of slurmdbd.conf"
        ) from error
    tables = connection.rows(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        wanted.database,
    )
    known = {str(name) for (name,) in rows}
    with_jobs = {str(name).removesuffix(_TABLE) for (name,) in tables if str(name).endswith(_TABLE)}
    return Found(
        clusters=tuple(sorted(known & with_jobs)),
        removed=tuple(sorted(with_jobs - known)),
        hosts=_hosts(connection, wanted),
    )


def _hosts(connection: Connection, wanted: Wanted) -> tuple[str, ...]:
    """Where the user is known from. One who may do more was made by others, for something else: he is left alone."""
    rows = connection.rows("SELECT host FROM mysql.user WHERE user = %s AND host <> '' ORDER BY host", wanted.user)
    hosts = tuple(str(host) for (host,) in rows)
    for host in hosts:
        more = [right for right in _rights(connection, wanted.user, host) if right != _right(wanted)]
        if more:
            raise DatabaseError(
                f"the user {wanted.user}@{host} may do more than read {wanted.place} ({'; '.join(more)}), "
                "and so is left alone: let database.user name another, or take that away from him"
            )
    return hosts


def _right(wanted: Wanted) -> str:
    return f"GRANT SELECT ON {wanted.place}"


def _rights(connection: Connection, user: str, host: str) -> list[str]:
    """What a user may do, each as the beginning of the statement that would grant it."""
    found = []
    for (line,) in connection.rows(f"SHOW GRANTS FOR {_account(user, host)}"):
        right, _, rest = str(line).partition(" TO ")  # what follows may tell the hash of the password
        if right != "GRANT USAGE ON *.*" or "WITH GRANT OPTION" in rest:
            found.append(right + (" WITH GRANT OPTION" if rest.endswith("WITH GRANT OPTION") else ""))
    return found


# --- what is made -----------------------------------------------------------------------------------------------------


def granting(wanted: Wanted, found: Found, password: str | None) -> list[Statement]:
    """What makes the view and the user. Without a password, one who is there keeps his. Raises DatabaseError."""
    if not found.clusters:
        raise DatabaseError(
            f"{wanted.database} has no table of jobs of any cluster: has slurmctld ever registered with this slurmdbd "
            "(`sacctmgr show cluster`)?"
        )
    made = [*prepared(), view(wanted, found.clusters)]
    for host in wanted.hosts:
        account = _account(wanted.user, host)
        if password is not None:
            how = "ALTER USER" if host in found.hosts else "CREATE USER IF NOT EXISTS"
            made.append(Statement(f"{how} {account} IDENTIFIED BY {literal(password)}", literal(password)))
        elif host not in found.hosts:
            raise DatabaseError(f"{wanted.user}@{host} is new, and needs the password of the others: --password-file")
        made.append(Statement(f"{_right(wanted)} TO {account}"))
    return made


def revoking(wanted: Wanted, found: Found) -> list[Statement]:
    """What removes them, wherever the user came from."""
    users = [Statement(f"DROP USER IF EXISTS {_account(wanted.user, host)}") for host in found.hosts]
    return [*prepared(), *users, Statement(f"DROP VIEW IF EXISTS {wanted.place}")]


def carry_out(connection: Connection, statements: Sequence[Statement]) -> None:
    """Raises DatabaseError."""
    for statement in statements:
        connection.rows(statement.sql)
