# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The jobs of a period that matter most: those that took the most, and those that left the most unused."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from slurmscope.findings.efficiency import cpu_use, ran
from slurmscope.findings.judgement import GPU_CORES
from slurmscope.life import Life
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Table
from slurmscope.reports.job import job_link, number_of
from slurmscope.words import hours

_MOST = 10


def _held(life: Life, now: int) -> float:
    return ran(life, now) * (life.cpus + GPU_CORES * sum(life.gpus.values()))


def _unused(life: Life, now: int) -> tuple[float, float]:
    """Core-seconds, of one without GPUs, and GPU-seconds, as far as they are known; what is not known is not held
    against anybody."""
    seconds = ran(life, now)
    cpu = cpu_use(life, None, now).share
    cores = 0.0 if cpu is None or life.gpus else life.cpus * max(0.0, 1 - cpu)
    gpus = 0.0 if life.gpu_share is None else sum(life.gpus.values()) * max(0.0, 1 - life.gpu_share)
    return seconds * cores, seconds * gpus


def _weight(life: Life, now: int) -> float:
    cores, gpus = _unused(life, now)
    return cores + GPU_CORES * gpus


def _unused_cell(life: Life, now: int) -> Cell:
    cores, gpus = _unused(life, now)
    return Cell(hours(gpus, "GPU"), gpus) if gpus else Cell(hours(cores, "core"), cores)


def by_size(lives: Sequence[Life], now: int) -> list[Life]:
    """What held the most first."""
    return sorted(lives, key=lambda one: -_held(one, now))


def largest(ranked: Sequence[Life], now: int, *, users: bool) -> Table:
    """Of lives by size; with whose they are, where they are of several `users`."""
    return _table("largest_jobs", ranked[:_MOST], now, users=users)


def wasteful(ranked: Sequence[Life], now: int, *, users: bool) -> Table:
    """Of lives by size: what held less than others left unused need not be looked at."""
    most: list[tuple[float, int]] = []
    for at, life in enumerate(ranked):
        if len(most) == _MOST and _held(life, now) <= most[0][0]:
            break
        if (unused := _weight(life, now)) > 0:
            heappush(most, (unused, -at))
            if len(most) > _MOST:
                heappop(most)
    found = [ranked[-at] for _, at in sorted(most, reverse=True)]
    return _table("wasteful_jobs", found, now, users=users, unused=True)


def _table(name: str, lives: Sequence[Life], now: int, *, users: bool, unused: bool = False) -> Table:
    """With what was left unused in place of how they ended."""
    gpus = any(life.gpus for life in lives)
    columns = (
        Column("job", "job"),
        Column("name", "name"),
        *((Column("user", "user"),) if users else ()),
        Column("unused", "left unused", True) if unused else Column("state", "state"),
        Column("end_time", "ended", True),
        Column("ran", "ran", True),
        Column("core_seconds", "core-hours", True),
        Column("cpu_share", "CPU in use"),
        *((Column("gpu_seconds", "GPU-hours", True), Column("gpu_share", "GPU in use")) if gpus else ()),
    )
    rows = []
    for life in lives:
        seconds = ran(life, now)
        rows.append(
            (
                Cell(number_of(life), life.id, link=job_link(life)),
                cells.words(life.name),
                *((cells.words(life.user, f"user:{life.user}"),) if users else ()),
                _unused_cell(life, now) if unused else cells.words(life.state.lower()),
                cells.moment(life.end_time, now) if life.ended else Cell("runs"),
                cells.seconds(seconds),
                cells.hours(life.cpus * seconds),
                cells.meter(cpu_use(life, None, now).share),
                *(_gpu_cells(life, seconds) if gpus else ()),
            )
        )
    return Table(name, columns, tuple(rows), empty="none")


def _gpu_cells(life: Life, seconds: int) -> tuple[Cell, Cell]:
    if not life.gpus:
        return Cell(cells.DASH), Cell("")
    return cells.hours(sum(life.gpus.values()) * seconds), cells.meter(life.gpu_share)
