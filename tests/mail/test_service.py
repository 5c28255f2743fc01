# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What `serve` does about mail: rounds that go on whatever happens, and the pages of links."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest
from mail.kept import NEVER, filled, life
from mail.made import notice
from mail.server import Box, serving, settings

from slurmscope.mail import service
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.service import Mailing
from slurmscope.settings import Mail, Settings, Store
from slurmscope.store.protocol import Unreachable
from slurmscope.store.sqlite import SqliteStore


def test_a_job_that_ends_while_it_runs_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_EVERY", 0.05)
    box, now = Box(), int(time.time())
    with serving(box) as port:
        mail = settings(port, url="https://slurmscope.example.org", digest_day="never")
        mailing = Mailing(Settings(store=Store(folder=str(tmp_path)), mail=mail))
        assert set(mailing.prefixes) == {"/fine/", "/opt-out/"}

        async def rounds() -> None:
            task = asyncio.create_task(mailing.run())
            while not mailing.tally.failures:  # there is no store yet
                await asyncio.sleep(0.05)
            assert "is not there" in mailing.tally.last_error
            filled(tmp_path / "slurmscope.db", [(life(1, now - 900), NEVER)]).close()
            ledger = Ledger(tmp_path / "notices.db")
            while ledger.mark("jobs c") is None:
                await asyncio.sleep(0.05)
            ledger.put_mark("jobs c", now - 3600)  # as if an hour had gone by
            ledger.put_mark("jobs c round", now - 3600)
            ledger.put_mark("jobs c since", now - 3600)
            while not box.mails:
                await asyncio.sleep(0.05)
            ledger.close()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(asyncio.wait_for(rounds(), 60))
        asyncio.run(mailing.close())
    assert len(box.mails) == 1
    assert (mailing.tally.last_error, mailing.tally.waiting) == ("", 0)
    assert mailing.tally.rounds and (mailing.tally.last_success or 0) >= now


def test_without_an_address_of_ours_there_are_no_pages(tmp_path: Path) -> None:
    mailing = Mailing(Settings(store=Store(folder=str(tmp_path))))
    assert mailing.prefixes == {}
    asyncio.run(mailing.close())


def test_a_ledger_that_is_locked_keeps_nothing_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_EVERY", 0.05)
    Ledger(tmp_path / "notices.db").close()
    other = sqlite3.connect(tmp_path / "notices.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    mail = Mail(url="https://slurmscope.example.org")
    mailing = Mailing(Settings(store=Store(folder=str(tmp_path)), mail=mail))

    async def answered() -> int:
        return (await mailing.prefixes["/fine/"]("forged").about()).status

    async def until_it_is_there() -> None:
        task = asyncio.create_task(mailing.run())
        assert await answered() == 503
        other.close()
        while await answered() != 404:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await mailing.close()

    asyncio.run(asyncio.wait_for(until_it_is_there(), 60))


def test_who_is_to_end_waits_for_the_mail_that_is_being_sent_and_begins_no_other(tmp_path: Path) -> None:
    box, now = Box(), int(time.time())
    box.slow = 1.0
    ledger = Ledger(tmp_path / "notices.db")
    for number in range(3):
        ledger.add(notice(number, time=now, changed=now, next_try=now))
    filled(tmp_path / "slurmscope.db", []).close()
    with serving(box) as port:
        mail = settings(port, digest_day="never")
        mailing = Mailing(Settings(store=Store(folder=str(tmp_path)), mail=mail))

        async def ended() -> None:
            task = asyncio.create_task(mailing.run())
            while not box.mails:
                await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await mailing.close()

        asyncio.run(asyncio.wait_for(ended(), 60))
    assert len(box.mails) == 1
    assert sorted(one.state for one in ledger.waiting()) == ["queued", "queued"]
    assert [one.event for one in ledger.entries()].count("sent") == 1
    ledger.close()


class Away(SqliteStore):
    def clusters(self) -> list[str]:
        raise Unreachable("the store is away")


def test_what_waits_is_sent_though_nothing_new_can_be_decided(tmp_path: Path) -> None:
    box, now = Box(), int(time.time())
    ledger = Ledger(tmp_path / "notices.db")
    ledger.add(notice(1, time=now, changed=now, next_try=now))
    store = Away(tmp_path / "slurmscope.db")
    with serving(box) as port:
        whole = Settings(store=Store(folder=str(tmp_path)), mail=settings(port))
        with pytest.raises(Unreachable):
            service.make_round(whole, store, ledger)
    assert len(box.mails) == 1
    ledger.close()
