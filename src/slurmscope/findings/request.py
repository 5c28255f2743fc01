# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The next request: the `#SBATCH` lines for the next run of the same work, from what its last runs used.

The same work is that of the same user and account on the same cluster, on as many nodes, whose name is the same but
for numbers at its end: `train-01` and `train-02`, the tasks of an array. Runs on other numbers of nodes are other work,
for what each node does changes with that. This is wider than what rules take for earlier runs (past.py), which have
the very same name: what failed or took long once says something of that work alone, but of what a sweep over many
inputs needs its largest part does.

Only runs that completed, and took a minute or more, say that less is enough; any other run can only say that more is
needed. Margins are wider where few runs are known:

| | 1 run | 2 to 4 | 5 and more | of |
|---|---|---|---|---|
| memory | 50 % | 30 % | 20 % | the largest peak |
| time | 50 % | 35 % | 25 % | the longest run |

- After a run that was killed for want of memory or time, half as much again as that run had.
- More is asked for after such a run, and where one that completed used nearly all that this job has.
- CPUs: what the busiest run had in use for 95 % of its time or less, rounded up; where only sacct tells, its mean and a
  quarter more. A tenth of a core is the shell's. The number of tasks is only touched where half of them are enough.
  A busy thread has a core to itself, where it is known that Slurm counts hardware threads as CPUs.
- GPUs: as many as were ever in use. One whose driver tells nothing is taken to be in use.
- Runs that had more CPUs or GPUs than this job may be of a larger problem: they keep what is asked for from getting
  less, but do not say that more is needed, nor that less time is enough.
- What would change by less than a fifth stays as it is. What is not known is not advised on.
- Fewer CPUs or GPUs come with a line for memory, for that may have been asked for by CPU. More memory than a node has,
  or time than any job of the partition had, is told in words, and not asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from slurmscope.findings import lines
from slurmscope.findings.case import Case
from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.efficiency import Efficiency, efficiency, ran
from slurmscope.findings.rule import Change, Waste
from slurmscope.life import Life
from slurmscope.summary import Summary
from slurmscope.words import amount, number, size, span

Runs = Sequence[tuple[Life, Summary | None]]
Waiting = Callable[[str, int, int, float | None, float | None], float | None]
"""Seconds that jobs of a size wait: partition, CPUs, GPUs, memory, time."""

_LEAST = 60  # seconds that a run must have taken to say that less is enough
_MARGINS = {"memory": (1.5, 1.3, 1.2), "time": (1.5, 1.35, 1.25)}
_AGAIN = 1.5  # after a run that was killed for want of it
_NEAR = 0.95  # of what was asked for: it was just enough
_HALF = 0.5
_WORTH = 0.8  # of what was asked for, from which on less is worth a change
_SHELL = 0.1  # cores
_BUSY = 0.8  # where only a mean is known
_USED = 0.005  # a GPU that was never busier was not used
_COVERED = 0.5  # share of a run's time that must have been measured
_SOONER = 600  # seconds that are worth a word
_LETTER = re.compile(r"[^\W\d_]")


class Ask(msgspec.Struct, frozen=True):
    """What a job asks for, in all."""

    cpus: int
    gpus: int
    memory: float | None
    time: float | None


class Request(msgspec.Struct, frozen=True):
    changes: tuple[Change, ...]
    runs: int  # that completed, and that it was made from; 0: they only say that more is needed
    before: Ask
    after: Ask
    saving: Cost  # of one run
    wait_before: float | None  # seconds that such jobs wait; None: too few are known
    wait_after: float | None
    notes: tuple[str, ...] = ()  # what to ask for in words, where no line is known to be right

    @property
    def sooner(self) -> float | None:
        """Seconds that the next one is likely to start earlier; None: that cannot be told, or it asks for more."""
        before, after = self.before, self.after
        larger = after.cpus > before.cpus or (after.memory or 0) > (before.memory or 0)
        if self.wait_before is None or self.wait_after is None or larger or (after.time or 0) > (before.time or 0):
            return None
        gained = self.wait_before - self.wait_after
        return gained if gained >= _SOONER else None

    def words(self) -> str:
        """`from 12 runs; saves 22 core-hours in an average run; starts about 2 h earlier`"""
        parts = [f"from {amount(self.runs, 'run')}" if self.runs else "from runs that did not end well"]
        parts += self.notes
        if self.saving != Cost():
            parts.append(f"saves {self.saving.words()} in an average run")
        if self.sooner is not None:
            parts.append(f"starts about {_about(self.sooner)} earlier")
        return "; ".join(parts)


class _Run(msgspec.Struct, frozen=True):
    life: Life
    summary: Summary | None
    used: Efficiency
    seconds: int

    @property
    def starved(self) -> bool:
        """It was killed, or a process of it was, for want of memory."""
        kills = None if self.summary is None else self.summary.oom_kills
        return self.life.state == "OUT_OF_MEMORY" or (self.life.state == "FAILED" and bool(kills))

    @property
    def stopped(self) -> bool:
        """By its time limit."""
        return self.life.state == "TIMEOUT"

    @property
    def good(self) -> bool:
        return self.life.state == "COMPLETED" and self.seconds >= _LEAST


