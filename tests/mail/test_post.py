# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is sent arrives, once, at a real server; what cannot be sent is tried again, or given up, and written down."""

from __future__ import annotations

import fcntl
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mail.made import NOW, notice
from mail.server import PASSWORD, USER, Box, certificate, free_port, serving, settings

from slurmscope.mail.etiquette import DAY
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.message import Content
from slurmscope.mail.notice import ASKED, DIGEST, ESCALATION, HELD, JOB
from slurmscope.mail.post import LOCK, Post, pause
from slurmscope.settings import Mail


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(tmp_path / "notices.db")
    yield found
    found.close()


def sent(ledger: Ledger, mail: Mail, at: float = NOW, **more: Any) -> dict[str, int]:
    return dict(Post(mail, ledger, clock=lambda: at).run(**more))


def events(ledger: Ledger) -> list[tuple[str, str]]:
    return [(one.event, one.why) for one in reversed(ledger.entries())]


def state(ledger: Ledger, number: int = 1) -> str:
    found = ledger.notice(notice(number).id)
    assert found is not None
    return found.state


def test_a_mail_arrives_once(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        assert ledger.add(notice())
        assert not ledger.add(notice())  # the same once more
        assert sent(ledger, settings(port)) == {"sent": 1}
        assert sent(ledger, settings(port)) == {}
    assert box.recipients == ["alice@example.org"]
    (mail,) = box.mails
    assert mail["From"] == "Cluster <slurm@example.org>"
    assert mail.get_content().splitlines() == ["Hello.", ".", "..dots", "WARNING=true"]
    found = ledger.notice(notice().id)
    assert found is not None and found.state == "sent" and found.message is None
    assert [event for event, _ in events(ledger)] == ["queued", "sent"]
    assert events(ledger)[1][1].startswith("to alice@example.org: 250 taken")


@pytest.mark.parametrize("implicit", [False, True])
def test_over_tls_with_a_login(tmp_path: Path, ledger: Ledger, implicit: bool) -> None:
    box = Box()
    with serving(box, tmp_path, implicit=implicit, login=True) as port:
        mail = settings(
            port,
            security="tls" if implicit else "starttls",
            ca=str(certificate(tmp_path)[0]),
            user=USER,
            password=PASSWORD,
        )
        for number in range(3):  # over one connection
            ledger.add(notice(number))
        assert sent(ledger, mail) == {"sent": 3}
    assert len(set(box.ids)) == 3


def test_the_password_may_be_in_a_file(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    with serving(Box(), tmp_path, login=True) as port:
        mail = settings(
            port,
            security="starttls",
            ca=str(certificate(tmp_path)[0]),
            user=USER,
            password_file=str(tmp_path / "password"),
        )
        ledger.add(notice())
        assert sent(ledger, mail) == {"sent": 1}


def test_a_password_s_file_that_cannot_be_used_is_named(tmp_path: Path, ledger: Ledger) -> None:
    with serving(Box(), tmp_path, login=True) as port:
        file = tmp_path / "password"
        ca = str(certificate(tmp_path)[0])
        mail = settings(port, security="starttls", ca=ca, user=USER, password_file=str(file))
        ledger.add(notice())
        assert sent(ledger, mail) == {"waits": 1}
        assert events(ledger)[-1][1] == f"{file}: No such file or directory (mail.password_file)"
        file.write_bytes(b"\xff")
        assert sent(ledger, mail, NOW + 60) == {"waits": 1}
        assert events(ledger)[-1][1] == f"{file}: expected ASCII (mail.password_file)"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ca": ""}, "its certificate is not believed"),
        ({"host": "localhost"}, "its certificate is not believed"),
        ({"security": "none"}, "mail.user is set, and the server offers neither"),
        ({"password": "wrong"}, "the login was refused (535 5.7.8 Authentication credentials invalid)"),
        ({"security": "tls", "answer_seconds": 1.0}, "is mail.security what the server speaks at this port?"),
    ],
)
def test_what_is_not_as_it_should_be_is_not_gone_around(
    tmp_path: Path, ledger: Ledger, more: dict[str, Any], said: str
) -> None:
    box = Box()
    with serving(box, tmp_path, login=True) as port:
        mail = {
            "security": "starttls",
            "ca": str(certificate(tmp_path)[0]),
            "user": USER,
            "password": PASSWORD,
        }
        ledger.add(notice())
        assert sent(ledger, settings(port, **(mail | more))) == {"waits": 1}
    assert box.mails == []
    assert said in events(ledger)[-1][1]
    assert PASSWORD not in str(events(ledger))


