# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is decided becomes a mail, or a line that says why not; in a dry run the same, and no mail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from mail.kept import DOCUMENT
from mail.server import Box, serving, settings
from msgspec.structs import replace

from slurmscope.mail.etiquette import DAY
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.links import FINE, Links
from slurmscope.mail.notice import CANCEL, DIGEST, ESCALATION, JOB, Notice
from slurmscope.mail.office import ALREADY, SAID, WOULD, Office, Point, Telling
from slurmscope.mail.post import Post
from slurmscope.mail.rendering import Templates
from slurmscope.reports.document import Document

NOW = 1_700_000_000
LINKS = Links(b"k" * 32, "https://slurmscope.example.org", 60)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(tmp_path / "notices.db")
    yield found
    found.close()


def telling(number: int = 1, rule: str = "zero_gpu", **fields: Any) -> Telling:
    given: dict[str, Any] = {
        "kind": JOB,
        "person": "alice",
        "key": f"alpha.{number}.{NOW}",
        "cluster": "alpha",
        "number": str(number),
        "work": "train",
        "accounts": ("physics",),
        "partitions": ("gpu",),
        "points": (Point(rule, "GPUs never used"),),
        "document": DOCUMENT,
    }
    return Telling(**(given | fields))


def office(ledger: Ledger, at: float = NOW, **more: Any) -> Office:
    return Office(settings(25, **more), ledger, LINKS, clock=lambda: at)


def whys(ledger: Ledger) -> list[tuple[str, str]]:
    return [(one.event, one.why) for one in reversed(ledger.entries())]


def mail_of(ledger: Ledger, notice: Notice) -> EmailMessage:
    whole = ledger.notice(notice.id)
    assert whole is not None and whole.message is not None
    found = message_from_bytes(whole.message, policy=policy.SMTP)
    assert isinstance(found, EmailMessage)
    return found


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def test_a_warning_is_queued_once(ledger: Ledger) -> None:
    assert office(ledger, url="https://slurmscope.example.org").tell(telling()) == SAID
    assert office(ledger, NOW + 1).tell(telling()) == ALREADY
    (notice,) = ledger.waiting()
    assert (notice.recipient, notice.rule, notice.kind) == ("alice@example.org", "zero_gpu", JOB)
    mail = mail_of(ledger, notice)
    assert mail["Subject"] == "[alpha] 7 train: its GPU was never used"
    text = text_of(mail)
    assert text.splitlines()[-1] == "WARNING=true"
    assert "Leave it out: π." in text
    url = next(word for word in text.split() if "/fine/" in word)
    claim = LINKS.claim(FINE, url.rpartition("/")[2], NOW)
    assert (claim.person, claim.rule, claim.work, claim.job) == ("alice", "zero_gpu", "train", notice.job)
    assert mail["List-Unsubscribe"].startswith("<https://slurmscope.example.org/opt-out/")
    assert whys(ledger) == [("queued", notice.subject)]


def test_without_an_address_of_ours_there_are_no_links(ledger: Ledger) -> None:
    office(ledger).tell(telling())
    mail = mail_of(ledger, ledger.waiting()[0])
    assert "http" not in text_of(mail)
    assert mail["List-Unsubscribe"] is None


