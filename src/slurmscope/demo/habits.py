# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How people use what they ask for: most well, some badly, and each of them the same way all the time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from slurmscope.demo.cluster import PARTITIONS
from slurmscope.demo.jobs import Ask
from slurmscope.demo.people import Stream

TIDY, HOARDER, SERIAL, SQUATTER, CAUTIOUS, CARELESS = "tidy", "hoarder", "serial", "squatter", "cautious", "careless"
_MAX_TIME = {partition.name: partition.max_time for partition in PARTITIONS}
_SHORT = 20 * 60
_DAYS_ASKED = 7 * 86400


@dataclass(frozen=True, slots=True)
class Habit:
    """How one kind of somebody's work goes.

    - a hoarder asks for far more memory than is used
    - what is serial keeps one core busy, however many there are
    - a squatter holds GPUs and computes hardly anything
    - the cautious ask for the longest time there is, and run 20 minutes
    - the careless submit what fails, several times in a row
    """

    kind: str
    cpu: float  # of the CPUs, in the mean
    memory: float  # of the memory, at its most
    steps: int  # started with srun; 0: the batch script does it all

    def use(self, cpus: int, rng: random.Random) -> tuple[float, float]:
        """The parts of its CPUs and of its memory that one submission uses."""
        cpu = 1.0 / cpus if self.kind == SERIAL else self.cpu
        return min(1.0, cpu * rng.uniform(0.88, 1.06)), min(0.98, self.memory * rng.uniform(0.75, 1.25))

    def typical(self, seconds: float) -> float:
        """How long a task runs in the mean."""
        return min(seconds, _SHORT) if self.kind == CAUTIOUS else seconds

    def asked(self, ask: Ask) -> Ask:
        if self.kind != CAUTIOUS:
            return ask
        return replace(ask, limit=min(_DAYS_ASKED, *(_MAX_TIME[name] for name in ask.partitions)))

    @property
    def luckless(self) -> float:
        """How often a row of failures begins."""
        return 0.12 if self.kind == CARELESS else 0.008


def _shared(stream: Stream) -> bool:
    work = stream.work
    return work.nodes == (1,) and work.pool in ("cpu", "big") and min(work.cpus) >= 4


# How many people have each bad habit, and with which kinds of work one can have it.
_BAD: tuple[tuple[str, int, Callable[[Stream], bool]], ...] = (
    (SQUATTER, 3, lambda stream: stream.work.gpus == (1,) and stream.work.pool in ("a100", "l40s", "h100")),
    (SERIAL, 5, lambda stream: _shared(stream) and max(stream.work.cpus) >= 8),
    (HOARDER, 6, lambda stream: stream.work.nodes == (1,) and stream.work.memory >= 5000),
    (CAUTIOUS, 4, lambda stream: _shared(stream) and stream.work.account in ("economics", "genomics", "imaging")),
    (CARELESS, 4, lambda stream: stream.work.pool not in ("debug", "course")),
)


def of(seed: int, streams: list[Stream]) -> dict[Stream, Habit]:
    """Drawn apart from the story, which does not change with them."""
    rng = random.Random(f"slurmscope demo habits {seed}")  # noqa: S311 - a story, no secret
    kinds: dict[str, str] = {}
    fits: dict[str, Callable[[Stream], bool]] = {}
    for kind, count, fit in _BAD:
        able = [name for name in dict.fromkeys(one.user.name for one in streams if fit(one)) if name not in kinds]
        kinds |= dict.fromkeys(rng.sample(able, min(count, len(able))), kind)
        fits[kind] = fit
    found = {}
    for stream in streams:
        kind = kinds.get(stream.user.name, TIDY)
        if kind != TIDY and not fits[kind](stream):
            kind = TIDY
        found[stream] = _habit(stream, kind, rng)
    return found


def _habit(stream: Stream, kind: str, rng: random.Random) -> Habit:
    work = stream.work
    cpu, memory = rng.uniform(0.82, 0.98), rng.uniform(0.45, 0.85)
    if work.gpus != (0,):
        cpu = rng.uniform(0.25, 0.7)  # the CPUs beside a GPU feed it
    if kind == SQUATTER:
        cpu, memory = rng.uniform(0.01, 0.03), rng.uniform(0.03, 0.1)
    elif kind == SERIAL:
        memory = rng.uniform(0.1, 0.3)
    elif kind == HOARDER:
        memory = rng.uniform(0.02, 0.09)
    if max(work.nodes) > 1:
        steps = rng.choice((1, 1, 1, 2, 3))
    else:
        steps = rng.choice((0, 0, 0, 0, 1, 1, 2)) if work.array == (1,) else rng.choice((0, 0, 0, 1))
    return Habit(kind, cpu, memory, steps)
