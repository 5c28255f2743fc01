# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document of an array: how its tasks spread, which of them stand out, and what to ask for next time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import msgspec

from slurmscope.findings.case import Case
from slurmscope.findings.cost import Cost
from slurmscope.findings.judgement import Judgement
from slurmscope.findings.request import Request
from slurmscope.life import document
from slurmscope.reports import cells
from slurmscope.reports.document import (
    BAD,
    FINE,
    NOTE,
    Bars,
    Cell,
    Changes,
    Column,
    Document,
    Line,
    Paragraph,
    Section,
    Series,
    Table,
    Verdict,
)
from slurmscope.reports.found import found_table, groups
from slurmscope.reports.job import asked_for, job_link, number_of, sentence, waiting
from slurmscope.waiting.explanation import Explanation
from slurmscope.words import amount, listed, percent, size, span

_BINS = 12
_MOST_TASKS = 10
_FEW = 5  # tasks, of which each can be looked at
_MANY = 0.1  # share of the tasks that went wrong, from which on it is bad
_BAD = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE")
_DO = {
    "COMPLETED": "completed",
    "RUNNING": "run",
    "PENDING": "wait",
    "FAILED": "failed",
    "TIMEOUT": "ran out of time",
    "OUT_OF_MEMORY": "ran out of memory",
    "NODE_FAIL": "were on a node that failed",
    "CANCELLED": "were cancelled",
    "PREEMPTED": "were preempted",
    "REQUEUED": "were requeued",
}

Value = Callable[[Case], float | None]


class Waiting(msgspec.Struct, frozen=True):
    """Tasks that wait for the same reason."""

    tasks: int
    why: Explanation


class ArrayFacts(msgspec.Struct, kw_only=True):
    cases: Sequence[Case]  # one for each task, by number
    judgements: Sequence[Judgement]  # of each
    cost: Cost  # of all
    request: Request | None
    waiting: Sequence[Waiting]  # by reason, that of most tasks first
    waiting_else: Mapping[str, int]  # tasks that wait for further reasons
    left_out: int  # records beyond those that were read
    now: int


def array_document(facts: ArrayFacts) -> Document:
    first = facts.cases[0].life
    sections = []
    if facts.request is not None:
        lines = tuple(Line(one.option, one.before, one.after, one.why) for one in facts.request.changes)
        sections.append(Section("What to change", (Changes(lines, sentence(facts.request.words())),)))
    sections += [
        *_waiting(facts),
        Section("How the tasks spread", (_spread(facts.cases),), half=True),
        Section("What became of them", (_states(facts),), half=True),
        *_histograms(facts.cases),
        Section("What was found", (found_table(facts.cases, facts.judgements, "tasks"),)),
    ]
    if outliers := _outliers(facts):
        sections.append(Section("The tasks that stand out", (_tasks("outliers", outliers),)))
    number = first.array_id or first.id
    return Document(
        kind="array",
        title=f"{number} {first.name}: {_tasks_of(facts)}",
        subtitle=f"of {first.user} ({first.account}) on {first.cluster}, each with {asked_for(first)}",
        made=facts.now,
        verdict=_verdict(facts),
        sections=tuple(sections),
        data=_data(facts),
        sheet=partial(_tasks, "tasks", facts.cases),
    )


def _waiting(facts: ArrayFacts) -> list[Section]:
    if len(facts.waiting) == 1:
        begun = any(case.life.started for case in facts.cases)
        return waiting(facts.waiting[0].why, "Why the others wait" if begun else "Why they wait")
    found = [
        section
        for one in facts.waiting
        for section in waiting(one.why, f"Why {amount(one.tasks, 'task')} {'waits' if one.tasks == 1 else 'wait'}")
    ]
    if facts.waiting_else:
        told = listed([f"{reason} ({count:,})" for reason, count in facts.waiting_else.items()])
        found.append(Section("Why others wait", (Paragraph(f"{told}."),)))
    return found


def _tasks_of(facts: ArrayFacts) -> str:
    count = sum(case.life.tasks for case in facts.cases)
    return f"{count:,} tasks and more" if facts.left_out else amount(count, "task")


def _states_of(facts: ArrayFacts) -> Counter[str]:
    """In tasks: those that wait are one record."""
    found: Counter[str] = Counter()
    for case in facts.cases:
        found[case.life.state] += case.life.tasks
    return found


def _verdict(facts: ArrayFacts) -> Verdict:
    first = facts.cases[0].life
    states = _states_of(facts)
    total = sum(states.values())
    bad = sum(states[state] for state in _BAD)
    found = groups(facts.cases, facts.judgements)
    number = first.array_id or first.id
    most, count = states.most_common(1)[0]
    done = f"{count:,} of {total:,} tasks {_DO.get(most, most.lower())}"
    if bad:
        others = [f"{count:,} {_DO.get(state, state.lower())}" for state, count in states.most_common()[1:]]
        level = BAD if bad >= _MANY * total else NOTE
        return Verdict(level, f"{number} {first.name}: {done}", f"{listed(others)}." if others else "")
    if found:
        rule, some, _ = found[0]
        told = f"{amount(len(some), 'task')}: {some[0][1].headline} ({rule})"
        return Verdict(NOTE, f"{number} {first.name}: {done}, and some stand out", f"{told}.")
    shares = [share for case in facts.cases if (share := case.efficiency.cpu.share) is not None]
    lead = f"Half of them used {percent(median(shares))} of their CPU time or more." if shares else ""
    return Verdict(FINE, f"{number} {first.name}: {done}, and nothing stands out", lead)


