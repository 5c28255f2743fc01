# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope mail …` and `slurmscope mailprog`, as somebody types them and as Slurm calls it."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from email import message_from_string, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from mail.kept import NEVER, filled, life
from mail.server import PASSWORD, USER, Box, certificate, free_port, serving
from msgspec.structs import replace

from slurmscope.store.sqlite import SqliteStore

ROOT = Path(__file__).parent.parent.parent
SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
ENDED = "Slurm Job_id=7 Name=train Ended, Run time 02:00:00, COMPLETED, ExitCode 0"


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    return subprocess.run(
        [SLURMSCOPE, *words], env=env | environment, cwd=folder, capture_output=True, text=True, check=False
    )


def site(folder: Path, port: int, text: str = "", **more: Any) -> None:
    given: dict[str, Any] = {
        "enabled": True,
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "Cluster <slurm@example.org>",
        "address": "{user}@example.org",
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in (given | more).items()]
    folder.joinpath("slurmscope.toml").write_text(
        f'[store]\nfolder = "{folder}/state"\n[mail]\n' + "\n".join(lines) + f"\n{text}"
    )
    (folder / "state").mkdir(exist_ok=True)


def log(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = run(folder, "mail", "log", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def test_check_says_that_all_is_well_and_sends_only_when_asked(tmp_path: Path) -> None:
    box = Box()
    with serving(box, tmp_path, login=True) as port:
        more = {"security": "starttls", "ca": str(certificate(tmp_path)[0]), "user": USER, "password": PASSWORD}
        site(tmp_path, port, enabled=False, **more)
        done = run(tmp_path, "mail", "check")
        assert (done.returncode, done.stderr) == (0, "")
        assert "off: this is a dry run" in done.stdout
        assert f"127.0.0.1:{port}, starttls, login as slurmscope" in done.stdout
        assert box.mails == []
        done = run(tmp_path, "mail", "check", "--to", "me@example.org")
        assert done.returncode == 0 and "the test mail was taken: 250 taken" in done.stdout
    assert box.recipients == ["me@example.org"]
    assert log(tmp_path)[0]["event"] == "test"
    assert run(tmp_path, "mail", "check", "--to", "no body").returncode == 2


def test_check_names_what_does_not_work(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "digest.html").write_text("\n\n{% for %}")
    site(tmp_path, free_port(), templates=str(tmp_path / "site"))
    done = run(tmp_path, "mail", "check")
    assert done.returncode == 1
    assert "Connection refused" in done.stdout
    assert f"{tmp_path}/site/digest.html:3: " in done.stdout


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sender", "x y", "an address, or a name and an address"),
        ("address", "x@example.org", "an address with {user} in it"),
        ("quiet_hours", "8-9", "hours from and until"),
        ("quiet_days", ["someday"], "days: mon to sun"),
        ("time_zone", "Mars/Base", "a time zone of this machine"),
        ("templates", "/none", "a folder that is there"),
        ("staff", "a b", "an address such as help@example.org"),
        ("user", "x", "mail.password or mail.password_file to be set too"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, key: str, value: Any, expected: str) -> None:
    site(tmp_path, 25, **{key: value})
    done = run(tmp_path, "mail", "check")
    assert done.returncode == 2
    assert f"mail.{key}: expected {expected}" in done.stderr


def test_a_password_is_not_sent_for_all_to_read(tmp_path: Path) -> None:
    site(tmp_path, 25, user=USER, password="x", host="mail.example.org")
    done = run(tmp_path, "mail", "check")
    assert done.returncode == 2
    assert "mail.security: expected starttls or tls where mail.user is set" in done.stderr


def kept(folder: Path, **fields: Any) -> None:
    end = int(time.time()) - 60
    filled(folder / "state" / "slurmscope.db", [(replace(life(7, end), **fields), NEVER)]).close()


def test_mailprog_sends_the_report_of_a_job_that_has_ended(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port, url="https://slurmscope.example.org")
        kept(tmp_path)
        done = run(tmp_path, "mailprog", "-s", ENDED, "alice", SLURM_CLUSTER_NAME="c")
        assert done.returncode == 0, done.stderr
    (mail,) = box.mails
    assert box.recipients == ["alice@example.org"]
    assert mail["Subject"] == ENDED
    text = text_of(mail)
    assert "its GPU was never used" in text
    assert "https://slurmscope.example.org/fine/" in text
    assert text.splitlines()[-1] == "WARNING=true"
    assert mail.get_body(("html",)) is not None


def test_mailprog_that_does_not_know_which_cluster_it_is_guesses_nothing(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port)
        kept(tmp_path)
        with closing(SqliteStore(tmp_path / "state" / "slurmscope.db")) as store, store.writing("other") as writer:
            writer.put_lives([replace(life(8, int(time.time())), cluster="other")])
        assert run(tmp_path, "mailprog", "-s", ENDED, "alice").returncode == 0
        assert run(tmp_path, "mailprog", "-s", ENDED, "alice", SLURM_CLUSTER_NAME="c").returncode == 0
    assert ["never used" in text_of(mail) for mail in box.mails] == [False, True]


def test_mailprog_takes_a_job_s_end_from_slurm_s_words_where_the_store_has_not_heard_of_it(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port)
        now = int(time.time())
        running = replace(life(), start_time=now - 7200, submit_time=now - 7300)
        filled(tmp_path / "state" / "slurmscope.db", [(running, NEVER)]).close()
        assert run(tmp_path, "mailprog", "-s", ENDED, "alice").returncode == 0
    text = text_of(box.mails[0])
    assert "COMPLETED" in text and "its GPU was never used" in text


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("Slurm Job_id=7 Name=train Began, Queued time 00:00:05", {}),
        ("Slurm Job_id=8 Name=of which nothing is kept Ended, Run time 00:00:01, COMPLETED, ExitCode 0", {}),
        ("whatever a newer Slurm may say", {}),
        (ENDED, {"exempt_users": ["alice"]}),
        (ENDED, {"exempt_partitions": ["main"]}),
    ],
)
def test_mailprog_says_slurm_s_words_where_nothing_else_is_to_be_said(
    tmp_path: Path, words: str, more: dict[str, Any]
) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port, **more)
        kept(tmp_path)
        assert run(tmp_path, "mailprog", "-s", words, "alice").returncode == 0
    (mail,) = box.mails
    assert mail["Subject"] == words
    assert text_of(mail).split() == [*words.split(), "WARNING=false"]
    assert mail.get_content_type() == "text/plain"