def test_in_a_dry_run_all_is_decided_alike_and_nothing_is_sent(ledger: Ledger) -> None:
    dry: dict[str, Any] = {"enabled": False, "pis": {"physics": "curie@example.org"}, "to_pi": 2, "least_days": 3}
    assert office(ledger, **dry).tell(telling(1)) == WOULD
    assert office(ledger, **dry).tell(telling(2)).startswith("the user was told today")
    assert office(ledger, NOW + 3 * DAY, **dry).tell(telling(3)) == WOULD
    events = [(one.event, one.kind) for one in reversed(ledger.entries())]
    assert events == [("would send", JOB), ("not sent", JOB), ("would send", JOB), ("would send", ESCALATION)]
    box = Box()
    with serving(box) as port:
        assert Post(settings(port), ledger, clock=lambda: NOW + 4 * DAY).run() == {}
        # what was only tried does not count once it is meant
        assert office(ledger, NOW + 3 * DAY).tell(telling(3)) == SAID
        assert Post(settings(port), ledger, clock=lambda: NOW + 4 * DAY).run() == {"sent": 1}
    assert len(box.mails) == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"exempt_users": ["alice"]}, "the user is exempt (mail.exempt_users)"),
        ({"exempt_partitions": ["gpu"]}, "partition gpu is exempt (mail.exempt_partitions)"),
        ({"addresses": {}, "address": "{user}@b c"}, "the user has no address"),
    ],
)
def test_each_refusal_is_written_down_once(ledger: Ledger, more: dict[str, Any], why: str) -> None:
    for _ in range(3):
        assert office(ledger, **more).tell(telling()).startswith(why)
    assert ledger.waiting() == []
    ((event, told),) = whys(ledger)
    assert event == "not sent" and told.startswith(why)


def test_what_is_fine_for_this_work_is_not_told_and_the_rest_is(ledger: Ledger) -> None:
    ledger.fine("alice", "zero_gpu", "train", "alpha.0.0", NOW)
    assert office(ledger).tell(telling(1)) == "the user has said that it is fine for this work"
    both = (Point("zero_gpu", "GPUs never used"), Point("low_cpu", "Low CPU use"))
    assert office(ledger).tell(telling(2, points=both)) == SAID
    assert [one.rule for one in ledger.waiting()] == ["low_cpu"]
    assert office(ledger).tell(telling(3, work="other")) == SAID


def test_who_got_the_report_by_asking_slurm_for_mail_is_not_told_again(ledger: Ledger) -> None:
    assert len(office(ledger).asked(["alice@example.org"], "Slurm says", telling(1, nonce="x"), warning=True)) == 1
    assert office(ledger).tell(telling(1)) == "the user has asked Slurm for mail, and got it with the report"
    assert office(ledger).tell(telling(2)) == SAID


def test_who_opted_out_is_told_nothing_and_a_hostile_name_is_one_name(ledger: Ledger) -> None:
    ledger.opt_out("mal\udcffory", NOW, "")
    assert office(ledger).tell(telling(person="mal\udcffory")) == "the user has opted out"


def test_it_goes_up_the_ladder(ledger: Ledger) -> None:
    more: dict[str, Any] = {
        "pis": {"physics": "curie@example.org"},
        "staff": "staff@example.org",
        "to_pi": 2,
        "to_staff": 3,
        "least_days": 1,
    }
    for day in range(3):
        assert office(ledger, NOW + day * DAY, **more).tell(telling(day)) == SAID
    assert office(ledger, NOW + 2 * DAY, **more).tell(telling(9, rule="low_cpu")) == SAID
    found = sorted((one.job, one.kind, one.recipient) for one in ledger.waiting())
    assert [(kind, to) for _, kind, to in found] == [
        (JOB, "alice@example.org"),
        (ESCALATION, "curie@example.org"),
        (JOB, "alice@example.org"),
        (ESCALATION, "curie@example.org"),
        (ESCALATION, "staff@example.org"),
        (JOB, "alice@example.org"),
        (JOB, "alice@example.org"),
    ]
    pi = next(one for one in ledger.waiting() if one.recipient == "curie@example.org")
    text = text_of(mail_of(ledger, pi))
    assert "alice was told of this 2 times within 90 days" in text
    assert "you answer for the account physics" in text
    assert "/opt-out/" not in text and "WARNING=" not in text


def several(number: int, *rules: str) -> Telling:
    points = tuple(Point(rule, rule) for rule in rules)
    return replace(telling(number), points=points)


