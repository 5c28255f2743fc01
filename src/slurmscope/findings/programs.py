# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the programs of a job tell of its threads."""

from __future__ import annotations

from slurmscope.summary import Summary

# A Java machine starts threads for each core of the node that collect garbage and compile, and pools besides; nearly
# all of them wait. That they are many says nothing of how many want to run.
_WAITING = frozenset({"java"})


def widest(summary: Summary) -> tuple[str, int]:
    """The program of which one process had the most threads, and how many; those whose threads wait are left out."""
    found = ((threads, name) for name, threads in summary.programs.items() if name not in _WAITING)
    threads, name = max(found, default=(0, ""))
    return name, threads


def waiting(summary: Summary) -> bool:
    """Whether the program with the most threads is one of those that wait."""
    return max((threads, name) for name, threads in [*summary.programs.items(), ("", 0)])[1] in _WAITING