def test_mailprog_in_a_dry_run_writes_down_and_sends_nothing(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port, enabled=False)
        assert run(tmp_path, "mailprog", "-s", ENDED, "alice").returncode == 0
    assert box.mails == []
    assert [one["event"] for one in log(tmp_path, "--user", "alice")] == ["would send"]


def test_mailprog_keeps_what_cannot_be_sent_and_a_later_send_sends_it(tmp_path: Path) -> None:
    box, port = Box(), free_port()
    site(tmp_path, port)
    assert run(tmp_path, "mailprog", "-s", ENDED, "alice").returncode == 0
    queue = json.loads(run(tmp_path, "mail", "queue", "--json").stdout)
    assert [(one["recipient"], one["state"], one["attempts"]) for one in queue] == [("alice@example.org", "queued", 1)]
    assert "Connection refused" in log(tmp_path)[0]["why"]
    assert ENDED in run(tmp_path, "mail", "queue").stdout
    assert box.mails == []


def test_mailprog_uses_an_address_as_it_is_and_several(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port)
        assert run(tmp_path, "mailprog", "-s", ENDED, "me@home.example,bob").returncode == 0
        assert run(tmp_path, "mailprog", "-s", ENDED, "x y\nBcc: z@example.org").returncode == 0
        assert run(tmp_path, "mailprog", "-s", "Slurm Job_id=1 Name=-s\nBcc: z Ended", "--bob").returncode == 0
    assert sorted(box.recipients) == ["--bob@example.org", "bob@example.org", "me@home.example"]
    assert all(mail["Bcc"] is None for mail in box.mails)
    (why,) = [one["why"] for one in log(tmp_path) if one["event"] == "not sent"]
    assert why.endswith("is no address that could be used (mail.address)")


