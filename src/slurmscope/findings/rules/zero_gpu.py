# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""No GPU of the job was ever used."""

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, span


def spares(case: Case, limits: Limits) -> str | None:
    return common.without_gpus(case, limits) or common.too_short(case, limits) or common.briefly_watched(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    return common.gpus_untold(case, limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    share = case.efficiency.gpu.share
    # each by itself: of many the mean is small, though one worked
    peaks = [one.peak or 0.0 for one in (case.summary.gpus if case.summary else ())]
    if share is None or not peaks or max(peaks) > limits["share"]:
        return None
    told, verb = common.its_gpus(case)
    return Finding(
        headline=f"{told} {verb} never used",
        text=f"It held {amount(case.gpus, 'GPU')} for {span(case.seconds)}, and nothing ran there.",
        advice="Leave the GPUs out if the program uses none. If it should: is it built for GPUs, does it find the "
        "driver (nvidia-smi within the job), and what does its log say?",
        changes=lines.gpus(case, 0, "never used"),
        waste=Waste(gpu_seconds=case.gpu_seconds),
        figures={"share": share, "gpus": float(case.gpus)},
    )


RULE = Rule(
    name="zero_gpu",
    title="GPUs never used",
    severity=BAD,
    about="GPUs are what most jobs wait for, and a GPU that is held is nobody else's.",
    needs="What each of the job's GPUs did: from an agent on each of its nodes, or Prometheus.",
    exempt="Jobs without GPUs, those that ran for less than `least_seconds`, and interactive ones for less than "
    "`interactive_seconds`.",
    cure="Ask for no GPU, or make the program use it.",
    false_positives="A job that prepares its data for longer than `least_seconds` before it begins on the GPU. A GPU "
    "whose driver tells no utilisation (MIG, some vGPUs) is unknown, and not zero.",
    thresholds=(
        Threshold("share", 0.005, SHARE, "A GPU that was never busier than this was not used."),
        common.least(1800),
        common.INTERACTIVE,
        common.COVERAGE,
    ),
    hides=(
        "cores_per_gpu",
        "gpu_fragments",
        "held_gpu",
        "low_gpu",
        "memory_per_gpu",
        "small_gpu",
        "stopped_gpu",
        "unused_gpus",
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
