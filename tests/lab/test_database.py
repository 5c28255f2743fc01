# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope db` on the database of a real slurmdbd: the view, who may read it, and what it tells."""

from __future__ import annotations

import json
import os
import secrets
import ssl
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab.cluster import Lab
from lab.page import SLURMSCOPE

from slurmscope.database.connection import Connection, DatabaseError, Target
from slurmscope.database.grant import identifier, literal

ALICE, BOB = "64101", "64102"
ACCOUNTING = "slurm_acct_db"
VIEW = f"{ACCOUNTING}.slurmscope_jobs"
HOSTILE = "od`d'na\\me%s\"; -- x"


class Database:
    """The database of the lab, with the commands that are run on it. Its user's password is in a file."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.secret = folder / "password"
        self.port = lab.port - 11
        self.socket = str(
            Path(lab.script("rest").stdout.decode().split()[0].removeprefix("unix:")).parent / "mysql.sock"
        )

    def connect(self, user: str = "root", password: str = "", socket: bool = True) -> Connection:
        where = self.socket if socket else ""
        return Connection(Target(user, password, "127.0.0.1", self.port, where, "", "is that right?"))

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """As root; what the last of them tells."""
        with self.connect() as root:
            return [root.rows(one) for one in statements][-1]

    def run(self, *arguments: str, check: int = 0, **settings: str) -> str:
        """What a command says, to standard output or where it fails."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        env |= {"SLURMSCOPE_DATABASE_PORT": str(self.port)}
        env |= {f"SLURMSCOPE_DATABASE_{key.upper()}": value for key, value in settings.items()}
        done = subprocess.run(
            [SLURMSCOPE, "db", *arguments], env=env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == check, done.stderr + done.stdout
        return done.stderr if check else done.stdout

    def grant(self, *arguments: str, check: int = 0, **settings: str) -> str:
        return self.run("grant", "--socket", self.socket, *arguments, check=check, **settings)

    def granted(self, *arguments: str) -> str:
        """Its user's password, for those who are to read."""
        self.grant("--write-password", str(self.secret), *arguments)
        return self.secret.read_text().strip()

    def jobs(self, user: str, *arguments: str) -> list[dict[str, Any]]:
        told = json.loads(self.run("jobs", user, "--json", *arguments, password_file=str(self.secret)))
        ((_, jobs),) = told.items()
        assert isinstance(jobs, list)
        return jobs

    def names(self) -> list[str]:
        """Where the user may come from."""
        return [str(host) for (host,) in self.sql("SELECT host FROM mysql.user WHERE user = 'slurmscope' ORDER BY 1")]


@pytest.fixture
def database(lab: Lab, tmp_path: Path) -> Iterator[Database]:
    found = Database(lab, tmp_path)
    yield found
    found.grant("--revoke")


@pytest.fixture
def second(database: Database) -> Iterator[str]:
    """A second cluster of the same slurmdbd, with a job of alice's that ended."""
    name = "second"
    database.lab.run("sacctmgr", "-i", "add", "cluster", name)
    add_job(database, name, 4711, "elsewhere")
    yield name
    database.lab.run("sacctmgr", "-i", "delete", "cluster", name, check=False)


def add_job(database: Database, cluster: str, id_: int, name: str, user: str = ALICE, source: str = "") -> None:
    """A job that ended long ago; or as many as the source has rows, each with a number and a user of its own."""
    table = f"{ACCOUNTING}.{identifier(cluster + '_job_table')}"
    row = {
        "id_user": user,
        "id_job": f"{id_} + seq" if source else id_,
        "time_submit": 1700000000,
        "time_start": 1700000001,
        "time_end": 1700000002,
    }
    zero = ("cpus_req", "id_assoc", "id_resv", "id_wckey", "id_group", "het_job_id", "het_job_offset", "nodes_alloc")
    row |= dict.fromkeys((*zero, "state_reason_prev", "priority"), 0) | {"state": 3}
    texts = {"job_name": literal(name), "`partition`": "'main'"}
    columns, values = ", ".join([*row, *texts]), ", ".join([*map(str, row.values()), *texts.values()])
    rows = f" FROM {ACCOUNTING}.{source}" if source else ""
    database.sql("SET SESSION sql_mode = ''", f"INSERT INTO {table} ({columns}) SELECT {values}{rows}")


def accounted(lab: Lab, user: str, most: int) -> list[tuple[int, int, str]]:
    """Number, time of submission and name of each of a user's jobs up to `most`, as sacct tells them."""
    mark = f"@{secrets.token_hex(8)}@"
    argv = ["sacct", "--duplicates", "-X", "-n", "-p", f"--delimiter={mark}", "-u", user]
    # those that are held are told to nobody who does not ask by number
    argv += ["-j", ",".join(map(str, range(1, most + 1))), "-o", "JobIDRaw,Submit,JobName"]
    out = subprocess.run(
        [lab.bin / argv[0], *argv[1:]], env={"SLURM_TIME_FORMAT": "%s"}, capture_output=True, check=True
    ).stdout
    fields = out.decode("utf-8", "backslashreplace").split(mark)
    rows = [fields[at : at + 3] for at in range(0, len(fields) - 1, 3)]
    return sorted((int(id_), int(submit), name) for id_, submit, name in rows)


def is_accounted(lab: Lab, user: str, id_: int) -> bool:
    # at first it may be there without its name
    return id_ in [one for one, _, name in accounted(lab, user, id_) if name != "allocation"]


# --- who may do what --------------------------------------------------------------------------------------------------


def test_the_user_reads_the_view_and_nothing_else(database: Database) -> None:
    first = database.grant("--write-password", str(database.secret))
    assert f"{VIEW}: the jobs of {database.lab.cluster}\n" in first
    password = database.secret.read_text().strip()
    assert password not in first
    again = database.grant("--write-password", str(database.secret))
    assert again.splitlines()[:2] == first.splitlines()[:2]
    table = f"{ACCOUNTING}.{database.lab.cluster}_job_table"
    for socket in (True, False):
        with database.connect("slurmscope", password, socket) as user:
            assert user.rows(f"SELECT COUNT(*) FROM {VIEW}")[0][0] > 0
            for denied in (
                f"SELECT COUNT(*) FROM {table}",
                f"SELECT name FROM {ACCOUNTING}.cluster_table",
                "SELECT user FROM mysql.user",
                f"DELETE FROM {VIEW}",
                f"UPDATE {VIEW} SET id_user = 0",
                f"INSERT INTO {VIEW} (id_user) VALUES (0)",
                f"DROP VIEW {VIEW}",
                f"SHOW CREATE VIEW {VIEW}",
                f"CREATE TABLE {ACCOUNTING}.mine (a INT)",
                f"GRANT SELECT ON {VIEW} TO slurm@localhost",
                "CREATE DATABASE mine",
                "CREATE USER other@localhost",
            ):
                with pytest.raises(DatabaseError, match="may not do this"):
                    user.rows(denied)
            seen = {name for (name,) in user.rows("SHOW DATABASES")}
            assert seen == {"information_schema", ACCOUNTING}
            assert [name for (name,) in user.rows(f"SHOW TABLES FROM {ACCOUNTING}")] == ["slurmscope_jobs"]
            grants = [line.partition(" TO ")[0] for (line,) in user.rows("SHOW GRANTS")]
            assert grants == ["GRANT USAGE ON *.*", "GRANT SELECT ON `slurm_acct_db`.`slurmscope_jobs`"]
    assert database.names() == ["127.0.0.1", "localhost"]


def test_of_many_jobs_only_the_users_are_read(database: Database, second: str) -> None:
    """A table may have many millions of rows: the view asks each by its index."""
    add_job(database, second, 100_000, "many", user="100000 + seq", source="seq_1_to_20000")
    database.sql(f"ANALYZE TABLE {ACCOUNTING}.{second}_job_table")
    password = database.granted()
    with database.connect("slurmscope", password) as user:
        for condition, jobs in (("id_user = 100007", 1), (f"id_user = {ALICE} AND cluster = '{second}'", 1)):
            before = rows_read(user)
            assert len(user.rows(f"SELECT * FROM {VIEW} WHERE {condition}")) == jobs
            assert rows_read(user) - before < 2000


def rows_read(connection: Connection) -> int:
    """How many rows this connection has made the server read."""
    return sum(int(count) for _, count in connection.rows("SHOW SESSION STATUS LIKE 'Handler_read%'"))


def test_somebody_elses_user_is_left_alone(database: Database) -> None:
    """Of slurmdbd's own user, or of root, nothing is taken, and nothing is removed."""
    before = database.sql("SHOW GRANTS FOR slurm@localhost")
    for more in ((), ("--revoke",)):
        for user in ("slurm", "root"):
            said = database.grant(*more, check=1, user=user)
            assert f"the user {user}@127.0.0.1 may do more than read" in said
            assert "IDENTIFIED" not in said
            assert "database.user" in said
    assert database.sql("SHOW GRANTS FOR slurm@localhost") == before
    database.lab.run("sacctmgr", "-n", "show", "cluster")


# --- passwords --------------------------------------------------------------------------------------------------------


def test_a_password_is_made_once_and_kept(database: Database) -> None:
    password = database.granted()
    assert stat.S_IMODE(database.secret.stat().st_mode) == 0o600
    assert "password: kept as it was" in database.grant()
    database.connect("slurmscope", password).__exit__(None, None, None)
    other = database.folder / "other"
    other.write_text("it's \\ another\n")
    assert "another" not in database.grant("--password-file", str(other)).replace(str(other), "")
    assert database.run("jobs", "0", password_file=str(other))
    said = database.run("jobs", "0", check=1, password_file=str(database.secret))
    assert "refused the user slurmscope: is the password right (database.password" in said
    # what the settings have is what it becomes
    assert "as the settings have it" in database.grant(password_file=str(database.secret))
    assert database.run("jobs", "0", password_file=str(database.secret))
    said = database.grant("--host", "localhost", "--host", "10.1.%", check=1)
    assert "slurmscope@10.1.% is new, and needs the password of the others: --password-file" in said
    said = database.grant("--host", "10.1.%", "--password-file", str(database.secret))
    assert "left as it was: slurmscope@127.0.0.1, slurmscope@localhost" in said
    assert database.names() == ["10.1.%", "127.0.0.1", "localhost"]


def test_a_password_without_a_file_is_printed_once(database: Database) -> None:
    said = database.grant()
    password = said.partition("password: ")[2].partition(" ")[0]
    assert database.run("jobs", "0", password=password)
    assert password not in database.grant()


def test_a_dry_run_changes_nothing_and_tells_no_secret(database: Database) -> None:
    said = database.grant("--dry-run", "--write-password", str(database.secret))
    assert not database.secret.exists()
    assert "CREATE USER IF NOT EXISTS `slurmscope`@`localhost` IDENTIFIED BY '********';" in said
    assert "SQL SECURITY DEFINER VIEW `slurm_acct_db`.`slurmscope_jobs`" in said
    assert database.names() == []
    password = database.granted()
    said = database.grant("--dry-run", "--password-file", str(database.secret))
    assert "ALTER USER `slurmscope`@`localhost` IDENTIFIED BY '********';" in said
    assert password not in said
    assert "DROP VIEW IF EXISTS" in database.grant("--dry-run", "--revoke")
    assert database.names() == ["127.0.0.1", "localhost"]


def test_what_is_printed_can_be_run_as_it_is(database: Database) -> None:
    """… by somebody who would rather do it himself."""
    said = database.grant("--dry-run").replace("'********'", "'my own'")
    database.lab.run("mariadb", "-S", "/lab/run/mysql.sock", "-uroot", input=said.encode())
    assert database.run("jobs", "0", password="my own")


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_jobs_are_those_of_sacct(database: Database) -> None:
    lab = database.lab
    database.granted()
    hostile = b"od\xffd\nname\t|\x1b[31m'`\\"
    for user, name in (("bob", os.fsdecode(hostile)), ("root", "mine")):
        argv = ("sbatch", "--parsable", "-o", "/dev/null", "--mem=50", "-J", name, "--wrap", "true")
        submitted = int(lab.run(*argv, user=user).stdout)
        lab.wait_for(partial(is_accounted, lab, user, submitted))
    for user, uid in (("alice", ALICE), ("bob", BOB), ("carol", "64103"), ("dana.o-neil", "64104"), ("root", "root")):
        jobs = database.jobs(uid, "--limit", "0")
        assert sorted((job["id"], job["submit_time"], job["name"]) for job in jobs) == accounted(lab, user, submitted)
        assert {job["cluster"] for job in jobs} <= {lab.cluster}
        assert [job["submit_time"] for job in jobs] == sorted((job["submit_time"] for job in jobs), reverse=True)
    sweep = [
        job for job in database.jobs(ALICE) + database.jobs(BOB) + database.jobs("64103") if job["name"] == "sweep"
    ]
    assert len({job["array_id"] for job in sweep}) == 1
    assert {job["array_task"] for job in sweep if job["array_task"]}
    text = database.run("jobs", BOB, password_file=str(database.secret))
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(accounted(lab, "bob", submitted)) + 1
    assert len(database.jobs(BOB, "--limit", "2")) == 2
    said = database.run("jobs", BOB, "--cluster", "od\udcff", check=1, password_file=str(database.secret))
    assert "is no text in UTF-8" in said


def test_clusters_come_with_the_next_grant_and_go(database: Database, second: str) -> None:
    lab = database.lab
    database.sql(f"UPDATE {ACCOUNTING}.cluster_table SET deleted = 1 WHERE name = '{second}'")
    said = database.grant("--write-password", str(database.secret))
    assert f"left out: {second}, which slurmdbd has no more" in said
    assert database.jobs(ALICE, "--cluster", second) == []
    database.sql(f"UPDATE {ACCOUNTING}.cluster_table SET deleted = 0 WHERE name = '{second}'")
    assert f"the jobs of {lab.cluster}, {second}\n" in database.grant()
    (job,) = database.jobs(ALICE, "--cluster", second)
    assert (job["id"], job["name"], job["cluster"]) == (4711, "elsewhere", second)
    both = database.jobs(ALICE, "--limit", "0")
    assert {job["cluster"] for job in both} == {lab.cluster, second}
    database.sql(f"UPDATE {ACCOUNTING}.{second}_job_table SET deleted = 1")
    assert database.jobs(ALICE, "--cluster", second) == []
    # a table that is gone makes the view useless until it is made anew
    database.sql(f"RENAME TABLE {ACCOUNTING}.{second}_job_table TO {ACCOUNTING}.{second}_away")
    said = database.run("jobs", ALICE, check=1, password_file=str(database.secret))
    assert f"the view {VIEW} is old" in said
    assert "`slurmscope db grant` makes it anew" in said
    assert f"the jobs of {lab.cluster}\n" in database.grant()
    assert database.jobs(ALICE)
    database.sql(f"RENAME TABLE {ACCOUNTING}.{second}_away TO {ACCOUNTING}.{second}_job_table")


def test_a_name_of_a_cluster_is_no_sql(database: Database) -> None:
    table = f"{ACCOUNTING}.{identifier(HOSTILE + '_job_table')}"
    try:
        database.sql(
            f"CREATE TABLE {table} LIKE {ACCOUNTING}.{database.lab.cluster}_job_table",
            "SET SESSION sql_mode = ''",
            f"INSERT INTO {ACCOUNTING}.cluster_table (creation_time, name) VALUES (1, {literal(HOSTILE)})",
        )
        add_job(database, HOSTILE, 12, "it's \\ mine")
        database.granted()
        assert database.grant().startswith(f"{VIEW}: the jobs of {database.lab.cluster}, {HOSTILE}\n")
        (job,) = database.jobs(ALICE, "--cluster", HOSTILE)
        assert (job["cluster"], job["name"], job["array_id"]) == (HOSTILE, "it's \\ mine", None)
    finally:
        database.sql(
            f"DELETE FROM {ACCOUNTING}.cluster_table WHERE name = {literal(HOSTILE)}", f"DROP TABLE IF EXISTS {table}"
        )


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_revoked(database: Database) -> None:
    database.granted()
    assert "slurmscope@127.0.0.1, slurmscope@localhost: removed" in database.grant("--revoke")
    assert database.names() == []
    assert database.sql(f"SHOW TABLES FROM {ACCOUNTING} LIKE 'slurmscope%'") == []
    said = database.run("jobs", ALICE, check=1, password_file=str(database.secret))
    assert "has `slurmscope db grant` been run" in said
    assert "no user: removed" in database.grant("--revoke")


def test_without_its_view(database: Database) -> None:
    database.granted()
    database.sql(f"DROP VIEW {VIEW}")
    said = database.run("jobs", ALICE, check=1, password_file=str(database.secret))
    assert f"there is no view {VIEW}, or slurmscope may not read it: `slurmscope db grant` makes it" in said


def test_what_is_wrong_is_named_with_its_cure(database: Database) -> None:
    said = database.grant(check=1, name="elsewhere")
    assert "there is no database elsewhere" in said
    assert "StorageLoc of slurmdbd.conf" in said
    assert "has no cluster_table: database.name must be StorageLoc" in database.grant(check=1, name="mysql")
    said = database.run("grant", "--socket", str(database.folder / "none.sock"), check=1)
    assert "none.sock: cannot be reached: No such file or directory: does the server run" in said
    assert "are database.host and database.port right?" in database.run("jobs", "0", check=1, port="1")
    wrong = database.folder / "wrong"
    wrong.write_text("wrong\n")
    said = database.grant("--admin-user", "slurm", "--admin-password-file", str(wrong), check=1)
    assert "refused the user slurm: run this as root, whom the server knows by its socket" in said
    database.sql("CREATE DATABASE empty", "CREATE TABLE empty.cluster_table (name TEXT, deleted INT)")
    try:
        assert "empty has no table of jobs of any cluster" in database.grant(check=1, name="empty")
    finally:
        database.sql("DROP DATABASE empty")


def test_an_admin_with_a_password(database: Database) -> None:
    """… by host and port; one who may not grant is told so."""
    secret = database.folder / "admin"
    secret.write_text("secret\n")
    admin = ("--socket", "", "--admin-user", "admin", "--admin-password-file", str(secret))
    database.sql("CREATE USER admin@127.0.0.1 IDENTIFIED BY 'secret'")
    try:
        database.sql(f"GRANT SELECT ON {ACCOUNTING}.* TO admin@127.0.0.1", "GRANT SELECT ON mysql.* TO admin@127.0.0.1")
        assert "the user admin may not do this" in database.run("grant", *admin, check=1)
        assert database.names() == []
        database.sql("GRANT ALL ON *.* TO admin@127.0.0.1 WITH GRANT OPTION")
        database.run("grant", *admin, "--write-password", str(database.secret))
        assert database.jobs(ALICE)
    finally:
        database.sql("DROP USER admin@127.0.0.1")
    # the view had that admin's rights
    said = database.run("jobs", ALICE, check=1, password_file=str(database.secret))
    assert "is old, for a cluster was removed, or who made it" in said


def test_root_by_his_socket(database: Database) -> None:
    """As Debian sets it up: the server asks the system who is at the other end."""
    database.sql("ALTER USER root@localhost IDENTIFIED VIA unix_socket")
    try:
        database.granted()
        assert database.jobs(ALICE)
    finally:
        database.sql("ALTER USER root@localhost IDENTIFIED BY ''")


def test_a_server_that_is_not_the_right_one_is_not_spoken_to(database: Database) -> None:
    password = database.granted()
    authority = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    with suppress(FileNotFoundError):
        said = database.run("jobs", ALICE, check=1, password=password, ca=authority)
        assert "CERTIFICATE_VERIFY_FAILED" in said or "SSL is required but the server doesn't support it" in said
