# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document of one job: the verdict, what to change, what was asked for and used, what happened, charts, facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from slurmscope.findings.case import Case
from slurmscope.findings.cost import Cost
from slurmscope.findings.efficiency import Use
from slurmscope.findings.judgement import Judgement
from slurmscope.findings.request import Request
from slurmscope.findings.rule import Change, Finding
from slurmscope.life import Life, document
from slurmscope.reports import cells, courses
from slurmscope.reports.document import (
    BAD,
    FINE,
    NOTE,
    UNKNOWN,
    Block,
    Cell,
    Changes,
    Column,
    Document,
    Facts,
    Line,
    Paragraph,
    Section,
    Table,
    Verdict,
)
from slurmscope.reports.timeline import other_attempts, timeline
from slurmscope.summary import NodeLines
from slurmscope.waiting.explanation import Explanation
from slurmscope.words import Say, english, listed, percent, rounded, size, span

NODES = "Its nodes over time"
_MOST_PROGRAMS = 5
_FAILED = {
    "FAILED": "it failed",
    "CANCELLED": "it was cancelled",
    "TIMEOUT": "it ran out of time",
    "OUT_OF_MEMORY": "it ran out of memory",
    "NODE_FAIL": "its node failed",
    "PREEMPTED": "it was preempted",
    "BOOT_FAIL": "its node did not boot",
    "DEADLINE": "it was past its deadline",
    "REQUEUED": "it was requeued",
    "VANISHED": "it is not seen any more, and nobody told how it ended",
}


class JobFacts(msgspec.Struct, kw_only=True):
    """All that is told of a job."""

    case: Case
    judgement: Judgement
    cost: Cost
    attempts: Sequence[Life]  # all lives of the same job, by submit time
    request: Request | None = None  # what to ask for next time
    waiting: Explanation | None = None  # why it waits
    same_work: int = 0  # earlier runs
    not_measured: str = ""  # why nothing was, where nothing was
    by_node: NodeLines | None = None  # how busy each of its nodes was, where it has several


def job_document(facts: JobFacts, say: Say = english) -> Document:
    """What is told beside the sentences is said by `say`."""
    case, life = facts.case, facts.case.life
    sections = [
        *_advice(facts),
        *waiting(facts.waiting),
        *_figures(facts, say),
        *_charts(case),
        *_nodes(facts),
        *_parts(case),
        _facts(facts, say),
    ]
    return Document(
        kind="job",
        title=f"{number_of(life)} {life.name}",
        subtitle=_whose(life, say),
        made=case.now,
        verdict=_verdict(facts),
        sections=tuple(sections),
        data=_data(facts),
        table="asked_and_used",
    )


def _whose(life: Life, say: Say) -> str:
    values = {"user": life.user, "account": life.account, "cluster": life.cluster, "partition": life.partition}
    return say("of {user} ({account}) on {cluster}, in {partition}", **values)


def number_of(life: Life) -> str:
    return f"{life.array_id}_{life.array_tasks}" if life.array_id and life.array_tasks else str(life.id)


def job_link(life: Life) -> str:
    """Of this one, whoever else has or had its number."""
    return f"job:{life.cluster}/{life.id}.{life.submit_time or 0}"


# --- the verdict ------------------------------------------------------------------------------------------------------


def _verdict(facts: JobFacts) -> Verdict:
    life = facts.case.life
    level, headline, lead = _told(facts)
    return Verdict(level, f"{number_of(life)} {life.name}: {headline}", lead)


