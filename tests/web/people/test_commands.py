# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope portal …`, as somebody types it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slurmscope.settings import Portal
from slurmscope.web.people.ledger import Ledger
from slurmscope.web.people.local import Local
from slurmscope.web.people.sessions import Sessions
from slurmscope.web.people.tokens import Tokens

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
PASSWORD = "correct horse battery"


def site(folder: Path, portal: str = 'sign_in = ["local"]') -> Ledger:
    folder.joinpath("slurmscope.toml").write_text(f'[store]\nfolder = "{folder}/state"\n[portal]\n{portal}\n')
    return Ledger(folder / "state" / "portal.db")


def run(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    command: list[str | Path] = [SLURMSCOPE, "portal", *words]
    return subprocess.run(command, env=env, cwd=folder, input=stdin, capture_output=True, text=True, check=False)


def shown(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = run(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_accounts_are_made_changed_listed_and_removed(tmp_path: Path) -> None:
    ledger = site(tmp_path)
    done = run(tmp_path, "user", "add", "alice", stdin=f"{PASSWORD}\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "alice has an account\n", "")
    now = int(time.time())
    assert Local(ledger).sign_in("alice", PASSWORD, "", now).right
    session = Sessions(ledger, Portal(sign_in=["local"])).begin("alice", "local", now)
    token = Tokens(ledger).make("alice", "my laptop", 30, now)
    done = run(tmp_path, "user", "password", "alice", stdin="staple staple\n")
    assert (done.returncode, done.stdout) == (0, "alice has another password; 1 session ended, 1 token revoked\n")
    assert Tokens(ledger).of(token, now) is None
    assert Local(ledger).sign_in("alice", "staple staple", "", now).right
    assert Sessions(ledger, Portal(sign_in=["local"])).of(session, now) is None
    assert [one["name"] for one in shown(tmp_path, "user", "list")] == ["alice"]
    assert "alice" in run(tmp_path, "user", "list").stdout
    done = run(tmp_path, "user", "remove", "alice")
    assert (done.returncode, done.stdout) == (0, "alice has no account any more; 0 sessions ended, 0 tokens revoked\n")
    assert shown(tmp_path, "user", "list") == []
    assert [one["action"] for one in shown(tmp_path, "log")] == [
        "account removed",
        "token revoked",
        "password changed",
        "token made",
        "signed in",
        "account made",
    ]
    assert "at the command line" in run(tmp_path, "log").stdout
    ledger.close()


def test_what_cannot_be_done_is_told_in_one_line(tmp_path: Path) -> None:
    site(tmp_path).close()
    for words, stdin, status, why in [
        (("user", "add", "alice"), "short\n", 2, "password: expected 10 to 500 characters, found 5"),
        (("user", "add", "a b"), f"{PASSWORD}\n", 2, "'a b' is no name of a user"),
        (("user", "add", "alice"), "", 2, "password: expected a line on standard input"),
        (("user", "password", "alice"), f"{PASSWORD}\n", 1, "'alice' has no account"),
        (("user", "remove", "al\x1bice"), "", 1, "has no account"),
        (("token", "revoke", "7"), "", 1, "there is no token 7"),
    ]:
        done = run(tmp_path, *words, stdin=stdin)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith("slurmscope: ") and why in done.stderr and done.stderr.count("\n") == 1
        assert done.stderr.strip().isprintable()


def test_who_makes_an_account_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    site(tmp_path, "").close()
    done = run(tmp_path, "user", "add", "alice", stdin=f"{PASSWORD}\n")
    assert done.returncode == 0 and 'before portal.sign_in has "local"' in done.stdout


def test_tokens_and_sessions_are_ended(tmp_path: Path) -> None:
    ledger = site(tmp_path)
    now = int(time.time())
    tokens, sessions = Tokens(ledger), Sessions(ledger, Portal(sign_in=["local"]))
    secret, cookie = tokens.make("alice", "my laptop", 30, now), sessions.begin("alice", "local", now)
    tokens.make("bob", "ci", 30, now)
    (found,) = shown(tmp_path, "token", "list", "--user", "alice")
    assert (found["user"], found["label"], found["used"]) == ("alice", "my laptop", None)
    table = run(tmp_path, "token", "list").stdout
    assert "my laptop" in table and "ci" in table and secret not in table
    assert run(tmp_path, "token", "revoke", str(found["id"])).returncode == 0
    assert tokens.of(secret, now) is None
    assert run(tmp_path, "sessions", "end", "alice").stdout == "alice: 1 session ended\n"
    assert sessions.of(cookie, now) is None
    assert run(tmp_path, "sessions", "end", "alice").stdout == "alice: 0 sessions ended\n"
    assert [one["action"] for one in shown(tmp_path, "log", "--user", "alice")] == ["signed in", "token made"]
    ledger.close()


def test_a_password_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    ledger = site(tmp_path)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SLURMSCOPE, "portal", "user", "add", "alice"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,  # so that it asks at this terminal, and not at the one of the tests
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for question in (b"Password: ", b"confirmation: "):
            asked = b""
            while not asked.endswith(question):
                asked += process.stderr.read(1)
            time.sleep(0.2)  # what is typed before the echo is off is thrown away
            os.write(ours, f"{PASSWORD}\n".encode())
        said = process.stdout.read().decode() + process.stderr.read().decode()
    assert "alice has an account" in said and PASSWORD not in said
    os.close(theirs)
    os.close(ours)
    assert Local(ledger).sign_in("alice", PASSWORD, "", int(time.time())).right
    ledger.close()
