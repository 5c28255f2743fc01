# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What happened in the months before the story: growth, a holiday, a deadline, and two days without the cluster."""

from __future__ import annotations

import random
from dataclasses import dataclass

from slurmscope.demo.cluster import DAY, HOUR
from slurmscope.demo.people import Stream
from slurmscope.demo.work import rhythm

TAPER = HOUR // 4  # nothing starts at the very end, in which all that runs comes to its own
_MAINTENANCE = 2 * DAY
_RUSHED = frozenset({"nlp", "vision", "robotics"})  # whose conference it is
_RUSH = 2.6
_BACK = 1.0
_BUSIEST = 1.15 + _BACK  # what nobody exceeds without a rush
# How much people asked for, as a part of what they ask for now. Short tries are left out for the most part: they tell
# little, and are many.
_LEVELS = {
    "cpu": 0.62,
    "big": 0.75,
    "a100": 0.52,
    "h100": 0.56,
    "l40s": 0.56,
    "mig": 0.36,
    "debug": 0.035,
    "course": 0.06,
}


@dataclass(frozen=True, slots=True)
class Calendar:
    begin: int
    end: int

    def _at(self, part: float) -> int:
        return self.begin + int((self.end - self.begin) * part) // DAY * DAY

    @property
    def maintenance(self) -> tuple[int, int]:
        start = self._at(0.55) + 6 * HOUR
        return start, start + _MAINTENANCE

    @property
    def holiday(self) -> tuple[int, int]:
        return self._at(0.3), self._at(0.4)

    @property
    def rush(self) -> tuple[int, int]:
        """The time before the deadline."""
        return self._at(0.72), self._at(0.82)

    def _mood(self, now: int, rushed: bool) -> float:
        """How much people want at a moment, by comparison."""
        part = (now - self.begin) / (self.end - self.begin)
        # at the end everybody is back, and asks for as much as they do when the story begins
        grown = 0.75 + 0.4 * part + (_BACK * min(1.0, (part - 0.9) / 0.05) if part > 0.9 else 0.0)
        start, end = self.holiday
        if start <= now < end:
            return 0.4 * grown
        start, end = self.rush
        if rushed and start <= now:
            if now < end:
                return grown * (1 + (_RUSH - 1) * (now - start) / (end - start))
            if now < end + (end - start) / 2:
                return 0.35 * grown  # everybody sleeps
        return grown

    def submissions(self, streams: list[Stream], rng: random.Random) -> list[tuple[int, int]]:
        """When somebody would submit something, and which of the streams it is, in the order of time."""
        hours = range(self.begin, self.end - TAPER, HOUR)
        busy = {
            (steady, rushed): [(1.0 if steady else rhythm(hour)) * self._mood(hour, rushed) for hour in hours]
            for steady in (False, True)
            for rushed in (False, True)
        }
        found = []
        for place, stream in enumerate(streams):
            work = stream.work
            rushed = work.account in _RUSHED and work.gpus != (0,)
            table, most = busy[work.steady, rushed], _BUSIEST * (_RUSH if rushed else 1.0)
            rate = stream.rate * _LEVELS[work.pool] * most
            now = 0.0
            while True:
                now += rng.expovariate(rate)
                hour = int(now / HOUR)
                if hour >= len(table):
                    break
                if rng.random() * most < table[hour]:
                    found.append((self.begin + int(now), place))
        found.sort()
        return found

    def patience(self, stream: Stream, now: int) -> int:
        """How many of one kind of work somebody submits before they wait."""
        start, end = self.rush
        return 12 if start <= now < end and stream.work.account in _RUSHED else 5
