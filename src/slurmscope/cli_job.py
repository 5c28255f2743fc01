# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The command `slurmscope job`: what is known of a job, and what it used."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from slurmscope.cli_store import opened
from slurmscope.course import AGENT, PROMETHEUS, TRACE
from slurmscope.life import Life, document
from slurmscope.reports.spark import bars_of
from slurmscope.store.protocol import Lives, Store
from slurmscope.summary import GpuSummary, Moment, NodeSummary, Summary, moments
from slurmscope.terminal import config_option, fail, load, show, show_json, show_table
from slurmscope.words import amount, moment, percent, printable, size, span

_MOST = 200  # jobs that are looked at: an array may have more tasks
_WHOLE = 3  # of which all is shown; of more there is a table
_WIDTH = 60  # characters of a line over time
_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?")
_BY = {AGENT: "the agent", TRACE: "the job itself (slurmscope run)", PROMETHEUS: "the agent, as Prometheus has it"}
_LEAST = 1.0  # seconds of a node in which something must have been measured for it to be told as an average
_NOT_TOLD = (
    "no: nobody told of it. Was it shorter than agent.interval, or is the agent's cluster another? "
    "`slurmscope agent --check` on its node says"
)
_NOT_TAKEN = (
    "no: by these settings nothing is taken that would tell, for none of agents.enabled, trace.enabled and "
    "prometheus.url is set (docs/measured.md)"
)


class _Found(msgspec.Struct):
    life: Life
    summary: Summary | None
    line: list[Moment]


@click.command("job")
@click.argument("job", metavar="JOBID")
@config_option
@click.option("--cluster", help="Of which cluster. Default: all of which something is kept.")
@click.option("--json", "as_json", is_flag=True, help="For scripts, in base units: seconds, bytes, cores, joules.")
def job_command(job: str, path: Path | None, cluster: str | None, as_json: bool) -> None:
    """Say what is known of a job, and what it used.

    JOBID is a job's number, an array's, or one task's of an array (123_4). A number may have been used more than once,
    and a requeued job has several lives: the latest comes first. It is read from the store, which
    `slurmscope serve` fills; so this must be run by a user who may read that.

    \b
    measured    the share of the job's time in which it was measured, and by whom
    CPU         cores in use: on average, at most, and of those that it could use
    memory      in use by its programs, file cache not among it; the share is of its limit, on its fullest node
    over time   a line from the job's first sample to its last; · is a time that was not measured
    """
    wanted = _ID.fullmatch(job)
    if wanted is None:
        fail(f"JOBID: expected a number, or 123_4 for the task of an array, found {printable(job)!r}", 2)
    settings = load(path).settings
    taken = settings.agents.enabled or settings.trace.enabled or bool(settings.prometheus.url)
    with opened(settings) as store:
        there = store.clusters()
        if cluster is not None and cluster not in there:
            fail(f"--cluster: expected one of {', '.join(there) or 'none'}, found {printable(cluster)}", 2)
        found = _found(store, int(wanted[1]), wanted[2], cluster)
    if not found:
        where = f" of {cluster}" if cluster else ""
        fail(f"no job {job}{where} is kept: `slurmscope store stats` says since when, `slurmscope import` reads more")
    if as_json:
        show_json([{"job": document(one.life), "summary": one.summary, "moments": one.line} for one in found])
    elif len(found) > _WHOLE:
        _show_many(found)
    else:
        for at, one in enumerate(found):
            if at:
                show("")
            _show(one, _NOT_TOLD if taken else _NOT_TAKEN)


def _found(store: Store, id_: int, task: str | None, cluster: str | None) -> list[_Found]:
    lives = store.lives(Lives(cluster=cluster, id=id_, limit=None if task else _MOST))
    if task is not None:
        lives = [life for life in lives if life.array_id == id_ and life.array_tasks == task]
    found = []
    for life in lives:
        course = store.course(life.cluster, *life.key)
        line = moments(course) if course is not None else []
        found.append(_Found(life, store.summary(life.cluster, *life.key), line))
    return found