class _Found(msgspec.Struct, frozen=True):
    """Of one resource."""

    changes: tuple[Change, ...] = ()
    amount: float | None = None  # that is asked for in all by these
    note: str = ""  # … in words instead


def same_work(life: Life, other: Life) -> bool:
    return _work(life) == _work(other)


def _work(life: Life) -> tuple[str, str, str, int, str]:
    return life.cluster, life.user, life.account, life.nodes, stem(life.name)


@lru_cache(maxsize=4096)
def stem(name: str) -> str:
    """A name without the numbers at its end; all of it where it has no letter."""
    last = _LETTER.search(name[::-1])  # from behind: a pattern that ends at the end would look from each of its places
    return name if last is None else name[: len(name) - last.start()]


def next_request(case: Case, runs: Runs, prices: Prices, waits: Waiting, seen: Sequence[Life] = ()) -> Request | None:
    """What to ask for instead of what the job asked for; None: it asked for what it used, or nothing is known.

    `runs` may hold other work, and the job itself. Jobs that were `seen` tell which time limits its partition allows.
    """
    life = case.life
    known = [_run(one, summary) for one, summary in runs if one.started and same_work(life, one)]
    good = [one for one in known if one.good]
    cpus, gpus = _cpus(case, known, good), _gpus(case, known, good)
    memory, time = _memory(case, known, good), _time(case, known, good, seen)
    if (cpus.changes or gpus.changes) and not memory.changes:
        memory = msgspec.structs.replace(memory, changes=lines.memory_kept(case), amount=life.memory)
    found = {"cpus": cpus, "memory": memory, "gpus": gpus, "time": time}
    changes = tuple(change for one in found.values() for change in one.changes)
    if not changes:
        return None
    before = Ask(life.cpus, sum(life.gpus.values()), life.memory, life.time_limit)
    after = msgspec.structs.replace(before, **{name: one.amount for name, one in found.items() if one.changes})
    partition = life.partitions[0]
    return Request(
        changes,
        len(good),
        before,
        after,
        _saving(before, after, good, prices),
        waits(partition, before.cpus, before.gpus, before.memory, before.time),
        waits(partition, after.cpus, after.gpus, after.memory, after.time),
        tuple(one.note for one in found.values() if one.note),
    )


def _run(life: Life, summary: Summary | None) -> _Run:
    now = life.changed_time  # of one that still runs: what is known of it is from then
    return _Run(life, summary, efficiency(life, summary, now), ran(life, now))


# --- each resource: the line, and what is asked for by it in all -----------------------------------------------------


def _cpus(case: Case, known: list[_Run], good: list[_Run]) -> _Found:
    life = case.life
    busy = [cores for one in known if (cores := _cores(one)) is not None]
    told = sum(_cores(one) is not None for one in good)
    if not told:
        return _Found()
    enough, seen = max(busy)
    wanted = lines.fitting(case, math.ceil(enough - _SHELL) * lines.core(case))  # a core for each busy thread
    changes = lines.cpus_alone(case, wanted, f"{number(seen)} of {life.cpus} were busy{_in(told)}")
    by_tasks = life.nodes > 1 or any(one.option == "--ntasks" and one.before for one in changes)
    if wanted > life.cpus * (_HALF if by_tasks else _WORTH):
        return _Found()
    in_words = not changes and wanted >= life.nodes and not case.ground.whole(life)
    return _Found(changes, wanted, f"{amount(wanted, 'CPU')} in all would do" if in_words else "")


def _cores(one: _Run) -> tuple[float, float] | None:
    """How many are enough, and how many were busy; None: unknown."""
    used, cpu = one.summary, one.used.cpu
    if used is not None and used.cpu is not None and (used.coverage or 0.0) >= _COVERED:
        seen = max(used.cpu.p95, cpu.mean or 0.0)
        return seen, seen
    if one.life.gpus or cpu.mean is None or (cpu.coverage or 0.0) < _COVERED:
        return None  # beside a GPU a mean says little: the cores feed it in bursts
    return (cpu.mean if cpu.mean <= 1 + _SHELL else cpu.mean / _BUSY), cpu.mean


def _memory(case: Case, known: list[_Run], good: list[_Run]) -> _Found:
    life, asked = case.life, case.life.memory
    if asked is None:
        return _Found()
    told = sum(_peak(one) is not None for one in good)
    for runs, less in ((known, True), ([one for one in known if _like(one, life)], False)):
        killed = max((one.life.memory or 0 for one in runs if one.starved), default=0)
        most = max((_peak(one) or 0.0 for one in runs), default=0.0)
        wanted, why = killed * _AGAIN, f"a run with {size(killed)} was killed for want of memory"
        if most * _margin("memory", told) > wanted:
            wanted = most * _margin("memory", told)
            why = f"{size(most)} at most{_in(told)}, and {_more('memory', told)}"
        total = float(lines.advised(case, wanted))
        short = killed >= asked or most >= asked * _NEAR
        if (told and total <= asked * _WORTH) if less else (short and total > asked):
            note = "" if lines.there(case, wanted) else "no node of its partition has as much memory as it may need"
            return _Found(lines.memory(case, wanted, why), total, note)
    return _Found()


