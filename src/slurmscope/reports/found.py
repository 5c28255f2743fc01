# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What rules say of many jobs: how often, such as, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from slurmscope.findings.case import Case
from slurmscope.findings.judgement import Judgement, weight
from slurmscope.findings.rule import Finding, Waste
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Table
from slurmscope.reports.job import job_link, number_of
from slurmscope.words import hours

Found = list[tuple[Case, Finding]]


def groups(cases: Sequence[Case], judgements: Sequence[Judgement]) -> list[tuple[str, Found, Waste]]:
    """By rule: what wasted the most first, then that of the most jobs."""
    found: dict[str, Found] = {}
    for case, judgement in zip(cases, judgements, strict=True):
        for finding in judgement.findings:
            found.setdefault(finding.rule, []).append((case, finding))
    rows = [(rule, some, sum((finding.waste for _, finding in some), Waste())) for rule, some in found.items()]
    return sorted(rows, key=lambda one: (-weight(one[2]), -len(one[1]), one[0]))


def found_table(cases: Sequence[Case], judgements: Sequence[Judgement], of: str) -> Table:
    columns = (
        Column("rule", "rule"),
        Column("jobs", of, True),
        Column("headline", "such as"),
        Column("example", "in"),
        Column("wasted", "wasted", True),
    )
    rows = []
    for rule, some, waste in groups(cases, judgements):
        case, finding = max(some, key=lambda one: weight(one[1].waste))
        parts = ((waste.cpu_seconds, "core"), (waste.gpu_seconds, "GPU"))
        wasted = [hours(seconds, name) for seconds, name in parts if seconds]
        rows.append(
            (
                cells.words(rule, f"rule:{rule}"),
                cells.count(len(some)),
                cells.words(finding.headline),
                Cell(number_of(case.life), case.life.id, link=job_link(case.life)),
                Cell(", ".join(wasted) or cells.DASH, waste.cpu_seconds),
            )
        )
    return Table("findings", columns, tuple(rows), empty="nothing stands out")
