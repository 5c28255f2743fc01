# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What usage comes to: sums of amounts, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from slurmscope.findings.cost import Cost, Prices
from slurmscope.reports.period import Period
from slurmscope.store.protocol import Store, UsageAsked, UsageSum
from slurmscope.usage import KEYS, ZERO, Amounts

_NAMES = tuple(name for name in KEYS if name != "day")
_QUIET = 14  # days
_PIECE = 7  # days that are read at a time
_MIB = 1 << 20
_TYPE = "gpu_type"


class Sum(msgspec.Struct, frozen=True):
    """The usage of somebody, or of something, in a period."""

    amounts: Amounts
    gpus: Mapping[str, int]  # GPU-seconds by type

    @property
    def cpu_share(self) -> float | None:
        """Of the CPU time of which the use is known."""
        return _share(self.amounts.cpu_used_ms / 1000, self.amounts.cpu_known_seconds)

    @property
    def gpu_share(self) -> float | None:
        return _share(self.amounts.gpu_used_ms / 1000, self.amounts.gpu_known_seconds)

    @property
    def cpu_idle(self) -> float | None:
        """CPU-seconds that were held and not used, by those of which that is known; None: it is of none."""
        return _idle(self.amounts.cpu_known_seconds, self.amounts.cpu_used_ms)

    @property
    def gpu_idle(self) -> float | None:
        return _idle(self.amounts.gpu_known_seconds, self.amounts.gpu_used_ms)

    @property
    def cpu_known(self) -> float | None:
        """Share of the CPU time of which the use is known."""
        return _share(self.amounts.cpu_known_seconds, self.amounts.cpu_seconds)

    @property
    def gpu_known(self) -> float | None:
        return _share(self.amounts.gpu_known_seconds, self.amounts.gpu_seconds)

    @property
    def wait(self) -> float | None:
        """Seconds that a job waited before it started, on average."""
        return _share(self.amounts.wait_seconds, self.amounts.started)

    @property
    def failed_share(self) -> float | None:
        amounts = self.amounts
        return _share(amounts.failed + amounts.timed_out, amounts.ended)

    def cost(self, prices: Prices) -> Cost:
        return prices.price(self.amounts.cpu_seconds, self.gpus, float(self.amounts.memory_mib_seconds) * _MIB)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _idle(known: int, used_ms: int) -> float | None:
    return max(0.0, known - used_ms / 1000) if known else None


def begun(store: Store, day: int, cluster: str | None) -> bool:
    """Whether anything was kept by then. Two weeks without any job are not looked beyond."""
    return store.first_used(day - _QUIET, day + 1, cluster) is not None


def first_day(store: Store, period: Period, cluster: str | None) -> int:
    """From which of its days on, and of those before, things are kept."""
    before = period.before.since
    if begun(store, before, cluster):
        return before
    found = store.first_used(before, period.until, cluster)
    return period.until if found is None else found


def added(rows: Iterable[Amounts]) -> Amounts:
    columns = list(zip(*rows, strict=True))
    return Amounts(*map(sum, columns)) if columns else ZERO


def each(store: Store, period: Period, only: Mapping[str, str]) -> Iterator[UsageSum]:
    """Row by row, by all names. Of a year there are too many to hold them all at once."""
    for since in range(period.since, period.until, _PIECE):
        until = min(since + _PIECE, period.until)
        yield from store.usage(UsageAsked(since=since, until=until, by=KEYS, only=only))


class Usage:
    """All usage of a period, read once and summed by whatever is asked for. Days are most of what there is to read, and
    so are apart."""

    def __init__(self, store: Store, period: Period, only: Mapping[str, str], names: Collection[str] = _NAMES) -> None:
        """By other `names` nothing can be asked for: those of people are most of what is read of a cluster."""
        self._store = store
        self._days = range(period.since, period.until)
        self._only = only
        self._names = tuple(one for one in _NAMES if one in names or one == _TYPE)
        self._rows = self._read(self._days, self._names)
        self._sums: dict[tuple[str, ...], Mapping[tuple[str | int, ...], Sum]] = {}

    def _read(self, days: range, names: tuple[str, ...]) -> list[UsageSum]:
        return self._store.usage(UsageAsked(since=days.start, until=days.stop, by=names, only=self._only))

    def total(self) -> Sum:
        return self.by().get((), Sum(ZERO, {}))

    def by(self, *names: str) -> Mapping[tuple[str | int, ...], Sum]:
        """Sums by some of the names of a usage key; made once, for tables, sentences and scripts ask for the same."""
        found = self._sums.get(names)
        if found is None:
            found = self._sums[names] = self._by([self._names.index(name) for name in names])
        return found

    def _by(self, places: Sequence[int]) -> dict[tuple[str | int, ...], Sum]:
        type_ = self._names.index(_TYPE)
        rows: dict[tuple[str | int, ...], list[Amounts]] = {}
        gpus: dict[tuple[str | int, ...], dict[str, int]] = {}
        for found in self._rows:
            key = tuple([found.key[place] for place in places])
            rows.setdefault(key, []).append(found.amounts)
            if kind := found.key[type_]:
                of = gpus.setdefault(key, {})
                of[str(kind)] = of.get(str(kind), 0) + found.amounts.gpu_seconds
        return {key: Sum(added(some), gpus.get(key, {})) for key, some in rows.items()}

    def days(self) -> dict[int, Sum]:
        found: dict[int, Sum] = {}
        for one in self._read(self._days, ("day", "gpu_type")):
            day, kind = int(one.key[0]), str(one.key[1])
            before = found.get(day, Sum(ZERO, {}))
            gpus = {**before.gpus, kind: one.amounts.gpu_seconds} if kind else before.gpus
            found[day] = Sum(added([before.amounts, one.amounts]), gpus)
        return found

    def named(self, name: str) -> dict[str, Sum]:
        return {str(key[0]): found for key, found in self.by(name).items()}
