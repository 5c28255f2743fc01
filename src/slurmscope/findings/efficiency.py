# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How much of what a job asked for it used, from whatever is known of it.

Several may know: `sacct` tells the CPU time of the whole job and the most memory of its steps; an agent, the job itself
(`slurmscope run`) or Prometheus tell what was used over time, GPUs among it, of the time that they measured. Each
figure says who told it and how much of the job's time that covers, up to now where it runs. Unknown is None, and is
never taken for nothing. A figure that is told, and that no verdict may rest on, says why (`doubt`).

The arithmetic is that of seff, so that figures agree with what users know:

- CPU: CPU time over (CPUs x time that it ran). Slurm's CPUs may be hardware threads: a program that keeps every core
  busy with one thread then shows 50 %.
- memory: the most that was in use over what was asked for; both over all nodes. Steps that ran at the same time are
  added up; seff takes the largest of them alone.
- GPU: the mean utilisation of all GPUs that it held. GPU memory: the most in use over what these have.
- time: the time that it ran over its limit.

Each life is one: a task of an array, a component of a het job, an attempt of a requeued job.
"""

from __future__ import annotations

import msgspec

from slurmscope.findings.times import elapsed, suspended_seconds
from slurmscope.life import Life
from slurmscope.summary import Summary

SACCT, SLURM = "sacct", "slurm"
HIGH, MEDIUM, LOW, NONE = "high", "medium", "low", ""
"""How far a figure can be trusted; NONE where there is none."""

_MUCH, _SOME = 0.9, 0.5  # shares of a job's time that were measured
# What was measured beyond what sacct tells, for sacct to have missed something: a share, and besides it what Slurm's
# own processes take on each node, in seconds, which are in the job's cgroup and not in its accounting.
_MORE, _SLURM = 1.05, 1.0
_PAUSED = 0.05  # of its time that it may have been suspended, for what was measured to tell of the rest
WHILE_IT_RAN = "what it used while it was not suspended"
_OF_THE_KILLED = "the CPU time of processes that were killed"
# Where a job ended otherwise, processes were killed before anybody could ask them what they had used.
_ENDED_BY_ITSELF = frozenset({"COMPLETED", "FAILED"})


class Use(msgspec.Struct, frozen=True):
    """Of one resource."""

    asked: float | None = None  # cores, bytes, GPUs, seconds
    mean: float | None = None  # in use, in the same unit
    peak: float | None = None
    share: float | None = None  # of what was asked for; may be above 1 where a job got more than that
    source: str = ""  # sacct, agent, trace, prometheus, slurm; "": nobody told
    coverage: float | None = None  # share of the job's time of which the source tells
    confidence: str = NONE
    doubt: str = ""  # what would have to be known for a verdict; "": nothing more

    @property
    def known(self) -> bool:
        return self.share is not None


class Efficiency(msgspec.Struct, frozen=True):
    cpu: Use
    memory: Use
    gpu: Use
    gpu_memory: Use
    time: Use


def ran(life: Life, now: int) -> int:
    """Seconds that it ran, without those in which it was suspended; up to now where it still runs."""
    start, paused = life.start_time, life.suspended_seconds
    if life.accounted and life.node_list and start is not None and paused is not None:
        # the same as below, of nearly all and in one go: it is asked of thousands for one page
        return max(0, max(0, (life.end_time or start) - start) - paused)
    whole = elapsed(life, now)
    return max(0, whole - suspended_seconds(life, now)) if whole else 0


def covered(life: Life, summary: Summary | None, now: int) -> float | None:
    """The share of the time of its nodes that was measured.

    A summary has that of the time up to its last sample: whoever told may have fallen silent since.
    """
    if summary is None or summary.coverage is None:
        return None
    held = life.nodes * elapsed(life, now)
    return min(summary.coverage, summary.seconds / held) if held else summary.coverage


def suspended(life: Life, now: int) -> bool:
    """For so long that means over what was measured tell little: those who measure do not know of it."""
    return suspended_seconds(life, now) > _PAUSED * elapsed(life, now)


def cpu_use(life: Life, summary: Summary | None, now: int) -> Use:
    """Of its CPUs alone."""
    doubt = WHILE_IT_RAN if suspended(life, now) else ""
    return _cpu(life, summary, ran(life, now), covered(life, summary, now), doubt)


def efficiency(life: Life, summary: Summary | None, now: int) -> Efficiency:
    seconds, share = ran(life, now), covered(life, summary, now)
    doubt = WHILE_IT_RAN if suspended(life, now) else ""
    return Efficiency(
        _cpu(life, summary, seconds, share, doubt),
        _memory(life, summary, seconds, share),
        _gpu(life, summary, now, doubt),
        _gpu_memory(life, summary, now),
        _time(life, seconds),
    )


def _cpu(life: Life, summary: Summary | None, seconds: int, share: float | None, doubt: str) -> Use:
    asked = float(life.cpus)
    measured = None if summary is None else summary.cpu_seconds
    told = life.cpu_seconds if life.ended else None
    enough = asked * seconds
    if told is not None and enough and (measured is None or measured <= told * _MORE + life.nodes * _SLURM):
        killed = life.state not in _ENDED_BY_ITSELF
        alone = measured is None or (share or 0.0) < _SOME
        peak = None if summary is None or summary.cpu is None else summary.cpu.peak
        missed = _OF_THE_KILLED if killed and alone else ""
        return Use(asked, told / seconds, peak, told / enough, SACCT, 1.0, MEDIUM if killed else HIGH, missed)
    if summary is None or summary.cpu is None or summary.cpu_share is None:
        return Use(asked)
    mean, sure = summary.cpu_share * asked, LOW if doubt else _confidence(share)
    return Use(asked, mean, summary.cpu.peak, summary.cpu_share, summary.source, share, sure, doubt)


def _memory(life: Life, summary: Summary | None, seconds: int, share: float | None) -> Use:
    asked = None if life.memory is None else float(life.memory)
    mean = peak = None
    source, of, sure = "", None, NONE
    if summary is not None and summary.memory is not None:
        peaks = [node.memory_peak for node in summary.nodes if node.memory_peak is not None]
        mean, peak = summary.memory.mean, float(max(sum(peaks), summary.memory.peak))
        source, of, sure = summary.source, share, _confidence(share)
    told = life.memory_used if life.ended else None
    # both are what was seen at some moments: the truth is no less than the larger one
    if told is not None and seconds and (peak is None or told > peak):
        peak, source, of = float(told), SACCT, 1.0
        sure = HIGH if life.state in _ENDED_BY_ITSELF else MEDIUM
    return Use(asked, mean, peak, peak / asked if peak is not None and asked else None, source, of, sure)


def _gpus_covered(life: Life, summary: Summary, now: int) -> float | None:
    """The share of the time of its GPUs of which somebody told. A driver may tell of fewer than it has, or fail."""
    held = sum(life.gpus.values()) * elapsed(life, now)
    told = [one.seconds for one in summary.gpus if one.seconds is not None]
    return min(1.0, sum(told) / held) if held and told else None


def _gpu(life: Life, summary: Summary | None, now: int, doubt: str) -> Use:
    count = float(sum(life.gpus.values()))
    if not count:
        return Use()
    if summary is None or summary.gpu is None:
        return Use(count)
    mean, share = summary.gpu.mean, _gpus_covered(life, summary, now)
    sure = LOW if doubt else _confidence(share)
    return Use(count, mean * count, summary.gpu.peak * count, mean, summary.source, share, sure, doubt)


def _gpu_memory(life: Life, summary: Summary | None, now: int) -> Use:
    if summary is None or not summary.gpus:
        return Use()
    totals = [one.memory_total for one in summary.gpus]
    peaks = [one.memory_peak for one in summary.gpus]
    if None in totals or None in peaks:
        return Use()
    asked, peak = float(sum(filter(None, totals))), float(sum(filter(None, peaks)))
    mean = None if summary.gpu_memory is None else summary.gpu_memory.mean
    share = _gpus_covered(life, summary, now)
    return Use(asked, mean, peak, peak / asked if asked else None, summary.source, share, _confidence(share))


def _time(life: Life, seconds: int) -> Use:
    if not life.started:
        return Use(None if life.time_limit is None else float(life.time_limit))
    if life.time_limit is None:
        return Use(None, float(seconds), float(seconds), None, SLURM, 1.0, HIGH)
    limit = float(life.time_limit)
    return Use(limit, float(seconds), float(seconds), seconds / limit if limit else None, SLURM, 1.0, HIGH)


def _confidence(coverage: float | None) -> str:
    if coverage is None:
        return LOW
    return HIGH if coverage >= _MUCH else MEDIUM if coverage >= _SOME else LOW
