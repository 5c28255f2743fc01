# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs cost, and what was wasted of it."""

from __future__ import annotations

from typing import Any

import pytest
from findings import cases
from findings.cases import RAN

from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.rule import Waste
from slurmscope.settings import Cost as CostSettings

KWH = 3.6e6
HOUR = 3600
NOW = cases.START + RAN
GPUS = {"a100": 2}
PRICED: dict[str, Any] = {"currency": "EUR", "core_hour": 0.01, "gpu_hour": {"a100": 2.0, "default": 1.0}}


def prices(**fields: Any) -> Prices:
    return Prices(CostSettings(**fields))


def test_words_say_what_is_known_and_nothing_else() -> None:
    cost = Cost(0.0, 22 * HOUR, 0.0, 9 * KWH, 8 * KWH, 31.0, "EUR", 500.0)
    assert cost.words() == "22 GPU-hours, 9 kWh, 0.5 kg CO2, 31 EUR"
    assert Cost(90 * HOUR, energy_joules=KWH / 2).words() == "90 core-hours, about 0.5 kWh"
    assert Cost(memory_byte_seconds=float(40 * cases.GIB * HOUR)).words() == "40 GiB-hours of memory"
    assert Cost(72.0, money=0.04, currency="EUR", co2_grams=12.0).words() == "0.02 core-hours, 12 g CO2, 0.04 EUR"
    assert Cost().words() == "nothing"


MONEY = [
    ("no currency", {"core_hour": 1.0}, 10.0, {}, None),
    ("no price at all", {"currency": "EUR"}, 10.0, {"a100": 1.0}, None),
    ("cores", PRICED, 100.0, {}, 1.0),
    ("a type that is named", PRICED, 0.0, {"a100": 3.0}, 6.0),
    ("one that is not", PRICED, 100.0, {"h100": 3.0}, 4.0),
    ("one without any name", PRICED, 0.0, {"": 3.0}, 3.0),
    ("no price for that type", PRICED | {"gpu_hour": {"a100": 2.0}}, 100.0, {"h100": 3.0}, None),
    ("that type is not held", PRICED | {"gpu_hour": {"a100": 2.0}}, 100.0, {"h100": 0.0}, 1.0),
    ("GPUs alone have a price", PRICED | {"core_hour": 0.0}, 100.0, {"a100": 1.0}, 2.0),
    ("cores have none", PRICED | {"core_hour": 0.0}, 100.0, {}, None),
]


@pytest.mark.parametrize(("what", "given", "cpu", "gpus", "expected"), MONEY, ids=[one[0] for one in MONEY])
def test_money(what: str, given: dict[str, Any], cpu: float, gpus: dict[str, float], expected: float | None) -> None:
    cost = prices(**given).price(cpu * HOUR, {kind: hours * HOUR for kind, hours in gpus.items()})
    assert cost.money == (None if expected is None else pytest.approx(expected))
    assert cost.currency == ("" if expected is None else "EUR")


def test_energy_is_by_watts_where_nobody_measured_it() -> None:
    cost = prices(core_watts=10.0, gpu_watts={"default": 400.0}, co2_grams=100.0).job(cases.life(gpus=GPUS), None, NOW)
    joules = RAN * (4 * 10.0 + 2 * 400.0)
    assert cost.energy_joules == pytest.approx(joules)
    assert cost.energy_measured is False
    assert cost.co2_grams == pytest.approx(joules / KWH * 100)
    assert (cost.cpu_seconds, cost.gpu_seconds) == (4 * RAN, 2 * RAN)
    assert cost.memory_byte_seconds == 8 * cases.GIB * RAN


@pytest.mark.parametrize(
    ("given", "gpus"), [({"core_watts": 0.0}, {}), ({"gpu_watts": {}}, GPUS), ({"gpu_watts": {"h100": 700.0}}, GPUS)]
)
def test_without_watts_no_energy_is_told(given: dict[str, Any], gpus: dict[str, int]) -> None:
    cost = prices(co2_grams=100.0, **given).job(cases.life(gpus=gpus), None, NOW)
    assert (cost.energy_joules, cost.co2_grams) == (None, None)


