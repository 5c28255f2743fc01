# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The CPUs were idle for much of the time."""

import math

from slurmscope.findings import common, cores, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import number, percent

_BUSY = 0.8  # of the cores that are advised


def fires(case: Case, limits: Limits) -> Finding | None:
    busy, held = cores.busy(case), cores.held(case)
    share = 1.0 if busy is None else busy / held
    wasted = case.cpu_seconds * (1 - share)
    if busy is None or share >= limits["share"] or wasted < limits["least_cpu_seconds"]:
        return None
    wanted = min(held, max(1, math.ceil(busy / _BUSY)))
    why = f"{number(busy)} of {held} cores were busy"
    return Finding(
        headline=f"{percent(1 - share)} of its cores' time was idle",
        text=f"On average {number(busy)} of its {held} cores were busy.",
        advice="Ask for as many cores as the program keeps busy, or find out what it waits for: input and output, "
        "locks, a part that runs on one core." + lines.in_words(case, round(wanted * cores.each(case))),
        changes=lines.cpus(case, round(wanted * cores.each(case)), why),
        waste=Waste(cpu_seconds=wasted),
        figures={"share": share, "cores": busy},
        severity=BAD if share < limits["bad_share"] else NOTE,
    )


RULE = Rule(
    name="low_cpu",
    title="Low CPU use",
    severity=NOTE,
    about="A job holds its CPUs whether it uses them or not, and nobody else can.",
    needs="The CPU time that the job used: from sacct when it has ended, from an agent while it runs.",
    exempt="Interactive jobs, jobs with GPUs or with one core, and those that ran for less than `least_seconds`.",
    cure="Ask for fewer CPUs, or let the program use those that it has.",
    false_positives="Where Slurm counts hardware threads as CPUs, and nobody knows how its nodes' cores are made, a "
    "program with one busy thread a core shows 50 %.",
    thresholds=(
        Threshold("share", 0.6, SHARE, "Told where a smaller share of its cores' time was in use."),
        Threshold("bad_share", 0.25, SHARE, "Below this share it is bad."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    spares=cores.none_to_spare,
    lacks=cores.unused,
    fires=fires,
)
