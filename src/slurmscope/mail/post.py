# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Sends what is due: one process at a time, not too many a minute, none twice, and again later what did not go."""

from __future__ import annotations

import fcntl
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from slurmscope.logs import fields
from slurmscope.mail import smtp
from slurmscope.mail.address import of_sender
from slurmscope.mail.etiquette import DAY, Standing, Wanted, opening, refusal
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.notice import ASKED, CANCEL, Notice
from slurmscope.settings import Mail
from slurmscope.store.private import make_file
from slurmscope.store.protocol import Unreachable

log = logging.getLogger(__name__)

LOCK = "notices.lock"
_FIRST_PAUSE, _LONGEST_PAUSE = 60, 6 * 3600
_MINUTE = 60
_LOOK = 0.1  # seconds between looks whether another process has ended its sending


def pause(attempts: int) -> int:
    """Seconds until the next try, after so many."""
    return int(min(_FIRST_PAUSE * 4 ** min(attempts, 10), _LONGEST_PAUSE))


class Post:
    def __init__(
        self,
        settings: Mail,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once `stop` is true, no other mail is begun."""
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._sleep = sleep
        self._stop = stop

    def run(self, *, patience: float = 0.0, wait: bool = True) -> Counter[str]:
        """Sends until nothing is due, and says how many came to what: sent, waits, not sent, uncertain.

        Another process that sends is waited for `patience` seconds. Without `wait` what is too much for this minute
        stays for the next time.
        """
        done: Counter[str] = Counter()
        if not self._settings.enabled:
            return done
        with alone(self._ledger.path.parent, patience) as ours:
            if not ours:
                return done
            done["uncertain"] += self._ledger.crashed(self._now())
            self._send(done, wait=wait)
        for what, count in done.items():
            if count:
                log.info("mail", extra=fields(outcome=what, notices=count))
        return +done

    def _send(self, done: Counter[str], *, wait: bool) -> None:
        with ExitStack() as stack:
            connection: smtp.Connection | None = None
            while not self._stop() and (notice := self._ledger.due(self._now())) is not None:
                if (outcome := self._without_sending(notice)) is not None:
                    done[outcome] += 1
                    continue
                if (seconds := self._too_many()) > 0:
                    if not wait:
                        return
                    stack.close()  # no server likes to be kept waiting
                    connection = None
                    self._sleep(seconds)
                    continue
                try:
                    if connection is None:
                        connection = stack.enter_context(smtp.connected(self._settings))
                    said = self._submit(connection, notice)
                except smtp.SmtpError as error:
                    done[self._settled(notice, error)] += 1
                    if isinstance(error, smtp.Unavailable):
                        return
                    if not isinstance(error, smtp.Later | smtp.Refused):
                        stack.close()
                        connection = None
                else:
                    self._ledger.sent(notice, self._now(), said)
                    done["sent"] += 1

    def _without_sending(self, notice: Notice) -> str | None:
        """What becomes of it, where it is not for the server; None: it is."""
        now = self._now()
        if (why := self._objection(notice)) is not None:
            self._ledger.withdrawn(notice, now, why)
            return "not sent"
        most = self._settings.keep_days * DAY
        # one that only waited for better hours has not been tried; one that nobody sent for so long is stale
        tried = notice.first_try is not None and now - notice.first_try > most
        if tried or now - notice.next_try > most:
            why = f"it could not be sent for {self._settings.keep_days} days (mail.keep_days)"
            self._ledger.failed(notice, now, why)
            return "not sent"
        if notice.kind != ASKED and (later := opening(self._settings, now)) > now:
            self._ledger.again(notice, now, later, "until the quiet time is over", tried=False)
            return "waits"
        return None

    def _objection(self, notice: Notice) -> str | None:
        """What has come up since it was decided: the person may have opted out, or become exempt.

        What goes to others about the person is withdrawn with it.
        """
        if notice.kind == ASKED:
            return None
        person = notice.person
        standing = Standing(opted_out=self._ledger.opted_out(person), fine=self._ledger.fines(person))
        whys = [refusal(_wanted(notice, rule), standing, self._settings, self._now()) for rule in notice.rules]
        return None if None in whys else whys[0]

    def _submit(self, connection: smtp.Connection, notice: Notice) -> str:
        if notice.message is None:
            raise smtp.Refused("its text is lost")
        sender = of_sender(self._settings.sender)[1]
        return connection.submit(
            sender, notice.recipient, notice.message, lambda: self._ledger.hand(notice.id, self._now())
        )

    def _settled(self, notice: Notice, error: smtp.SmtpError) -> str:
        now = self._now()
        match error:
            case smtp.Refused():
                self._ledger.failed(notice, now, str(error))
                return "not sent"
            case smtp.Unsure():
                self._ledger.uncertain(notice, now, str(error))
                return "uncertain"
            case smtp.Taken():
                return "withdrawn"
            case _:
                self._ledger.again(notice, now, now + pause(notice.attempts), str(error))
                return "waits"

    def _too_many(self) -> float:
        """Seconds until one more may be sent."""
        now = self._clock()
        lately = self._ledger.since(int(now) - _MINUTE + 1, int(now))
        if len(lately) < self._settings.per_minute:
            return 0.0
        return max(0.05, lately[-self._settings.per_minute] + _MINUTE - now)

    def _now(self) -> int:
        return int(self._clock())


def _wanted(notice: Notice, rule: str) -> Wanted:
    return Wanted(
        kind=CANCEL,  # which has no days that must lie between: that was decided
        person=notice.person,
        rule=rule,
        work=notice.work,
        accounts=notice.accounts,
        partitions=notice.partitions,
    )


@contextmanager
def alone(folder: Path, patience: float) -> Iterator[bool]:
    """Whether no other process sends; while this lasts none will. A process that is killed lets go of it.

    Raises Unreachable.
    """
    end = time.monotonic() + patience
    path = folder / LOCK
    try:
        make_file(path)
        opened = path.open("a")
    except OSError as error:
        raise Unreachable(f"{path}: {error.strerror}: run this as the user of `slurmscope serve`") from error
    with opened as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    yield False
                    return
                time.sleep(_LOOK)
            else:
                yield True
                return
