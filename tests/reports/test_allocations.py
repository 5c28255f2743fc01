# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was used of what was promised."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import lives
import pytest

from slurmscope.findings.cost import Prices
from slurmscope.life import Accounted
from slurmscope.reports import allocations
from slurmscope.reports.period import Period
from slurmscope.settings import Allocation, Cost
from slurmscope.store import recorder
from slurmscope.store.protocol import Store
from slurmscope.store.sqlite import SqliteStore

DAY = 86400
FIRST = date(2023, 11, 1)
D0 = (FIRST - date(1970, 1, 1)).days
YEAR = 365 * DAY


def ran(id_: int, day: int, hours: int, **fields: object) -> Accounted:
    """A job of so many hours on a day of the allocation."""
    start = (D0 + day) * DAY
    job = lives.job(id_, "COMPLETED", submit_time=start, start_time=start, end_time=start + hours * 3600, **fields)
    return lives.accounted(job)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = SqliteStore(tmp_path / "kept.db")
    told = [ran(day + 1, day, 24, gpus={"a100": 4}, cpus=8) for day in range(60)]
    told.append(ran(1000, 0, 24, gpus={"v100": 4}, cpus=8, account="biology"))
    recorder.tell(made, "c", told, (D0 + 60) * DAY)
    return made


def promised(**fields: object) -> Allocation:
    given = {"cluster": "c", "resource": "gpu", "amount": 3.0, "start": FIRST, "end": date(2024, 10, 31)}
    return Allocation(**(given | fields))  # type: ignore[arg-type]


def test_gpu_years_and_where_they_lead(store: Store) -> None:
    found = allocations.progress(store, promised(account="physics"), Prices(), D0 + 59)
    assert found.total == pytest.approx(60 * 4 * DAY / YEAR)
    assert len(found.used) == 60
    # at four GPUs all the time the year ends with four GPU-years
    assert found.expected == pytest.approx(4.0, rel=0.01)
    assert found.unit == "GPU-years"
    assert "physics has used 0.7 of 3 GPU-years (22 %)" in allocations.words(found)


def test_of_the_whole_cluster_all_accounts_count(store: Store) -> None:
    own = allocations.progress(store, promised(account="physics"), Prices(), D0 + 59)
    whole = allocations.progress(store, promised(), Prices(), D0 + 59)
    assert whole.total - own.total == pytest.approx(4 * DAY / YEAR)


def test_cores_and_the_sites_own_unit(store: Store) -> None:
    cores = allocations.progress(store, promised(resource="core"), Prices(), D0 + 59)
    assert cores.total == pytest.approx(61 * 8 * DAY / YEAR)
    prices = Prices(Cost(gpu_weights={"a100": 4.0, "v100": 2.2}))
    units = allocations.progress(store, promised(resource="unit"), prices, D0 + 59)
    assert units.total == pytest.approx((60 * 4 * 4.0 + 4 * 2.2) * DAY / YEAR)
    assert units.unit == "RGU-years"


def test_the_chart_goes_to_the_end_and_has_the_dashed_line(store: Store) -> None:
    found = allocations.progress(store, promised(), Prices(), D0 + 59)
    chart = allocations.chart(found, "allocation")
    used, ahead = chart.series
    assert len(chart.times) == len(used.values) == len(ahead.values) == 365
    assert [one is None for one in used.values] == [False] * 60 + [True] * 305
    assert ahead.values[59] == used.values[59]
    assert ahead.values[-1] == pytest.approx(found.expected)
    assert [(level.name, level.value) for level in chart.levels] == [("allocated 3", 3.0)]


def test_when_it_is_over_nothing_lies_ahead(store: Store) -> None:
    short = promised(end=date(2023, 12, 1), amount=1.0)
    found = allocations.progress(store, short, Prices(), D0 + 59)
    assert len(found.used) == 30
    assert found.expected == found.total
    assert len(allocations.chart(found, "allocation").series) == 1


def test_which_apply() -> None:
    whole, own = promised(), promised(account="physics")
    begin, before = Period(D0 - 5, D0 + 1), Period(D0 - 5, D0)
    assert allocations.applies(whole, "c", begin)
    assert allocations.applies(whole, "c", Period(D0 + 364, D0 + 400))
    assert not allocations.applies(whole, "c", Period(D0 + 365, D0 + 400))
    assert not allocations.applies(whole, "other", begin)
    assert not allocations.applies(whole, "c", before)
    assert allocations.applies(own, None, begin)
    assert allocations.applies(promised(cluster=""), "any", begin)


def test_as_a_line_in_a_chart_of_gpus_in_use() -> None:
    half = promised(start=FIRST, end=date(2024, 4, 30), amount=3.0)
    (level,) = allocations.levels([half, promised(resource="core")], "gpu", Period(D0, D0 + 1))
    assert level.value == pytest.approx(3.0 * 365 / 181)


def test_what_is_not_kept_is_not_none(store: Store) -> None:
    """Half a year of the allocation was before anything was kept."""
    early = promised(start=date(2023, 5, 5), end=date(2024, 5, 4))
    found = allocations.progress(store, early, Prices(), D0 + 59)
    assert found.first == D0
    assert "since 2023-11-01, when what is kept begins" in allocations.words(found)
    used = allocations.chart(found, "allocation").series[0].values
    assert used[: D0 - found.since] == (None,) * (D0 - found.since)
    # the pace is that of the days that are known, and not of the year
    left = found.until - (D0 + 60)
    assert found.expected == pytest.approx(found.total + 4 / 365 * left, rel=0.02)


def test_today_is_not_taken_for_a_whole_day(store: Store) -> None:
    today = allocations.progress(store, promised(account="physics"), Prices(), D0 + 60)
    assert today.expected == pytest.approx(4.0, rel=0.02)


def test_nothing_used_yet(tmp_path: Path) -> None:
    found = allocations.progress(SqliteStore(tmp_path / "new.db"), promised(), Prices(), D0)
    assert (found.total, found.expected) == (0.0, 0.0)