# --- one job ----------------------------------------------------------------------------------------------------------


def _show(found: _Found, not_measured: str) -> None:
    life, used = found.life, found.summary
    rows = [
        ("job", f"{_number(life)} {life.name}, of {life.user} ({life.account}), on {life.cluster}"),
        ("state", life.state + (f", {life.reason}" if life.reason else "") + _exit(life)),
        ("submitted", f"{moment(life.submit_time)}, to {life.partition}, QOS {life.qos}"),
    ]
    if life.started:
        ended = f", ended {moment(life.end_time)}" if life.ended else ""
        rows.append(("started", f"{moment(life.start_time)}{ended}: {_elapsed(life)}"))
    rows.append(("asked for", _asked(life)))
    rows += _used(used) if used is not None else [("measured", not_measured)] if life.started else []
    rows += _over_time(found)
    show_table(("", ""), [(name, printable(text)) for name, text in rows])
    if used is not None and len(used.nodes) > 1:
        show("")
        show_table(
            ("node", "measured", "CPU", "most", "memory", "most", "limit", "read", "written"), _nodes(used.nodes)
        )
    if used is not None and used.gpus:
        show("")
        show_table(("node", "GPU", "model", "in use", "most", "memory", "held idle"), _gpus(used.gpus))


def _number(life: Life) -> str:
    return f"{life.array_id}_{life.array_tasks} ({life.id})" if life.array_id and life.array_tasks else str(life.id)


def _exit(life: Life) -> str:
    return f", exit code {life.exit_code}" if life.ended and life.exit_code not in (None, "0:0") else ""


def _elapsed(life: Life) -> str:
    end = life.end_time if life.ended else int(time.time())
    return span(max(0, (end or 0) - (life.start_time or 0))) + ("" if life.ended else " so far")


def _asked(life: Life) -> str:
    gpus = ", ".join(f"{count} {kind or 'any'}" for kind, count in life.gpus.items())
    parts = [
        amount(life.cpus, "CPU"),
        size(life.memory) if life.memory is not None else "",
        f"GPUs: {gpus}" if gpus else "",
    ]
    nodes = amount(life.nodes, "node")
    limit = f"for {span(life.time_limit)} at most" if life.time_limit is not None else "without a limit on its time"
    return ", ".join([*filter(None, parts), nodes + (f" ({life.node_list})" if life.node_list else ""), limit])


def _used(used: Summary) -> list[tuple[str, str]]:
    by = _BY.get(used.source, used.source)
    if used.seconds < _LEAST:
        return _seen(used, by)
    share = percent(used.coverage) if used.coverage is not None else span(used.seconds)
    rows = [("measured", f"{share} of its time, by {by}")]
    if used.cpu is not None:
        of = f", {_percent(used.cpu_share)} of what it could use" if used.cpu_share is not None else ""
        total = f"; {_cpu_time(used.cpu_seconds)}{_in_kernel(used)}" if used.cpu_seconds is not None else ""
        rows.append(("CPU", f"{used.cpu.mean:,.1f} cores, at most {used.cpu.peak:,.1f}{of}{total}"))
    if used.memory is not None:
        of = f", {_percent(used.memory_share)} of its limit" if used.memory_share is not None else ""
        rows.append(("memory", f"{size(used.memory.mean)}, at most {size(used.memory.peak)}{of}"))
    if used.oom_kills:
        rows.append(("killed", f"{amount(used.oom_kills, 'process', 'processes')}, by the kernel, for want of memory"))
    if used.gpu is not None:
        memory = f"; memory at most {size(used.gpu_memory.peak)}" if used.gpu_memory is not None else ""
        energy = f"; {used.gpu_energy / 3.6e6:,.2f} kWh" if used.gpu_energy is not None else ""
        rows.append(("GPU", f"{_percent(used.gpu.mean)}, at most {_percent(used.gpu.peak)}{memory}{energy}"))
    moved = [f"{size(count)} {what}" for what, count in _moved(used) if count is not None]
    if moved:
        rows.append(("disks", ", ".join(moved) + (", scratch used" if used.scratch else "")))
    if used.programs:
        rows.append(("programs", _programs(used)))
    return rows


