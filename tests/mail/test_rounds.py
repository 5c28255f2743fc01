# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From what is kept to what people are told: each job and each week once, and nobody of what was before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from findings import gpus
from mail.kept import CLUSTER, NEVER, filled, life
from mail.server import settings
from msgspec.structs import replace

from slurmscope.life import Life
from slurmscope.mail.cancelling import Canceller
from slurmscope.mail.etiquette import DAY
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import DIGEST, JOB
from slurmscope.mail.office import Office
from slurmscope.mail.rounds import DocumentOf, Rounds, Stopped
from slurmscope.reports.kept import Reports
from slurmscope.settings import Settings
from slurmscope.store.protocol import Measured, Span, Unreachable
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary

MONDAY = 1_700_438_400  # 2023-11-20, midnight
NOW = MONDAY - 3 * DAY + 12 * 3600  # a Friday


class Site:
    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder / "notices.db")
        self.store: SqliteStore = filled(folder / "store.db", [])
        self.now = NOW
        self.seen: dict[str, set[str]] | None = None  # as from cron
        self.stop = False
        self.document_of: DocumentOf | None = None

    def add(self, jobs: Sequence[tuple[Life, Summary | None]]) -> None:
        with self.store.writing(CLUSTER) as writer:
            writer.put_lives([one for one, _ in jobs])
            writer.put_measured([Measured(one.id, one.submit_time or 0, used, None) for one, used in jobs if used])

    def rounds(self, **more: Any) -> Rounds:
        whole = Settings(mail=settings(25, time_zone="UTC", **more))
        self.office = Office(whole.mail, self.ledger, clock=lambda: self.now)
        document_of = self.document_of or Reports(self.store, whole, self.now).life
        return Rounds(
            whole,
            self.store,
            self.ledger,
            self.office,
            document_of,
            clock=lambda: self.now,
            seen=self.seen,
            stop=lambda: self.stop,
        )

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return sorted((one.kind, one.person, one.job) for one in self.ledger.waiting())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.ledger.close()
    found.store.close()


def test_jobs_that_ended_since_the_last_time_are_told_of_once(site: Site) -> None:
    site.add([(life(1, NOW - 3600), NEVER)])
    assert site.rounds().jobs() == {}  # what was before nobody is told of
    site.now += 3 * 3600
    site.add([(life(2, site.now - 1800), NEVER), (life(3, site.now - 1700), gpus.summary())])
    assert site.rounds().jobs() == {"queued": 1}
    assert [job.split(".")[1] for _, _, job in site.told] == ["2"]
    assert site.rounds().jobs() == {}
    site.now += 700
    assert site.rounds().jobs() == {"told already": 1}  # looked at again, for ends may be told late
    assert len(site.told) == 1
    (mail,) = site.ledger.waiting()
    assert mail.subject.startswith("[c] 2 train: its GPU was never used")


def test_one_that_has_just_ended_is_waited_for(site: Site) -> None:
    site.rounds().jobs()
    site.now += 3 * 3600
    site.add([(life(2, site.now - 60), NEVER)])
    assert site.rounds().jobs() == {}
    site.now += 1200
    assert site.rounds().jobs() == {"queued": 1}


def test_a_site_may_want_no_mail_of_jobs(site: Site) -> None:
    site.rounds().jobs()
    site.now += 3 * 3600
    site.add([(life(2, site.now - 1800), NEVER)])
    assert site.rounds(jobs=False).jobs() == {}


def of_five(site: Site) -> None:
    """Jobs of five people have ended since the first round."""
    site.rounds().jobs()
    site.now += 3 * 3600
    site.add([(replace(life(at, site.now - 1800), user=f"u{at}"), NEVER) for at in range(1, 6)])


