# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What many rules have in common: thresholds, whom they spare, what they lack."""

from __future__ import annotations

from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import WHILE_IT_RAN, Use, ran, suspended
from slurmscope.findings.rule import BAD, NOTE, SECONDS, SHARE, Limits, Threshold
from slurmscope.findings.times import elapsed
from slurmscope.life import VANISHED, Life
from slurmscope.model import SUSPENDED

LEAST = Threshold("least_seconds", 600, SECONDS, "Jobs that ran for less are not judged: they were still starting.")
COVERAGE = Threshold(
    "least_coverage", 0.5, SHARE, "Jobs of which a smaller share of the time was measured are not judged."
)
INTERACTIVE = Threshold("interactive_seconds", 28800, SECONDS, "Interactive jobs that ran for less are not judged.")
LEAST_CPU = Threshold("least_cpu_seconds", 3600, SECONDS, "A smaller waste is not told: seconds of one CPU.")
LEAST_GPU = Threshold("least_gpu_seconds", 3600, SECONDS, "A smaller waste is not told: seconds of one GPU.")
LEAST_MEMORY = Threshold(
    "least_byte_seconds", 36000 << 30, "byte-seconds", "A smaller waste is not told: by default 10 GiB for an hour."
)
COMPLETED = "COMPLETED"

_MOST = 0.75  # of what a job held: more than that is wasted for certain, whatever the reason


def least(seconds: int) -> Threshold:
    return Threshold(LEAST.name, seconds, SECONDS, LEAST.about)


def too_short(case: Case, limits: Limits) -> str | None:
    if case.seconds and case.seconds >= limits["least_seconds"]:
        return None
    return "it ran for too short a time" if case.life.started else "it has not run"


def watched(case: Case, limits: Limits) -> str | None:
    return "somebody sits in front of it" if case.interactive else None


def short_or_watched(case: Case, limits: Limits) -> str | None:
    return too_short(case, limits) or watched(case, limits)


def briefly_watched(case: Case, limits: Limits) -> str | None:
    """What is held for a whole day is judged, whoever sits in front of it."""
    return watched(case, limits) if case.seconds < limits["interactive_seconds"] else None


def unended(case: Case, limits: Limits) -> str | None:
    return None if case.life.ended else "it has not ended"


def unstarted(case: Case, limits: Limits) -> str | None:
    return None if case.life.started else "it has not run"


def vanished(case: Case, limits: Limits) -> str | None:
    return "how it ended" if case.life.state == VANISHED else None


def paused(case: Case, limits: Limits) -> str | None:
    return "it is suspended" if case.life.state == SUSPENDED and not case.life.ended else None


def completed(case: Case, most: int) -> list[Life]:
    """Of its latest earlier runs, those that did all that they should and took a while; the latest first."""
    return [one for one in case.past.same_work(case.life)[:most] if one.state == COMPLETED and ran(one, case.now)]


def needed(case: Case) -> float | None:
    """The memory that it needs: what it used, as far as that is known, and else what it asked for."""
    memory = case.efficiency.memory
    return memory.peak if memory.peak is not None and (memory.coverage or 0.0) >= COVERAGE.default else memory.asked


def fewest(case: Case) -> int | None:
    """Nodes of its kind on which it would fit; None: that is unknown."""
    memory = needed(case)
    return None if memory is None else case.ground.fewest(case.life, memory)


def unpackable(case: Case, limits: Limits) -> str | None:
    """Where a rule needs to know on how many nodes a job would fit."""
    if needed(case) is None:
        return "the memory that it asked for"
    return "the size of its nodes" if fewest(case) is None else None


def its_gpus(case: Case) -> tuple[str, str]:
    """How they are called, and the verb for them: `its GPU`, `was`; `its 2 GPUs`, `were`."""
    return ("its GPU", "was") if case.gpus == 1 else (f"its {case.gpus} GPUs", "were")


def gpus_untold(case: Case, limits: Limits) -> str | None:
    """Where a rule needs to know of every GPU. One that nobody told of (MIG, another node's) may have done anything."""
    if (missing := unknown(case.efficiency.gpu, "what its GPUs did", limits)) is not None:
        return missing
    held = () if case.summary is None else case.summary.gpus
    enough = limits["least_coverage"] * elapsed(case.life, case.now)
    told = [one for one in held if one.mean is not None and one.peak is not None and (one.seconds or 0.0) >= enough]
    return "what each of its GPUs did" if len(told) < max(case.gpus, len(held)) else None


def without_gpus(case: Case, limits: Limits) -> str | None:
    return None if case.gpus else "it has no GPU"


def with_gpus(case: Case, limits: Limits) -> str | None:
    return "its work is done by GPUs" if case.gpus else None


def one_cpu(case: Case, limits: Limits) -> str | None:
    return None if case.life.cpus > 1 else "it has one CPU"


def no_cpus_to_spare(case: Case, limits: Limits) -> str | None:
    """For rules that tell of CPUs which a job could do without."""
    short = short_or_watched(case, limits)
    return short or with_gpus(case, limits) or one_cpu(case, limits)


def severity(wasted: float, held: float) -> str:
    return BAD if held and wasted / held > _MOST else NOTE


def unmeasured(case: Case, limits: Limits) -> str | None:
    """Where a rule needs what an agent measured."""
    if case.summary is None:
        return "what it used over time"
    if case.coverage < limits["least_coverage"]:
        return "what it used, for most of its time"
    return WHILE_IT_RAN if suspended(case.life, case.now) else None


def unknown(use: Use, what: str, limits: Limits) -> str | None:
    """Where a rule needs a figure, whoever told it, of enough of the job's time."""
    if use.share is None:
        return what
    if (use.coverage or 0.0) < limits["least_coverage"]:
        return f"{what}, for most of its time"
    return use.doubt or None