def _told(facts: JobFacts) -> tuple[str, str, str]:
    case, life = facts.case, facts.case.life
    findings = facts.judgement.findings
    if not life.started and not life.ended:
        why = facts.waiting
        return (NOTE, "it waits", why.words) if why is not None else (NOTE, "it waits", _reason(life))
    if findings:
        worst = BAD if findings[0].severity == BAD else NOTE
        return worst, findings[0].headline, " ".join(one.text for one in findings[:2])
    if not life.started:
        return NOTE, f"{_FAILED.get(life.state, life.state.lower())} before it ran", ""
    if life.ended and life.state != "COMPLETED":
        return BAD if life.state == "FAILED" else NOTE, _FAILED.get(life.state, life.state.lower()), _ending(life)
    uses = _uses(case)
    told = [f"{percent(use.share)} of its {name}" for name, use in uses if use.share is not None]
    verb = "used" if life.ended else "uses"
    if not any(use.share is not None for name, use in uses if name != "time"):
        headline = "it completed; what it used is not known" if life.ended else "it runs; what it uses is not known"
        return UNKNOWN, headline, f"{_running(case)}{sentence(facts.not_measured)}"
    outcome = "it completed" if life.ended else "it runs"
    return FINE, f"{outcome}, and nothing stands out", f"It {verb} {listed(told)}."


def _running(case: Case) -> str:
    limit = f" of {span(case.life.time_limit)}" if case.life.time_limit else ""
    return "" if case.life.ended else f"It has run for {span(case.seconds)}{limit}. "


def _reason(life: Life) -> str:
    return f"Slurm says: {life.reason}." if life.reason else ""


def _ending(life: Life) -> str:
    code = f" with exit code {life.exit_code}" if life.exit_code not in (None, "0:0") else ""
    by = f" by {life.cancelled_by}" if life.cancelled_by else ""
    return f"It ended{by}{code} after {span((life.end_time or 0) - (life.start_time or 0))}." if code or by else ""


def _uses(case: Case) -> list[tuple[str, Use]]:
    used = case.efficiency
    return [
        (name, use)
        for name, use in (("CPU time", used.cpu), ("memory", used.memory), ("GPUs", used.gpu), ("time", used.time))
        if use.asked
    ]


# --- what to change ---------------------------------------------------------------------------------------------------


def _advice(facts: JobFacts) -> list[Section]:
    sections = []
    changes = changes_of(facts)
    if changes:
        lines = tuple(Line(one.option, one.before, one.after, one.why) for one in changes)
        note = "" if facts.request is None else sentence(facts.request.words())
        sections.append(Section("What to change", (Changes(lines, note),)))
    found = [block for one in facts.judgement.findings for block in _finding(one)]
    if found:
        sections.append(Section("What was found", tuple(found)))
    return sections


def changes_of(facts: JobFacts) -> list[Change]:
    """What earlier runs teach, and what the findings say where those say nothing."""
    found: dict[str, Change] = {}
    learned = () if facts.request is None else facts.request.changes
    for change in (*learned, *(one for finding in facts.judgement.findings for one in finding.changes)):
        found.setdefault(change.option, change)
    return list(found.values())


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _finding(finding: Finding) -> list[Block]:
    return [
        Paragraph(f"{sentence(finding.headline)} {finding.text}"),
        Paragraph(f"{finding.advice} (rule {finding.rule})", soft=True),
    ]


def waiting(why: Explanation | None, title: str = "Why it waits") -> list[Section]:
    if why is None:
        return []
    blocks: list[Block] = [Paragraph(f"{why.reason}: {why.words}")]
    rows = [("Decided by", why.decides), *(("What you can do", one) for one in why.actions)]
    rows += [(sentence(one.name)[:-1], one.text) for one in why.facts]
    rows += [("Estimate", one) for one in why.estimate.words]
    blocks.append(Facts(tuple((name, cells.words(text)) for name, text in rows)))
    return [Section(title, tuple(blocks))]


# --- the figures ------------------------------------------------------------------------------------------------------


def _counted(one: str, digits: int, value: float) -> str:
    shown = rounded(value, digits)
    return f"{shown} {one if shown == '1' else one + 's'}"


