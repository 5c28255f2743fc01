# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who is told what, who is not and why, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.mail.etiquette import DAY, Standing, Told, Wanted, opening, refusal
from slurmscope.mail.ladder import PI, STAFF, Rung, earlier, rungs
from slurmscope.mail.notice import ASKED, CANCEL, DIGEST, JOB
from slurmscope.settings import Mail

NOW = 1_700_000_000
PARIS = ZoneInfo("Europe/Paris")


def wanted(**fields: Any) -> Wanted:
    given: dict[str, Any] = {
        "kind": JOB,
        "person": "alice",
        "rule": "zero_gpu",
        "work": "train",
        "accounts": ("physics",),
        "partitions": ("gpu", "long"),
    }
    return Wanted(**(given | fields))


LATELY = Standing(told=(Told(JOB, "zero_gpu", NOW - 6 * DAY),))


@pytest.mark.parametrize(
    ("asked", "standing", "mail", "why"),
    [
        (wanted(), Standing(), Mail(), None),
        (wanted(person=""), Standing(), Mail(), "whose it is, is unknown"),
        (wanted(), Standing(), Mail(exempt_users=["alice"]), "the user is exempt (mail.exempt_users)"),
        (
            wanted(),
            Standing(),
            Mail(exempt_accounts=["physics"]),
            "account physics is exempt (mail.exempt_accounts)",
        ),
        (
            wanted(),
            Standing(),
            Mail(exempt_partitions=["long"]),
            "partition long is exempt (mail.exempt_partitions)",
        ),
        (wanted(), Standing(opted_out=True), Mail(), "the user has opted out"),
        (wanted(kind=DIGEST), Standing(opted_out=True), Mail(), "the user has opted out"),
        (
            wanted(),
            Standing(fine={("zero_gpu", "train")}),
            Mail(),
            "the user has said that it is fine for this work",
        ),
        (wanted(work="other"), Standing(fine={("zero_gpu", "train")}), Mail(), None),
        (wanted(rule="low_cpu"), Standing(fine={("zero_gpu", "train")}), Mail(), None),
        (
            wanted(),
            LATELY,
            Mail(),
            "the user was told 6 days ago, and 7 days must lie between (mail.least_days)",
        ),
        (wanted(), LATELY, Mail(least_days=6), None),
        (wanted(rule="low_cpu"), LATELY, Mail(), None),
        (wanted(kind=DIGEST), LATELY, Mail(), None),
        (wanted(kind=DIGEST, rule=""), Standing(told=(Told(DIGEST, "", NOW - 7 * DAY + 600),)), Mail(), None),
        (
            wanted(kind=DIGEST, rule=""),
            Standing(told=(Told(DIGEST, "", NOW - 7 * DAY),)),
            Mail(least_days=14),
            "the user was told 7 days ago, and 14 days must lie between (mail.least_days)",
        ),
        (wanted(kind=CANCEL), Standing(told=(Told(CANCEL, "zero_gpu", NOW),)), Mail(), None),
        (wanted(kind=CANCEL), Standing(opted_out=True), Mail(), "the user has opted out"),
        (wanted(kind=ASKED), Standing(opted_out=True), Mail(exempt_users=["alice"]), None),
    ],
)
def test_may_it_be_told(asked: Wanted, standing: Standing, mail: Mail, why: str | None) -> None:
    assert refusal(asked, standing, mail, NOW) == why


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=PARIS).timestamp())


@pytest.mark.parametrize(
    ("days", "hours", "now", "then"),
    [
        ([], "", "2026-11-15T23:00", "2026-11-15T23:00"),
        ([], "20:00-07:00", "2026-11-15T19:59", "2026-11-15T19:59"),
        ([], "20:00-07:00", "2026-11-15T20:00", "2026-11-16T07:00"),
        ([], "20:00-07:00", "2026-11-15T03:00", "2026-11-15T07:00"),
        ([], "12:00-13:00", "2026-11-15T12:30", "2026-11-15T13:00"),
        (["sat", "sun"], "", "2026-11-14T12:00", "2026-11-16T00:00"),
        (["sat", "sun"], "20:00-07:00", "2026-11-13T21:00", "2026-11-16T07:00"),
        (["2026-12-25", "2026-12-26"], "", "2026-12-25T08:00", "2026-12-27T00:00"),
        (["fri", "2026-12-26", "sun"], "", "2026-12-25T08:00", "2026-12-28T00:00"),
        ([], "02:00-02:30", "2026-03-29T01:59", "2026-03-29T01:59"),  # there is no such hour on that day
        ([], "22:00-02:30", "2026-03-29T01:00", "2026-03-29T03:30"),
        ([], "22:00-07:00", "2026-10-25T01:00", "2026-10-25T07:00"),  # nor is there only one
    ],
)
def test_quiet_times_in_the_site_s_time(days: list[str], hours: str, now: str, then: str) -> None:
    mail = Mail(time_zone="Europe/Paris", quiet_days=days, quiet_hours=hours)
    assert opening(mail, at(now)) == at(then)


def test_days_that_are_all_quiet_cannot_be_meant() -> None:
    every = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    assert opening(Mail(quiet_days=every, time_zone="UTC"), NOW) == NOW


@given(
    st.integers(1_600_000_000, 1_900_000_000),
    st.lists(st.sampled_from(["mon", "tue", "fri", "sat", "sun"]), unique=True),
    st.times().map(lambda one: one.strftime("%H:%M")),
    st.times().map(lambda one: one.strftime("%H:%M")),
)
def test_what_has_waited_need_not_wait_again(now: int, days: list[str], start: str, end: str) -> None:
    mail = Mail(time_zone="Europe/Paris", quiet_days=days, quiet_hours=f"{start}-{end}")
    then = opening(mail, now)
    assert then >= now
    assert opening(mail, then) == then


def test_the_third_warning_goes_to_the_pi_too_and_the_fifth_to_the_staff() -> None:
    mail = Mail(pis={"physics": "curie@example.org"}, staff="staff@example.org")
    pi, staff = Rung(PI, "curie@example.org", ("physics",)), Rung(STAFF, "staff@example.org")
    found = [rungs(number, ["physics"], mail) for number in range(1, 7)]
    assert found == [[], [], [pi], [pi], [pi, staff], [pi, staff]]
    assert rungs(5, ["bio"], mail) == [staff]
    assert rungs(9, ["physics"], Mail(pis=mail.pis, to_pi=0)) == []


def test_only_the_same_rule_lately_counts() -> None:
    told = [
        Told(JOB, "zero_gpu", NOW - DAY),
        Told(JOB, "zero_gpu", NOW - 91 * DAY),
        Told(JOB, "low_cpu", NOW - DAY),
        Told(DIGEST, "", NOW - DAY),
    ]
    assert earlier(told, JOB, ("zero_gpu",), Mail(), NOW) == 1
    assert earlier(told, JOB, ("low_cpu", "zero_gpu"), Mail(), NOW) == 1
    assert earlier(told, DIGEST, ("",), Mail(), NOW) == 1
