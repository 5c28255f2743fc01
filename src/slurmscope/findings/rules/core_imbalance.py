# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some cores did much more than others."""

from slurmscope.findings import common, cores, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import number, percent


def fires(case: Case, limits: Limits) -> Finding | None:
    shares = parts.cores(case)
    if not shares or max(shares) < limits["busy_share"]:
        return None
    busiest, mean = max(shares), sum(shares) / len(shares)
    if busiest <= limits["ratio"] * mean:
        return None
    wasted = case.cpu_seconds * min(1.0, busiest - mean)
    if wasted < limits["least_cpu_seconds"]:
        return None
    return Finding(
        headline=f"its busiest core did {number(busiest / mean)} times as much as the mean",
        text=f"The busiest of its {len(shares)} cores was in use for {percent(busiest)} of the time, the mean of all "
        f"for {percent(mean)}, the idlest for {percent(min(shares))}.",
        advice="Cut the work into smaller pieces that are handed out as threads become free (schedule(dynamic) of "
        "OpenMP, imap_unordered of Python's multiprocessing), or find the part that runs on one core.",
        waste=Waste(cpu_seconds=wasted),
        figures={"busiest": busiest, "mean": mean, "idlest": min(shares)},
        severity=common.severity(wasted, case.cpu_seconds),
    )


RULE = Rule(
    name="core_imbalance",
    title="Uneven cores",
    severity=NOTE,
    about="Where work is dealt out unevenly, all wait for the core that has the most to do.",
    needs="The time of each core, from an agent. Only cgroups of version 1 tell it, of jobs confined to their cores. "
    "Where Slurm counts hardware threads as CPUs, nobody tells which of them are one core: then there is no verdict.",
    exempt="Interactive jobs, jobs with GPUs or with one core, and those that ran for less than `least_seconds`.",
    cure="Deal the work out evenly, or ask for fewer CPUs.",
    false_positives="Threads that are not bound wander from core to core, and hide an imbalance. A part that must run "
    "on one core cannot always be made parallel.",
    thresholds=(
        Threshold("ratio", 1.5, RATIO, "Told where the busiest core did more than this times the mean of all."),
        Threshold("busy_share", 0.5, SHARE, "Told where the busiest core was busy for at least this share."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("low_cpu",),
    spares=cores.none_to_spare,
    lacks=cores.untold,
    fires=fires,
)
