# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The jobs of a user, as the view in slurmdbd's database has them."""

from __future__ import annotations

import os
import pwd
import re
from typing import NamedTuple

import msgspec

from slurmscope.database.connection import Connection, DatabaseError
from slurmscope.database.grant import identifier
from slurmscope.settings import Database
from slurmscope.slurm.text import decode

_UID = re.compile(r"[0-9]{1,10}")
_NO_TASK = 0xFFFF_FFFE  # the first of Slurm's two numbers for "none"
_NO_VIEW = (1142, 1146)
# who is refused once he is in is the one who made the view, and is no more
_OLD_VIEW = (1045, 1143, 1356, 1449)


class Job(msgspec.Struct, frozen=True):
    cluster: str
    id: int
    array_id: int | None
    array_task: int | None
    name: str
    submit_time: int | None


class User(NamedTuple):
    name: str
    """His number, where no name is known."""
    uid: int


def user_of(text: str) -> User | None:
    """Whom a name or a number means; None where this machine knows no such name."""
    if _UID.fullmatch(text):
        uid = int(text)
        try:
            return User(decode(os.fsencode(pwd.getpwuid(uid).pw_name)), uid)
        except (KeyError, OverflowError):  # somebody who is gone still has jobs
            return User(text, uid) if uid < _NO_TASK else None
    try:
        found = pwd.getpwnam(text)
    except (KeyError, ValueError):
        return None
    return User(decode(os.fsencode(found.pw_name)), found.pw_uid)


def jobs_of(
    connection: Connection, settings: Database, uid: int, cluster: str | None = None, limit: int | None = None
) -> list[Job]:
    """The latest come first. Raises DatabaseError."""
    place = f"{identifier(settings.name)}.{identifier(settings.view)}"
    sql = (
        "SELECT cluster, id_job, id_array_job, id_array_task, job_name, time_submit "  # noqa: S608
        f"FROM {place} WHERE id_user = %s"
    )
    values: list[object] = [uid]
    if cluster is not None:
        sql += " AND cluster = %s"
        values.append(cluster)
    sql += " ORDER BY time_submit DESC, cluster, id_job DESC"
    if limit is not None:
        sql += " LIMIT %s"
        values.append(limit)
    try:
        rows = connection.rows(sql, *values)
    except DatabaseError as error:
        if error.code in _NO_VIEW:
            raise DatabaseError(
                f"there is no view {settings.name}.{settings.view}, or {settings.user} may not read it: "
                "`slurmscope db grant` makes it",
                error.code,
            ) from error
        if error.code in _OLD_VIEW:
            raise DatabaseError(
                f"the view {settings.name}.{settings.view} is old, for a cluster was removed, or who made it: "
                "`slurmscope db grant` makes it anew",
                error.code,
            ) from error
        raise
    return [
        Job(
            cluster=str(name_of_cluster),
            id=id_,
            array_id=array_id or None,
            array_task=task if array_id and task < _NO_TASK else None,
            name=decode(name),
            submit_time=submitted or None,
        )
        for name_of_cluster, id_, array_id, task, name, submitted in rows
    ]
