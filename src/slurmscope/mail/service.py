# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mail as `slurmscope serve` and `slurmscope mail send` do it: decide what is new, then send what is due."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from slurmscope.chore import Chore
from slurmscope.life import Life
from slurmscope.logs import fields
from slurmscope.mail.cancelling import Canceller
from slurmscope.mail.etiquette import DAY
from slurmscope.mail.ledger import Ledger, open_ledger
from slurmscope.mail.links import Links
from slurmscope.mail.office import Office
from slurmscope.mail.pages import doors
from slurmscope.mail.post import Post
from slurmscope.mail.rounds import Rounds, Stopped
from slurmscope.mail.tally import Tally
from slurmscope.reports.kept import Reports
from slurmscope.server import Receiver
from slurmscope.settings import Settings
from slurmscope.signed import key_of
from slurmscope.slurm.acting import cancel
from slurmscope.slurm.transport import Failed
from slurmscope.store import place
from slurmscope.store.protocol import Store, StoreError, Unreachable

log = logging.getLogger(__name__)

_EVERY = 60.0
_PATIENCE = 5.0
_BLINK = 0.5  # seconds that serve waits for a ledger that is locked, before it goes on without

Stop = Callable[[], bool]
"""Whether all is to end."""

Counts = tuple[Counter[str], Counter[str]]
"""What was decided, and what became of what was due."""


def never() -> bool:
    return False


def links_of(settings: Settings) -> Links | None:
    """None where people cannot reach us. Raises StoreError."""
    if not settings.mail.url:
        return None
    return Links(key_of(place.folder_of(settings.store)), settings.mail.url, settings.mail.link_days)


def office_of(settings: Settings, ledger: Ledger) -> Office:
    """Raises StoreError."""
    return Office(settings.mail, ledger, links_of(settings))


def rounds_of(
    settings: Settings,
    store: Store,
    ledger: Ledger,
    office: Office,
    seen: dict[str, set[str]] | None = None,
    stop: Stop = never,
) -> Rounds:
    """Raises PolicyError."""
    reports = Reports(store, settings, int(time.time()))
    return Rounds(settings, store, ledger, office, reports.life, seen=seen, stop=stop)


def make_round(
    settings: Settings,
    store: Store,
    ledger: Ledger,
    seen: dict[str, set[str]] | None = None,
    *,
    wait: bool = True,
    stop: Stop = never,
) -> Counts:
    """Blocks, and is not for a thread with a loop of asyncio. Raises StoreError and PolicyError."""
    decided: Counter[str] = Counter()
    try:
        office = office_of(settings, ledger)
        rounds = rounds_of(settings, store, ledger, office, seen, stop)
        decided += rounds.jobs()
        decided += rounds.digests()
        canceller = Canceller(settings.mail, ledger, office, partial(_cancel, settings))
        decided += asyncio.run(rounds.cancels(canceller))
    except Stopped:
        log.info("a round of mail was stopped, and is made again at the next start")
    finally:
        # whatever went wrong with what is new, what waits is sent
        sent = Post(settings.mail, ledger, stop=stop).run(patience=_PATIENCE, wait=wait)
    now, mail = int(time.time()), settings.mail
    counted = max(mail.log_days, mail.least_days, mail.ladder_days)
    ledger.forget(now - mail.log_days * DAY, now - mail.keep_days * DAY, now - counted * DAY)
    return decided, sent


async def _cancel(settings: Settings, life: Life) -> str:
    """By the cluster of exactly this name; the only one, where the settings leave it to Slurm what it is called."""
    clusters = settings.read
    named = [one for one in clusters if one.slurm.cluster == life.cluster]
    if not named and len(clusters) == 1 and not clusters[0].slurm.cluster:
        named = list(clusters)  # whose name is looked at before anything is done
    if len(named) != 1:
        raise Failed(f"the settings name no cluster {life.cluster}")
    if not named[0].has_commands:
        raise Failed(f"this machine has no commands of the cluster {life.cluster} (clusters.{life.cluster}.conf)")
    return await cancel(life, named[0].slurm)


class Mailing:
    """What `serve` does about mail: a round a minute in a thread, and the pages of links.

    A ledger that is away now is waited for. Raises StoreError where it is none, or another program's.
    """

    def __init__(self, settings: Settings) -> None:
        self.tally: Tally = Tally()
        self._settings = settings
        self._ledger: Ledger | None = None
        self._links: Links | None = None
        self._seen: dict[str, set[str]] = {}
        self._chore = Chore("mail", self._work)
        self.prefixes: dict[str, Callable[[str], Receiver]] = doors(self._parts) if settings.mail.url else {}
        try:
            self._opened()
        except Unreachable as error:
            log.warning("no mail for now", extra=fields(error=str(error)))

    async def run(self) -> None:
        """Until it is cancelled; what goes wrong is logged, and tried again."""
        await self._chore.run()

    async def close(self) -> None:
        """What is being sent and takes longer than some seconds is cut off, and is uncertain then."""
        if await self._chore.end() and self._ledger is not None:
            self._ledger.close()

    def _parts(self) -> tuple[Links, Ledger] | None:
        """What pages need; None: not now. It never waits."""
        return None if self._links is None or self._ledger is None else (self._links, self._ledger)

    def _opened(self) -> Ledger:
        if self._ledger is None:
            self._ledger = open_ledger(self._settings.store, _BLINK)
        if self._links is None:
            self._links = links_of(self._settings)
        return self._ledger

    def _work(self) -> None:
        while not self._chore.stop.is_set():
            try:
                ledger = self._opened()
                self._round(ledger)
                self._count("", len(ledger.waiting()))
            except StoreError as error:
                log.warning("no round of mail", extra=fields(error=str(error)))
                self._count(str(error), self.tally.waiting)
            except Exception as error:
                # of all that serve does this is the least, and must not end it
                log.exception("a round of mail failed")
                self._count(f"{type(error).__name__}: the log says more", self.tally.waiting)
            self._chore.stop.wait(_EVERY)

    def _count(self, error: str, waiting: int | None) -> None:
        self.tally.rounds += not error
        self.tally.failures += bool(error)
        self.tally.last_success = self.tally.last_success if error else time.time()
        self.tally.last_error, self.tally.waiting = error, waiting

    def _round(self, ledger: Ledger) -> None:
        url = place.url_of(self._settings.store)
        if url == place.NONE:
            Post(self._settings.mail, ledger, stop=self._chore.stop.is_set).run(wait=False)
            return
        store = place.open_store(url, must_exist=True)
        try:
            decided, _ = make_round(self._settings, store, ledger, self._seen, wait=False, stop=self._chore.stop.is_set)
        finally:
            store.close()
        for outcome, count in decided.items():
            log.info("mail was decided", extra=fields(outcome=outcome, notices=count))
