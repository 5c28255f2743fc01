# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some cores were hardly used, though others were busy."""

from slurmscope.findings import common, cores, lines, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import percent


def fires(case: Case, limits: Limits) -> Finding | None:
    life, shares = case.life, parts.cores(case)
    if not shares or max(shares) < limits["busy_share"]:
        return None
    idle = sum(1 for one in shares if one < limits["idle_share"])
    wasted = float(idle * case.seconds)
    if not idle or wasted < limits["least_cpu_seconds"]:
        return None
    many = "core" if idle == 1 else "cores"
    return Finding(
        headline=f"{idle} of its {len(shares)} cores {'was' if idle == 1 else 'were'} hardly used",
        text=f"{idle} {many} of {len(shares)} had less than {percent(limits['idle_share'])} of the time to do, the "
        f"busiest {percent(max(shares))}.",
        advice="Are there as many threads or processes as CPUs? If so they may be bound to the same cores: look at "
        "--cpu-bind and at what MPI or OpenMP (OMP_PROC_BIND, OMP_PLACES) do. Else ask for fewer CPUs."
        + lines.in_words(case, life.cpus - idle),
        changes=lines.cpus(case, life.cpus - idle, f"{idle} {many} hardly used"),
        waste=Waste(cpu_seconds=wasted),
        figures={"idle": float(idle), "cores": float(len(shares)), "busiest": max(shares)},
        severity=common.severity(wasted, case.cpu_seconds),
    )


RULE = Rule(
    name="idle_cores",
    title="Cores that were hardly used",
    severity=NOTE,
    about="Cores that have nothing to do beside busy ones are held for nothing; often threads are bound to too few.",
    needs="The time of each core, from an agent. Only cgroups of version 1 tell it, of jobs confined to their cores. "
    "Where Slurm counts hardware threads as CPUs, nobody tells which of them are one core: then there is no verdict.",
    exempt="Interactive jobs, jobs with GPUs or with one core, and those that ran for less than `least_seconds`.",
    cure="Ask for fewer CPUs, or spread the threads over those that there are.",
    false_positives="Cores that were asked for because of the memory that comes with them: --mem asks for memory "
    "alone.",
    thresholds=(
        Threshold("idle_share", 0.03, SHARE, "A core that was busy for a smaller share of the time was hardly used."),
        Threshold("busy_share", 0.5, SHARE, "Told where the busiest core was busy for at least this share."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("core_imbalance", "low_cpu"),
    spares=cores.none_to_spare,
    lacks=cores.untold,
    fires=fires,
)