def test_all_the_rules_of_a_mail_count(ledger: Ledger) -> None:
    assert office(ledger).tell(several(1, "low_cpu", "serial")) == SAID
    for number, rules in enumerate((("low_cpu", "serial"), ("serial", "low_cpu"), ("serial",)), 2):
        assert office(ledger, NOW + 3600).tell(several(number, *rules)).startswith("the user was told today")
    assert office(ledger, NOW + 3600).tell(several(9, "serial", "swap")) == SAID
    assert sorted(one.rules for one in ledger.waiting()) == [("low_cpu", "serial"), ("swap",)]
    more: dict[str, Any] = {"pis": {"physics": "curie@example.org"}, "to_pi": 3, "least_days": 1}
    assert office(ledger, NOW + 9 * DAY, **more).tell(several(10, "serial")) == SAID
    assert office(ledger, NOW + 20 * DAY, **more).tell(several(11, "swap", "serial")) == SAID
    assert [one.kind for one in ledger.waiting()].count(ESCALATION) == 1


def test_a_document_is_made_only_once_it_is_decided(ledger: Ledger) -> None:
    def made(accounts: Sequence[str]) -> Document:
        raise AssertionError("nobody is told")

    ledger.opt_out("alice", NOW, "")
    assert office(ledger).tell(replace(telling(), document=made)) == "the user has opted out"


def test_a_broken_template_is_written_down_and_the_mail_goes_out(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "job.txt").write_text("\n{{ nobody }}")
    assert office(ledger, templates=str(tmp_path / "site")).tell(telling()) == SAID
    (why,) = [why for event, why in whys(ledger) if event == "template"]
    assert why == f"{tmp_path}/site/job.txt:2: 'nobody' is undefined; the built-in template was used"


def test_a_template_that_never_ends_gives_way_to_the_built_in_one(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "job.txt").write_text('{% include "job.txt" %}')
    assert office(ledger, templates=str(tmp_path / "site")).tell(telling()) == SAID
    (problem,) = Templates(str(tmp_path / "site")).problems()
    assert "recursion" in problem.why


def test_in_quiet_hours_it_is_queued_for_the_morning(ledger: Ledger) -> None:
    office(ledger, quiet_hours="22:00-07:00", time_zone="UTC").tell(telling())
    assert ledger.waiting()[0].next_try == NOW - NOW % DAY + DAY + 7 * 3600


def test_of_a_person_s_week_there_is_one_mail(ledger: Ledger) -> None:
    week = telling(kind=DIGEST, key="week 2023-11-06", points=())
    assert office(ledger).tell(week) == SAID
    assert office(ledger).tell(week) == ALREADY
    assert ledger.waiting()[0].rule == ""
    text = text_of(mail_of(ledger, ledger.waiting()[0]))
    assert "once a week" in text and "WARNING=" not in text


def test_what_is_written_down_can_be_forgotten_and_what_people_said_cannot(ledger: Ledger) -> None:
    office(ledger, enabled=False).tell(telling(1))
    office(ledger).tell(telling(2, kind=CANCEL, more={"number": 1, "hours": "4", "cancelled": False}))
    ledger.opt_out("bob", NOW, "")
    ledger.fine("bob", "zero_gpu", "x", "", NOW)
    ledger.forget(NOW, NOW + 1)
    assert [whole.message for one in ledger.earlier("alice", 0, dry=True) if (whole := ledger.notice(one.id))].count(
        None
    ) == 1
    assert ledger.entries()
    ledger.forget(NOW + 1, NOW + 1)
    assert ledger.entries() == []
    assert [one.kind for one in ledger.waiting()] == [CANCEL]
    assert ledger.opted_out("bob") and ledger.fines("bob")


def test_what_is_counted_is_kept_for_as_long_as_it_counts(ledger: Ledger) -> None:
    assert office(ledger, least_days=30).tell(telling(1)) == SAID
    (waiting,) = ledger.waiting()
    ledger.sent(waiting, NOW, "250 OK")
    ledger.forget(NOW + DAY, NOW + DAY, NOW - 30 * DAY)
    assert ledger.entries() == []
    assert office(ledger, NOW + 4 * DAY, least_days=30).tell(telling(2)).startswith("the user was told 4 days ago")
    ledger.forget(NOW + DAY, NOW + DAY, NOW + DAY)
    assert ledger.earlier("alice", 0, dry=False) == []
    assert office(ledger, NOW + 4 * DAY, least_days=30).tell(telling(2)) == SAID
