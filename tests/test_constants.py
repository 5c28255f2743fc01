# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the site has set, as JSON and for Prometheus."""

from __future__ import annotations

import asyncio
import datetime

import msgspec
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

from slurmscope import constants
from slurmscope.settings import Allocation, Cost, Settings

YEAR = (datetime.date(2026, 1, 1), datetime.date(2027, 1, 1))
HALF = (datetime.date(2026, 1, 1), datetime.date(2026, 7, 2))
SETTINGS = Settings(
    constants={"students": 120.0},
    cost=Cost(gpu_weights={"a100": 4.0, "default": 1.0}),
    allocations=[
        Allocation(cluster="narval", resource="gpu", amount=25.0, start=YEAR[0], end=YEAR[1]),
        Allocation(cluster="narval", account="physics", resource="core", amount=10.0, start=HALF[0], end=HALF[1]),
        Allocation(resource="unit", amount=100.0, start=YEAR[0], end=YEAR[1]),
    ],
)


def page(settings: Settings, *, of_openmetrics: bool) -> str:
    body = constants.ConstantsPage(settings).body(openmetrics=of_openmetrics, gzip=False)
    return b"".join(asyncio.run(body)).decode()


def test_json() -> None:
    found = msgspec.json.decode(constants.document(SETTINGS))
    assert found["constants"] == {"students": 120.0}
    assert found["gpu_weights"] == {"a100": 4.0, "default": 1.0}
    assert found["allocations"][1] == {
        "cluster": "narval",
        "account": "physics",
        "resource": "core",
        "amount": 10.0,
        "start": "2026-01-01",
        "end": "2026-07-02",
    }


def test_metrics_in_both_formats() -> None:
    plain = {family.name: family.samples for family in text(page(SETTINGS, of_openmetrics=False))}
    modern = {family.name: family.samples for family in openmetrics(page(SETTINGS, of_openmetrics=True))}
    assert plain.keys() == modern.keys()
    assert [(one.labels, one.value) for one in plain["slurm_constant"]] == [
        ({"cluster": "", "name": "students"}, 120.0)
    ]
    years = {(one.labels["cluster"], one.labels["account"]): one.value for one in plain["slurm_allocation_years"]}
    assert years == {("", ""): 100.0, ("narval", ""): 25.0, ("narval", "physics"): 10.0}
    # ten core-years to be used within half a year are twenty cores all the time
    lines = {(one.labels["cluster"], one.labels["account"]): one.value for one in plain["slurm_allocation_resources"]}
    assert lines["narval", ""] == 25.0
    assert round(lines["narval", "physics"], 2) == 20.05
    ends = {one.labels["end"]: one.value for one in plain["slurm_allocation_end_timestamp_seconds"]}
    assert ends["2027-01-01"] == datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert {one.labels["type"]: one.value for one in plain["slurm_gpu_weight"]} == {"a100": 4.0, "default": 1.0}


def test_nothing_set_is_an_empty_page() -> None:
    assert page(Settings(), of_openmetrics=False) == ""
    assert page(Settings(), of_openmetrics=True) == "# EOF\n"
