# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A program had many more threads than there are CPUs."""

from slurmscope.findings import common, programs
from slurmscope.findings.case import Case
from slurmscope.findings.rule import COUNT, NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, number, percent


def spares(case: Case, limits: Limits) -> str | None:
    # drivers and frameworks of GPUs keep dozens that wait
    return common.short_or_watched(case, limits) or common.with_gpus(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    missing = common.unmeasured(case, limits)
    if missing is None and case.summary is not None and not case.summary.programs:
        missing = "which programs it ran"
    return missing or common.unknown(case.efficiency.cpu, "the CPU time that it used", limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    life, share = case.life, case.efficiency.cpu.share
    if case.summary is None or share is None or share < limits["share"]:
        return None  # most of its threads wait
    cpus = max((node.cpus for node in case.summary.nodes if node.cpus), default=life.cpus / max(1, life.nodes))
    program, threads = programs.widest(case.summary)
    if not cpus or threads <= limits["ratio"] * cpus or threads < limits["least_threads"]:
        return None
    return Finding(
        headline=f"one program had {amount(threads, 'thread')} on {number(cpus)} CPU{'' if cpus == 1 else 's'}",
        text=f"A process of {program} had {amount(threads, 'thread')}, {number(threads / cpus)} times as many as its "
        f"node has CPUs for the job, and {percent(share)} of the CPU time was in use.",
        advice="Programs and libraries often start a thread for each core of the node. Tell them how many they have: "
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK, and OPENBLAS_NUM_THREADS, MKL_NUM_THREADS or the program's own "
        "option likewise.",
        figures={"threads": float(threads), "cpus": float(cpus), "share": share},
    )


RULE = Rule(
    name="too_many_threads",
    title="A program with too many threads",
    severity=NOTE,
    about="Threads that share a CPU take turns, wait for each other and lose what the CPU's caches held.",
    needs="The programs and their threads, from an agent or `slurmscope run`; the CPU time that the job used.",
    exempt="Interactive jobs, jobs with GPUs, and those that ran for less than `least_seconds`. Java machines: they "
    "keep a thread for each core of the node that waits.",
    cure="Set the number of threads to that of the job's CPUs.",
    false_positives="Threads are counted whether they run or wait. A pool of OpenBLAS or a server in Python keeps "
    "dozens that wait, and do no harm.",
    thresholds=(
        Threshold("ratio", 2.0, RATIO, "Told where a process had more threads than this times the CPUs of its node."),
        Threshold("least_threads", 16, COUNT, "A process with fewer threads is not told of."),
        Threshold("share", 0.5, SHARE, "Jobs that used a smaller share of their CPU time are left alone."),
        common.LEAST,
        common.COVERAGE,
    ),
    hides=("oversubscribed",),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
