# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All that is known of one job when it is judged."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from slurmscope.findings.efficiency import Efficiency, covered, efficiency, ran
from slurmscope.findings.ground import Ground
from slurmscope.findings.past import Past
from slurmscope.findings.times import suspensions
from slurmscope.life import Life
from slurmscope.settings import Findings
from slurmscope.summary import Moment, Summary

INTERACTIVE = tuple(Findings().interactive)
_TOUCHED = 0.05  # of a moment in which a job was suspended, for it to tell nothing of what it does


class Case(msgspec.Struct, frozen=True, kw_only=True):
    life: Life
    summary: Summary | None
    look: Callable[[], tuple[Moment, ...]]
    ground: Ground
    past: Past
    now: int
    seconds: int  # that it ran
    coverage: float  # share of its time that was measured, up to now where it runs; 0 where nothing was
    gpus: int
    interactive: bool  # somebody sits in front of it, and thinks
    efficiency: Efficiency

    @property
    def line(self) -> tuple[Moment, ...]:
        """What it used over time; empty where that is not kept. It is read when somebody first looks.

        While it was suspended it could use nothing: that time is as one that was not measured, but for its memory.
        """
        return self.look()

    @property
    def step(self) -> int:
        """Seconds between two moments."""
        return self.line[1].time - self.line[0].time if len(self.line) > 1 else 0

    @property
    def cpu_seconds(self) -> float:
        """Of the CPUs that it held."""
        return float(self.life.cpus * self.seconds)

    @property
    def gpu_seconds(self) -> float:
        return float(self.gpus * self.seconds)


def case(
    life: Life,
    summary: Summary | None,
    ground: Ground,
    past: Past,
    now: int,
    line: Sequence[Moment] | Callable[[], Sequence[Moment]] = (),
    interactive: Sequence[str] = INTERACTIVE,
) -> Case:
    """`interactive` is what jobs are called that somebody sits in front of: `findings.interactive`."""
    return Case(
        life=life,
        summary=summary,
        look=cache(lambda: _awake(life, now, tuple(line() if callable(line) else line))),
        ground=ground,
        past=past,
        now=now,
        seconds=ran(life, now),
        coverage=covered(life, summary, now) or 0.0,
        gpus=sum(life.gpus.values()),
        interactive=_interactive(life, interactive),
        efficiency=efficiency(life, summary, now),
    )


def _awake(life: Life, now: int, line: tuple[Moment, ...]) -> tuple[Moment, ...]:
    pauses = suspensions(life, now)
    step = line[1].time - line[0].time if len(line) > 1 else 0
    if not pauses or not step:
        return line

    def asleep(one: Moment) -> bool:
        cut = (min(end, one.time + step) - max(begin, one.time) for begin, end in pauses)
        return sum(max(0, seconds) for seconds in cut) > _TOUCHED * step

    nothing = {"cpu": None, "read": None, "written": None, "gpu": None, "gpu_power": None}
    return tuple(msgspec.structs.replace(one, **nothing) if asleep(one) else one for one in line)


def _interactive(life: Life, names: Sequence[str]) -> bool:
    name = life.name.lower()
    return any(step.id == "interactive" for step in life.steps) or bool(_pattern(tuple(names)).match(name))


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """None of them: nothing is called so."""
    return re.compile("|".join(fnmatch.translate(one.lower()) for one in names) or r"(?!)")
