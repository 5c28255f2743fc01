# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs cost, and what was wasted of it: hours, energy, CO2, money, by the settings of `[cost]`.

What has no price is told without one, and is never free: no money where `cost.currency` is empty, where a GPU's type
has neither a price nor a `default`, or where nothing that was held has one. Cores of a site that prices GPUs alone are
within the GPUs' price.

Energy that was measured goes before watts of the settings: what Slurm told of the job, and what an agent measured of
its GPUs. What Slurm tells is of whole nodes: of a job that shared them it is too much. What nobody measured is by
watts; a wasted hour costs as much energy as an average one of its job.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from slurmscope.findings.efficiency import ran
from slurmscope.findings.rule import Waste
from slurmscope.life import Life
from slurmscope.settings import Cost as CostSettings
from slurmscope.summary import Summary
from slurmscope.words import hours, number

_HOUR = 3600
_KWH = 3.6e6  # joules
_GIB = 1 << 30
_DEFAULT = "default"


class Cost(msgspec.Struct, frozen=True):
    """What something cost. None: nobody can tell."""

    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    energy_joules: float | None = None
    measured_joules: float = 0.0  # of these; the rest is by watts of the settings
    money: float | None = None
    currency: str = ""
    co2_grams: float | None = None

    @property
    def energy_measured(self) -> bool:
        """Half of it or more was."""
        return bool(self.energy_joules) and 2 * self.measured_joules >= (self.energy_joules or 0.0)

    def __add__(self, other: Cost) -> Cost:
        """Energy and money of those parts that have any."""
        return Cost(
            self.cpu_seconds + other.cpu_seconds,
            self.gpu_seconds + other.gpu_seconds,
            self.memory_byte_seconds + other.memory_byte_seconds,
            _sum(self.energy_joules, other.energy_joules),
            self.measured_joules + other.measured_joules,
            _sum(self.money, other.money),
            self.currency or other.currency,
            _sum(self.co2_grams, other.co2_grams),
        )

    def words(self) -> str:
        """`22 GPU-hours, 9 kWh, 0.5 kg CO2, 31 EUR`; energy that is by watts is told as "about"."""
        parts = [
            hours(seconds, of)
            for seconds, of in ((self.cpu_seconds, "core"), (self.gpu_seconds, "GPU"))
            if round(seconds)
        ]
        if not parts and self.memory_byte_seconds:
            parts.append(f"{number(self.memory_byte_seconds / _GIB / _HOUR)} GiB-hours of memory")
        if self.energy_joules:
            parts.append(f"{'' if self.energy_measured else 'about '}{number(self.energy_joules / _KWH)} kWh")
        if self.co2_grams:
            parts.append(_weight(self.co2_grams))
        if self.money:
            parts.append(f"{number(self.money, 2 if self.money < 10 else 1)} {self.currency}")
        return ", ".join(parts) or "nothing"


class _Watts(msgspec.Struct, frozen=True):
    """What the parts of one job draw. None: unknown."""

    core: float | None
    gpus: Mapping[str, float | None]  # by type
    core_measured: bool = False
    gpus_measured: bool = False


