# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The loop that asks a cluster: when, how often, and what is kept when it does not answer.

One poll serves every reader. The commands of a poll run side by side, and there is never more than one poll at a
time. slurmctld is protected three ways:

- a floor between polls, and rest after a slow one (`_REST` times what it took);
- a part that fails alone is asked for at growing intervals;
- when slurmctld answers nothing at all, only `scontrol ping` is run, once an interval. That costs it next to
  nothing, and the poll in which it answers again asks for everything, so that nobody waits for a back-off to end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from slurmscope.logs import Once, fields
from slurmscope.model import PARTS, Config, Part, Snapshot
from slurmscope.settings import Cluster
from slurmscope.slurm.commands import EVERY, FAST, RARE, SLOW
from slurmscope.slurm.source import Reading, Source, SourceError
from slurmscope.slurm.text import ACCOUNTING_TYPE, DBD, PRIVATE_DATA
from slurmscope.slurm.transport import NotFound, TransportError

log = logging.getLogger(__name__)

FAST_PARTS = tuple(part for part in PARTS if EVERY[part] == FAST)
_PING = "controllers"
# What shows that slurmctld answers. Not the ping: while a primary's host is gone, it may take longer than it may.
_ANSWERS = tuple(part for part in FAST_PARTS if part != _PING)
_OF_SLURMDBD = ("accounting", "coordinators")
# What somebody else than slurmctld may keep waiting.
_APART = (_PING, *_OF_SLURMDBD)
_REST = 4
_LONGEST_REST = 300.0
_HOUR = 3600.0


