# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The store in a file, and what waits to be sent: looked at as they are, and left as they were."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from disks import mounted
from doctor.patients import examined, keeping, of, told
from sinks import made

from slurmscope.doctor.finding import Check, Finding, Status, exit_status
from slurmscope.settings import CloudWatch, Elasticsearch, Store
from slurmscope.sinks.spool import Spool
from slurmscope.slurm.source import own_user
from slurmscope.store.schema import MIGRATIONS
from slurmscope.store.sqlite import SqliteStore

SCHEMA = len(MIGRATIONS)
MANY = 512 << 20


def store(url: Path | str) -> Finding:
    return of(examined(keeping(store=Store(url=f"sqlite:{url}" if isinstance(url, Path) else url))), Check.STORE)


def spool(folder: Path, **settings: Any) -> Finding:
    sections = {"store": Store(folder=str(folder)), "cloudwatch": CloudWatch(enabled=True, region="x", **settings)}
    return of(examined(keeping(**sections)), Check.SPOOL)


def kept(file: Path, submitted: int) -> None:
    store = SqliteStore(file)
    with store.writing("alpha") as writer:
        writer.put_lives([made.pending(1, submit_time=submitted)])
    store.close()


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What a look must leave as it is."""
    return {
        one.name: (one.stat().st_ino, one.stat().st_mtime_ns, one.read_bytes())
        for one in folder.iterdir()
        if one.is_file() and not one.name.endswith("-shm")  # which holds the locks of who reads
    }


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 64) as place:
        yield place


def fill(disk: Path, *, left: int) -> None:
    with (disk / "others").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - left)


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


# The store


def test_a_store_that_nobody_has_made(tmp_path: Path) -> None:
    file = tmp_path / "state" / "slurmscope" / "slurmscope.db"
    found = store(file)
    assert found.status is Status.OK and exit_status([found]) == 0
    assert found.message.startswith(f"sqlite:{file} is not there yet, and can be made: `slurmscope serve`")
    assert " MiB are free" in found.message and not found.next_step
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_the_folder(tmp_path: Path) -> None:
    findings = examined(keeping(store=Store(folder=str(tmp_path / "new"))))
    assert of(findings, Check.STORE).message.startswith(f"sqlite:{tmp_path}/new/slurmscope.db is not there yet")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_well(tmp_path: Path) -> None:
    file = tmp_path / "a store?%41#.db"
    kept(file, int(time.time()) - 200)
    before = everything(tmp_path)
    found = store(file)
    assert found.status is Status.OK
    assert found.message.startswith(f"sqlite:{file} can be read and written: schema {SCHEMA}, ")
    assert "MiB, the last job was submitted 3 minutes ago; " in found.message
    assert everything(tmp_path) == before and len(before) == 1


def test_a_store_in_use(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    other = SqliteStore(file)
    with other.writing("alpha") as writer:
        writer.put_lives([made.pending(1, submit_time=int(time.time()) - 86400 * 3)])
        before = everything(tmp_path)
        assert "no job yet" in store(file).message  # what is not written is not seen
        assert everything(tmp_path) == before
    before = everything(tmp_path)
    assert "the last job was submitted 3 days ago" in store(file).message
    assert everything(tmp_path) == before and len(before) == 2
    other.close()


def test_a_store_whose_writer_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    program = (
        "import os, sys; from slurmscope.store.sqlite import SqliteStore; store = SqliteStore(sys.argv[1])\n"
        "with store.writing('alpha'): pass\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True)
    before = everything(tmp_path)
    assert set(before) == {"x.db", "x.db-wal"}
    assert "can be read and written" in store(file).message
    assert everything(tmp_path) == before


def test_no_store() -> None:
    assert told(examined(keeping(store=Store(url="none"))), Check.STORE) == [
        "skipped: nothing is kept, for store.url is none"
    ]


@pytest.mark.parametrize("url", ["postgres://user:hush@host/db", "sqlite:", "sqlite:///", "hush"])
def test_no_store_that_is_known(url: str) -> None:
    found = store(url)
    assert (found.status, found.message) == (Status.FAILED, "store.url names no store that is known")
    assert 'set store.url = "sqlite:/path/to/file.db"' in found.next_step
    assert "hush" not in found.message + found.next_step


def test_a_newer_schema(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    kept(file, 1)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 99")
    found = store(file)
    assert found.status is Status.FAILED
    assert f"has schema 99, and this slurmscope knows {SCHEMA}" in found.message
    assert found.next_step == "update slurmscope here too, or let store.url name another place"


def test_an_older_schema(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    found = store(tmp_path / "x.db")
    assert found.status is Status.OK and "has schema 0, and `slurmscope serve` brings it to" in found.message
    assert (tmp_path / "x.db").stat().st_size == 0


def test_another_programs_file(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE theirs (x)")
    assert store(file).message == f"sqlite:{file} is another program's database"
    file.write_bytes(b"words" * 1000)
    assert store(file).message == f"sqlite:{file} is no SQLite file"


def test_a_damaged_store(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    kept(file, 1)
    with file.open("r+b") as db:
        db.seek(100)  # the table of tables, behind the head
        db.write(b"\xff" * 3900)
    found = store(file)
    assert found.status is Status.FAILED and "is damaged" in found.message
    assert "put back a backup" in found.next_step


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = store(tmp_path / "file" / "deep" / "x.db")
    assert found.status is Status.FAILED and found.message.startswith(f"{tmp_path}/file is no folder")
    assert found.next_step == "move it away, or let store.url name another place"
    found = of(examined(keeping(store=Store(folder=str(tmp_path / "file")))), Check.STORE)
    assert found.next_step.endswith("let store.folder name another place")
    assert store(tmp_path).message == f"{tmp_path} is no file"


def test_a_disk_that_is_read_only(disk: Path) -> None:
    kept(disk / "x.db", 1)
    read_only(disk)
    for name in ("x.db", "new.db"):
        found = store(disk / name)
        assert found.status is Status.FAILED
        assert found.message == f"{disk}/{name} cannot be written: its disk is mounted read-only"
        assert f"`findmnt -T {disk}`" in found.next_step


def test_a_disk_that_is_full(disk: Path) -> None:
    kept(disk / "x.db", 1)
    few = store(disk / "x.db")
    assert few.status is Status.WARNING and "; only 6" in few.message and few.message.endswith(" MiB are free")
    assert few.next_step == f"make room in {disk}, or let store.url name another place"
    fill(disk, left=4096)
    full = store(disk / "x.db")
    assert full.status is Status.FAILED and "the disk is full, 0.0 MiB are free" in full.message


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder of root's, looked at by somebody else."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        kept(Path(name) / "x.db", 1)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("name", ["x.db", "new/new.db", "x.db-wal"])
def test_another_users_place(nobody: Path, name: str) -> None:
    nobody.chmod(0o755 if name == "new/new.db" else 0o777)
    if name == "x.db-wal":
        (nobody / "x.db").chmod(0o666)
        (nobody / name).touch()
    os.seteuid(65534)
    us = own_user()
    place = nobody if name == "new/new.db" else nobody / name
    found = store(nobody / name.removesuffix("-wal"))
    assert (found.status, found.message) == (Status.FAILED, f"{place} may not be read and written by {us}")
    assert found.next_step.startswith(f"`chown {us} {place}`, run slurmscope as its owner, or ")


# What waits


def test_spools_are_looked_at_where_there_are_any(tmp_path: Path) -> None:
    assert told(examined(keeping(store=Store(folder=str(tmp_path)))), Check.SPOOL) == []
    both = {"elasticsearch": Elasticsearch(url="http://127.0.0.1:9"), "cloudwatch": CloudWatch(enabled=True)}
    findings = examined(keeping(store=Store(folder=str(tmp_path)), **both))
    assert told(findings, Check.SPOOL) == [
        f"ok: {tmp_path}/spool/{name}.db is not there yet, and can be made: `slurmscope serve` makes it"
        for name in both
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_is_well(tmp_path: Path) -> None:
    waits = Spool(tmp_path / "spool" / "cloudwatch.db", MANY)
    waits.add([b"x" * 1000] * 3)
    before = everything(tmp_path / "spool")
    words = f"{tmp_path}/spool/cloudwatch.db: 3 items waiting, 0.0 MiB of 512 MiB"
    found = spool(tmp_path)  # while it is in use
    assert (found.status, found.message) == (Status.OK, words)
    assert everything(tmp_path / "spool") == before
    waits.close()
    before = everything(tmp_path / "spool")
    assert spool(tmp_path).message == words
    assert everything(tmp_path / "spool") == before


def test_a_spool_in_which_much_waits(tmp_path: Path) -> None:
    waits = Spool(tmp_path / "spool" / "cloudwatch.db", 1 << 20)
    waits.add([b"x" * 1000] * 1200)
    waits.close()
    found = spool(tmp_path, spool_megabytes=1)
    assert found.status is Status.WARNING
    assert "items waiting, 1.0 MiB of 1.0 MiB; 152 items lost for want of room" in found.message
    assert "see what is told of cloudwatch" in found.next_step


def test_a_spool_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("no folder")
    assert spool(tmp_path).message.startswith(f"{tmp_path}/spool is no folder")
    (tmp_path / "spool").unlink()
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "cloudwatch.db").write_bytes(b"words" * 1000)
    found = spool(tmp_path)
    assert found.status is Status.FAILED and "cannot be read: file is not a database" in found.message
    assert found.next_step == "move it away: what waits in it for cloudwatch is lost"


def test_a_spool_on_a_disk_that_is_full_or_read_only(disk: Path) -> None:
    fill(disk, left=10 << 20)
    found = spool(disk)
    assert found.status is Status.FAILED and "10 MiB are free, and with less than 16 MiB what" in found.message
    read_only(disk)
    assert "its disk is mounted read-only" in spool(disk).message
