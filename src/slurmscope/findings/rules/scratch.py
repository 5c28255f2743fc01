# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Much was read and written, and none of it on scratch."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, NOTE, Finding, Limits, Rule, Threshold
from slurmscope.words import size


def lacks(case: Case, limits: Limits) -> str | None:
    if (missing := common.unmeasured(case, limits)) is not None or case.summary is None:
        return missing
    if case.summary.scratch is None:
        return "which files it had open"
    untold = case.summary.read_bytes is None and case.summary.written_bytes is None
    return "how much it read and wrote" if untold else None


def fires(case: Case, limits: Limits) -> Finding | None:
    if case.summary is None or case.summary.scratch is not False:
        return None
    read, written = case.summary.read_bytes or 0, case.summary.written_bytes or 0
    if read + written < limits["bytes"]:
        return None
    return Finding(
        headline=f"it moved {size(read + written)}, and never used scratch",
        text=f"It read {size(read)} and wrote {size(written)}, and no file of a scratch file system was ever open.",
        advice="Copy what it reads to scratch at the start, write there, and copy what is worth keeping back at the "
        "end. Home and project file systems are slower, and shared by everybody.",
        figures={"read": float(read), "written": float(written)},
    )


RULE = Rule(
    name="scratch",
    title="Scratch was not used",
    severity=NOTE,
    about="Scratch file systems are made for much input and output; others are slow at it, for everybody.",
    needs="The files that the job has open and what it reads and writes, from an agent that may see both; "
    "`agent.scratch` says what scratch is.",
    exempt="Interactive jobs, and those that ran for less than `least_seconds`.",
    cure="Work on scratch.",
    false_positives="Files are looked at every few seconds: one that is open for a moment is not seen. Where "
    "`agent.scratch` does not name a site's scratch, or its project file system is as fast, turn this rule off.",
    thresholds=(
        Threshold("bytes", 50 << 30, BYTES, "Told where at least so much was read and written."),
        common.LEAST,
        common.COVERAGE,
    ),
    spares=common.short_or_watched,
    lacks=lacks,
    fires=fires,
)