def test_a_round_that_fails_half_way_loses_nobody(site: Site) -> None:
    of_five(site)
    site.seen, calls = {}, iter(range(99))

    def away_once(one: Life) -> None:
        if next(calls) == 1:
            raise Unreachable("the store is away")

    site.document_of = away_once
    with pytest.raises(Unreachable):
        site.rounds().jobs()
    assert len(site.told) == 1
    assert site.rounds().jobs() == {"told already": 1, "queued": 4}
    site.now += 700
    assert site.rounds().jobs() == {}  # which serve has seen


def test_one_job_that_cannot_be_told_of_keeps_no_other_from_it(site: Site) -> None:
    of_five(site)

    def hostile(one: Life) -> None:
        if one.user == "u3":
            raise KeyError("no such word")

    site.document_of = hostile
    assert site.rounds().jobs() == {"queued": 4}


def test_who_is_to_stop_stops_between_jobs_and_goes_on_the_next_time(site: Site) -> None:
    of_five(site)

    def first(one: Life) -> None:
        site.stop = True

    site.document_of = first
    with pytest.raises(Stopped):
        site.rounds().jobs()
    assert len(site.told) == 1
    site.stop, site.document_of = False, lambda one: None
    assert site.rounds().jobs() == {"told already": 1, "queued": 4}


def test_what_the_accounting_tells_late_after_a_stop_is_told_of(site: Site) -> None:
    site.rounds().jobs()
    site.now += 8 * 3600
    with site.store.writing(CLUSTER) as writer:
        writer.put_spans([Span(NOW - DAY, NOW)])
    assert site.rounds().jobs() == {}
    night = [(replace(life(at, site.now - at * 3600), user=f"u{at}"), NEVER) for at in range(2, 8)]
    site.add(night[:3])
    site.now += 700
    assert site.rounds().jobs() == {"queued": 3}
    site.add(night[3:])
    with site.store.writing(CLUSTER) as writer:
        writer.put_spans([Span(NOW - DAY, site.now)])
    site.now += 700
    assert site.rounds().jobs() == {"queued": 3, "told already": 3}
    site.now += 3700
    assert site.rounds().jobs() == {}


def test_once_mail_of_jobs_is_turned_on_again_nobody_is_told_of_the_past(site: Site) -> None:
    of_five(site)
    assert site.rounds(jobs=False).jobs() == {}
    site.now += 700
    assert site.rounds().jobs() == {}


def test_a_clock_that_went_wrong_stops_nothing_for_long(site: Site) -> None:
    site.now += 400 * DAY
    site.rounds().jobs()
    site.ledger.put_mark(DIGEST, datetime.fromtimestamp(site.now, UTC).toordinal())
    site.now = NOW
    assert site.rounds().jobs() == {}
    site.now += 3600
    site.add([(life(2, site.now - 700), NEVER)])
    assert site.rounds().jobs() == {"queued": 1}
    site.add(week("alice", 100, 8))
    site.now = MONDAY + 9 * 3600
    assert site.rounds().digests()["queued"] == 1


def test_who_answers_for_an_account_is_told_of_its_jobs_alone(site: Site) -> None:
    site.add(week("alice", 100, 8, name="waves"))
    site.add(
        [
            (replace(one, submit_time=(one.submit_time or 0) - 1), used)
            for one, used in week("alice", 200, 8, name="secret-cells", account="biology")
        ]
    )
    site.now = MONDAY + 9 * 3600
    pis = {"physics": "curie@example.org", "biology": "darwin@example.org"}
    assert site.rounds(to_pi=1, pis=pis, staff="staff@example.org", to_staff=1).digests()["queued"] == 1
    texts = {one.recipient: (site.ledger.notice(one.id) or one).message or b"" for one in site.ledger.waiting()}
    assert {to: (b"waves" in text, b"secret-cells" in text) for to, text in texts.items()} == {
        "alice@example.org": (True, True),
        "curie@example.org": (True, False),
        "darwin@example.org": (False, True),
        "staff@example.org": (True, True),
    }
    assert b"biology" not in texts["curie@example.org"]


