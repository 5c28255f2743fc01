# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope serve`, `import` and `store` with a store that is there, that is not, that is full, or another's."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded import commands
from served import SLURMSCOPE, Served, serving
from servers.process import Server

from slurmscope.store.protocol import Lives
from slurmscope.store.recorder import wrong_usage
from slurmscope.store.sqlite import SqliteStore

FAST = '[poll]\ninterval = 1\n[store]\nurl = "{url}"\n'
PASSWORD = "hunter2"


def until(what: Callable[[], bool], served: Served, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, served.log.read_text()
        assert served.process.poll() is None, served.log.read_text()
        time.sleep(0.2)


def ready(served: Served) -> str:
    return served.get("/readyz")[2].decode()


def metric(served: Served, name: str) -> float:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))


def refused(folder: Path, url: str) -> str:
    """What serve says, that does not start with such a store."""
    served = Served(folder, FAST.format(url=url))
    try:
        assert served.process.wait(60) in (1, 2)
    finally:
        served.process.kill()
    said = served.log.read_text()
    assert "Traceback" not in said
    assert PASSWORD not in said
    return said


def command(folder: Path, *arguments: str, url: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "STATE"))}
    given = {"SLURMSCOPE_SLURM_BIN_DIR": str(commands("24.11", folder / "bin")), "SLURMSCOPE_STORE_URL": url}
    done = subprocess.run(
        [SLURMSCOPE, *arguments],
        env=kept | given | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stderr + done.stdout
    return done


# --- serve ------------------------------------------------------------------------------------------------------------


def test_what_is_seen_is_kept_by_default(tmp_path: Path) -> None:
    with serving(tmp_path, "[poll]\ninterval = 1\n", STATE_DIRECTORY=str(tmp_path / "state")) as served:
        served.wait()
        until(lambda: metric(served, "slurm_store_jobs_written_total") > 40, served)
        assert ready(served) == "ready\n"
    store = SqliteStore(tmp_path / "state" / "slurmscope.db")
    assert store.count(Lives(user="carol")) > 3
    assert store.count(Lives(open=False)) > 3, "the accounting was read as well"
    assert len(store.nodes("lab24")) == 6
    assert wrong_usage(store, "lab24") == []
    store.close()


def test_nothing_is_kept_where_that_was_said(tmp_path: Path) -> None:
    with serving(tmp_path, '[store]\nurl = "none"\n', STATE_DIRECTORY=str(tmp_path / "state")) as served:
        served.wait()
        assert "slurm_store_up" not in served.get("/metrics/slurmscope")[2].decode()
    assert not (tmp_path / "state").exists()


def test_a_store_that_can_never_be_used_is_told_at_once(tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    SqliteStore(newer).close()
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert "has schema 99" in refused(tmp_path, f"sqlite:{newer}")
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    assert "another program's database" in refused(tmp_path, f"sqlite:{tmp_path}/other.db")
    (tmp_path / "text.db").write_text("this is no database, but it is long enough to be read as one" * 20)
    assert "is no SQLite file" in refused(tmp_path, f"sqlite:{tmp_path}/text.db")
    assert "store.url: expected sqlite:/path" in refused(tmp_path, f"postgres://me:{PASSWORD}@host/x")


def test_a_full_disk_loses_nothing(tmp_path: Path, small_disk: Path) -> None:
    filler = small_disk / "filler"
    with serving(tmp_path, FAST.format(url=f"sqlite:{small_disk}/history.db")) as served:
        served.wait()
        until(lambda: metric(served, "slurm_store_jobs_written_total") > 40, served)
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        until(lambda: "degraded: the store" in ready(served), served)
        assert metric(served, "slurm_store_up") == 0
        assert metric(served, "slurm_up") == 1, "pages are served as ever"
        until(lambda: metric(served, "slurm_store_waiting") > 0, served)
        assert "the disk is full" in served.log.read_text()
        filler.unlink()
        until(lambda: "degraded" not in ready(served), served)
        until(lambda: metric(served, "slurm_store_waiting") == 0, served)
    store = SqliteStore(small_disk / "history.db")
    assert store.check() == []
    assert wrong_usage(store, "lab24") == []
    store.close()


def test_a_disk_that_is_read_only_is_a_degraded_state(tmp_path: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with serving(tmp_path, FAST.format(url=f"sqlite:{small_disk}/history.db")) as served:
        served.wait()
        until(lambda: "degraded: the store" in ready(served), served)
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        until(lambda: ready(served) == "ready\n", served)


def test_mongodb_goes_away_and_comes_back(tmp_path: Path, mongodb: Server) -> None:
    url = f"{mongodb.url}keeping?authSource=admin"
    with serving(tmp_path, FAST.format(url=url)) as served:
        served.wait()
        until(lambda: metric(served, "slurm_store_jobs_written_total") > 40, served)
        with mongodb.stopped():
            until(lambda: "degraded: the store" in ready(served), served)
            assert metric(served, "slurm_up") == 1
        until(lambda: "degraded" not in ready(served), served)
    assert PASSWORD not in served.log.read_text()
    assert "secret" not in served.log.read_text()


def test_mongodb_that_is_not_there_or_refuses(tmp_path: Path, mongodb: Server) -> None:
    with serving(tmp_path, FAST.format(url=f"mongodb://me:{PASSWORD}@127.0.0.1:9/x")) as served:
        served.wait()
        until(lambda: "degraded: the store" in ready(served), served)
        assert PASSWORD not in served.log.read_text()
    wrong = mongodb.url.replace("secret", PASSWORD)
    assert "password" in refused(tmp_path, f"{wrong}keeping?authSource=admin")


# --- the commands -----------------------------------------------------------------------------------------------------


def test_import_and_the_store(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/history.db"
    missing = command(tmp_path, "store", "stats", url=url)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "is not there: `slurmscope serve` or `slurmscope import` makes it" in missing.stderr
    done = command(tmp_path, "import", "--since", "2d", "--json", url=url)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert read["jobs"] == 2 * read["changed"], "two windows, and the recording answers both with the same"
    said = command(tmp_path, "import", "--since", "2d", url=url).stdout
    assert ": 0 jobs new or changed" in said
    stats = json.loads(command(tmp_path, "store", "stats", "--json", url=url).stdout)
    assert stats["counts"]["jobs"] == read["changed"]
    assert command(tmp_path, "store", "check", url=url).stdout == "all is well\n"
    assert "sums made anew" in command(tmp_path, "store", "rebuild", url=url).stdout
    assert "before" in command(tmp_path, "store", "vacuum", url=url).stdout
    backup = command(tmp_path, "store", "backup", str(tmp_path / "copy.db"), url=url)
    assert backup.returncode == 0
    for other in ("copy.db", "moved.db"):
        if other == "moved.db":
            moved = command(tmp_path, "store", "migrate", "--to", f"sqlite:{tmp_path}/moved.db", url=url)
            assert "the same as" in moved.stdout, moved.stderr
        again = json.loads(command(tmp_path, "store", "stats", "--json", url=f"sqlite:{tmp_path}/{other}").stdout)
        assert again["counts"] == stats["counts"]


def test_from_sqlite_to_mongodb_and_back(tmp_path: Path, mongodb: Server) -> None:
    url = f"sqlite:{tmp_path}/history.db"
    command(tmp_path, "import", "--since", "2d", url=url)
    there = f"{mongodb.url}migrated?authSource=admin"
    for _ in range(2):
        moved = command(tmp_path, "store", "migrate", "--to", there, url=url)
        assert (moved.returncode, "the same as" in moved.stdout) == (0, True), moved.stderr
    assert "secret" not in moved.stdout
    assert command(tmp_path, "store", "check", url=there).stdout == "all is well\n"
    back = command(tmp_path, "store", "backup", str(tmp_path / "back.db"), url=there)
    assert back.returncode == 0, back.stderr
    one, other = (
        json.loads(command(tmp_path, "store", "stats", "--json", url=f"sqlite:{tmp_path}/{name}.db").stdout)["counts"]
        for name in ("history", "back")
    )
    assert one == other


def test_a_backup_replaces_nothing_but_an_older_one(tmp_path: Path) -> None:
    store = tmp_path / "history.db"
    url = f"sqlite:{store}"
    command(tmp_path, "import", "--since", "2d", url=url)
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    (tmp_path / "link.db").symlink_to(store)
    open_store = SqliteStore(store)  # with its log beside it
    for target, said in (
        (store, "is the store itself"),
        (tmp_path / "link.db", "is the store itself"),
        (tmp_path / "history.db-wal", "is the store itself"),
        (precious, "is no older backup"),
        (Path("/dev/null"), "is no file"),
        (tmp_path / "nowhere" / "b.db", "its folder is not there"),
        (Path(f"sqlite:{tmp_path}/b.db"), "and no URL"),
    ):
        done = command(tmp_path, "store", "backup", str(target), url=url)
        assert (done.returncode != 0, said in done.stderr) == (True, True), (target, done.stderr)
    open_store.close()
    assert precious.read_text() == "mine"
    for _ in range(2):
        assert command(tmp_path, "store", "backup", str(tmp_path / "b.db"), url=url).returncode == 0
    assert sorted(one.name for one in tmp_path.glob("b.db*")) == ["b.db"]


def test_a_store_is_not_migrated_to_itself(tmp_path: Path, mongodb: Server) -> None:
    url = f"sqlite:{tmp_path}/history.db"
    command(tmp_path, "import", "--since", "2d", url=url)
    (tmp_path / "link.db").symlink_to(tmp_path / "history.db")
    there = f"{mongodb.url}itself?authSource=admin"
    command(tmp_path, "store", "migrate", url=url, SLURMSCOPE_MIGRATE_TO=there)
    for source, target in (
        (url, f"sqlite:{tmp_path}/link.db"),
        (url, "sqlite:history.db"),
        (url, f"sqlite:{tmp_path}/../{tmp_path.name}/history.db"),
        (there, there.replace("127.0.0.1", "localhost")),
    ):
        done = command(tmp_path, "store", "migrate", "--to", target, url=source)
        assert (done.returncode, "names the store itself" in done.stderr) == (2, True), done.stderr
        assert command(tmp_path, "store", "check", url=source).stdout == "all is well\n"


def test_a_file_that_was_replaced_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, FAST.format(url=f"sqlite:{tmp_path}/history.db")) as served:
        served.wait()
        until(lambda: metric(served, "slurm_store_jobs_written_total") > 40, served)
        (tmp_path / "history.db").rename(tmp_path / "moved.db")
        until(lambda: "degraded: the store" in ready(served), served)
        assert "start slurmscope again" in served.log.read_text()


def test_a_folder_that_was_mistyped_is_not_made(tmp_path: Path) -> None:
    done = command(tmp_path, "import", url=f"sqlite:{tmp_path}/nowhere/history.db")
    assert (done.returncode, "its folder is not there" in done.stderr) == (1, True)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "said", "status"),
    [
        (["import", "--since", "tomorrow"], "expected 90d, 12h, 4w", 2),
        (["import", "--since", "1d", "--until", "2d"], "--since must be in the past, and before --until", 2),
        (["import", "--since", "2099-01-01"], "--since must be in the past", 2),
        (["store", "backup", "/proc/nothing/x.db"], "its folder is not there", 1),
        (["import", "--cluster", "alpha"], "the settings name no cluster", 2),
        (["store", "migrate", "--to", "redis://x"], "no store that is known", 1),
    ],
)
def test_wrong_words_get_a_cure(tmp_path: Path, arguments: list[str], said: str, status: int) -> None:
    url = f"sqlite:{tmp_path}/history.db"
    SqliteStore(tmp_path / "history.db").close()
    done = command(tmp_path, *arguments, url=url)
    assert said in done.stderr
    assert done.returncode == status


def test_an_import_without_slurm_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = command(tmp_path, "import", url=f"sqlite:{tmp_path}/x.db", SLURMSCOPE_SLURM_BIN_DIR=str(tmp_path / "empty"))
    assert done.returncode == 1
    assert "set slurm.bin_dir" in done.stderr


def test_a_store_that_is_none(tmp_path: Path) -> None:
    for arguments in (["import"], ["store", "stats"]):
        done = command(tmp_path, *arguments, url="none")
        assert done.returncode == 2
        assert "store.url is none" in done.stderr