def _seen(used: Summary, by: str) -> list[tuple[str, str]]:
    """What one look tells, which is not what was used between two."""
    whom = f", by {by}" if by else ""
    rows = [("measured", f"for less than a second{whom}: what it used is told by the difference of two looks")]
    peaks = [node.memory_peak for node in used.nodes if node.memory_peak]
    if peaks:
        rows.append(("memory", f"{size(sum(peaks))} when it was seen"))
    if used.programs:
        rows.append(("programs", _programs(used)))
    return rows


def _programs(used: Summary) -> str:
    return ", ".join(f"{name} ({amount(threads, 'thread')})" for name, threads in used.programs.items())


def _cpu_time(seconds: float) -> str:
    for unit, word in ((3600, "hours"), (60, "minutes")):
        if seconds >= unit:
            return f"{seconds / unit:,.1f} CPU {word}"
    return f"{seconds:,.1f} CPU seconds"


def _in_kernel(used: Summary) -> str:
    told = [(one.user_seconds or 0.0, one.system_seconds) for one in used.nodes if one.system_seconds is not None]
    system, both = sum(one[1] for one in told), sum(sum(one) for one in told)
    return f", {percent(system / both)} of it in the kernel" if both else ""


def _moved(used: Summary) -> tuple[tuple[str, int | None], ...]:
    return ("read", used.read_bytes), ("written", used.written_bytes)


def _over_time(found: _Found) -> list[tuple[str, str]]:
    if found.summary is not None and found.summary.seconds < _LEAST:
        return []
    if found.summary is not None and not found.line:
        return [("over time", "not kept any more (store.series_days)")]
    rows = []
    for name, values, shown in (
        ("CPU over time", [one.cpu for one in found.line], lambda most: f"{most:,.1f} cores"),
        ("memory over time", [one.memory for one in found.line], size),
    ):
        bars = bars_of(values, _WIDTH)
        told = [value for value in values if value is not None]
        if told:
            rows.append((name, f"{bars}  0 to {shown(max(told))}"))
    return rows


def _nodes(nodes: Sequence[NodeSummary]) -> list[tuple[str, ...]]:
    return [
        (
            printable(one.node),
            span(one.seconds),
            f"{one.cpu_seconds / one.seconds:,.1f}" if one.cpu_seconds is not None and one.seconds else "",
            f"{one.cpu_peak:,.1f}" if one.cpu_peak is not None else "",
            *(size(value) if value is not None else "" for value in (one.memory_mean, one.memory_peak, one.limit)),
            *(size(value) if value is not None else "" for value in (one.read_bytes, one.written_bytes)),
        )
        for one in nodes
    ]


def _gpus(gpus: Sequence[GpuSummary]) -> list[tuple[str, ...]]:
    return [
        (
            printable(one.node),
            str(one.index) if one.instance is None else f"{one.index}.{one.instance}",
            printable(one.model),
            _percent(one.mean),
            _percent(one.peak),
            size(one.memory_peak) if one.memory_peak is not None else "",
            span(one.idle_seconds) if one.idle_seconds is not None else "",
        )
        for one in gpus
    ]


# --- many jobs --------------------------------------------------------------------------------------------------------


def _show_many(found: Sequence[_Found]) -> None:
    rows = []
    for one in found:
        life, used = one.life, one.summary
        ran = _elapsed(life) if life.started else ""
        shares = (used.coverage, used.cpu_share, used.memory_share) if used is not None else (None, None, None)
        row = (_number(life), life.cluster, life.state, moment(life.submit_time), ran, *map(_percent, shares))
        rows.append(tuple(map(printable, row)))
    show_table(("job", "cluster", "state", "submitted", "ran", "measured", "CPU", "memory"), rows)
    if len(found) == _MOST:
        show(f"the latest {_MOST} of them; one task is JOBID_TASK")


def _percent(share: float | None) -> str:
    """In a table, where what is unknown is left out."""
    return "" if share is None else percent(share)