def _peak(one: _Run) -> float | None:
    """Over its nodes, as if each used as much as the one that used the most: that is what is asked for."""
    if one.used.memory.peak is None:
        return None
    nodes = one.summary.nodes if one.summary is not None else ()
    largest = max((node.memory_peak or 0 for node in nodes), default=0)
    return max(one.used.memory.peak, float(largest * one.life.nodes))


def _gpus(case: Case, known: list[_Run], good: list[_Run]) -> _Found:
    life = case.life
    held = sum(life.gpus.values()) // max(1, life.nodes)
    used = [count for one in known if (count := _used_gpus(one)) is not None]
    told = sum(_used_gpus(one) is not None for one in good)
    if not held or not told or max(used) >= held:
        return _Found()
    why = f"{'none' if not max(used) else max(used)} of {held} {'was' if max(used) == 1 else 'were'} used{_in(told)}"
    return _Found(lines.gpus_alone(case, max(used), why), max(used) * life.nodes)


def _used_gpus(one: _Run) -> int | None:
    """On the node that used the most; None: unknown."""
    summary, held = one.summary, sum(one.life.gpus.values())
    if not held or summary is None or (summary.coverage or 0.0) < _COVERED or len(summary.gpus) < held:
        return None
    counts: dict[str, int] = {}
    for gpu in summary.gpus:
        counts[gpu.node] = counts.get(gpu.node, 0) + (gpu.peak is None or gpu.peak > _USED)
    return max(counts.values())


def _time(case: Case, known: list[_Run], good: list[_Run], seen: Sequence[Life]) -> _Found:
    life, limit = case.life, case.life.time_limit
    if limit is None:
        return _Found()
    told = sum(_like(one, life) for one in good)
    for runs, less in ((known, True), ([one for one in known if _like(one, life)], False)):
        # Slurm takes some seconds to end one: it is the limit that was too short
        over = max((min(one.seconds, one.life.time_limit or one.seconds) for one in runs if one.stopped), default=0)
        longest = max((one.seconds for one in runs if not one.stopped), default=0)
        wanted, why = over * _AGAIN, f"a run was stopped after {span(over)}"
        if longest * _margin("time", told) > wanted:
            wanted = longest * _margin("time", told)
            why = f"the longest{_of(told)} took {span(longest)}, and {_more('time', told)}"
        rounded = float(lines.rounded_time(wanted))
        short = max([over, *(one.seconds for one in runs if one.good)]) >= limit * _NEAR
        if (told and rounded <= limit * _WORTH) if less else (short and rounded > limit):
            changes = lines.time(case, wanted, why, seen)
            return _Found(changes, rounded, "" if changes else f"more time, as far as the partition allows: {why}")
    return _Found()


def _like(one: _Run, life: Life) -> bool:
    """It had no more than this job has."""
    return one.life.cpus <= life.cpus and sum(one.life.gpus.values()) <= sum(life.gpus.values())


# --- margins and words ------------------------------------------------------------------------------------------------


def _step(told: int) -> int:
    return 0 if told <= 1 else 1 if told < 5 else 2


def _margin(of: str, told: int) -> float:
    return _MARGINS[of][_step(told)]


def _more(of: str, told: int) -> str:
    if _step(told) == 0:
        return "half as much again" + (", for one run tells little" if told else "")
    return f"{round((_margin(of, told) - 1) * 100)} % more"


def _in(told: int) -> str:
    return (" in one run" if told == 1 else f" in {told:,} runs") if told else ""


def _of(told: int) -> str:
    return " run" if told <= 1 else f" of {told:,} runs"


def _about(seconds: float) -> str:
    for unit, word in ((86400, "d"), (3600, "h")):
        if seconds >= 2 * unit:
            return f"{round(seconds / unit):,} {word}"
    return f"{round(seconds / 60)} min"


def _saving(before: Ask, after: Ask, good: list[_Run], prices: Prices) -> Cost:
    """Of a run as long as those that completed are on average."""
    if not good:
        return Cost()
    seconds = sum(one.seconds for one in good) / len(good)
    spared = Waste(
        max(0, before.cpus - after.cpus) * seconds,
        max(0, before.gpus - after.gpus) * seconds,
        max(0.0, (before.memory or 0) - (after.memory or 0)) * seconds,
    )
    last = max(good, key=lambda one: one.life.end_time or 0)
    return prices.waste(last.life, last.summary, last.life.changed_time, spared)