def test_energy_that_slurm_measured_goes_before_watts() -> None:
    life = cases.life(told={"energy": 123_000})
    cost = prices(core_watts=10.0).job(life, None, NOW)
    assert cost.energy_joules == pytest.approx(123_000)
    assert cost.energy_measured is True
    half = prices().waste(life, None, NOW, Waste(cpu_seconds=2 * RAN))
    assert half.energy_joules == pytest.approx(61_500)
    assert half.energy_measured is True
    with_gpus = cases.life(gpus=GPUS, told={"energy": 5_000_000})
    settings: list[dict[str, Any]] = [{}, {"core_watts": 0.0}, {"gpu_watts": {}}]
    for given in settings:
        assert prices(**given).job(with_gpus, None, NOW).energy_joules == pytest.approx(5_000_000)


def test_energy_of_gpus_that_an_agent_measured_goes_before_watts() -> None:
    life = cases.life(gpus=GPUS)
    used = cases.summary(gpu_energy=1_000_000, coverage=0.5)
    cost = prices(core_watts=10.0).job(life, used, NOW)
    assert cost.energy_joules == pytest.approx(2_000_000 + 40 * RAN), "the half that was not measured is as the other"
    assert cost.energy_measured
    wasted = prices().waste(life, used, NOW, Waste(gpu_seconds=float(RAN)))
    assert wasted.energy_joules == pytest.approx(1_000_000)
    assert wasted.energy_measured is True


@pytest.mark.parametrize(("told", "expected"), [(3_000_000, 3_000_000), (500_000, 1_500_000)])
def test_a_counter_of_processors_alone_does_not_see_gpus(told: int, expected: int) -> None:
    life = cases.life(gpus=GPUS, told={"energy": told})
    cost = prices().job(life, cases.summary(gpu_energy=1_000_000, coverage=1.0), NOW)
    assert cost.energy_joules == pytest.approx(expected)
    assert cost.energy_measured is True


def test_a_waste_is_of_the_types_that_the_job_had() -> None:
    life = cases.life(gpus={"a100": 1, "t4": 3})
    cost = prices(**PRICED).waste(life, None, NOW, Waste(gpu_seconds=8.0 * HOUR))
    assert cost.money == pytest.approx(2 * 2.0 + 6 * 1.0)
    assert prices(**PRICED).waste(cases.life(), None, NOW, Waste(gpu_seconds=8.0)).gpu_seconds == 0


def test_units_weigh_types() -> None:
    weighed = prices(gpu_weights={"a100": 4.0, "default": 2.0}, gpu_unit="RGU")
    assert (weighed.unit, weighed.units({"a100": 10.0, "t4": 1.0})) == ("RGU", 42.0)
    assert prices(gpu_weights={"a100": 4.0}).units({"t4": 1.0}) == 1.0
    assert (prices().unit, prices().units({"a100": 10.0, "": 1.0})) == ("GPU", 11.0)


def test_a_sum_is_of_what_is_known() -> None:
    known = Cost(1.0, 2.0, 3.0, 10.0, 10.0, 5.0, "EUR", 1.0)
    assert known + Cost(1.0, 1.0, 1.0) == Cost(2.0, 3.0, 4.0, 10.0, 10.0, 5.0, "EUR", 1.0)
    assert (Cost() + Cost()).energy_joules is None
    assert not (known + Cost(energy_joules=11.0)).energy_measured
    assert (Cost(energy_joules=9.0) + known).energy_measured
    assert not sum([known, *[Cost(energy_joules=9.0)] * 3, known], Cost()).energy_measured, "whatever the order"


def test_a_job_that_has_not_run_cost_nothing() -> None:
    cost = prices(**PRICED).job(cases.life("PENDING"), None, NOW)
    assert cost == Cost()
