# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope db` where there is no database, or not yet, and whom a user's name means."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from configured import alone, from_toml, problems

from slurmscope.database.jobs import User, user_of

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"


def run(folder: Path, *arguments: str, **settings: str) -> tuple[int, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    done = subprocess.run(
        [SLURMSCOPE, "db", *arguments], env=env | settings, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_whom_a_name_means() -> None:
    root = pwd.getpwuid(0).pw_name
    assert user_of(root) == User(root, 0)
    assert user_of("0") == User(root, 0)
    assert user_of("4000000001") == User("4000000001", 4000000001), "who is gone still has jobs"
    for wrong in ("no-such-user", "", "-1", "1.5", "٣", "4294967294", "99999999999", "a\0b", "od\udcff"):
        assert user_of(wrong) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("jobs", "no-such-user"), "USER: expected a name that this machine knows (`getent passwd`), or a number"),
        (("grant", "--password-file", "a", "--write-password", "b"), "--write-password: expected none beside"),
        (("grant", "--revoke", "--write-password", "b"), "--revoke: expected neither a password nor --host"),
        (("grant", "--revoke", "--host", "b"), "--revoke: expected neither a password nor --host"),
        (("jobs", "0", "--limit", "-1"), "Invalid value for '--limit'"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    status, said = run(tmp_path, *arguments)
    assert status == 2
    assert expected in said


def test_without_a_server(tmp_path: Path) -> None:
    with socket.socket() as taken:  # and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        status, said = run(tmp_path, "jobs", "0", SLURMSCOPE_DATABASE_PORT=port)
    assert status == 1
    assert said == (
        f"slurmscope: 127.0.0.1:{port}: cannot be reached: Connection refused: does the server run, and are "
        "database.host and database.port right?\n"
    )


def test_what_is_no_server_of_that_kind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        env = {"SLURMSCOPE_DATABASE_PORT": str(port)}
        argv = [str(SLURMSCOPE), "db", "jobs", "0"]
        process = subprocess.Popen(argv, env=os.environ | env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        connection, _ = server.accept()
        connection.sendall(b"\x1b]0;SSH-2.0\r\n")
        connection.close()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.startswith(f"slurmscope: 127.0.0.1:{port}: ")
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said


def test_without_its_driver(tmp_path: Path) -> None:
    """An extra that is not installed is named, and nothing else needs it."""
    (tmp_path / "pymysql.py").write_text("raise ImportError('no pymysql here')\n")
    status, said = run(tmp_path, "jobs", "0", PYTHONPATH=str(tmp_path))
    assert (status, said.count("\n")) == (1, 1)
    assert "pip install 'slurmscope[database]'" in said
    status, _ = run(tmp_path, "grant", "--help", PYTHONPATH=str(tmp_path))
    assert status == 0


@pytest.mark.parametrize("content", [b"", b"\n", "süß\n".encode(), b"a\tb\n", b"\xff"])
def test_a_file_without_a_password(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    status, said = run(tmp_path, "jobs", "0", SLURMSCOPE_DATABASE_PASSWORD_FILE="secret")
    assert (status, said.count("\n")) == (1, 1)
    assert "secret: expected a password in its first line" in said
    status, said = run(tmp_path, "jobs", "0", SLURMSCOPE_DATABASE_PASSWORD_FILE="nowhere")
    assert "nowhere: cannot be read: No such file or directory" in said


def test_a_ca_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("hello")
    status, said = run(tmp_path, "jobs", "0", SLURMSCOPE_DATABASE_CA="ca")
    assert (status, said.count("\n")) == (1, 1)
    assert "ca (database.ca): cannot be used" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host = ''", "database.host: expected a host's name or address"),
        ("host = 'a b'", "database.host: expected a host's name or address"),
        ("port = 0", "database.port: expected a whole number of at least 1"),
        ("socket = 'run/mysqld.sock'", "database.socket: expected an absolute path"),
        ("name = 'a`b'", "database.name: expected 1 to 64 of a-z"),
        ("view = ''", "database.view: expected 1 to 64 of a-z"),
        ("user = 'a@b'", "database.user: expected 1 to 64 of a-z"),
        ("ca = '/nowhere'", "database.ca: expected a file that exists and can be read"),
        (
            "password = 'a'\npassword_file = 'b'",
            "database.password: expected to be the only secret, found database.password_file beside it",
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    alone(tmp_path, monkeypatch)
    (found,) = problems(f"[database]\n{text}")
    assert found.startswith(f"given.toml: {expected}")


def test_settings_that_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(tmp_path, monkeypatch)
    for host in ("127.0.0.1", "::1", "db.example.org"):
        assert from_toml(f"[database]\nhost = '{host}'").settings.database.host == host
    found = from_toml("[database]\npassword = 'old'", {"SLURMSCOPE_DATABASE_PASSWORD_FILE": "new"}).settings.database
    assert (found.password, found.password_file) == ("", "new")
    (said,) = problems(env={"SLURMSCOPE_DATABASE_PASSWORD": "hunter2\n"})
    assert "hunter2" not in said