class Prices:
    def __init__(self, cost: CostSettings | None = None) -> None:
        self._cost = cost or CostSettings()

    @property
    def unit(self) -> str:
        """What `units` are called."""
        return self._cost.gpu_unit if self._cost.gpu_weights else "GPU"

    def units(self, gpu_seconds: Mapping[str, float]) -> float:
        """GPU-seconds by type as seconds of the site's unit; without weights every GPU is one."""
        weights = self._cost.gpu_weights
        other = weights.get(_DEFAULT, 1.0)
        return sum(seconds * weights.get(kind, other) for kind, seconds in gpu_seconds.items())

    def price(
        self, cpu_seconds: float, gpu_seconds: Mapping[str, float] | None = None, memory_byte_seconds: float = 0.0
    ) -> Cost:
        """Of what no job tells the energy of: by watts."""
        given = gpu_seconds or {}
        return self._price(cpu_seconds, given, memory_byte_seconds, self._set_watts(given))

    def job(self, life: Life, summary: Summary | None, now: int) -> Cost:
        """All that a job held while it ran."""
        seconds = ran(life, now)
        held = {kind: float(count * seconds) for kind, count in life.gpus.items()}
        memory = float((life.memory or 0) * seconds)
        return self._price(float(life.cpus * seconds), held, memory, self._watts(life, summary, seconds))

    def waste(self, life: Life, summary: Summary | None, now: int, waste: Waste) -> Cost:
        """A part of what a job held; its GPUs are of the types that it had, each by its share."""
        count = sum(life.gpus.values())
        lost = {kind: waste.gpu_seconds * one / count for kind, one in life.gpus.items() if count}
        watts = self._watts(life, summary, ran(life, now))
        return self._price(waste.cpu_seconds, lost, waste.memory_byte_seconds, watts)

    # --- the parts ----------------------------------------------------------------------------------------------------

    def _price(self, cpu: float, gpus: Mapping[str, float], memory: float, watts: _Watts) -> Cost:
        cores = 0.0 if not cpu else None if watts.core is None else cpu * watts.core
        boards = _whole([0.0 if not lost else _times(lost, watts.gpus.get(kind)) for kind, lost in gpus.items()])
        joules = None if cores is None or boards is None else cores + boards
        measured = (cores or 0.0) * watts.core_measured + (boards or 0.0) * watts.gpus_measured
        money = self._money(cpu, gpus)
        grams = self._cost.co2_grams
        return Cost(
            cpu,
            sum(gpus.values()),
            memory,
            joules or None,
            measured if joules else 0.0,
            money,
            "" if money is None else self._cost.currency,
            joules / _KWH * grams if joules and grams else None,
        )

    def _money(self, cpu: float, gpus: Mapping[str, float]) -> float | None:
        if not self._cost.currency:
            return None
        prices = self._cost.gpu_hour
        boards = _whole([_times(lost, _named(prices, kind)) for kind, lost in gpus.items() if lost])
        if boards is None:
            return None
        return (cpu * self._cost.core_hour + boards) / _HOUR or None

    def _set_watts(self, gpus: Mapping[str, object]) -> _Watts:
        return _Watts(self._cost.core_watts or None, {kind: _named(self._cost.gpu_watts, kind) for kind in gpus})

    def _watts(self, life: Life, summary: Summary | None, seconds: int) -> _Watts:
        """Of a job's cores and GPUs, from what was measured of them as far as it was."""
        watts = self._set_watts(life.gpus)
        cpu, gpu = float(life.cpus * seconds), float(sum(life.gpus.values()) * seconds)
        covered = 0.0 if summary is None else summary.coverage or 0.0
        if summary is not None and summary.gpu_energy is not None and gpu and covered:
            each = summary.gpu_energy / (gpu * covered)
            watts = _Watts(watts.core, dict.fromkeys(life.gpus, each), gpus_measured=True)
        if not life.energy or not cpu:
            return watts
        boards = _whole([_times(count * seconds, watts.gpus.get(kind)) for kind, count in life.gpus.items()])
        if watts.gpus_measured and boards is not None:
            # a counter of the processors alone does not see the GPUs
            rest = life.energy - boards if life.energy > boards else float(life.energy)
            return _Watts(rest / cpu, watts.gpus, core_measured=True, gpus_measured=True)
        expected = None if boards is None or (gpu and watts.core is None) else (watts.core or 0.0) * cpu + boards
        if not gpu or not expected:
            return _Watts(life.energy / cpu, dict.fromkeys(life.gpus, 0.0), core_measured=True, gpus_measured=True)
        by = life.energy / expected
        scaled = {kind: _times(by, one) for kind, one in watts.gpus.items()}
        return _Watts(_times(by, watts.core), scaled, core_measured=True, gpus_measured=True)


def _named(table: Mapping[str, float], kind: str) -> float | None:
    """Of a type; 0 is as good as not set."""
    return table.get(kind, table.get(_DEFAULT)) or None


def _times(one: float, other: float | None) -> float | None:
    return None if other is None else one * other


def _whole(parts: list[float | None]) -> float | None:
    """The sum; unknown where one of them is."""
    told = [one for one in parts if one is not None]
    return sum(told) if len(told) == len(parts) else None


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def _weight(grams: float) -> str:
    return f"{number(grams / 1000)} kg CO2" if grams >= 100 else f"{number(grams)} g CO2"
