# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A node did next to nothing while others worked; or nothing at all happens any more."""

from slurmscope.findings import common, lines, parts
from slurmscope.findings.case import Case
from slurmscope.findings.parts import Part
from slurmscope.findings.rule import BAD, SECONDS, SHARE, Finding, Limits, Rule, Threshold, Waste
from slurmscope.model import RUNNING
from slurmscope.words import percent, span

_LATE = 900  # seconds that what was measured last may lie back
_MANAGERS = ("nextflow", "snakemake", "cromwell", "cwltool", "toil", "parsl", "luigi")
_FEW = 4  # CPUs of a job that manages others
_WORKED = 10  # times as much as an idle node does: others worked


def spares(case: Case, limits: Limits) -> str | None:
    short = common.too_short(case, limits) or common.watched(case, limits) or common.paused(case, limits)
    if short or case.life.nodes > 1:
        return short
    if case.life.ended:
        return "it has one node, and has ended"
    return None if case.gpus else common.one_cpu(case, limits) or _manages(case)


def lacks(case: Case, limits: Limits) -> str | None:
    if case.life.nodes > 1:
        return parts.untold(case, limits)
    return None if _latest(case) else "what it used lately"


def fires(case: Case, limits: Limits) -> Finding | None:
    seconds = _stood(case, limits) if _runs(case) else 0
    stands = seconds >= limits["idle_seconds"]
    found = _stands(case, seconds) if stands else _beside(case, limits) if case.life.nodes > 1 else None
    if found is None:
        return None
    much = found.waste.cpu_seconds >= limits["least_cpu_seconds"]
    return found if much or found.waste.gpu_seconds >= limits["least_gpu_seconds"] else None


def _beside(case: Case, limits: Limits) -> Finding | None:
    """Some of its nodes, beside others that work."""
    told = parts.parts(case)
    idle = [one for one in told if _idle(one, limits["share"])]
    busiest = max((max(one.share, one.gpu or 0.0) for one in told), default=0.0)
    if not idle or busiest < _WORKED * limits["share"]:
        return None
    nodes, few = case.life.nodes, len(idle)
    return Finding(
        headline=f"{few} of its {nodes} nodes did next to nothing",
        text=f"On {parts.named([one.node for one in idle])} less than {percent(limits['share'])} of what it held was "
        f"in use, on the busiest node {percent(busiest)}.",
        advice="Does the program use several nodes at all? It must be made for it (MPI) and be started by srun or "
        "mpirun. If it is: is there work for all of them?",
        changes=lines.nodes(case, nodes - few, "the others were idle"),
        waste=Waste(
            cpu_seconds=sum(one.cpus for one in idle) * case.seconds,
            gpu_seconds=float(sum(one.gpus for one in idle) * case.seconds),
        ),
        figures={"nodes": float(few), "of": float(nodes), "busiest": busiest},
        beside=("unused_gpus",) if parts.unused_gpus_beside(case, [one.node for one in idle]) else (),
    )


def _stands(case: Case, seconds: int) -> Finding:
    return Finding(
        headline=f"it has done nothing for the last {span(seconds)}",
        text=f"All that it holds ({case.life.cpus} CPUs{f', {case.gpus} GPUs' if case.gpus else ''}) has been idle "
        f"since then; it has run for {span(case.seconds)}.",
        advice="Look at its log: does it wait for something, has its program ended while the script goes on, does it "
        "hang? If so cancel it with scancel.",
        waste=Waste(cpu_seconds=float(case.life.cpus * seconds), gpu_seconds=float(case.gpus * seconds)),
        figures={"idle_seconds": float(seconds)},
    )


def _runs(case: Case) -> bool:
    return case.life.state == RUNNING and not case.life.ended


def _manages(case: Case) -> str | None:
    """Those that start jobs, and wait for them, do nothing for most of the time; and hold next to nothing."""
    names = [case.life.name, *(case.summary.programs if case.summary else ())]
    small = case.life.cpus <= _FEW and any(one in name.lower() for name in names for one in _MANAGERS)
    return "it manages other jobs" if small else None


def _idle(one: Part, share: float) -> bool:
    """A GPU of which nobody told may be busy; and of several the mean is small, though one works."""
    return one.share < share and (not one.gpus or (one.gpu is not None and one.gpu * one.gpus < share))


def _latest(case: Case) -> int:
    """How many moments there are up to the last that was measured; 0 where that lies too far back."""
    known = [at for at, one in enumerate(case.line) if one.cpu is not None]
    return known[-1] + 1 if known and case.now - case.line[known[-1]].time - case.step <= _LATE else 0


def _stood(case: Case, limits: Limits) -> int:
    """Seconds up to now in which it did nothing. A gap may hide anything."""
    still = 0
    for one in reversed(case.line[: _latest(case)]):
        if one.cpu is None or one.cpu >= limits["share"] * case.life.cpus:
            break
        if case.gpus and (one.gpu is None or one.gpu * case.gpus >= limits["share"]):
            break
        still += case.step
    return min(still, case.seconds)


RULE = Rule(
    name="idle_node",
    title="Idle nodes",
    severity=BAD,
    about="Nodes that do nothing beside busy ones, and jobs that have come to a standstill, hold what others wait for.",
    needs="What each node did, from agents on all of them; of a job that runs, what it used in the last hour.",
    exempt="Interactive jobs, those that are suspended or ran for less than `least_seconds`. Of those on one node: "
    "jobs that have ended, that have one CPU and no GPU, and managers of workflows (Nextflow, Snakemake and the like, "
    "by the name of the job or of its programs) with few CPUs.",
    cure="Ask for fewer nodes, or cancel a job that hangs.",
    false_positives="A node that is needed for its memory alone. A job that waits for data, and goes on when they "
    "come; one that waits for jobs that it has started, as managers of workflows do, and that is not known for one.",
    thresholds=(
        Threshold("share", 0.02, SHARE, "A node of which a smaller share was in use, CPUs and GPUs, was idle."),
        Threshold("idle_seconds", 3600, SECONDS, "A job that runs is told of when it has done nothing for so long."),
        common.least(3600),
        Threshold("least_cpu_seconds", 14400, SECONDS, "A smaller waste is not told: seconds of one CPU, …"),
        Threshold("least_gpu_seconds", 3600, SECONDS, "… and of one GPU."),
        common.COVERAGE,
    ),
    hides=(
        "core_imbalance",
        "cpu_bursts",
        "cpu_fragments",
        "few_threads",
        "gpu_fragments",
        "idle_cores",
        "low_cpu",
        "memory_request",
        "memory_unused",
        "node_imbalance",
        "stopped_gpu",
        "unused_gpus",
    ),
    spares=spares,
    lacks=lacks,
    fires=fires,
)