def test_mailprog_does_not_hang_where_the_server_does(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which takes connections, and never says a word
        site(tmp_path, listener.getsockname()[1], answer_seconds=1.0)
        assert run(tmp_path, "mailprog", "-s", ENDED, "alice").returncode == 0
    assert log(tmp_path)[0]["event"] == "waits"
    assert "timed out" in log(tmp_path)[0]["why"]


def test_mailprog_that_can_write_nothing_down_says_so_in_a_line(tmp_path: Path) -> None:
    site(tmp_path, 25)
    (tmp_path / "state" / "notices.db").mkdir()
    done = run(tmp_path, "mailprog", "-s", ENDED, "alice")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr


def test_the_script_for_slurm_conf(tmp_path: Path) -> None:
    """As slurmctld calls it, with hardly an environment."""
    box = Box()
    with serving(box) as port:
        site(tmp_path, port)
        kept(tmp_path)
        done = subprocess.run(
            [ROOT / "packaging" / "slurm" / "mailprog", "-s", ENDED, "alice"],
            env={"SLURMSCOPE": str(SLURMSCOPE), "SLURM_CLUSTER_NAME": "c", "SLURM_JOB_USER": "alice"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "its GPU was never used" in text_of(box.mails[0])


def test_preview_prints_a_mail_and_nothing_is_sent_or_written(tmp_path: Path) -> None:
    site(tmp_path, free_port())
    kept(tmp_path)
    done = run(tmp_path, "mail", "preview", "job", "7")
    assert done.returncode == 0, done.stderr
    mail = message_from_string(done.stdout, policy=policy.default)
    assert "its GPU was never used" in str(mail["Subject"])
    assert run(tmp_path, "mail", "preview", "digest", "alice", "-o", "digest.eml").returncode == 0
    assert b"Your week: " in (tmp_path / "digest.eml").read_bytes()
    assert log(tmp_path) == []
    assert run(tmp_path, "mail", "preview", "job", "999").returncode == 1
    assert run(tmp_path, "mail", "preview", "digest", "nobody").returncode == 1


def test_send_decides_and_sends(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        site(tmp_path, port, digest_day="never")
        kept(tmp_path)
        assert run(tmp_path, "mail", "send").returncode == 0
        ledger = tmp_path / "state" / "notices.db"
        with closing(sqlite3.connect(ledger)) as db, db:
            db.execute("UPDATE marks SET value = value - 7200")  # as if two hours had gone by
        end = int(time.time()) - 1200
        filled(tmp_path / "state" / "slurmscope.db", [(life(8, end), NEVER)]).close()
        done = run(tmp_path, "mail", "send")
        assert done.returncode == 0, done.stderr
        assert "decided: queued: 1\nmail: sent: 1\n" in done.stdout
    assert len(box.mails) == 1
    assert run(tmp_path, "mail", "log", "--user", "alice").stdout.count("sent") >= 1


def test_a_user_who_tells_the_help_desk(tmp_path: Path) -> None:
    site(tmp_path, 25)
    assert run(tmp_path, "mail", "opt-out", "alice").returncode == 0
    assert run(tmp_path, "mail", "opt-out", "alice", "--undo").returncode == 0
    assert [one["event"] for one in log(tmp_path, "--user", "alice")] == ["opted in", "opted out"]


def test_check_says_who_mail_is_from_and_how_people_are_reached(tmp_path: Path) -> None:
    (tmp_path / "slurmscope.toml").write_text('[mail]\nhost = "mail.invalid"\nanswer_seconds = 1\n')
    done = run(tmp_path, "mail", "check")
    assert done.returncode == 1
    assert "mail.invalid does not know who that is: set mail.sender" in done.stdout
    assert 'alice is alice: set mail.address, "{user}@example.org"' in done.stdout
