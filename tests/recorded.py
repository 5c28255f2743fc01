# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters that are only recordings: what a real Slurm answered, given again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import Snapshot
from slurmscope.poll import Poll
from slurmscope.settings import Cluster
from slurmscope.slurm.commands import BY_PART, Command
from slurmscope.slurm.source import Way
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Output

RECORDINGS = Path(__file__).parent / "recordings"
GENERATIONS = ["22.05", "24.11", "26.05"]
MARKS = Marks("@field", "@endofrow")


class Recorded:
    """A transport that answers with a recording."""

    def __init__(self, generation: str) -> None:
        self._folder = RECORDINGS / generation

    async def run(self, command: Command) -> Output:
        return Output((self._folder / command.recording).read_bytes(), MARKS, command.argv)

    async def close(self) -> None:
        """Nothing is kept open."""


def read(generation: str, now: float | None = None) -> tuple[Snapshot, Pages]:
    """The snapshot of a recording and its pages, as of the moment of the recording."""
    when = now or recorded_at(generation)

    async def look() -> tuple[Snapshot, Pages]:
        pages = Pages(clock=lambda: when)
        source = Way("text", Recorded(generation))
        poll = Poll(source, Cluster(), pages.publish, clock=lambda: when)
        pages.source, pages.up = source, lambda: poll.up
        Book([pages])  # as in a server: the default page is made ready at each poll
        await poll.once()
        return poll.snapshot, pages

    return asyncio.run(look())


def recorded_at(generation: str) -> float:
    head = (RECORDINGS / generation / "sdiag.txt").read_text().split("(", 1)[1]
    return float(head.split(")", 1)[0])


def commands(generation: str, folder: Path) -> Path:
    """A folder of programs that answer with a recording, for those who must start a process."""
    programs: dict[str, list[str]] = {}
    for command in BY_PART.values():
        name, *arguments = command.argv
        answer = f"cat {RECORDINGS / generation / command.recording}"
        if command.part == "jobs":
            answer = (
                "for last; do :; done; some=${last#*Dependency:}; field=${some%%,*}; end=${last##*:}; "
                f'{answer} | sed "s/@endofrow/$end/; s/@field/$field/g"'
            )
        if command.part == "history":
            answer = (
                "for one; do case $one in --delimiter=*) field=${one#*=} ;; esac; done; "
                f'{answer} | sed "s/@field/$field/g"'
            )
        pattern = " ".join(arguments[:2]).replace(" ", r"\ ") + "*" if command.part != "jobs" else "*"
        programs.setdefault(name, []).append(f"{pattern}) {answer} ;;")
    folder.mkdir(exist_ok=True)
    for name, cases in programs.items():
        path = folder / name
        path.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(cases) + "\nesac\n")
        path.chmod(0o755)
    return folder
