# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More threads than CPUs, and the CPUs had no time left."""

from slurmscope.findings import common, programs
from slurmscope.findings.case import Case
from slurmscope.findings.rule import COUNT, NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.summary import NodeSummary
from slurmscope.words import amount, percent


def spares(case: Case, limits: Limits) -> str | None:
    if (short := common.short_or_watched(case, limits)) is not None:
        return short
    waits = case.summary is not None and programs.waiting(case.summary)
    return "most of its threads are a Java machine's, and wait" if waits else None


def lacks(case: Case, limits: Limits) -> str | None:
    missing = common.unmeasured(case, limits)
    if missing is None and working(case, limits) is None:
        missing = "how many threads it had on each of its nodes"
    return missing or common.unknown(case.efficiency.cpu, "the CPU time that it used", limits)


def working(case: Case, limits: Limits) -> int | None:
    """Threads that are taken to compute; None where a node did not tell."""
    nodes = case.summary.nodes if case.summary else ()
    told = [count for node in nodes if (count := _working(node, int(limits["helpers"]))) is not None]
    return sum(told) if told and len(told) >= case.life.nodes else None


def _working(node: NodeSummary, helpers: int) -> int | None:
    """A shell, srun and such wait all the time, and so do the threads with which MPI and others watch."""
    if node.threads_peak is None or node.processes_peak is None:
        return None
    return max(0, node.processes_peak - helpers, node.threads_peak - helpers * node.processes_peak)


def fires(case: Case, limits: Limits) -> Finding | None:
    cpus, share, threads = case.life.cpus, case.efficiency.cpu.share, working(case, limits)
    if threads is None or share is None or share < limits["share"] or threads <= limits["ratio"] * cpus:
        return None
    return Finding(
        headline=f"about {amount(threads, 'thread')} shared its {amount(cpus, 'CPU')}",
        text=f"{percent(share)} of its CPU time was in use, and there were about {amount(threads, 'thread')} for "
        f"{amount(cpus, 'CPU')}, those that seem to wait not counted: they took turns.",
        advice="Let tasks x threads be the number of CPUs: OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK, --ntasks for the "
        "processes, fewer workers of a pool. Or ask for more CPUs, if the program then is faster.",
        figures={"threads": float(threads), "cpus": float(cpus), "share": share},
    )


RULE = Rule(
    name="oversubscribed",
    title="More threads than CPUs",
    severity=NOTE,
    about="Where more threads want to run than there are CPUs, they take turns: the job is slower than with fewer.",
    needs="The number of processes and threads on each node, from an agent there; the CPU time that the job used.",
    exempt="Interactive jobs, those that ran for less than `least_seconds`, and those in which a Java machine has the "
    "most threads: nearly all of them wait.",
    cure="Start as many threads as there are CPUs.",
    false_positives="Nobody can see from outside whether a thread wants to run. Those of a pool that wait are "
    "taken for working ones where a process has more than `helpers` of them.",
    thresholds=(
        Threshold("ratio", 1.25, RATIO, "Told where there were more working threads than this times its CPUs, and …"),
        Threshold("share", 0.9, SHARE, "… at least this share of its CPU time was in use."),
        Threshold("helpers", 4, COUNT, "So many threads of a process, and processes of a node, are taken to wait."),
        common.LEAST,
        common.COVERAGE,
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
