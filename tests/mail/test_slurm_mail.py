# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What Slurm's MailProg makes of a call, whatever the store does meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mail.kept import DOCUMENT, life
from mail.server import settings
from msgspec.structs import replace

from slurmscope.findings.rule import Finding
from slurmscope.life import Life
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import Notice
from slurmscope.mail.office import Office
from slurmscope.mail.slurm_mail import Call, Known, Look, deliver, ended, meant
from slurmscope.mail.subject import Subject, parse

NOW = 1_700_000_000
WORDS = "Slurm Job_id=7 Name=train Ended, Run time 02:00:00, TIMEOUT, ExitCode 0"
FINDING = Finding("its GPU was never used", "", "", rule="zero_gpu", severity="bad")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(tmp_path / "notices.db")
    yield found
    found.close()


def known(told: Subject, cluster: str) -> Known:
    return Known(life(7, NOW), (FINDING,), DOCUMENT)


def delivered(ledger: Ledger, look: Look, words: str = WORDS, **more: Any) -> Notice:
    mail = settings(25, **more)
    office = Office(mail, ledger, clock=lambda: NOW)
    call = Call(words=words, recipient="alice", cluster="c")
    (notice,) = deliver(call, mail, ledger, office, look, NOW, 0.2)
    return notice


def warns(notice: Notice) -> bool:
    assert notice.message is not None
    return b"WARNING=3Dtrue" in notice.message or b"WARNING=true" in notice.message


def test_findings_are_a_warning(ledger: Ledger) -> None:
    notice = delivered(ledger, known)
    assert warns(notice)
    assert (notice.rule, notice.job) == ("zero_gpu", life(7, NOW).document_id)


def test_what_the_user_has_said_to_be_fine_is_no_warning(ledger: Ledger) -> None:
    ledger.fine("alice", "zero_gpu", "train", "", NOW)
    notice = delivered(ledger, known)
    assert not warns(notice) and notice.rule == ""


def test_who_opted_out_gets_what_was_asked_for_and_no_more(ledger: Ledger) -> None:
    ledger.opt_out("alice", NOW, "")
    notice = delivered(ledger, known)
    assert not warns(notice)
    assert notice.message is not None and b"never used" not in notice.message


@pytest.mark.parametrize("more", [{"exempt_accounts": ["physics"]}, {"exempt_partitions": ["main"]}])
def test_of_whole_arrays_too_those_who_are_exempt_get_slurm_s_words(ledger: Ledger, more: dict[str, Any]) -> None:
    def array(told: Subject, cluster: str) -> Known:
        return Known(life(7, NOW), (), DOCUMENT, whole=True)

    assert warns(delivered(ledger, array))
    notice = delivered(ledger, array, **more)
    assert not warns(notice)
    assert notice.message is not None and b"never used" not in notice.message
    ledger.fine("alice", "zero_gpu", "train", "", NOW)
    assert not warns(delivered(ledger, array))


TASK = replace(life(9, NOW - 60), array_id=7, array_tasks="2")


@pytest.mark.parametrize(
    ("lives", "number", "user", "found"),
    [
        ([life(7, NOW - 60)], "7", "alice", 7),
        ([life(7, NOW - 60)], "7", "", 7),
        ([life(7, NOW - 60)], "7", "bob", None),  # whose job has got the number of hers
        ([life(7, NOW - 901)], "7", "alice", None),
        ([life(7)], "7", "alice", 7),
        ([TASK], "7", "alice", None),
        ([TASK], "7_2", "alice", 9),
        ([TASK], "7_3", "alice", None),
        ([replace(TASK, end_time=NOW - 9999), replace(TASK, id=8)], "7_*", "alice", 8),
        ([replace(TASK, end_time=NOW - 9999)], "7_*", "alice", None),
    ],
)
def test_the_job_that_slurm_speaks_of(lives: list[Life], number: str, user: str, found: int | None) -> None:
    told = parse(f"Slurm {'Array Summary ' if '*' in number else ''}Job_id={number} Name=x Ended, COMPLETED")
    assert told is not None
    life_ = meant(lives, told, user, NOW)
    assert (None if life_ is None else life_.id) == found


def test_a_store_that_hangs_is_not_waited_for(ledger: Ledger) -> None:
    over = threading.Event()

    def hangs(told: Subject, cluster: str) -> Known | None:
        over.wait(60)
        return None

    notice = delivered(ledger, hangs)
    over.set()
    assert (notice.subject, notice.job) == (WORDS, "c.7")


def test_a_fault_in_the_report_costs_the_report_alone(ledger: Ledger) -> None:
    def fails(told: Subject, cluster: str) -> Known | None:
        raise ZeroDivisionError

    assert not warns(delivered(ledger, fails))


def test_each_call_is_a_mail_of_its_own(ledger: Ledger) -> None:
    assert delivered(ledger, known).id != delivered(ledger, known).id


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (WORDS, "TIMEOUT"),
        ("Slurm Job_id=7 Name=x Failed, Run time 00:00:01, FAILED, ExitCode 1", "FAILED"),
        ("Slurm Job_id=7 Name=x Failed, Run time 00:00:01, something new", "FAILED"),
        ("Slurm Job_id=7 Name=x Ended, Run time 00:00:01", "COMPLETED"),
    ],
)
def test_the_end_that_the_store_has_not_heard_of(words: str, state: str) -> None:
    told = parse(words)
    assert told is not None
    found = ended(life(), told, NOW)
    assert (found.state, found.end_time, found.ended) == (state, NOW, True)
    over = life(7, NOW)
    assert ended(over, told, NOW + 9) == over
    waits = replace(life(), state="PENDING", start_time=None, node_list="")
    assert ended(waits, told, NOW) == waits
