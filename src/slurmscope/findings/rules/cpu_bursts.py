# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The cores were needed at times, and idle in between."""

from slurmscope.findings import common, cores, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import number, percent


def lacks(case: Case, limits: Limits) -> str | None:
    # what the nodes did together is known only where each of them told
    missing = parts.untold(case, limits)
    return missing or ("how many cores were busy over time" if case.summary and case.summary.cpu is None else None)


def fires(case: Case, limits: Limits) -> Finding | None:
    held, cpu = cores.held(case), case.summary.cpu if case.summary else None
    if cpu is None:
        return None
    share = min(1.0, cpu.mean / held)
    # one busy moment says little: they must have been in use for a twentieth of the time
    if share >= limits["share"] or cpu.p95 < limits["peak_share"] * held:
        return None
    wasted = case.cpu_seconds * (1 - share)
    if wasted < limits["least_cpu_seconds"]:
        return None
    return Finding(
        headline=f"its cores were needed at times, and {percent(1 - share)} idle",
        text=f"For a twentieth of the time {number(cpu.p95)} or more of its {held} cores were busy, but "
        f"{number(cpu.mean)} on average, and for half of the time no more than {number(cpu.p50)}.",
        advice="Split the job: run what needs many cores in a job of its own, and what needs one (preparing, reading, "
        "putting together) in another that waits for it (--dependency=afterok). Or let the rest run in parallel too.",
        waste=Waste(cpu_seconds=wasted),
        figures={"share": share, "mean": cpu.mean, "p50": cpu.p50, "p95": cpu.p95},
    )


RULE = Rule(
    name="cpu_bursts",
    title="Cores needed at times",
    severity=NOTE,
    about="A job that needs its cores for a part of its work holds them for all of it.",
    needs="What the job used over time: from an agent on its nodes, `slurmscope run` or Prometheus; of each "
    "of its nodes.",
    exempt="Interactive jobs, jobs with GPUs or with one core, and those that ran for less than `least_seconds`.",
    cure="Split the job into parts that need many cores and parts that need few.",
    false_positives="Work of which the parts alternate every few seconds, or that keeps all in memory, cannot be "
    "split: then the finding is right, and nothing can be done.",
    thresholds=(
        Threshold("share", 0.6, SHARE, "Told where a smaller share of its cores was busy on average, and …"),
        Threshold("peak_share", 0.8, SHARE, "… at least this share of them for a twentieth of the time."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("core_imbalance", "low_cpu"),
    spares=cores.none_to_spare,
    lacks=lacks,
    fires=fires,
)
