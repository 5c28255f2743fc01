# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs were idle for most of the time."""

import math

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, NOTE, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, percent, span

_BUSY = 0.5  # of the GPUs that are advised
_CPUS_BUSY = 0.9  # the CPUs may be what it waits for


def spares(case: Case, limits: Limits) -> str | None:
    return common.without_gpus(case, limits) or common.too_short(case, limits) or common.briefly_watched(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    return common.unknown(case.efficiency.gpu, "what its GPUs did", limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    life, share = case.life, case.efficiency.gpu.share
    if share is None or share >= limits["share"]:
        return None
    told = min(case.gpus, sum(one.mean is not None for one in (case.summary.gpus if case.summary else ())))
    wasted = told * case.seconds * (1 - share)
    if wasted < limits["least_gpu_seconds"]:
        return None
    cpu = case.efficiency.cpu.share
    waits = (
        "Its CPUs were busy: give it more of them, or let the GPU do what they do. "
        if cpu is not None and cpu >= _CPUS_BUSY
        else "Give the GPU more to do at a time (a larger batch), and load data ahead with more workers. "
    )
    wanted = max(1, math.ceil(share * case.gpus / _BUSY))
    why = f"{percent(share)} busy on average"
    them, verb = common.its_gpus(case)
    of = "" if told == case.gpus else f", as far as {told} of them tell"
    return Finding(
        headline=f"{them} {verb} busy for {percent(share)} of the time",
        text=f"It held {amount(case.gpus, 'GPU')} for {span(case.seconds)}, busy for {percent(share)} of that on "
        f"average{of}.",
        advice=waits + "A profiler (nsys, torch.profiler) tells what it waits for.",
        changes=lines.gpus(case, wanted, why) if life.nodes == 1 and wanted < told == case.gpus else (),
        waste=Waste(gpu_seconds=wasted),
        figures={"share": share, "gpus": float(case.gpus), "told": float(told)},
        severity=BAD if share < limits["bad_share"] else NOTE,
    )


RULE = Rule(
    name="low_gpu",
    title="Low GPU use",
    severity=NOTE,
    about="A GPU that waits for data, or for the CPU, is held all the same.",
    needs="What the job's GPUs did: from an agent on its nodes, or Prometheus.",
    exempt="Jobs without GPUs, those that ran for less than `least_seconds`, and interactive ones for less than "
    "`interactive_seconds`.",
    cure="Give the GPU more to do at a time, feed it faster, or use fewer GPUs.",
    false_positives="A program that cannot keep a GPU busy and is still faster with one. Utilisation is the share of "
    "the time in which anything ran on the GPU: a busy one may still be used badly. On a GPU that several jobs share "
    "(shards, MPS) it is that of all of them.",
    thresholds=(
        Threshold("share", 0.25, SHARE, "Told where the GPUs were busy for a smaller share of the time."),
        Threshold("bad_share", 0.15, SHARE, "Below this share it is bad."),
        common.least(1800),
        common.INTERACTIVE,
        common.LEAST_GPU,
        common.COVERAGE,
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
