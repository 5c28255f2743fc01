# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs were used, and then no more."""

from typing import NamedTuple

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BAD, NOTE, SECONDS, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import percent, span

_LATE = 900  # seconds by which what was measured may be behind


class _Tail(NamedTuple):
    until: int  # what was measured ends here
    idle: int  # seconds that the GPUs did nothing, up to there; times that were not measured do not count
    used: bool  # they were used before


def _tail(case: Case, share: float) -> _Tail | None:
    """None: nothing was measured of its GPUs over time. A moment has their mean: of many that hides one that worked."""
    told = [one for one in case.line if one.gpu is not None]
    if not told:
        return None
    end, one_of_them = _end(case), share / case.gpus
    idle = 0
    for one in reversed(told):
        if (one.gpu or 0.0) > one_of_them:
            return _Tail(min(end, told[-1].time + case.step), idle, True)
        idle += max(0, min(case.step, end - one.time))
    return _Tail(min(end, told[-1].time + case.step), idle, False)


def _end(case: Case) -> int:
    return case.life.end_time or case.now if case.life.ended else case.now


def _cannot_be(case: Case, limits: Limits) -> bool:
    """Of one that has ended: all the time that its GPUs may have been idle is too short, whenever it was.

    To look at its course costs more than all other rules together, and most jobs need no look.
    """
    gpu = None if case.summary is None else case.summary.gpu
    if gpu is None or not case.life.ended:
        return False
    shares = (0.05, gpu.p05), (0.25, gpu.p25), (0.5, gpu.p50), (0.75, gpu.p75), (0.95, gpu.p95)
    most = next((part for part, value in shares if value > limits["share"] / case.gpus), 1.0)
    most += 1 - (case.efficiency.gpu.coverage or 0.0)
    return most < limits["tail_share"] or most * case.seconds < limits["window_seconds"]


def spares(case: Case, limits: Limits) -> str | None:
    short = common.without_gpus(case, limits) or common.too_short(case, limits) or common.briefly_watched(case, limits)
    return short or common.paused(case, limits)


def lacks(case: Case, limits: Limits) -> str | None:
    if (missing := common.unknown(case.efficiency.gpu, "what its GPUs did", limits)) is not None:
        return missing
    if _cannot_be(case, limits):
        return None
    tail = _tail(case, limits["share"])
    if tail is None:
        return "what its GPUs did over time"
    return "what its GPUs did lately" if _end(case) - tail.until > max(_LATE, 2 * case.step) else None


def fires(case: Case, limits: Limits) -> Finding | None:
    tail = None if _cannot_be(case, limits) else _tail(case, limits["share"])
    if tail is None or not tail.used or tail.idle < limits["window_seconds"]:
        return None
    part = tail.idle / case.seconds
    wasted = float(tail.idle * case.gpus)
    if wasted < limits["least_gpu_seconds"] or (case.life.ended and part < limits["tail_share"]):
        return None
    told, verb = common.its_gpus(case)
    if case.life.ended:
        return Finding(
            headline=f"{told} did nothing in the last {span(tail.idle)}",
            text=f"It ran for {span(case.seconds)}; for the last {span(tail.idle)} of that ({percent(part)}) nothing "
            f"ran on {told}.",
            advice="Do what follows on the GPUs' part in a job of its own without GPUs, which begins when this one has "
            "ended (--dependency=afterok:…), and let a program that is done, or hangs, end the job.",
            waste=Waste(gpu_seconds=wasted),
            figures={"idle_seconds": float(tail.idle), "share": part, "gpus": float(case.gpus)},
            severity=NOTE,
        )
    return Finding(
        headline=f"{told} did nothing for the last {span(tail.idle)}",
        text=f"I{told[1:]} {verb} in use before; nothing ran there for the last {span(tail.idle)}.",
        advice="Look at its output: does the program hang, is it done, or has it gone on without the GPU? Cancel the "
        "job if nothing more is to come.",
        waste=Waste(gpu_seconds=wasted),
        figures={"idle_seconds": float(tail.idle), "share": part, "gpus": float(case.gpus)},
    )


RULE = Rule(
    name="stopped_gpu",
    title="GPUs no longer used",
    severity=BAD,
    about="A program that hangs, or that is done while its job is not, holds its GPUs until the time limit ends it.",
    needs="What the job's GPUs did over time, up to its end or to now: from an agent on its nodes, or Prometheus.",
    exempt="Jobs without GPUs, those that ran for less than `least_seconds`, interactive ones for less than "
    "`interactive_seconds`, and those that are suspended.",
    cure="Find out why it stopped, and end jobs that are done. What needs no GPU belongs into a job without one.",
    false_positives="A program that works on the CPUs for longer than `window_seconds` between two times on the GPU: "
    "while it runs that cannot be told from one that hangs.",
    thresholds=(
        Threshold(
            "window_seconds", 3600, SECONDS, "Told where the GPUs did nothing for so long, up to now or its end."
        ),
        Threshold(
            "share", 0.005, SHARE, "A job whose GPUs together are less busy than this share of one does nothing there."
        ),
        Threshold("tail_share", 0.1, SHARE, "Of a job that has ended, it must also be this share of its time."),
        common.least(1800),
        common.INTERACTIVE,
        common.LEAST_GPU,
        common.COVERAGE,
    ),
    hides=("held_gpu", "low_gpu", "small_gpu"),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
