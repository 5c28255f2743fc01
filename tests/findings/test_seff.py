# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of efficiency of recorded jobs are those that seff prints. What is expected was worked out by hand, as seff
does it, from what is written in the recordings of sacct: the CPU time of all steps, in whole seconds, over what was
allocated times what elapsed; the largest sum of the peaks of a step's tasks over what was allocated."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from recorded import GENERATIONS, MARKS, RECORDINGS

from slurmscope import life as lives
from slurmscope.findings.efficiency import efficiency
from slurmscope.life import Life
from slurmscope.slurm.history import parse_history


class Seff(NamedTuple):
    generation: str
    job: int
    state: str
    used: int  # CPU Utilized, in seconds
    walltime: int  # of all cores: CPUs x time that it ran
    ran: int
    memory: str  # Memory Efficiency, as it is printed; empty: it is told as 0, since nothing was measured
    beside: int = 0  # bytes that its script used at the same time: seff takes the largest step alone


SEFF = [
    # 2 CPUs for 11 s, 0.021 s + 9.466 s; 250097664 bytes of 300 MiB
    Seff("22.05", 30, "COMPLETED", 9, 22, 11, "79.50", 10756096),
    # 1 CPU for 39 s, 0.001 s; 3207168 bytes of 100 MiB
    Seff("22.05", 31, "REQUEUED", 0, 39, 39, "3.06"),
    # 0.011 s + 9.848 s; 250425344 bytes
    Seff("24.11", 30, "COMPLETED", 10, 22, 11, "79.61", 11563008),
    Seff("24.11", 31, "REQUEUED", 0, 18, 18, "3.34"),
    # 0.014 s + 11.437 s; 130973696 bytes
    Seff("26.05", 30, "COMPLETED", 11, 22, 11, "41.64", 13012992),
    Seff("26.05", 31, "REQUEUED", 0, 3, 3, "3.60"),
    # 1 CPU for 1 s, 0.001 s; no step was looked at
    Seff("26.05", 17, "CANCELLED", 0, 1, 1, ""),
]


def recorded(generation: str) -> dict[tuple[int, str], Life]:
    told = parse_history((RECORDINGS / generation / "sacct.txt").read_bytes(), MARKS).value
    return {(one.job.id, one.job.state): lives.told(None, "c", one, 1_800_000_000) for one in told}


@pytest.mark.parametrize("seff", SEFF, ids=[f"{one.generation}-{one.job}" for one in SEFF])
def test_a_recorded_job(seff: Seff) -> None:
    life = recorded(seff.generation)[seff.job, seff.state]
    found = efficiency(life, None, 1_800_000_000)
    assert found.cpu.asked is not None
    assert found.cpu.share is not None
    assert found.cpu.asked * seff.ran == seff.walltime
    assert round(found.cpu.share * seff.walltime) == seff.used
    assert (found.time.peak, found.cpu.source) == (seff.ran, "sacct")
    largest = None if found.memory.peak is None else (found.memory.peak - seff.beside) / (life.memory or 0)
    assert ("" if largest is None else f"{100 * largest:.2f}") == seff.memory


@pytest.mark.parametrize("generation", GENERATIONS)
def test_all_that_ran_are_in_the_table(generation: str) -> None:
    """… of those that ended: of the others, seff itself says that it cannot tell."""
    ran = {
        job
        for (job, _), life in recorded(generation).items()
        if life.ended and life.started and (life.end_time or 0) > (life.start_time or 0)
    }
    assert ran == {one.job for one in SEFF if one.generation == generation}
