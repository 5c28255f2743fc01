# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""There were fewer threads than cores."""

from slurmscope.findings import common, cores, lines, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, number


def lacks(case: Case, limits: Limits) -> str | None:
    missing = common.unmeasured(case, limits)
    if missing is None and parts.threads(case) is None:
        missing = "how many threads it had on each of its nodes"
    return missing or cores.unused(case, limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    held, busy, threads = cores.held(case), cores.busy(case), parts.threads(case)
    if not threads or busy is None or busy >= limits["share"] * held or threads >= limits["ratio"] * held:
        return None
    wasted = (held - threads) * cores.each(case) * case.seconds
    # threads that come and go are not all seen: then more cores were busy than there were threads
    if busy > threads or wasted < limits["least_cpu_seconds"]:
        return None
    told = amount(threads, "thread")
    return Finding(
        headline=f"it had {told} for {held} cores",
        text=f"It never had more than {told}, those that only wait among them, and {number(busy)} of its {held} "
        "cores were busy on average: the others could not be used.",
        advice="Tell the program how many threads to start (OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK, -t, --threads), "
        "start one process for each task with srun, or ask for as many cores as it has threads."
        + lines.in_words(case, round(threads * cores.each(case))),
        changes=lines.cpus(case, round(threads * cores.each(case)), f"it had {told}"),
        waste=Waste(cpu_seconds=wasted),
        figures={"threads": float(threads), "cores": float(held), "share": busy / held},
        severity=common.severity(wasted, case.cpu_seconds),
    )


RULE = Rule(
    name="few_threads",
    title="Fewer threads than cores",
    severity=NOTE,
    about="A thread runs on one core at a time: where there are fewer threads than cores, some cores can do nothing.",
    needs="The number of threads on each node, from an agent there; the CPU time that the job used.",
    exempt="Interactive jobs, jobs with GPUs or with one core, and those that ran for less than `least_seconds`.",
    cure="Start as many threads or processes as there are cores, or ask for fewer cores.",
    false_positives="Threads are counted every few seconds. Programs that start many short-lived ones may have had "
    "more; but then few cores were busy all the same.",
    thresholds=(
        Threshold("ratio", 0.75, RATIO, "Told where there were fewer threads than this times its cores, and …"),
        Threshold("share", 0.6, SHARE, "… a smaller share of its cores' time was in use than this."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("core_imbalance", "cpu_bursts", "idle_cores", "low_cpu"),
    spares=cores.none_to_spare,
    lacks=lacks,
    fires=fires,
)
