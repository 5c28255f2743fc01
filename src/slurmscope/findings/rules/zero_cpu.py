# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""On a node of the job no CPU time was used at all."""

from slurmscope.findings import common, lines, parts
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import HIGH
from slurmscope.findings.rule import BAD, SECONDS, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import span


def spares(case: Case, limits: Limits) -> str | None:
    short = common.too_short(case, limits) or common.watched(case, limits)
    return short or (common.with_gpus(case, limits) if case.life.nodes < 2 else None)


def lacks(case: Case, limits: Limits) -> str | None:
    missing = parts.untold(case, limits)
    # of jobs that were killed the accounting may not have got the CPU time
    if missing is None or (case.life.nodes < 2 and case.efficiency.cpu.confidence == HIGH):
        return common.unknown(case.efficiency.cpu, "the CPU time that it used", limits)
    return missing


def fires(case: Case, limits: Limits) -> Finding | None:
    nodes = max(1, case.life.nodes)
    if nodes < 2:
        used = case.efficiency.cpu.mean
        idle = [""] if used is not None and used < limits["share"] else []
        cpus, gpus = float(case.life.cpus), 0
    else:
        still = [one for one in parts.parts(case) if one.cpu_seconds < limits["share"] * one.seconds]
        idle, cpus, gpus = [one.node for one in still], sum(one.cpus for one in still), sum(one.gpus for one in still)
    everywhere = len(idle) >= nodes
    wasted = cpus * case.seconds
    if not idle or wasted < limits["least_cpu_seconds"] or (everywhere and case.gpus):
        return None  # where no node did anything, what its GPUs did not do is told of them
    return Finding(
        headline="it used no CPU time at all" if everywhere else f"{len(idle)} of its {nodes} nodes did nothing",
        text=f"It held them for {span(case.seconds)}, and nothing ran on {parts.named(idle)}."
        if not everywhere
        else f"It ran for {span(case.seconds)}, and its programs did nothing in that time.",
        advice="Does the program wait for something that does not come: a lock, a server, a file system, an answer? "
        "Look at its log, and cancel it if it hangs."
        if everywhere
        else "A program uses other nodes only if it is made for it (MPI) and started by srun or mpirun. One that is "
        "not needs one node.",
        changes=() if everywhere else lines.nodes(case, nodes - len(idle), "nothing ran on the others"),
        waste=Waste(cpu_seconds=wasted, gpu_seconds=float(gpus * case.seconds)),
        figures={"nodes": float(len(idle)), "of": float(nodes)},
        beside=("unused_gpus",) if parts.unused_gpus_beside(case, idle) else (),
    )


RULE = Rule(
    name="zero_cpu",
    title="Nodes without any CPU use",
    severity=BAD,
    about="A node on which nothing ever ran was asked for by mistake, or the program never got there.",
    needs="The CPU time of each node, from agents on all of them; of a job with one node, sacct when it has ended by "
    "itself.",
    exempt="Interactive jobs, jobs with GPUs on one node (see zero_gpu), and those that ran for less than "
    "`least_seconds`.",
    cure="Ask for one node, or start the program on all of them.",
    false_positives="A job that holds nodes for others on purpose, or that waits for an event.",
    thresholds=(
        Threshold("share", 0.0005, SHARE, "Less than this share of one core is Slurm's own processes."),
        common.least(3600),
        Threshold("least_cpu_seconds", 14400, SECONDS, common.LEAST_CPU.about),
        common.COVERAGE,
    ),
    hides=(
        "core_imbalance",
        "cpu_bursts",
        "cpu_fragments",
        "few_threads",
        "gpu_fragments",
        "idle_cores",
        "idle_node",
        "low_cpu",
        "memory_request",
        "memory_unused",
        "node_imbalance",
        "unused_gpus",
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