# --- how they spread --------------------------------------------------------------------------------------------------


def _waited(case: Case) -> float | None:
    return None if not case.life.started else case.life.waited(case.now)


_QUANTITIES: tuple[tuple[str, str, Value, Callable[[float], str]], ...] = (
    ("ran", "ran", lambda case: float(case.seconds) if case.life.started else None, span),
    ("waited", "waited", _waited, span),
    ("cpu_share", "CPU in use", lambda case: case.efficiency.cpu.share, percent),
    ("memory_peak", "memory, peak", lambda case: case.efficiency.memory.peak, size),
    ("memory_share", "of the memory asked", lambda case: case.efficiency.memory.share, percent),
    ("gpu_share", "GPU in use", lambda case: case.efficiency.gpu.share, percent),
    ("time_share", "of the time asked", lambda case: case.efficiency.time.share, percent),
)


def _spread(cases: Sequence[Case]) -> Table:
    columns = (
        Column("quantity", ""),
        *(Column(name, title, True) for name, title in (("least", "least"), ("p25", "a quarter below"))),
        *(Column(name, title, True) for name, title in (("median", "half below"), ("p75", "three quarters below"))),
        Column("most", "most", True),
        Column("tasks", "of tasks", True),
    )
    rows = []
    for name, title, value, shown in _QUANTITIES:
        found = sorted(one for case in cases if (one := value(case)) is not None)
        if found:
            at = [found[0], *(_quantile(found, share) for share in (0.25, 0.5, 0.75)), found[-1]]
            rows.append((Cell(title, name), *(Cell(shown(one), one) for one in at), cells.count(len(found))))
    return Table("spread", columns, tuple(rows))


def _quantile(ranked: Sequence[float], share: float) -> float:
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _histograms(cases: Sequence[Case]) -> list[Section]:
    made = [
        _histogram("ran", "Tasks by how long they ran", cases, _QUANTITIES[0][2], span),
        _histogram("memory_peak", "Tasks by their peak of memory", cases, _QUANTITIES[3][2], size),
        _histogram("cpu_share", "Tasks by the share of CPU in use", cases, _QUANTITIES[2][2], percent),
    ]
    return [Section(one.title, (msgspec.structs.replace(one, title=""),), half=True) for one in made if one is not None]


def _histogram(
    name: str, title: str, cases: Sequence[Case], value: Value, shown: Callable[[float], str]
) -> Bars | None:
    found = [one for case in cases if (one := value(case)) is not None]
    if len(found) < _FEW or max(found) <= min(found):
        return None
    least, most = min(found), max(found)
    for bins in range(_BINS, 1, -1):
        width = (most - least) / bins
        labels = tuple(f"to {shown(least + width * (at + 1))}" for at in range(bins))
        if len(set(labels)) == bins:  # else they are too near to each other to be told apart
            counts = Counter(min(bins - 1, math.floor((one - least) / width)) for one in found)
            series = Series("tasks", tuple(float(counts[at]) for at in range(bins)))
            return Bars(f"by_{name}", title, "tasks", labels, (series,))
    return None


def _states(facts: ArrayFacts) -> Table:
    states = _states_of(facts)
    total = sum(states.values())
    columns = (Column("state", ""), Column("tasks", "tasks", True), Column("share", "of all"))
    rows = tuple(
        (
            Cell(state.lower().replace("_", " "), state),
            cells.count(count),
            cells.meter(count / total, judged=False),
        )
        for state, count in states.most_common()
    )
    note = f"{amount(facts.left_out, 'further record')} not looked at." if facts.left_out else ""
    return Table("states", columns, rows, note)


# --- which stand out --------------------------------------------------------------------------------------------------


def _outliers(facts: ArrayFacts) -> list[Case]:
    """Those that went wrong, then those of which something was found."""
    pairs = zip(facts.cases, facts.judgements, strict=True)
    odd = [one for one in pairs if one[0].life.state in _BAD or one[1].findings]
    ranked = sorted(odd, key=lambda one: (one[0].life.state not in _BAD, -one[0].seconds))
    return [case for case, _ in ranked[:_MOST_TASKS]]


def _tasks(name: str, cases: Sequence[Case]) -> Table:
    columns = (
        Column("task", "task"),
        Column("state", "state"),
        Column("node", "node"),
        Column("ran", "ran", True),
        Column("cpu_share", "CPU in use"),
        Column("memory_peak", "memory, peak", True),
        Column("gpu_share", "GPU in use"),
    )
    rows = tuple(
        (
            Cell(number_of(case.life), number_of(case.life), link=job_link(case.life)),
            Cell(case.life.state.lower().replace("_", " "), case.life.state),
            cells.words(case.life.node_list),
            cells.seconds(case.seconds if case.life.started else None),
            cells.meter(case.efficiency.cpu.share),
            cells.bytes_(case.efficiency.memory.peak),
            cells.meter(case.efficiency.gpu.share) if case.gpus else Cell(cells.DASH),
        )
        for case in cases
    )
    return Table(name, columns, rows)


def _data(facts: ArrayFacts) -> dict[str, Any]:
    return {
        "tasks": [
            {"job": document(case.life), "efficiency": case.efficiency, "findings": judgement.findings}
            for case, judgement in zip(facts.cases, facts.judgements, strict=True)
        ],
        "left_out": facts.left_out,
        "next_request": facts.request,
        "waiting": facts.waiting,
        "waiting_else": facts.waiting_else,
        "cost": facts.cost,
    }