def _figures(facts: JobFacts, say: Say) -> list[Section]:
    case = facts.case
    columns = (
        Column("resource", "", False),
        Column("asked", "asked", True),
        Column("mean", "used, mean", True),
        Column("peak", "peak", True),
        Column("share", "of what was asked", False),
    )
    used = case.efficiency
    rows = [
        _row("CPU", used.cpu, partial(_counted, "core", 4)),
        _row("Memory", used.memory, size, _full(facts)),
        *([_row("GPU", used.gpu, partial(_counted, "GPU", 3))] if case.gpus else []),
        *([_row("GPU memory", used.gpu_memory, size)] if case.gpus else []),
        _row("Time", used.time, span),
    ]
    if not case.life.started:
        rows = []
    attempt = [one.key for one in facts.attempts].index(case.life.key) + 1 if facts.attempts else 1
    note = ""
    if facts.judgement.unknown:
        note = f"Not known, and so not judged: {listed(list(facts.judgement.unknown))}."
    return [
        Section("Asked and used", (Table("asked_and_used", columns, tuple(rows), note, "it has not run"),), half=True),
        Section(
            "What happened", (timeline(case.life, case.now, attempt, max(1, len(facts.attempts)), say),), half=True
        ),
    ]


def _full(facts: JobFacts) -> str:
    """A level where much of the memory being used is nothing good; else empty."""
    rules = {one.rule for one in facts.judgement.findings}
    return BAD if "out_of_memory" in rules else NOTE if "memory_close" in rules else ""


def _row(name: str, use: Use, shown: Any, level: str = "") -> tuple[Cell, ...]:
    def told(value: float | None) -> Cell:
        return Cell(cells.DASH if value is None else shown(value), value)

    return (
        Cell(name, name.lower().replace(" ", "_"), source=source_of(use)),
        told(use.asked),
        told(use.mean),
        told(use.peak if name != "Time" else None),
        # a limit that is not used up takes nothing from anybody
        cells.meter(use.share, judged=name != "Time", level=level),
    )


def source_of(use: Use) -> str:
    """Who told it, and of how much of the time."""
    if not use.source:
        return "not measured" if use.share is None else ""
    whole = use.coverage is None or use.source in ("sacct", "slurm")
    return use.source if whole else f"{use.source} {percent(use.coverage)}"


def _charts(case: Case) -> list[Section]:
    made = courses.charts(case)
    found = [Section(one.title, (msgspec.structs.replace(one, title=""),), half=True) for one in made]
    found += [Section(one.title, (msgspec.structs.replace(one, title=""),), half=True) for one in courses.bars(case)]
    return found


def _nodes(facts: JobFacts) -> list[Section]:
    if facts.by_node is None:
        return []
    return [Section(NODES, (courses.heat(facts.by_node, facts.case.life.nodes),))]


def _parts(case: Case) -> list[Section]:
    """GPU by GPU, and step by step."""
    found = []
    gpus = () if case.summary is None else case.summary.gpus
    if gpus:
        columns = (
            Column("node", "node"),
            Column("gpu", "GPU"),
            Column("model", "model"),
            Column("share", "in use"),
            Column("peak", "at most", True),
            Column("memory", "memory, peak", True),
            Column("held_idle", "held idle", True),
        )
        rows = tuple(
            (
                cells.words(one.node, f"node:{case.life.cluster}/{one.node}"),
                Cell(str(one.index) if one.instance is None else f"{one.index}.{one.instance}", one.index),
                cells.words(one.model),
                cells.meter(one.mean),
                Cell(cells.DASH if one.peak is None else percent(one.peak), one.peak),
                cells.bytes_(one.memory_peak),
                cells.seconds(one.idle_seconds),
            )
            for one in gpus
        )
        found.append(Section("Its GPUs", (Table("gpus", columns, rows),)))
    if len(case.life.steps) > 1:
        found.append(Section("Its steps", (_steps(case),)))
    return found