class Poll:
    """Asks `source` for the parts of a snapshot as they fall due, and hands each new snapshot to `publish`."""

    def __init__(
        self,
        source: Source,
        cluster: Cluster,
        publish: Callable[[Snapshot, frozenset[str]], Awaitable[None]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.snapshot = Snapshot(cluster=cluster.slurm.cluster)
        self._source = source
        self._publish = publish
        self._clock = clock
        slow = max(cluster.poll.interval, cluster.poll.slow_interval)
        self._interval = cluster.poll.interval
        self._intervals = {FAST: cluster.poll.interval, SLOW: slow, RARE: max(slow, _HOUR)}
        self._named = bool(cluster.slurm.cluster)
        self._due = dict.fromkeys(PARTS, 0.0)
        self._absent: set[str] = set()  # parts whose command is not there
        self._down = False
        self._took = 0.0  # what slurmctld took for the slowest answer of the last poll
        self._running = asyncio.Lock()
        self._once = Once()

    @property
    def up(self) -> bool:
        """slurmctld answered all that is asked of it at every poll, the last time."""
        return not self._down and all(self.snapshot.part(part).good for part in _ANSWERS)

    async def run(self) -> None:
        """Polls until it is cancelled."""
        slow = False
        while True:
            started = time.monotonic()
            try:
                await self.once()
            except Exception:  # a fault of ours must not end the service: the last pages stay, and grow old
                log.exception("a poll failed")
            rest = self._interval - (time.monotonic() - started)
            took = self._took
            was, slow = slow, not self._down and rest < _REST * took
            if slow:
                rest = min(_REST * took, _LONGEST_REST)
            if slow != was:
                said = "slurmctld is slow, resting longer" if slow else "slurmctld is quick again"
                log.info(said, extra=fields(poll_seconds=round(took, 1), rest_seconds=round(rest, 1)))
            await asyncio.sleep(max(rest, min(1.0, self._interval)))

    async def once(self) -> None:
        """One poll: all that is due, side by side."""
        async with self._running:
            self._took = 0.0
            if self._down:
                await self._ask([_PING])
                if not self._answering():
                    await self._age()
                    return
                log.info("slurmctld answers again", extra=fields(cluster=self.snapshot.cluster))
                self._down = False
                self._due = dict.fromkeys(PARTS, 0.0)
            now = time.monotonic()
            # a little early is due as well: the sleep between polls is not exact
            due = [part for part in PARTS if self._due[part] <= now + self._interval / 10 and self._has(part)]
            # what slurmctld told is shown at once, however long a dead host's ping or slurmdbd takes
            apart = [part for part in due if part in _APART]
            await asyncio.gather(self._ask([part for part in due if part not in _APART]), self._ask(apart))
            answered = any(self.snapshot.part(part).good for part in _ANSWERS)
            if not answered and not self._answering() and not self._unaskable():
                self._down = True
                why = self.snapshot.controllers.error or "it answers no ping"
                log.warning("the cluster does not answer", extra=fields(cluster=self.snapshot.cluster, error=why))

    def _has(self, part: str) -> bool:
        """Whether the cluster has such a thing at all; without slurmdbd there is nothing to ask it."""
        config = self.snapshot.config.value
        return part not in _OF_SLURMDBD or config is None or config.settings.get(ACCOUNTING_TYPE, DBD) == DBD

    def _answering(self) -> bool:
        controllers = self.snapshot.controllers
        return controllers.good and any(one.up for one in controllers.value or ())

    def _unaskable(self) -> bool:
        """The fault is here (no such command), so that pinging would not tell when it is over."""
        return self._absent.issuperset(FAST_PARTS)

    async def _age(self) -> None:
        """Parts that were not even asked for, for slurmctld is down, are told so."""
        error = self.snapshot.controllers.error or "slurmctld does not answer"
        changed = {
            part: msgspec.structs.replace(self.snapshot.part(part), error=error)
            for part in PARTS
            if part not in _APART and self.snapshot.part(part).error is None
        }
        self.snapshot = self.snapshot.replaced(**changed)
        await self._publish(self.snapshot, frozenset())

    async def _ask(self, parts: list[str]) -> None:
        if not parts:
            return
        results = await asyncio.gather(*(self._read(part) for part in parts))
        for part, new in zip(parts, results, strict=True):
            if part not in _APART:
                self._took = max(self._took, new.seconds)
        fresh = dict(zip(parts, results, strict=True))
        self._tell(fresh)
        self.snapshot = self.snapshot.replaced(**fresh)
        config: Config | None = self.snapshot.config.value
        if config is not None and not self._named:
            self.snapshot = msgspec.structs.replace(self.snapshot, cluster=config.cluster)
            if not config.cluster:
                self._once(log, logging.ERROR, "", "nothing told the cluster's name: slurm.cluster gives it one")
        if "config" in fresh and config is not None and fresh["config"].error is None:
            hidden = config.settings.get(PRIVATE_DATA, "none")
            if hidden not in ("none", "(null)"):
                log.info(
                    "PrivateData is set: unless slurmscope runs as an operator it sees only its own part",
                    extra=fields(private_data=hidden),
                )
        await self._publish(self.snapshot, frozenset(part for part in parts if fresh[part].error is None))

    def _tell(self, fresh: Mapping[str, Part[Any]]) -> None:
        """Logs what cannot be read any more: once for all parts that have the same reason."""
        reasons: dict[str, list[str]] = {}
        for part, new in fresh.items():
            if new.error is not None and new.error != self.snapshot.part(part).error:
                reasons.setdefault(new.error, []).append(part)
        for error, parts in reasons.items():
            wait = min(self._due[part] for part in parts) - time.monotonic()
            told = fields(part=",".join(parts), error=error, retry_seconds=round(max(0.0, wait), 1))
            log.warning("could not read", extra=told)

    async def _read(self, part: str) -> Part[Any]:
        before: Part[Any] = self.snapshot.part(part)
        started = time.monotonic()
        reading: Reading | None = None
        error = None
        try:
            reading = await self._source.read(part)
            self._absent.discard(part)
        except (TransportError, SourceError) as caught:
            error = str(caught)
            if isinstance(caught, NotFound):
                self._absent.add(part)
        except Exception as caught:  # a fault of ours costs one part, not the others
            error = f"{type(caught).__name__}: {caught}"
            log.exception("a part could not be read", extra=fields(part=part))
        took = time.monotonic() - started
        if reading is not None and reading.seconds is not None:
            took = reading.seconds  # what was tried in vain before is not slurmctld's time
        every = self._intervals[EVERY[part]]
        if reading is None:
            failures = before.failures + 1
            backoff = min(self._interval * 2 ** min(failures - 1, 16), max(self._interval, _LONGEST_REST))
            self._due[part] = started + backoff
            return msgspec.structs.replace(before, error=error, failures=failures, seconds=took)
        if before.error is not None:
            log.info("can be read again", extra=fields(part=part))
        self._due[part] = started + every
        return Part(reading.value, self._clock(), reading.source, took, reading.rows_skipped)
