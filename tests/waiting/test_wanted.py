# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which jobs somebody means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import job

from slurmscope.waiting.wanted import has_task, parsed_id, wanted


@pytest.mark.parametrize(
    ("text", "found"),
    [("123", (123, None)), ("123_4", (123, 4)), ("123_[4]", None), ("x", None), ("", None), ("12345678901", None)],
)
def test_numbers_as_people_write_them(text: str, found: tuple[int, int | None] | None) -> None:
    assert parsed_id(text) == found


def test_an_array_and_one_of_its_tasks() -> None:
    jobs = [
        job(10, array_id=8, array_tasks="5-9%2", tasks=5),
        job(9, "RUNNING", array_id=8, array_tasks="3"),
        job(8, "RUNNING", array_id=8, array_tasks="4"),
        job(11),
    ]
    assert [one.id for one in wanted(jobs, 8, None)] == [10, 9, 8]
    assert [one.id for one in wanted(jobs, 8, 3)] == [9]
    assert [one.id for one in wanted(jobs, 8, 6)] == [10]
    assert [one.id for one in wanted(jobs, 11, None)] == [11]
    assert wanted(jobs, 11, 1) == wanted(jobs, 12, None) == []


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 20), st.integers(0, 1100))
def test_a_task_is_in_a_list_with_a_step(low: int, more: int, step: int, task: int) -> None:
    assert has_task(f"{low}-{low + more}:{step}%3", task) == (task in range(low, low + more + 1, step))


@given(st.text(max_size=40), st.integers(0, 100))
def test_any_text_is_some_list_or_none(spec: str, task: int) -> None:
    assert has_task(spec, task) in (True, False)


def test_a_list_that_was_cut_short_may_have_it() -> None:
    assert has_task("1,3,5-7,...", 900)
    assert not has_task("1,3,5-7", 900)
