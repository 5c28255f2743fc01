# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What Slurm says to its MailProg is understood, whatever a job is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.mail.subject import Subject, parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Slurm Job_id=123 Name=x Ended, Run time 00:01:00, COMPLETED, ExitCode 0",
            Subject("123", 123, "x", "Ended", "COMPLETED"),
        ),
        (
            "Slurm Job_id=123 Name=my job Failed, Run time 00:01:00, OUT_OF_MEMORY",
            Subject("123", 123, "my job", "Failed", "OUT_OF_MEMORY"),
        ),
        ("Slurm Job_id=7 Name=a Began, Queued time 00:00:05", Subject("7", 7, "a", "Began", "")),
        ("Slurm Job_id=7 Name= Requeued, Run time 1-00:00:05", Subject("7", 7, "", "Requeued", "")),
        ("Slurm Job_id=7 Name=a Invalid dependency", Subject("7", 7, "a", "Invalid dependency", "")),
        (
            "Slurm Job_id=7 Name=a Reached 80% of time limit, Run time 00:08:00",
            Subject("7", 7, "a", "Reached 80% of time limit", ""),
        ),
        ("Slurm Job_id=7 Name=a Reached time limit", Subject("7", 7, "a", "Reached time limit", "")),
        ("Slurm Job_id=7 Name=a StageOut/Teardown time 00:00:01", Subject("7", 7, "a", "StageOut/Teardown", "")),
        (
            "Slurm Array Task Job_id=12_3 (124) Name=a Ended, Run time 00:00:02, COMPLETED, ExitCode 0",
            Subject("12_3", 124, "a", "Ended", "COMPLETED"),
        ),
        (
            "Slurm Array Summary Job_id=12_* (12) Name=a Ended, COMPLETED, ExitCode [0-0]",
            Subject("12_*", 12, "a", "Ended", "COMPLETED"),
        ),
        (
            "Slurm Array Summary Job_id=12_* (12) Name=a Failed, Mixed, ExitCode [0-1], with requeued tasks",
            Subject("12_*", 12, "a", "Failed", "Mixed"),
        ),
        (
            "Slurm Job_id=5 Name=x Ended, Run time 00:00:00, COMPLETED, ExitCode 0 Began, Queued time 00:00:01",
            Subject("5", 5, "x Ended, Run time 00:00:00, COMPLETED, ExitCode 0", "Began", ""),
        ),
        ("Slurm Job_id=5 Name=x", None),
        ("Job_id=5 Name=x Ended", None),
        ("Slurm Job_id=99999999999 Name=x Ended", None),
        ("", None),
    ],
)
def test_what_slurm_says(text: str, found: Subject | None) -> None:
    assert parse(text) == found


EVENTS = st.sampled_from(["Began", "Ended", "Failed", "Requeued", "Reached time limit"])
ANYTHING = st.text(alphabet=st.characters(codec=None, exclude_categories=()))
NAMES = st.one_of(ANYTHING, st.sampled_from([" Ended", "x Ended, y", "Slurm Job_id=1 Name=z Failed", "a Began,"]))


@given(st.integers(0, 2**32 - 1), NAMES, EVENTS)
def test_no_name_makes_another_job_or_event_of_it(number: int, name: str, event: str) -> None:
    text = f"Slurm Job_id={number} Name={name} {event}, Run time 00:00:01, COMPLETED, ExitCode 0"
    found = parse(text)
    assert found == Subject(str(number), number, name, event, "COMPLETED")


@given(ANYTHING)
def test_anything_else_is_understood_or_not(text: str) -> None:
    parse(text)
