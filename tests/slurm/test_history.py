# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What sacct tells of jobs that people wrote anything into."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import GENERATIONS, MARKS, RECORDINGS

from slurmscope.life import Accounted
from slurmscope.slurm import history, probe
from slurmscope.slurm.openapi import history as by_json

ROW = dict.fromkeys(probe.HISTORY_FIELDS, "") | {
    "JobIDRaw": "31",
    "JobID": "31",
    "User": "alice",
    "Account": "physics",
    "Partition": "main",
    "QOS": "normal",
    "State": "RUNNING",
    "AllocTRES": "cpu=4,mem=8G,node=1",
    "Submit": "1700000000",
    "Suspended": "00:00:00",
    "TotalCPU": "00:00:00",
}
# anything but NUL, and the mark, which nobody can know
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])).filter(
    lambda value: MARKS.field not in value
)


def told(*rows: dict[str, str]) -> tuple[Accounted, ...]:
    text = "".join("".join(value + MARKS.field for value in (ROW | row).values()) + "\n" for row in rows)
    parsed = history.parse_history(text.encode(), MARKS)
    assert not parsed.skipped
    return parsed.value


@given(WORDS, WORDS, WORDS)
def test_what_somebody_wrote_stays_where_it_was_written(name: str, line: str, folder: str) -> None:
    batch = {"JobIDRaw": "31.batch", "JobID": "31.batch", "SubmitLine": name, "JobName": "batch"}
    first, second = told({"JobName": name, "SubmitLine": line, "WorkDir": folder}, batch, {"JobIDRaw": "32"})
    assert (first.job.name, first.submit_line, first.work_dir) == (name, line[:4096] or None, folder or None)
    assert [step.name for step in first.steps] == ["batch"]
    assert (second.job.id, second.submit_line, second.work_dir) == (32, None, None)
    record = {
        "job_id": 31,
        "state": {"current": ["RUNNING"]},
        "name": name,
        "submit_line": line,
        "working_directory": folder,
    }
    (other,) = by_json.parse_history(json.dumps({"jobs": [record]}).encode(), MARKS).value
    assert (other.job.name, other.submit_line, other.work_dir) == (name, first.submit_line, first.work_dir)


def test_of_a_long_submit_line_the_beginning_is_kept() -> None:
    """With --wrap it may hold a whole script."""
    (one,) = told({"SubmitLine": "sbatch --wrap=" + "x" * 1_000_000})
    assert one.submit_line is not None and len(one.submit_line) == 4096
    assert one.submit_line.startswith("sbatch --wrap=x")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_real_jobs_tell_how_they_were_submitted(generation: str) -> None:
    data = (RECORDINGS / generation / "sacct.txt").read_bytes()
    found = {one.job.name: one for one in history.parse_history(data, MARKS).value}
    assert found["fails"].submit_line is not None and found["fails"].submit_line.startswith("sbatch ")
    assert "--wrap" in found["fails"].submit_line
    assert found["train"].work_dir == "/home/alice"
