# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For most of the time no process of the job was on its GPUs."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, hours, percent, span

_DOUBT = 0.05  # by which a GPU may be busier than the time with processes on it allows


def spares(case: Case, limits: Limits) -> str | None:
    return common.without_gpus(case, limits) or common.too_short(case, limits) or common.briefly_watched(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    if (missing := common.unmeasured(case, limits)) is not None:
        return missing
    share = _share(case)
    busy = case.efficiency.gpu.share
    # where the GPU works and nobody is seen there, the processes are not (those of a container, of MPS)
    hidden = share is not None and busy is not None and busy > 1 - share + _DOUBT
    return "whether its processes were on its GPUs" if share is None or hidden else None


def fires(case: Case, limits: Limits) -> Finding | None:
    share = _share(case)
    if share is None or share < limits["share"]:
        return None
    wasted = case.gpu_seconds * share
    if wasted < limits["least_gpu_seconds"]:
        return None
    told, _ = common.its_gpus(case)
    return Finding(
        headline=f"nothing of it was on {told} for {percent(share)} of the time",
        text=f"It held {amount(case.gpus, 'GPU')} for {span(case.seconds)}; for {hours(wasted, 'GPU')} of that none of "
        "its processes was there.",
        advice="Do what needs no GPU (downloads, preparing data, evaluation) in a job of its own without GPUs, and let "
        "the one with GPUs begin when that has ended (--dependency=afterok:…).",
        waste=Waste(gpu_seconds=wasted),
        figures={"share": share, "gpus": float(case.gpus)},
    )


def _share(case: Case) -> float | None:
    """Of the time that its GPUs were measured; None where it is not known of each."""
    told = () if case.summary is None else case.summary.gpus
    idle = [one.idle_seconds for one in told if one.idle_seconds is not None]
    measured = case.seconds * case.coverage * case.gpus
    if not idle or len(idle) < max(case.gpus, len(told)) or not measured:
        return None
    return min(1.0, sum(idle) / measured)


RULE = Rule(
    name="held_gpu",
    title="GPUs held without a process",
    severity=NOTE,
    about="A job that downloads, unpacks or computes on its CPUs for hours holds its GPUs meanwhile.",
    needs="When processes of the job were on its GPUs: from an agent on its nodes.",
    exempt="Jobs without GPUs, those that ran for less than `least_seconds`, and interactive ones for less than "
    "`interactive_seconds`.",
    cure="Split the job: the part without GPUs first, in a job without them.",
    false_positives="Programs that leave the GPU between two short tasks. Where processes cannot be seen (MPS, some "
    "containers) and the GPU works nevertheless, nothing is told.",
    thresholds=(
        Threshold("share", 0.5, SHARE, "Told where no process was there for at least this share of the time."),
        common.least(3600),
        common.INTERACTIVE,
        common.LEAST_GPU,
        common.COVERAGE,
    ),
    hides=("low_gpu", "small_gpu"),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
