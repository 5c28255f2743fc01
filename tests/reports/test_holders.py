# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of users, accounts and clusters: of what is known, of half of it, and of nothing."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import lives
import pytest

from slurmscope.life import Accounted
from slurmscope.reports.document import Chart, Document, Heat, Paragraph, Table
from slurmscope.reports.holder import Looked
from slurmscope.reports.kept import Reports
from slurmscope.reports.period import Period
from slurmscope.settings import Allocation, Settings
from slurmscope.store.protocol import Lives
from slurmscope.store.recorder import tell
from slurmscope.store.sqlite import SqliteStore

DAY, HOUR = 86400, 3600
D0 = 20_000  # days since 1970
NOW = (D0 + 60) * DAY


def ran(id_: int, day: int, hours: float, used: float | None, **fields: Any) -> Accounted:
    start = (D0 + day) * DAY
    given: dict[str, Any] = {"submit_time": start - 60, "eligible_time": start - 60, "start_time": start}
    job = lives.job(id_, "COMPLETED", end_time=start + int(hours * HOUR), **(given | fields))
    told = None if used is None else used * job.cpus * hours * HOUR
    return lives.accounted(job, cpu_seconds=told, **({} if used is not None else {"steps": ()}))


def kept(folder: Path, *told: Accounted) -> SqliteStore:
    store = SqliteStore(folder / "kept.db")
    tell(store, "c", told, NOW)
    return store


def user(store: SqliteStore, period: Period, name: str = "alice", **settings: Any) -> Document:
    found = Reports(store, Settings(**settings), NOW).user(name, period)
    assert found is not None
    return found


def table(found: Document, name: str) -> dict[str, tuple[str, ...]]:
    (one,) = [one for one in found.tables() if one.name == name]
    return {row[0].text: tuple(cell.text for cell in row[1:]) for row in one.rows}


MONTH = Period(D0 + 30, D0 + 60)


def test_more_than_before(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2 if day < 30 else 3, 0.5) for day in range(60)]
    found = user(kept(tmp_path, *jobs), MONTH)
    assert found.verdict.headline == "alice used 360 core-hours, 50 % of the CPU time idle"
    assert found.verdict.lead.startswith("CPU time: 50 % more than in the 30 days before. 50 % of the CPU time (180 ")
    assert found.verdict.level == "note"
    figures = table(found, "figures")
    assert figures["Core-hours"] == ("360", "240", "+50 %")
    assert figures["Core-hours idle"] == ("180", "120", "+50 %")
    assert figures["CPU time in use"] == ("50 %", "50 %", "as before")
    assert "GPU-hours" not in figures


def test_a_time_before_that_is_not_kept_is_not_compared_with(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2, 0.5) for day in range(20, 60)]
    found = user(kept(tmp_path, *jobs), MONTH)
    assert "more than" not in found.verdict.lead and "less than" not in found.verdict.lead
    assert found.subtitle.endswith("; kept since 2024-10-23")
    assert table(found, "figures")["Core-hours"] == ("240", "–", "–")
    assert found.data["before"] is None


def test_what_is_known_of_a_part_is_said_so(tmp_path: Path) -> None:
    known = [ran(day + 1, day, 2, 0.25) for day in range(0, 60, 4)]
    unknown = [ran(100 + day, day, 6, None) for day in range(0, 60, 4)]
    found = user(kept(tmp_path, *known, *unknown), MONTH)
    assert "75 % of the CPU time of the 25 % of it that is known of" in found.verdict.lead
    (one,) = [one for one in found.tables() if one.name == "figures"]
    assert one.note == "What is in use and idle is known of 25 % of the CPU time."


def test_unknown_is_not_zero(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2, None, gpus={"a100": 1}) for day in range(60)]
    found = user(kept(tmp_path, *jobs), MONTH)
    figures = table(found, "figures")
    assert figures["GPU-hours idle"] == ("–", "–", "–")
    assert figures["GPU time in use"] == ("–", "–", "–")
    assert found.verdict.level == "unknown"
    assert "held and not used" not in found.verdict.lead


def test_the_largest_are_the_largest(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 1, 0.9) for day in range(60)]
    whale = ran(999, 31, 20, 0.1, cpus=64)
    found = user(kept(tmp_path, *jobs, whale), MONTH)
    for name in ("largest_jobs", "wasteful_jobs"):
        (one,) = [one for one in found.tables() if one.name == name]
        assert one.rows[0][0].value == 999


def test_a_period_that_goes_on_has_no_days_ahead(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2, 0.5) for day in range(60)]
    found = user(kept(tmp_path, *jobs), Period(D0 + 31, D0 + 61, going_on=True))
    (chart,) = [one for one in found.charts() if isinstance(one, Chart) and one.name == "cpu"]
    assert len(chart.times) == 30 and chart.times[-1] == (D0 + 60) * DAY
    assert chart.note == "The last day is not over."


