# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Long answers of the accounting, read in another process."""

from __future__ import annotations

import asyncio

import pytest
from recorded import GENERATIONS, MARKS, RECORDINGS

from slurmscope.slurm import aside
from slurmscope.slurm.commands import BY_PART
from slurmscope.slurm.history import parse_history
from slurmscope.slurm.source import SourceError, Way
from slurmscope.slurm.text import Malformed
from slurmscope.slurm.transport import Output

COMMAND = BY_PART["history"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_it_reads_the_same(generation: str) -> None:
    data = (RECORDINGS / generation / "sacct.txt").read_bytes()
    bad = data.replace(b"COMPLETED@field", b"COMPLETED@field", 1).replace(b"cpu=4", b"cpu=x", 1)
    for text in (data, bad, b""):
        here = parse_history(text, MARKS)
        there = asyncio.run(aside.parse(COMMAND, Output(text, MARKS)))
        assert there == here


def test_what_is_no_answer_is_none_there_either() -> None:
    with pytest.raises(Malformed, match="does not end with a whole row"):
        asyncio.run(aside.parse(COMMAND, Output(b"sacct: error: slurmdbd is away", MARKS)))


def test_a_job_that_was_cancelled_as_it_was_submitted_is_kept() -> None:
    """As Slurm 26.05 told it: without a partition, without any amount."""
    row = "32|32|root|root||Unknown|CANCELLED by 0|None|0|||1794759707|Unknown|1794759707|1794759707|00:00:00||"
    data = (row + "None assigned|||0:0|0:0|00:00:00|||||0|allocation|/root|salloc|").replace(
        "|", "@field"
    ).encode() + b"\n"
    parsed = parse_history(data, MARKS)
    assert (parsed.skipped, len(parsed.value)) == (0, 1)
    (found,) = parsed.value
    assert (found.job.cpus, found.job.state, found.cancelled_by) == (0, "CANCELLED", "0")


def test_only_what_is_long_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (RECORDINGS / "24.11" / "sacct.txt").read_bytes()
    assert not aside.suits(COMMAND, Output(data, MARKS))
    assert aside.suits(COMMAND, Output(data * 200, MARKS))
    assert not aside.suits(BY_PART["jobs"], Output(data * 200, MARKS))

    class Long:
        async def run(self, command: object) -> Output:
            return Output(data * 200 + b"cut", MARKS)

        async def close(self) -> None:
            """Nothing is kept open."""

    with pytest.raises(SourceError, match="sacct --allusers --duplicates answered something else"):
        asyncio.run(Way("text", Long()).read("history"))
