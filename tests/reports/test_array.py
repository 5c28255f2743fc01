# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document of an array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lives
from lives import SUBMIT

from slurmscope.life import Accounted
from slurmscope.reports.document import Bars, Document, Paragraph
from slurmscope.reports.kept import Reports
from slurmscope.settings import Settings
from slurmscope.store.recorder import tell
from slurmscope.store.sqlite import SqliteStore

NOW = SUBMIT + 86400


def task(number: int, state: str = "COMPLETED", ran: int = 3600, **fields: Any) -> Accounted:
    over = state not in ("RUNNING", "PENDING")
    job = lives.job(
        100 + number,
        state,
        array_id=100,
        array_tasks=str(number),
        end_time=SUBMIT + 100 + ran if over else None,
        **fields,
    )
    return lives.accounted(job, cpu_seconds=3.0 * ran if over else None)


def document(folder: Path, *told: Accounted) -> Document:
    store = SqliteStore(folder / "kept.db")
    tell(store, "c", told, NOW)
    return Reports(store, Settings(), NOW).job("100")


def test_all_went_well(tmp_path: Path) -> None:
    found = document(tmp_path, *(task(at) for at in range(4)))
    assert found.title == "100 train: 4 tasks"
    assert found.verdict.headline.startswith("100 train: 4 of 4 tasks completed")
    assert not [section for section in found.sections if section.title == "The tasks that stand out"]


def test_those_that_wait_are_as_many_as_they_are(tmp_path: Path) -> None:
    waits = lives.accounted(lives.job(100, array_id=100, array_tasks="5-14%2", tasks=10, reason="JobArrayTaskLimit"))
    found = document(tmp_path, task(1), task(2), task(3, "RUNNING"), waits)
    assert found.title == "100 train: 13 tasks"
    assert found.verdict.headline.startswith("100 train: 10 of 13 tasks wait")
    (states,) = [one for one in found.tables() if one.name == "states"]
    assert {row[0].text: row[1].value for row in states.rows} == {"pending": 10, "completed": 2, "running": 1}
    (why,) = [section for section in found.sections if section.title == "Why the others wait"]
    assert isinstance(why.blocks[0], Paragraph) and why.blocks[0].text.startswith("JobArrayTaskLimit: ")


def test_each_reason_for_which_tasks_wait_is_told(tmp_path: Path) -> None:
    rest = lives.accounted(lives.job(100, array_id=100, array_tasks="5-14", tasks=10, reason="Priority"))
    held = lives.accounted(lives.job(103, array_id=100, array_tasks="3", reason="JobHeldUser"))
    found = document(tmp_path, task(1), held, rest)
    titles = {section.title: section.blocks[0] for section in found.sections if section.title.startswith("Why")}
    assert [*titles] == ["Why 10 tasks wait", "Why 1 task waits"]
    for (_, told), reason in zip(titles.items(), ("Priority", "JobHeldUser"), strict=True):
        assert isinstance(told, Paragraph) and told.text.startswith(f"{reason}: ")
    assert [(one.tasks, one.why.reason) for one in found.data["waiting"]] == [(10, "Priority"), (1, "JobHeldUser")]


def test_further_reasons_are_counted(tmp_path: Path) -> None:
    reasons = ["Priority", "JobHeldUser", "Dependency", "BeginTime", "Licenses", "Resources"]
    tasks = [task(at, "PENDING", reason=reason, start_time=None, node_list="") for at, reason in enumerate(reasons)]
    found = document(tmp_path, *tasks)
    assert len([one for one in found.sections if one.title == "Why 1 task waits"]) == 4
    (others,) = [one.blocks[0] for one in found.sections if one.title == "Why others wait"]
    assert isinstance(others, Paragraph) and others.text == "Licenses (1) and Resources (1)."
    assert found.data["waiting_else"] == {"Licenses": 1, "Resources": 1}


def test_what_went_wrong_comes_first(tmp_path: Path) -> None:
    found = document(tmp_path, *(task(at) for at in range(1, 9)), task(9, "TIMEOUT", 9000), task(10, "FAILED", 60))
    assert found.verdict.level == "bad"
    assert found.verdict.lead == "1 ran out of time and 1 failed."
    (odd,) = [one for one in found.tables() if one.name == "outliers"]
    assert [row[0].text for row in odd.rows][:2] == ["100_9", "100_10"]


def test_a_task_that_was_requeued_counts_once(tmp_path: Path) -> None:
    again = task(1, submit_time=SUBMIT + 50)
    found = document(tmp_path, task(1, "REQUEUED", 30), again, task(2))
    assert found.title == "100 train: 2 tasks"
    assert found.verdict.headline.startswith("100 train: 2 of 2 tasks completed")


def test_labels_of_a_histogram_differ(tmp_path: Path) -> None:
    found = document(tmp_path, *(task(at, ran=10800 + at * 10) for at in range(1, 13)))
    for chart in found.charts():
        assert isinstance(chart, Bars)
        assert len(set(chart.labels)) == len(chart.labels)
        assert sum(value or 0 for value in chart.series[0].values) == 12