def _steps(case: Case) -> Table:
    columns = (
        Column("step", "step"),
        Column("name", "name"),
        Column("state", "state"),
        Column("tasks", "tasks", True),
        Column("cpus", "CPUs", True),
        Column("ran", "ran", True),
        Column("cpu_seconds", "CPU time", True),
        Column("memory", "memory, peak", True),
    )
    most = 50
    rows = tuple(
        (
            cells.words(one.id),
            cells.words(one.name),
            cells.words(one.state),
            cells.count(one.tasks),
            cells.count(one.cpus),
            cells.seconds(_between(one.start_time, one.end_time)),
            cells.seconds(one.cpu_seconds),
            cells.bytes_(one.memory_used),
        )
        for one in case.life.steps[:most]
    )
    left = len(case.life.steps) - most
    return Table("steps", columns, rows, f"and {left} more" if left > 0 else "")


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(0, end - start)


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts(facts: JobFacts, say: Say) -> Section:
    case, life = facts.case, facts.case.life
    rows = [
        ("Job", Cell(str(life.id), life.id)),
        ("State", cells.words(life.state)),
        ("Account, QOS", cells.words(f"{life.account}, {life.qos}")),
        ("Partition", cells.words(life.partition)),
        ("Nodes", Cell(f"{life.nodes}: {life.node_list}" if life.node_list else str(life.nodes), life.nodes)),
        ("Asked for", cells.words(asked_for(life, say))),
    ]
    if life.started:
        rows.append(("Cost", cells.words(facts.cost.words())))
    if case.summary is not None and case.summary.programs:
        most = sorted(case.summary.programs.items(), key=lambda one: -one[1])[:_MOST_PROGRAMS]
        rows.append(("Programs", cells.words(", ".join(f"{name} ({_threads(count, say)})" for name, count in most))))
    if facts.same_work:
        rows.append(("Same work", cells.words(_earlier(facts.same_work, say))))
    if others := other_attempts(list(facts.attempts), life, case.now):
        rows.append(("Attempts", cells.words(others)))
    for name, value in (
        ("Submitted by", life.submit_line),
        ("Submitted in", life.work_dir),
        ("Submitted on", life.login_node),
        ("Reservation", life.reservation),
        ("Dependency", life.dependency),
        ("Licences", life.licenses),
        ("Constraint", life.features),
    ):
        if value:
            rows.append((name, cells.words(value)))
    if case.summary is None and facts.not_measured:
        rows.append(("Measured", cells.words(facts.not_measured)))
    return Section("Facts", (Facts(tuple(rows)),))


def asked_for(life: Life, say: Say = english) -> str:
    gpus = ", ".join(f"{count} {kind or 'GPU'}" for kind, count in life.gpus.items())
    parts = [
        cpus_asked(life, say),
        "" if life.memory is None else size(life.memory),
        gpus,
        say("1 node") if life.nodes == 1 else say("{count} nodes", count=f"{life.nodes:,}"),
        say("no time limit") if life.time_limit is None else span(life.time_limit, say),
    ]
    return ", ".join(filter(None, parts))


def _threads(count: int, say: Say) -> str:
    return say("1 thread") if count == 1 else say("{count} threads", count=f"{count:,}")


def _earlier(count: int, say: Say) -> str:
    return say("1 earlier run") if count == 1 else say("{count} earlier runs", count=f"{count:,}")


def cpus_asked(life: Life, say: Say = english) -> str:
    return say("1 CPU") if life.cpus == 1 else say("{count} CPUs", count=f"{life.cpus:,}")


def _data(facts: JobFacts) -> dict[str, Any]:
    """For scripts: base units, nothing rounded."""
    return {
        "job": document(facts.case.life),
        "efficiency": facts.case.efficiency,
        "findings": facts.judgement.findings,
        "unknown": facts.judgement.unknown,
        "changes": changes_of(facts),
        "next_request": facts.request,
        "waiting": facts.waiting,
        "cost": facts.cost,
        "summary": facts.case.summary,
        "course": facts.case.line,
        "by_node": facts.by_node,
        "attempts": [one.key for one in facts.attempts],
    }
