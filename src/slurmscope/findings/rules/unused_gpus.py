# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Some of several GPUs were never used."""

from collections import Counter

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, SHARE, Change, Finding, Limits, Rule, Threshold, Waste
from slurmscope.summary import GpuSummary
from slurmscope.words import amount, span


def spares(case: Case, limits: Limits) -> str | None:
    return (
        common.without_gpus(case, limits)
        or ("it has one GPU" if case.gpus == 1 else None)
        or common.too_short(case, limits)
        or common.briefly_watched(case, limits)
    )


def lacks(case: Case, limits: Limits) -> str | None:
    return common.gpus_untold(case, limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    used = [one for one in _gpus(case) if not _unused(one, limits)]
    unused = len(_gpus(case)) - len(used)
    wasted = float(unused * case.seconds)
    if not unused or not used or wasted < limits["least_gpu_seconds"]:
        return None
    return Finding(
        headline=f"{unused} of its {case.gpus} GPUs {'was' if unused == 1 else 'were'} never used",
        text=f"It held {amount(case.gpus, 'GPU')} for {span(case.seconds)}, and nothing ran on {unused} of them.",
        advice="Ask for as many GPUs as the program uses, or tell it to use them all: most use one unless they are "
        "started with a launcher or an option for several (torchrun, srun with a task for each GPU).",
        changes=_changes(case, used),
        waste=Waste(gpu_seconds=wasted),
        figures={"unused": float(unused), "gpus": float(case.gpus)},
    )


def _gpus(case: Case) -> tuple[GpuSummary, ...]:
    return () if case.summary is None else case.summary.gpus


def _unused(gpu: GpuSummary, limits: Limits) -> bool:
    return (gpu.mean or 0.0) <= limits["share"] and (gpu.peak or 0.0) <= limits["peak_share"]


def _changes(case: Case, used: list[GpuSummary]) -> tuple[Change, ...]:
    """As few nodes as had a GPU in use, and as many GPUs on each as on the one with the most."""
    life, nodes = case.life, Counter(one.node for one in used)
    most, why = max(nodes.values()), f"{len(used)} of {case.gpus} were used"
    fewer = lines.nodes(case, len(nodes), why)
    return (*fewer, *lines.gpus(case, most, why)) if most < case.gpus // max(1, life.nodes) else fewer


RULE = Rule(
    name="unused_gpus",
    title="Some GPUs never used",
    severity=BAD,
    about="A program that was written for one GPU uses one, however many the job has.",
    needs="What each of the job's GPUs did: from an agent on its nodes, or Prometheus.",
    exempt="Jobs with one GPU or none, those that ran for less than `least_seconds`, and interactive ones for less "
    "than `interactive_seconds`.",
    cure="Ask for fewer GPUs, or start the program so that it uses all of them.",
    false_positives="A job that takes more GPUs for their memory alone, or for work that is still to come.",
    thresholds=(
        Threshold("share", 0.005, SHARE, "A GPU that was not used was no busier than this on average …"),
        Threshold("peak_share", 0.05, SHARE, "… and never busier than this: programs touch each GPU when they start."),
        common.least(1800),
        common.INTERACTIVE,
        common.LEAST_GPU,
        common.COVERAGE,
    ),
    hides=("gpu_fragments", "held_gpu", "low_gpu"),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
