# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What lives are looked for by that is not a field of theirs; the same in every store."""

from __future__ import annotations

from slurmscope.life import Life
from slurmscope.slurm.values import ABSENT, hosts


def lowered(name: str) -> str:
    """As names are compared without regard to case."""
    return name.casefold()


def node_names(life: Life) -> tuple[str, ...]:
    """Those that it has, or had; none where what Slurm told is no list of hosts."""
    listed = life.node_list
    if "[" not in listed and "," not in listed and "]" not in listed and listed not in ABSENT:
        return (listed,)  # as most jobs have it
    try:
        return hosts(listed)
    except ValueError:
        return ()


def eligible(life: Life) -> int:
    """Since when it waits, or waited."""
    return life.eligible or 0


def started(life: Life) -> int | None:
    """Of one that waits Slurm only guesses it."""
    return life.start_time if life.started else None


def end(life: Life) -> int | None:
    """Of one that goes on this is when it must end."""
    return life.end_time if life.ended else None


def gpus(life: Life) -> int:
    return sum(life.gpus.values())
