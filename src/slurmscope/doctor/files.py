# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Places on this machine's disk, and SQLite files in them, looked at without leaving a trace."""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from slurmscope.doctor.finding import Wrong
from slurmscope.slurm.source import own_user

_BESIDE = ("-wal", "-shm")
_PATIENCE = 3.0


def exists(path: Path) -> bool:
    """Path's own would raise where we may not look."""
    return os.path.exists(path)  # noqa: PTH110


def free_for(file: Path, setting: str) -> int:
    """The bytes that are free where a file is, or will be. Raises Wrong where it cannot be written, or made."""
    folder = next(one for one in file.parents if exists(one))
    elsewhere = f"let {setting} name another place"
    if not folder.is_dir():
        raise Wrong(f"{folder} is no folder, so that {file} cannot be made", f"move it away, or {elsewhere}")
    if exists(file) and not file.is_file():
        raise Wrong(f"{file} is no file", f"move it away, or {elsewhere}")
    disk = os.statvfs(folder)
    if disk.f_flag & os.ST_RDONLY:
        raise Wrong(
            f"{file} cannot be written: its disk is mounted read-only",
            f"`findmnt -T {shlex.quote(str(folder))}` shows which: mount it for writing, or {elsewhere}",
        )
    for one in (folder, file, *_beside(file)):
        if exists(one) and not os.access(one, os.R_OK | os.W_OK | os.X_OK * one.is_dir(), effective_ids=True):
            us = own_user()
            raise Wrong(
                f"{one} may not be read and written by {us}",
                f"`chown {us} {shlex.quote(str(one))}`, run slurmscope as its owner, or {elsewhere}",
            )
    return disk.f_bavail * disk.f_frsize


def size(file: Path) -> int:
    return sum(one.stat().st_size for one in (file, *_beside(file)) if exists(one))


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """To be read.

    Whoever opens a file with a write-ahead log makes the files beside it, which a reader does not remove, and which
    may then be of the wrong user. So that is done only where they are there; else nobody writes, and none are needed.
    """
    how = "mode=ro" if all(map(exists, _beside(file))) else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(file))}?{how}", uri=True, timeout=_PATIENCE)) as db:
        yield db


def _beside(file: Path) -> list[Path]:
    return [file.with_name(file.name + end) for end in _BESIDE]
