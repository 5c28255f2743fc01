# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept: the store, and what waits on disk to be sent. Nothing is made that was not there."""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from slurmscope.doctor import files
from slurmscope.doctor.finding import Chart, Check, Status, Wrong, mebibytes, span
from slurmscope.settings import Settings
from slurmscope.store import place, schema
from slurmscope.store.url import sqlite_path
from slurmscope.words import amount

_MIB = 1 << 20
_FULL = _MIB
_LITTLE = 100 * _MIB
_SPOOL_FULL = 16 * _MIB  # which a spool leaves free
_MUCH = 0.1  # of a spool; while its server takes what comes, next to nothing waits
_MONGODB = ("mongodb://", "mongodb+srv://")


async def _look(chart: Chart, check: Check, work: Callable[[], str]) -> None:
    """In a thread, for disks and servers may be slow."""
    try:
        chart.ok(check, await asyncio.to_thread(work))
    except Wrong as wrong:
        chart.wrong(check, wrong)


# The store


async def store(chart: Chart, settings: Settings) -> None:
    url = place.url_of(settings.store)
    if url == place.NONE:
        chart.skipped(Check.STORE, "nothing is kept, for store.url is none")
    elif url.startswith(_MONGODB):
        await _look(chart, Check.STORE, partial(_mongodb, url))
    else:
        setting = "store.url" if settings.store.url else "store.folder"
        await _look(chart, Check.STORE, partial(_sqlite, url, setting))


def _mongodb(url: str) -> str:
    if importlib.util.find_spec("pymongo") is None:
        raise Wrong("a store in MongoDB needs pymongo, which is not installed", "`pip install 'slurmscope[mongodb]'`")
    from slurmscope.doctor.mongodb import look  # noqa: PLC0415 - which needs it

    return look(url)


def _sqlite(url: str, setting: str) -> str:
    file = sqlite_path(url)
    if file is None:
        raise Wrong(
            "store.url names no store that is known",
            'set store.url = "sqlite:/path/to/file.db" or "mongodb://user:password@host/database", or leave it empty',
        )
    where = f"sqlite:{file}"
    free = files.free_for(file, setting)
    room = f"make room in {file.parent}, or let {setting} name another place"
    if free < _FULL:
        raise Wrong(f"{where}: the disk is full, {mebibytes(free)} are free", room)
    if files.exists(file):
        told = _content(where, file, setting)
    else:
        told = f"{where} is not there yet, and can be made: `slurmscope serve` and `slurmscope import` make it"
    if free < _LITTLE:
        raise Wrong(f"{told}; only {mebibytes(free)} are free", room, Status.WARNING)
    return f"{told}; {mebibytes(free)} are free"


def _content(where: str, file: Path, setting: str) -> str:
    known = len(schema.MIGRATIONS)
    try:
        with files.opened(file) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (mark,) = db.execute("PRAGMA application_id").fetchone()
            (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if version > known:
                raise Wrong(
                    f"{where} has schema {version}, and this slurmscope knows {known}: a newer one has written it",
                    f"update slurmscope here too, or let {setting} name another place",
                )
            if tables and mark != schema.APPLICATION_ID:
                raise Wrong(f"{where} is another program's database", f"let {setting} name a file of our own")
            newest = db.execute("SELECT max(submit) FROM jobs").fetchone()[0] if version and tables else None
    except sqlite3.Error as error:
        raise _unreadable(where, setting, error) from error
    if version < known:
        return f"{where} can be written; it has schema {version}, and `slurmscope serve` brings it to {known}"
    return f"{where} can be read and written: schema {version}, {mebibytes(files.size(file))}, {last_job(newest)}"


def _unreadable(where: str, setting: str, error: sqlite3.Error) -> Wrong:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return Wrong(f"{where} is no SQLite file", f"let {setting} name another place")
    if code == sqlite3.SQLITE_CORRUPT:
        return Wrong(
            f"{where} is damaged: {error}", "put back a backup, or move it away and `slurmscope import` it again"
        )
    return Wrong(f"{where} cannot be read: {error}", "`slurmscope store check` looks at all of it")


def last_job(newest: int | None) -> str:
    """In the same words of every store."""
    if newest is None:
        return "no job yet"
    return f"the last job was submitted {span(max(0.0, time.time() - newest))} ago"


# What waits


async def spools(chart: Chart, settings: Settings) -> None:
    folder = place.folder_of(settings.store) / "spool"
    for name, used, most in (
        ("elasticsearch", bool(settings.elasticsearch.url), settings.elasticsearch.spool_megabytes),
        ("cloudwatch", settings.cloudwatch.enabled, settings.cloudwatch.spool_megabytes),
    ):
        if used:
            await _look(chart, Check.SPOOL, partial(_spool, folder, name, most * _MIB))


def _spool(folder: Path, name: str, most: int) -> str:
    file = folder / f"{name}.db"
    free = files.free_for(file, "store.folder")
    room = f"make room in {folder}, or let store.folder name another place"
    if free < _SPOOL_FULL:
        raise Wrong(f"{file}: {mebibytes(free)} are free, and with less than 16 MiB what cannot be sent is lost", room)
    if not files.exists(file):
        return f"{file} is not there yet, and can be made: `slurmscope serve` makes it"
    try:
        with files.opened(file) as db:
            length, waiting = db.execute("SELECT count(*), coalesce(sum(size), 0) FROM item").fetchone()
            (dropped,) = db.execute("SELECT value FROM count WHERE name = 'dropped'").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise Wrong(f"{file} cannot be read: {error}", f"move it away: what waits in it for {name} is lost") from error
    lost = f"; {amount(dropped, 'item')} lost for want of room since it was made" if dropped else ""
    told = f"{file}: {amount(length, 'item')} waiting, {mebibytes(waiting)} of {mebibytes(most)}{lost}"
    if waiting > _MUCH * most:
        raise Wrong(
            told,
            f"see what is told of {name}: what waits is sent when it takes it; beyond {name}.spool_megabytes the "
            "oldest is lost",
            Status.WARNING,
        )
    return told
