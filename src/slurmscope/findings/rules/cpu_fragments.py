# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Its CPUs would fit on fewer nodes."""

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, percent


def spares(case: Case, limits: Limits) -> str | None:
    return (
        ("it has one node" if case.life.nodes <= 1 else None)
        or common.with_gpus(case, limits)
        or common.too_short(case, limits)
        or ("it has its nodes to itself" if case.ground.full(case.life) else None)
    )


def fires(case: Case, limits: Limits) -> Finding | None:
    life, fewest = case.life, common.fewest(case)
    there = sum(node.cpus_effective for node in case.ground.nodes_of(life))
    if fewest is None or fewest >= life.nodes or not there or life.cpus / there > limits["share"]:
        return None
    return Finding(
        headline=f"{amount(life.cpus, 'CPU')} on {life.nodes} nodes, where {fewest} would do",
        text=f"Its {amount(life.cpus, 'CPU')} were {percent(life.cpus / there)} of those of its {life.nodes} nodes. "
        f"They and its memory fit on {amount(fewest, 'node')} of this kind.",
        advice=f"Ask for {amount(fewest, 'node')} and for {amount(life.cpus, 'CPU')} in all: what runs on one node "
        "waits for no network, and leaves whole nodes to those who need them. --mem and --ntasks-per-node are for each "
        "node: with fewer nodes ask for more there.",
        changes=lines.packed(case, fewest, "as many CPUs on fewer nodes"),
        figures={"nodes": float(life.nodes), "fewest": float(fewest), "share": life.cpus / there},
    )


RULE = Rule(
    name="cpu_fragments",
    title="Spread over too many nodes",
    severity=NOTE,
    about="A few CPUs on each of many nodes keep these from jobs that need whole ones, and talk over the network.",
    needs="How many CPUs and how much memory the job's nodes have. The memory that it used, where that is known; else "
    "what it asked for.",
    exempt="Jobs on one node, with GPUs, those that have their nodes to themselves, and those that ran for less than "
    "`least_seconds`.",
    cure="Ask for as few nodes as the CPUs and the memory fit on.",
    false_positives="Programs that are bound by memory bandwidth or by the network of a node run faster when they are "
    "spread. Where a job only said how many tasks it wants, Slurm chose the nodes: `--nodes` keeps it from that.",
    thresholds=(
        Threshold("share", 0.5, SHARE, "Told where it had at most this share of its nodes' CPUs."),
        common.least(3600),
    ),
    spares=spares,
    lacks=common.unpackable,
    fires=fires,
)