def test_a_server_without_tls_gets_nothing_where_it_must_be_secret(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        ledger.add(notice())
        assert sent(ledger, settings(port, security="starttls")) == {"waits": 1}
    assert box.mails == []
    assert "mail.security is starttls" in events(ledger)[-1][1]


def test_it_is_tried_again_later_and_later_and_then_given_up(ledger: Ledger) -> None:
    mail = settings(free_port())
    ledger.add(notice())
    at, tries = NOW, 0
    while state(ledger) == "queued":
        found = ledger.notice(notice().id)
        assert found is not None
        assert sent(ledger, mail, found.next_try - 1) == {}
        at = found.next_try
        tries += sent(ledger, mail, at) == {"waits": 1}
    assert state(ledger) == "failed"
    assert events(ledger)[-1] == ("not sent", "it could not be sent for 5 days (mail.keep_days)")
    assert [event for event, _ in events(ledger)] == ["queued", "waits", "not sent"]  # the same is written once
    assert 5 * DAY < at - NOW < 6 * DAY
    assert tries == 25
    assert [pause(number) for number in range(7)] == [60, 240, 960, 3840, 15360, 21600, 21600]


def test_what_nobody_sent_for_days_is_stale(ledger: Ledger) -> None:
    """As when mail.enabled was taken back for a while."""
    box = Box()
    with serving(box) as port:
        ledger.add(notice(1))
        ledger.add(notice(2, next_try=NOW + 30 * DAY))
        assert sent(ledger, settings(port), NOW + 30 * DAY + 60) == {"not sent": 1, "sent": 1}
    assert state(ledger, 1) == "failed"


def test_a_recipient_that_is_refused_for_now_is_tried_again_and_the_others_are_not_kept_waiting(
    ledger: Ledger,
) -> None:
    box = Box()
    box.rcpt = {"alice@example.org": "450 greylisted", "carol@example.org": "550 no such user"}
    with serving(box) as port:
        for number, name in enumerate(("alice", "bob", "carol")):
            ledger.add(notice(number, person=name, recipient=f"{name}@example.org"))
        assert sent(ledger, settings(port)) == {"sent": 1, "waits": 1, "not sent": 1}
        assert box.recipients == ["bob@example.org"]
        box.rcpt = {}
        assert sent(ledger, settings(port), NOW + 60) == {"sent": 1}
    assert box.recipients == ["bob@example.org", "alice@example.org"]
    assert any(event == "not sent" and "550 no such user" in why for event, why in events(ledger))


@pytest.mark.parametrize(
    ("answer", "outcome"), [("451 later", "waits"), ("552 too large", "not sent"), ("421 going down", "waits")]
)
def test_the_answer_to_the_last_line_decides(ledger: Ledger, answer: str, outcome: str) -> None:
    box = Box()
    box.data = answer
    with serving(box) as port:
        ledger.add(notice())
        assert sent(ledger, settings(port)) == {outcome: 1}
        box.data = "250 OK"
        again = sent(ledger, settings(port), NOW + 60)
    assert again == ({"sent": 1} if outcome == "waits" else {})


@pytest.mark.parametrize("how", ["hang_up", "hang"])
def test_a_server_that_goes_after_the_last_line_may_have_taken_it(ledger: Ledger, how: str) -> None:
    box = Box()
    setattr(box, how, True)
    with serving(box) as port:
        ledger.add(notice())
        assert sent(ledger, settings(port, answer_seconds=0.5)) == {"uncertain": 1}
        setattr(box, how, False)
        assert sent(ledger, settings(port), NOW + DAY) == {}
    assert len(box.mails) == 1
    assert events(ledger)[-1][1].endswith("it is not sent again")


def lines_until_data(sock: socket.socket) -> None:
    """A server that is polite until it is given the mail itself."""
    sock.sendall(b"220 here\r\n")
    with sock.makefile("rb") as lines:
        for line in lines:
            if line.upper().startswith(b"DATA"):
                sock.sendall(b"354 go on\r\n")
                lines.read(100)
                return
            sock.sendall(b"250 OK\r\n")


def test_a_server_that_dies_within_the_mail_has_not_taken_it(ledger: Ledger) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            sock, _ = listener.accept()
            lines_until_data(sock)
            sock.close()

        thread = threading.Thread(target=answer)
        thread.start()
        text = "x" * 60 + "\n"
        large = notice(content=Content(subject="large", text=text * 300_000))
        ledger.add(large)
        assert sent(ledger, settings(listener.getsockname()[1])) == {"waits": 1}
        thread.join()
    box = Box()
    with serving(box) as port:
        assert sent(ledger, settings(port), NOW + 60) == {"sent": 1}
    assert len(box.mails) == 1


def test_nothing_is_sent_in_a_dry_run(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        ledger.add(notice(1, state=HELD))
        ledger.add(notice(2))
        assert sent(ledger, settings(port, enabled=False)) == {}
        assert sent(ledger, settings(port)) == {"sent": 1}
    assert len(box.mails) == 1
    assert events(ledger)[0] == ("would send", notice().subject)
    assert state(ledger, 1) == HELD


def test_who_became_exempt_or_opted_out_while_it_waited_gets_nothing(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        ledger.add(notice(1, person="alice"))
        ledger.add(notice(2, person="bob", kind=DIGEST))
        ledger.add(notice(3, person="bob", kind=ASKED))
        ledger.add(notice(4, person="bob", kind=ESCALATION, recipient="pi@example.org"))
        ledger.opt_out("bob", NOW, "by the link")
        assert sent(ledger, settings(port, exempt_users=["alice"])) == {"not sent": 3, "sent": 1}
    assert box.recipients == ["alice@example.org"]
    whys = {why for event, why in events(ledger) if event == "not sent"}
    assert whys == {"the user is exempt (mail.exempt_users)", "the user has opted out"}


@pytest.mark.parametrize("kind", [JOB, ESCALATION])
def test_what_became_fine_or_exempt_while_it_waited_is_withdrawn_with_all_that_goes_to_others(
    ledger: Ledger, kind: str
) -> None:
    box = Box()
    of: dict[str, Any] = {"kind": kind, "work": "train", "accounts": ("physics",), "partitions": ("gpu", "long")}
    with serving(box) as port:
        each: list[dict[str, Any]] = [
            {},
            {"rules": ("zero_gpu", "low_cpu")},
            {"work": "other"},
            {"partitions": ("debug",)},
            {"accounts": ("ops",)},
        ]
        for number, fields in enumerate(each, 1):
            ledger.add(notice(number, **(of | fields | {"id": notice(number).id})))
        ledger.fine("alice", "zero_gpu", "train", "", NOW)
        mail = settings(port, exempt_partitions=["debug"], exempt_accounts=["ops"])
        assert sent(ledger, mail) == {"not sent": 3, "sent": 2}
    assert [state(ledger, number) for number in range(1, 6)] == ["withdrawn", "sent", "sent", "withdrawn", "withdrawn"]


def test_it_is_given_up_from_the_first_try_on(ledger: Ledger) -> None:
    box = Box()
    box.rcpt = {"alice@example.org": "451 greylisted"}
    late = NOW + 8 * DAY  # it waited for the end of the holidays
    with serving(box) as port:
        ledger.add(notice(1, next_try=late))
        assert sent(ledger, settings(port), late) == {"waits": 1}
        box.rcpt = {}
        assert sent(ledger, settings(port), late + 60) == {"sent": 1}


@pytest.mark.parametrize("command", ["MAIL", "RSET", "DATA"])
def test_a_server_that_refuses_us_is_tried_again_and_it_costs_no_mail(ledger: Ledger, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            sock, _ = listener.accept()
            with sock, sock.makefile("rb") as lines:
                sock.sendall(b"220 here\r\n")
                for line in lines:
                    refused = line.upper().startswith(command.encode())
                    sock.sendall(b"530 5.7.0 log in first\r\n" if refused else b"250 OK\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        for number in range(3):
            ledger.add(notice(number))
        assert sent(ledger, settings(listener.getsockname()[1])) == {"waits": 1}
        thread.join()
    assert len(ledger.waiting()) == 3
    waits = [why for event, why in events(ledger) if event == "waits"]
    assert len(waits) == 1 and f"530 5.7.0 log in first (to {command})" in waits[0]


def test_any_answer_of_success_to_the_last_line_is_one_and_it_may_come_late(ledger: Ledger) -> None:
    box = Box()
    box.data, box.slow = "252 cannot verify, but taken", 1.0
    with serving(box) as port:
        ledger.add(notice())
        assert sent(ledger, settings(port, answer_seconds=0.5)) == {"sent": 1}


def test_a_password_that_no_server_understands_is_told(tmp_path: Path, ledger: Ledger) -> None:
    with serving(Box(), tmp_path, login=True) as port:
        ca = str(certificate(tmp_path)[0])
        ledger.add(notice())
        mail = settings(port, security="starttls", ca=ca, user=USER, password="pässword")
        assert sent(ledger, mail) == {"waits": 1}
    assert events(ledger)[-1][1].startswith("mail.user, mail.password: expected ASCII")


def test_who_is_to_stop_stops_between_mails(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        for number in range(3):
            ledger.add(notice(number))
        post = Post(settings(port), ledger, clock=lambda: NOW, stop=lambda: bool(box.mails))
        assert post.run() == {"sent": 1}
    assert len(ledger.waiting()) == 2


def test_what_a_clock_that_was_wrong_has_sent_does_not_count(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        mail = settings(port, per_minute=1)
        ledger.add(notice(1))
        assert sent(ledger, mail, NOW + 7200, wait=False) == {"sent": 1}
        ledger.add(notice(2))
        assert sent(ledger, mail, NOW + 1, wait=False) == {"sent": 1}


def test_what_comes_due_in_quiet_hours_waits_but_not_what_was_asked_for(ledger: Ledger) -> None:
    box = Box()
    with serving(box) as port:
        mail = settings(port, quiet_hours="22:00-07:00", time_zone="UTC")  # NOW is 22:13:20
        ledger.add(notice(1))
        ledger.add(notice(2, kind=ASKED))
        assert sent(ledger, mail) == {"waits": 1, "sent": 1}
        morning = NOW - NOW % DAY + DAY + 7 * 3600
        assert sent(ledger, mail, morning - 1) == {}
        assert sent(ledger, mail, morning) == {"sent": 1}
    found = ledger.notice(notice(1).id)
    assert found is not None and found.attempts == 1


def test_no_more_than_so_many_a_minute(ledger: Ledger) -> None:
    box = Box()
    clock = [float(NOW)]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    with serving(box) as port:
        for number in range(7):
            ledger.add(notice(number))
        mail = settings(port, per_minute=3)
        assert sent(ledger, mail, wait=False) == {"sent": 3}
        assert dict(Post(mail, ledger, clock=lambda: clock[0], sleep=sleep).run()) == {"sent": 4}
    assert clock[0] - NOW == pytest.approx(120)
    assert len(box.mails) == 7


def test_who_finds_another_sending_leaves_it_to_that_one(ledger: Ledger, tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port, (tmp_path / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ledger.add(notice())
        assert sent(ledger, settings(port)) == {}
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert sent(ledger, settings(port)) == {"sent": 1}


def test_many_that_send_at_once_send_each_mail_once(tmp_path: Path) -> None:
    box = Box()
    with serving(box) as port:
        ledgers = [Ledger(tmp_path / "notices.db") for _ in range(4)]
        for number in range(40):
            ledgers[0].add(notice(number))
        threads = [threading.Thread(target=lambda one=one: sent(one, settings(port), patience=30)) for one in ledgers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(box.ids) == len(set(box.ids)) == 40


def test_what_was_handed_over_by_one_that_is_gone_is_not_sent_again(ledger: Ledger) -> None:
    box = Box()
    ledger.add(notice())
    assert ledger.hand(notice().id, NOW)
    assert not ledger.hand(notice().id, NOW)
    with serving(box) as port:
        assert sent(ledger, settings(port)) == {"uncertain": 1}
    assert box.mails == []
    assert state(ledger) == "uncertain"
