# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a rule is, and what it may say of a job.

A rule says when it does not apply (`spares`), what it needs (`lacks`), when it fires, how bad that is, what it costs
and what to change (`fires`), and when it is wrong. Each is one file in rules/, which is also its part of docs/rules.md.

  Outcome
    Finding   it fires
    Fine      it was looked at, and is not so
    Exempt    it does not apply to such a job
    NoData    what it needs is not known: no verdict
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from slurmscope.findings.case import Case

BAD, NOTE = "bad", "note"
"""How bad: something went wrong or is wasted for certain; it is worth a look."""
SHARE, SECONDS, BYTES, COUNT, RATIO, RUNS = "share", "seconds", "bytes", "count", "ratio", "runs"
"""Units of thresholds. RUNS: jobs, or times that something happened: 1, 2, 3, …"""

Limits = Mapping[str, float]
"""The thresholds in force, by name."""


class Threshold(msgspec.Struct, frozen=True):
    name: str
    default: float
    unit: str
    about: str

    def expected(self, value: float) -> str | None:
        """What it may be, where it may not be this."""
        if self.unit == SHARE:
            return None if 0 <= value <= 1 else "a share from 0 to 1"
        if self.unit == RUNS:
            return None if value >= 1 and value == int(value) else "a whole number from 1 on"
        return None if value >= 0 else "a number from 0 on"


class Waste(msgspec.Struct, frozen=True):
    """What would not have been taken, had the job asked for what it used."""

    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    memory_byte_seconds: float = 0.0

    def __add__(self, other: Waste) -> Waste:
        return Waste(
            self.cpu_seconds + other.cpu_seconds,
            self.gpu_seconds + other.gpu_seconds,
            self.memory_byte_seconds + other.memory_byte_seconds,
        )


class Change(msgspec.Struct, frozen=True):
    """One `#SBATCH` line, as it was asked for and as it should be. Without `after` it is to be left out."""

    option: str  # --cpus-per-task
    before: str | None
    after: str | None
    why: str = ""


class Finding(msgspec.Struct, frozen=True):
    headline: str  # follows the job's name: "its GPUs were never used"
    text: str  # one or two sentences with the figures
    advice: str  # what to do
    changes: tuple[Change, ...] = ()
    waste: Waste = Waste()
    beside: tuple[str, ...] = ()  # rules that its own hides, and that have more to say of this job
    figures: Mapping[str, float] = {}  # what was compared, for scripts, in base units
    severity: str = ""  # where it is not the rule's
    rule: str = ""  # set when the rule is asked
    lost: Waste = Waste()  # what it cost where the site is to blame, and not whose job it is


class Fine(msgspec.Struct, frozen=True):
    pass


class Exempt(msgspec.Struct, frozen=True):
    why: str  # "it has no GPU"


class NoData(msgspec.Struct, frozen=True):
    missing: str  # "what its GPUs did"


Outcome = Finding | Fine | Exempt | NoData
Why = Callable[[Case, Limits], str | None]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str  # for lists: "Low CPU use"
    severity: str
    about: str  # what is wrong, and why it matters
    needs: str  # what must be known
    exempt: str  # when it does not apply
    cure: str  # what to change, in general
    false_positives: str  # when it is wrong, or right and harmless
    thresholds: tuple[Threshold, ...] = ()
    hides: tuple[str, ...] = ()  # rules that say less of the same, and are not told beside it
    spares: Why  # why it does not apply to a job; None: it does
    lacks: Why  # what is not known of a job that it applies to; None: all that it needs is
    fires: Callable[[Case, Limits], Finding | None]

    @property
    def defaults(self) -> dict[str, float]:
        return {one.name: one.default for one in self.thresholds}

    def ask(self, case: Case, limits: Limits) -> Outcome:
        if (why := self.spares(case, limits)) is not None:
            return Exempt(why)
        if (missing := self.lacks(case, limits)) is not None:
            return NoData(missing)
        found = self.fires(case, limits)
        if found is None:
            return Fine()
        return msgspec.structs.replace(found, rule=self.name, severity=found.severity or self.severity)