def week(user: str, first: int, count: int, used: Summary | None = NEVER, **fields: Any) -> list[tuple[Life, Any]]:
    return [(replace(life(first + at, MONDAY - DAY - at * 3600), user=user, **fields), used) for at in range(count)]


def test_on_monday_those_who_wasted_much_get_one_digest(site: Site) -> None:
    site.add(week("alice", 100, 8) + week("bob", 200, 3) + week("carol", 300, 8, gpus.summary()))
    site.add(week("dana", 400, 8, partition="debug") + week("erin", 500, 8) + week("frank", 600, 8))
    site.ledger.opt_out("erin", NOW, "")
    site.ledger.fine("frank", "zero_gpu", "train", "", NOW)
    more = {"exempt_partitions": ["debug"]}
    site.now = MONDAY - 1
    assert site.rounds(**more).digests() == {}
    site.now = MONDAY + 9 * 3600
    done = site.rounds(**more).digests()
    assert done["queued"] == 1
    assert site.told == [(DIGEST, "alice", "week 2023-11-13")]
    assert site.rounds(**more).digests() == {}
    why = {one.person: one.why for one in site.ledger.entries() if one.event == "not sent"}
    assert why["bob"].startswith("too little was wasted")
    assert why["erin"] == "the user has opted out"
    assert "dana" not in why and "carol" not in why


def test_a_digest_that_was_begun_and_not_ended_tells_nobody_twice(site: Site) -> None:
    site.add(week("alice", 100, 8))
    site.now = MONDAY + 9 * 3600
    assert site.rounds().digests()["queued"] == 1
    site.ledger.put_mark(DIGEST, 1)  # as if it had been killed before the end
    assert site.rounds().digests()["told already"] == 1
    assert len(site.told) == 1


@pytest.mark.parametrize(("days", "told"), [(1, 1), (2, 1), (3, 0), (6, 0)])
def test_a_monday_on_which_nobody_was_there_is_made_up_for(site: Site, days: int, told: int) -> None:
    site.add(week("alice", 100, 8))
    site.ledger.put_mark(DIGEST, datetime.fromtimestamp(MONDAY - 7 * DAY, UTC).toordinal())
    site.now = MONDAY + days * DAY + 9 * 3600
    assert site.rounds().digests().total() == told
    assert [key for _, _, key in site.told] == ["week 2023-11-13"] * told
    assert site.rounds().digests() == {}


def test_after_a_long_stop_nobody_is_told_of_what_is_stale(site: Site) -> None:
    site.rounds().jobs()
    site.add([(life(2, site.now + 3600), NEVER), (replace(life(3, site.now + 19 * DAY), user="bob"), NEVER)])
    site.now += 20 * DAY
    assert site.rounds().jobs() == {"queued": 1}
    assert [person for _, person, _ in site.told] == ["bob"]


def test_a_week_in_which_all_is_well_or_no_digest_is_wanted(site: Site) -> None:
    site.add(week("alice", 100, 8))
    site.now = MONDAY + 9 * 3600
    assert site.rounds(digest_day="never").digests() == {}
    assert site.rounds(digest_day="tue").digests() == {}


def test_running_jobs_whose_gpus_are_not_used_are_warned_of_where_a_site_wants_it(site: Site) -> None:
    now = replace(life(), start_time=NOW - 7200, submit_time=NOW - 7300, changed_time=NOW)
    site.add([(now, replace(NEVER, first=NOW - 7200, last=NOW))])

    async def cancel(one: Life) -> str:
        raise AssertionError("nothing is cancelled yet")

    def considered(**more: Any) -> dict[str, int]:
        rounds = site.rounds(**more)
        mail = settings(25, **more)
        canceller = Canceller(mail, site.ledger, site.office, cancel, clock=lambda: site.now)
        return asyncio.run(rounds.cancels(canceller))

    assert considered() == {}
    assert considered(cancel_zero_gpu=True) == {"queued": 1}
    assert site.told[0][0] != JOB
