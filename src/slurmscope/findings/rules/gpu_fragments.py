# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Its GPUs would fit on fewer nodes."""

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, Change, Finding, Limits, Rule
from slurmscope.words import amount, number


def spares(case: Case, limits: Limits) -> str | None:
    return (
        common.without_gpus(case, limits)
        or ("it has one node" if case.life.nodes <= 1 else None)
        or common.too_short(case, limits)
    )


def fires(case: Case, limits: Limits) -> Finding | None:
    life, fewest = case.life, common.fewest(case)
    if fewest is None or fewest >= life.nodes:
        return None
    each = case.gpus / life.nodes
    return Finding(
        headline=f"{amount(case.gpus, 'GPU')} on {life.nodes} nodes, where {fewest} would do",
        text=f"It had {number(each)} GPUs on each of {life.nodes} nodes. They fit on {amount(fewest, 'node')} of this "
        "kind, with its CPUs and its memory.",
        advice=f"Ask for {amount(fewest, 'node')} and for {amount(case.gpus, 'GPU')} in all: on one node they talk to "
        "each other many times faster than over the network, and whole nodes stay free for those who need them. --mem "
        "and --ntasks-per-node are for each node: with fewer nodes ask for more there.",
        changes=_changes(case, fewest),
        figures={"nodes": float(life.nodes), "fewest": float(fewest), "gpus": float(case.gpus)},
    )


def _changes(case: Case, fewest: int) -> tuple[Change, ...]:
    """None where the same GPUs, CPUs and memory would not come of it."""
    why = "as many GPUs on fewer nodes"
    nodes = lines.packed(case, fewest, why)
    gpus = () if case.gpus % fewest else lines.gpus_alone(case, case.gpus // fewest, why)
    return (*nodes, *gpus) if nodes and gpus else ()


RULE = Rule(
    name="gpu_fragments",
    title="GPUs spread over too many nodes",
    severity=NOTE,
    about="One GPU on each of many nodes is slower than as many on one, and leaves no node whole for others.",
    needs="How many CPUs and GPUs and how much memory the job's nodes have. The memory that it used, where that is "
    "known; else what it asked for.",
    exempt="Jobs without GPUs or on one node, and those that ran for less than `least_seconds`.",
    cure="Ask for `--nodes` and `--gpus-per-node` such that each node gives all of its GPUs.",
    false_positives="Work that does not talk between its GPUs, and was spread because a whole node was not free: it "
    "began earlier for it. A job of which each GPU needs more CPUs than belong to it.",
    thresholds=(common.least(3600),),
    spares=spares,
    lacks=common.unpackable,
    fires=fires,
)
