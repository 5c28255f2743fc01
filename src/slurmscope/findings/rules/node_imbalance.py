# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some nodes did much more than others."""

from slurmscope.findings import common, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import percent


def spares(case: Case, limits: Limits) -> str | None:
    return common.no_cpus_to_spare(case, limits) or ("it has one node" if case.life.nodes < 2 else None)


def fires(case: Case, limits: Limits) -> Finding | None:
    told = sorted(parts.parts(case), key=lambda one: (one.share, one.node))
    if len(told) < 2:
        return None
    idlest, busiest = told[0], told[-1]
    if busiest.share < limits["busy_share"] or idlest.share >= limits["ratio"] * busiest.share:
        return None
    wasted = sum(one.cpus * case.seconds * min(1.0, busiest.share - one.share) for one in told)
    if wasted < limits["least_cpu_seconds"]:
        return None
    few = [one.node for one in told if one.share < limits["ratio"] * busiest.share]
    return Finding(
        headline=f"{len(few)} of its {case.life.nodes} nodes did much less than others",
        text=f"The CPUs of {busiest.node} were in use for {percent(busiest.share)} of the time, those of {idlest.node} "
        f"for {percent(idlest.share)}. Less was done on {parts.named(few)}.",
        advice="Is the work dealt out evenly, and does each node get as many tasks (--ntasks-per-node, "
        "--distribution)? Work of uneven pieces is better handed out as tasks become free. A slow node would be one "
        "that does less in every job.",
        waste=Waste(cpu_seconds=wasted),
        figures={"busiest": busiest.share, "idlest": idlest.share, "nodes": float(len(few))},
        severity=common.severity(wasted, case.cpu_seconds),
    )


RULE = Rule(
    name="node_imbalance",
    title="Uneven nodes",
    severity=NOTE,
    about="Where one node has most of the work, the others are held while they wait for it.",
    needs="The CPU time of each node, from agents on all of them.",
    exempt="Interactive jobs, jobs with GPUs or with one node, and those that ran for less than `least_seconds`.",
    cure="Deal the work out evenly, or ask for fewer nodes.",
    false_positives="Programs that need a node for the one that deals the work out, or for its memory alone. MPI spins "
    "while it waits, so that nodes which wait look busy: an imbalance may be there and not be seen.",
    thresholds=(
        Threshold("ratio", 0.5, RATIO, "Told where a node's CPUs did less than this times those of the busiest node."),
        Threshold("busy_share", 0.2, SHARE, "Told where the busiest node's CPUs were in use for at least this share."),
        common.LEAST,
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    hides=("core_imbalance", "cpu_bursts", "few_threads", "idle_cores", "low_cpu"),
    spares=spares,
    lacks=parts.untold,
    fires=fires,
)
