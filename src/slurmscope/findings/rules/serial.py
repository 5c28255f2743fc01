# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One core was busy, and several were asked for."""

from slurmscope.findings import common, cores, lines, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, COUNT, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import hours, number

_PARALLEL = 1.5  # cores that a program with one busy thread does not keep busy for a twentieth of the time


def spares(case: Case, limits: Limits) -> str | None:
    return cores.none_to_spare(case, limits) or ("it has several nodes" if case.life.nodes > 1 else None)


def fires(case: Case, limits: Limits) -> Finding | None:
    life, held, busy = case.life, cores.held(case), cores.busy(case) or 0.0
    if not limits["least_cores"] <= busy <= limits["most_cores"]:
        return None
    if case.summary is not None and case.summary.cpu is not None and case.summary.cpu.p95 > _PARALLEL:
        return None  # one on average, and not one all the time
    wasted = (held - 1) * cores.each(case) * case.seconds
    if wasted < limits["least_cpu_seconds"]:
        return None
    return Finding(
        headline=f"it kept one of its {held} cores busy",
        text=f"On average {number(busy, 2)} cores were in use, as of a program that does one thing after the other. "
        f"{hours(wasted, 'core')} were held and not used.",
        advice="Ask for one core. If the program can use several, tell it how many: -t, --threads, -np or "
        "OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK, as its manual says; a program for MPI is started by srun."
        + _bound(case),
        changes=lines.cpus(case, 1, "one was busy"),
        waste=Waste(cpu_seconds=wasted),
        figures={"cores": busy, "held": float(held), "cpus": float(life.cpus)},
    )


def _bound(case: Case) -> str:
    """Many threads on one core do no more than one does, and nobody can see whether the others want to."""
    threads = parts.threads(case)
    if threads is None or threads < cores.held(case):
        return ""
    return (
        f" It had {threads} threads: if they all should work, something binds them to one core (--cpu-bind of srun, "
        "OMP_PROC_BIND, the options of mpirun)."
    )


RULE = Rule(
    name="serial",
    title="A serial program on several cores",
    severity=BAD,
    about="A program that does one thing after the other is no faster on many cores; the others stay idle.",
    needs="The CPU time that the job used: from sacct when it has ended, from an agent while it runs.",
    exempt="Interactive jobs, jobs with GPUs, with one core or with several nodes, and those that ran for less than "
    "`least_seconds`.",
    cure="Ask for one core, or make the program use those that it has.",
    false_positives="Where nobody knows how the cores of its node are made, a job that asked for one CPU and got a "
    "core of two hardware threads is told of. Cores may have been asked for because of the memory that comes with "
    "them: --mem asks for memory alone.",
    thresholds=(
        Threshold("least_cores", 0.85, COUNT, "Told where at least so many cores were busy on average, and …"),
        Threshold("most_cores", 1.05, COUNT, "… no more than so many."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("core_imbalance", "cpu_bursts", "few_threads", "idle_cores", "low_cpu"),
    spares=spares,
    lacks=cores.unused,
    fires=fires,
)