def test_an_account_has_its_allocation_in_its_charts(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 12, 0.5, gpus={"a100": 2}) for day in range(60)]
    first = date.fromordinal(date(1970, 1, 1).toordinal() + D0)
    promised = Allocation(account="physics", resource="gpu", amount=1.0, start=first, end=first.replace(year=2025))
    store = kept(tmp_path, *jobs)
    found = Reports(store, Settings(allocations=[promised]), NOW).account("physics", MONTH)
    assert found is not None
    charts = {one.name: one for one in found.charts() if not isinstance(one, Heat)}
    assert [level.name for level in charts["gpu"].levels] == ["allocated 24"]
    assert charts["allocation_0"].levels[0].value == 1.0


def test_a_cluster_says_allocated_and_compares(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 12, 0.5) for day in range(60)]
    store = kept(tmp_path, *jobs)
    found = Reports(store, Settings(), NOW).cluster("c", MONTH)
    assert found is not None
    assert found.verdict.headline == "c gave 1,440 core-hours"
    assert found.subtitle == "30 days, against the 30 days before"
    one_day = Reports(store, Settings(), NOW).cluster("c", Period(D0 + 59, D0 + 60))
    assert one_day is not None
    assert one_day.subtitle == "1 day, against the day before"


def test_people_of_whom_little_is_known_are_not_ranked(tmp_path: Path) -> None:
    known = [ran(day + 1, day, 20, 0.5, cpus=64) for day in range(30, 60)]
    dark = [ran(100 + day, day, 20, 0.1, cpus=64, user="bob", gpus={"a100": 4}) for day in range(30, 60)]
    found = Reports(kept(tmp_path, *known, *dark), Settings(), NOW).cluster("c", MONTH)
    assert found is not None
    assert list(table(found, "by_use")) == ["alice"]


@pytest.mark.parametrize("name", ["user", "account"])
def test_nobody(tmp_path: Path, name: str) -> None:
    reports = Reports(kept(tmp_path, ran(1, 1, 1, 0.5)), Settings(), NOW)
    assert getattr(reports, name)("nobody", MONTH) is None


def test_tables_have_as_many_cells_as_columns(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2, 0.5, gpus={"a100": 1} if day % 2 else {}) for day in range(60)]
    reports = Reports(kept(tmp_path, *jobs), Settings(), NOW)
    for found in (reports.user("alice", MONTH), reports.cluster("c", MONTH), reports.month("c", MONTH)):
        assert found is not None
        for one in found.tables():
            assert isinstance(one, Table)
            assert all(len(row) == len(one.columns) for row in one.rows), one.name


def test_what_was_in_use_is_beside_what_was_held(tmp_path: Path) -> None:
    known = [ran(day + 1, day, 2, 0.25) for day in range(30, 40)]
    unknown = [ran(day + 1, day, 2, None) for day in range(40, 50)]
    (chart,) = user(kept(tmp_path, *known, *unknown), MONTH).charts()
    assert isinstance(chart, Chart)
    held, used = chart.series
    assert held.values == (*[8.0] * 20, *[0.0] * 10)
    assert used.values == (*[2.0] * 10, *[None] * 10, *[0.0] * 10)


def test_of_a_user_what_was_done_in_one_account(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 2, 0.5, account="physics" if day % 2 else "bio") for day in range(30, 60)]
    found = Reports(kept(tmp_path, *jobs), Settings(), NOW).user("alice", MONTH, "c", within="bio")
    assert found is not None
    assert found.subtitle.startswith("user alice in the account bio on c")
    assert (found.data["user"], found.data["account"], found.data["cluster"]) == ("alice", "bio", "c")
    assert found.data["used"]["cpu_seconds"] == 15 * 2 * HOUR * 4
    assert [one["account"] for one in found.data["by_account"]] == ["bio"]
    assert "by_account" not in {one.name for one in found.tables()}
    (largest,) = [one for one in found.tables() if one.name == "largest_jobs"]
    assert all(int(row[0].value or 0) % 2 for row in largest.rows)


def test_a_screen_looks_at_fewer_jobs_and_says_so(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 60 - day, 0.5) for day in range(30, 60)]
    store = kept(tmp_path, *jobs)
    found = Reports(store, Settings(), NOW).user("alice", MONTH, looked=Looked(lives=10, judged=3))
    assert found is not None
    texts = [one.text for section in found.sections for one in section.blocks if isinstance(one, Paragraph)]
    assert texts[0].startswith("Of the 3 largest jobs. ")
    assert texts[1:] == ["Of the latest 10 jobs of the period."] * 2
    assert table(found, "figures")["Jobs ended"][0] == "30"


def test_what_left_the_most_unused_need_not_be_the_largest(tmp_path: Path) -> None:
    jobs = [ran(day + 1, day, 10 + day / 10, 1.0 if day % 3 else 0.1) for day in range(30, 60)]
    (found,) = [one for one in user(kept(tmp_path, *jobs), MONTH).tables() if one.name == "wasteful_jobs"]
    assert [row[0].value for row in found.rows] == list(range(58, 30, -3))


def test_what_to_ask_for_at_the_next_run(tmp_path: Path) -> None:
    store = kept(tmp_path, *(ran(day + 1, day, 1, 0.25, time_limit=36000) for day in range(50, 60)))
    runs = store.lives(Lives(user="alice"))
    found = Reports(store, Settings(), NOW).request(runs)
    assert found is not None and found.runs == 10
    assert "--time" in {one.option for one in found.changes}
