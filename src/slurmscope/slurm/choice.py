# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which way a part is read, and which stands in when that one fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from slurmscope.logs import fields
from slurmscope.model import PARTS, Config, Job
from slurmscope.slurm.commands import REST
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.source import Costs, Reading, SourceError, Way, Window
from slurmscope.slurm.text import STORE_FLAGS
from slurmscope.slurm.transport import NotFound, TimedOut, TransportError, Unanswered, Unreachable

log = logging.getLogger(__name__)

# What bench/ways.py measured. A question to slurmrestd starts no process, which for a short answer is most of what it
# costs. A long one is cheapest as text: JSON is ten times as long, and unchanged rows of text are not read again.
# Text alone knows everything, and comes before PySlurm and JSON where slurmrestd has nothing to give.
_BY_TEXT = (TEXT, REST, PYSLURM, JSON)
_BY_REST = (REST, TEXT, PYSLURM, JSON)
PREFERENCE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(PARTS, _BY_TEXT),
    **dict.fromkeys(("scheduler", "controllers", "licenses", "shares"), _BY_REST),
    "history": _BY_TEXT,
}
_JOB_SCRIPT = "job_script"
_PATIENCE = 30.0  # seconds before what failed is tried again, doubled each time
_LONGEST_PATIENCE = 600.0


class _Rest(msgspec.Struct):
    """How long a way is left alone, and whether there is nothing to miss."""

    until: float
    times: int
    absent: bool
    cause: str  # the part that found it out: only by that it is known to work again


class Choice:
    """A Source that reads each part by the best way there is.

    A way that fails is left alone for a while, as a whole when it cannot be reached at all, for one part when only that
    could not be told; another stands in, which is logged once and counted. When its time is over it is tried again. A
    way that is not there (no such command, no PySlurm) is nobody's loss, unless it is the one that was asked for.

    Only what another way may do better is asked again: while slurmctld itself does not answer, or takes too long, all
    of them would only wait for it a second time.
    """

    def __init__(self, ways: Iterable[Way], first: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._ways = {way.name: way for way in ways}
        self._first = first
        self._clock = clock
        self._resting: dict[tuple[str, str], _Rest] = {}  # by way and part; "" for all of its parts
        self.fallbacks: dict[tuple[str, str], int] = {}
        self._keeps_scripts = True  # unless the configuration says otherwise

    @property
    def costs(self) -> Costs:
        return {key: cost for way in self._ways.values() for key, cost in way.costs.items()}

    async def close(self) -> None:
        for transport in {id(way.transport): way.transport for way in self._ways.values()}.values():
            await transport.close()

    def order(self, part: str) -> list[Way]:
        """The ways that can tell a part, the best first."""
        names = sorted(PREFERENCE[part], key=lambda name: name != self._first)
        return [self._ways[name] for name in names if name in self._ways and part in self._ways[name].commands]

    async def read(self, part: str, window: Window | None = None) -> Reading:
        order = self.order(part)
        left = [way for way in order if self._rest(way, part) is None] or order[:1]
        errors: list[Exception] = []
        news: list[dict[str, dict[str, object]]] = []
        while left:
            way = left.pop(0)
            try:
                reading = await _read(way, part, window)
            except (TransportError, SourceError) as error:
                errors.append(error)
                left = [other for other in left if _may_do_better(other, way, error)]
                if left:
                    news += self._leave_alone(way, part, error)
                continue
            self._welcome(way, part)
            if isinstance(reading.value, Config):
                self._keeps_scripts = _JOB_SCRIPT in reading.value.settings.get(STORE_FLAGS, _JOB_SCRIPT)
            self._count(part, order[: order.index(way)])
            for told in news:
                log.warning("a way failed, another stands in", extra=told)
            return reading
        raise _worst(errors) if errors else NotFound(f"none of the ways that are set up tells {part}")

    async def script(self, job: Job) -> str | None:
        for name in _BY_TEXT:
            if name in self._ways and (found := await self._ways[name].script(job, kept=self._keeps_scripts)):
                return found
        return None

    def _rest(self, way: Way, part: str) -> _Rest | None:
        now = self._clock()
        found = (self._resting.get((way.name, "")), self._resting.get((way.name, part)))
        return next((rest for rest in found if rest is not None and rest.until > now), None)

    def _leave_alone(self, way: Way, part: str, error: Exception) -> list[dict[str, dict[str, object]]]:
        """What there is to log of it, if anything."""
        if self._rest(way, part) is not None:
            return []  # another part found the same out at the same time
        whole = isinstance(error, Unreachable)
        key = way.name, "" if whole else part
        before = self._resting.get(key)
        times = before.times + 1 if before else 1
        patience = min(_PATIENCE * 2 ** (times - 1), _LONGEST_PATIENCE)
        absent = isinstance(error, NotFound) and way.name != self._first
        self._resting[key] = _Rest(self._clock() + patience, times, absent, before.cause if before else part)
        if before is not None or absent:
            return []
        return [fields(way=way.name, part="all" if whole else part, error=str(error), retry_seconds=patience)]

    def _welcome(self, way: Way, part: str) -> None:
        for key in ((way.name, ""), (way.name, part)):
            rest = self._resting.get(key)
            if rest is not None and rest.cause == part:
                del self._resting[key]
                if not rest.absent:
                    log.info("a way works again", extra=fields(way=way.name, part=key[1] or "all"))

    def _count(self, part: str, better: Sequence[Way]) -> None:
        for way in better:
            rest = self._rest(way, part)
            if rest is not None and not rest.absent:
                self.fallbacks[part, way.name] = self.fallbacks.get((part, way.name), 0) + 1


async def _read(way: Way, part: str, window: Window | None) -> Reading:
    try:
        return await way.read(part, window)
    except (TransportError, SourceError):
        raise
    except Exception as error:  # a fault of ours costs one way, not the part
        log.exception("a way broke", extra=fields(way=way.name, part=part))
        raise SourceError(f"{way.name}: {type(error).__name__}: {error}") from error


def _may_do_better(other: Way, failed: Way, error: Exception) -> bool:
    if isinstance(error, Unreachable):
        return other.transport is not failed.transport
    if isinstance(error, TimedOut):
        return failed.name in (REST, PYSLURM)  # it may be these that hang
    return not isinstance(error, Unanswered)


def _worst(errors: Sequence[Exception]) -> Exception:
    """The one to tell: that a way is not there is the least of them."""
    return next((error for error in errors if not isinstance(error, NotFound)), errors[0])
