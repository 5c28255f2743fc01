# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""More CPUs than belong to its GPUs, and they were idle."""

import math

from slurmscope.findings import common, lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import COUNT, NOTE, RATIO, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, number, percent

_BUSY = 0.8  # of the CPUs that are advised


def spares(case: Case, limits: Limits) -> str | None:
    return common.without_gpus(case, limits) or common.too_short(case, limits) or common.watched(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    if _fair(case, limits) is None:
        return "the CPUs and GPUs of its nodes"
    return common.unknown(case.efficiency.cpu, "the CPU time that it used", limits)


def fires(case: Case, limits: Limits) -> Finding | None:
    life, share, fair = case.life, case.efficiency.cpu.share, _fair(case, limits)
    if share is None or fair is None or share >= limits["share"]:
        return None
    each, busy = life.cpus / case.gpus, share * life.cpus
    wanted = max(1, math.floor(fair * case.gpus), math.ceil(busy / _BUSY))
    wasted = float((life.cpus - wanted) * case.seconds)
    if each <= fair * limits["factor"] or wanted >= life.cpus or wasted < limits["least_cpu_seconds"]:
        return None
    return Finding(
        headline=f"{number(each)} CPUs for each GPU, and {percent(1 - share)} of them idle",
        text=f"It had {amount(life.cpus, 'CPU')} beside {amount(case.gpus, 'GPU')}, where {number(fair)} belong to a "
        f"GPU; on average {number(busy)} were busy.",
        advice="Ask for the CPUs that belong to the GPUs: others cannot use a GPU whose node has no CPU left."
        + lines.in_words(case, wanted),
        changes=lines.cpus(case, wanted, f"{number(fair)} belong to a GPU"),
        waste=Waste(cpu_seconds=wasted),
        figures={"cores": each, "fair": fair, "share": share},
    )


def _fair(case: Case, limits: Limits) -> float | None:
    if limits["cores"]:
        return limits["cores"]
    found = case.ground.per_gpu(case.life)
    return None if found is None else found[0]


RULE = Rule(
    name="cores_per_gpu",
    title="Too many CPUs for its GPUs",
    severity=NOTE,
    about="A node's CPUs are there for all of its GPUs. Where one job takes them all, the other GPUs stand idle.",
    needs="How many CPUs and GPUs the job's nodes have, and the CPU time that the job used.",
    exempt="Jobs without GPUs, interactive ones, and those that ran for less than `least_seconds`.",
    cure="Ask for no more CPUs for each GPU than the node has for each.",
    false_positives="Work that needs many CPUs in bursts: loading data between two epochs.",
    thresholds=(
        Threshold("cores", 0, COUNT, "CPUs that belong to a GPU. 0: those of the node over its GPUs."),
        Threshold("factor", 1.1, RATIO, "Told where it has more than so many times these, …"),
        Threshold("share", 0.5, SHARE, "… and a smaller share of its CPU time was in use."),
        common.least(3600),
        common.LEAST_CPU,
        common.COVERAGE,
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
