# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who used what on which day: what a life adds to the sums of the days on which it was.

All amounts are whole numbers, so that sums that are kept by adding and taking away are the very sums that a rebuild
makes. That is why CPU and GPU time used is in milliseconds, and memory over time in MiB-seconds: byte-seconds of a
large cluster's day do not fit into 64 bits. Days are those of UTC.

"Known" amounts are what was allocated to those lives of which the use is known: what was used is to be compared with
them, and not with all that was allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmscope.life import Life

DAY = 86400
_MIB = 1 << 20
UNTYPED = "untyped"
"""The type of GPUs that have none."""


class Key(NamedTuple):
    day: int  # days since 1970-01-01
    cluster: str
    account: str
    user: str
    partition: str
    qos: str
    gpu_type: str  # "" where there is no GPU


class Amounts(NamedTuple):
    submitted: int = 0  # tasks, on the day of submission
    started: int = 0  # on the day of the start
    ended: int = 0  # on the day of the end: the next five add up to this
    completed: int = 0
    failed: int = 0  # FAILED, OUT_OF_MEMORY, NODE_FAIL, BOOT_FAIL, DEADLINE
    timed_out: int = 0
    cancelled: int = 0
    other: int = 0  # preempted, requeued, vanished
    wait_seconds: int = 0  # from eligible (else submitted) to started, of those that started
    cpu_seconds: int = 0  # allocated
    gpu_seconds: int = 0
    memory_mib_seconds: int = 0
    cpu_used_ms: int = 0  # used, where that is known
    cpu_known_seconds: int = 0
    memory_used_mib_seconds: int = 0  # at its most, over the whole time
    memory_known_mib_seconds: int = 0
    energy_joules: int = 0
    gpu_used_ms: int = 0  # used, where that is known
    gpu_known_seconds: int = 0


KEYS, AMOUNTS = Key._fields, Amounts._fields
ZERO = Amounts()
_AT = {name: at for at, name in enumerate(AMOUNTS)}
_OTHER = _AT["other"]
_OUTCOMES = {
    "COMPLETED": _AT["completed"],
    "TIMEOUT": _AT["timed_out"],
    "CANCELLED": _AT["cancelled"],
    **dict.fromkeys(("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"), _AT["failed"]),
}
_NOWHERE: list[int] = []
_Place = tuple[int, str, str, str, str, str, str]  # a Key, without its cost: millions are made of it
Sums = dict[_Place, list[int]]
_WIDTH = len(AMOUNTS)


def add(sums: Sums, life: Life, sign: int) -> None:
    """Adds what a life contributes to its days, or with -1 takes it away."""
    kinds = sorted(life.gpus.items()) if life.gpus else ()
    first = kinds[0][0] or UNTYPED if kinds else ""
    submit, start, end = life.submit_time, life.start_time, life.end_time
    day, row = -1, _NOWHERE
    if submit is not None:
        day, row = submit // DAY, _row(sums, life, submit // DAY, first)
        row[_SUBMITTED] += sign * life.tasks
    if end is not None and life.ended:
        # most are of one day, and have one row
        if end // DAY != day:
            day, row = end // DAY, _row(sums, life, end // DAY, first)
        row[_ENDED] += sign * life.tasks
        row[_OUTCOMES.get(life.state, _OTHER)] += sign * life.tasks
    if start is None or not life.started:
        return
    if start // DAY != day:
        row = _row(sums, life, start // DAY, first)
    row[_STARTED] += sign
    if (since := life.eligible) is not None:
        row[_WAIT] += sign * max(0, start - since)
    _add_time(sums, life, sign, row, kinds)


def _add_time(sums: Sums, life: Life, sign: int, row: list[int], kinds: Sequence[tuple[str, int]]) -> None:
    """What it held and used over its time; `row` is that of the day on which it started."""
    start, until = life.start_time or 0, life.counted_time
    if until is None or until <= start:
        row[_ENERGY] += sign * (life.energy or 0)
        return
    held = until - start
    whole = _totals(life, held)
    gpus = [(kind or UNTYPED, _gpu_totals(life, count * held)) for kind, count in kinds]
    if gpus:
        whole |= gpus[0][1]
    more = gpus[1:]
    if start // DAY == (until - 1) // DAY and not more:
        for at, amount in whole.items():
            row[at] += sign * amount
        return
    first = kinds[0][0] or UNTYPED if kinds else ""
    for day, before, after in _days(start, until):
        row = _row(sums, life, day, first)
        for at, amount in whole.items():
            row[at] += sign * _share(amount, before, after, held)
        # a job with GPUs of several types: all but the GPUs is under the first
        for kind, amounts in more:
            row = _row(sums, life, day, kind)
            for at, amount in amounts.items():
                row[at] += sign * _share(amount, before, after, held)


def _row(sums: Sums, life: Life, day: int, gpu_type: str) -> list[int]:
    key = (day, life.cluster, life.account, life.user, life.partition, life.qos, gpu_type)
    row = sums.get(key)
    if row is None:
        row = sums[key] = [0] * _WIDTH
    return row


_SUBMITTED, _STARTED, _ENDED, _WAIT = (_AT[name] for name in ("submitted", "started", "ended", "wait_seconds"))
_CPU, _GPU, _MEMORY, _ENERGY = (
    _AT[name] for name in ("cpu_seconds", "gpu_seconds", "memory_mib_seconds", "energy_joules")
)
_CPU_USED, _CPU_KNOWN = _AT["cpu_used_ms"], _AT["cpu_known_seconds"]
_MEMORY_USED, _MEMORY_KNOWN = _AT["memory_used_mib_seconds"], _AT["memory_known_mib_seconds"]
_GPU_USED, _GPU_KNOWN = _AT["gpu_used_ms"], _AT["gpu_known_seconds"]


def _totals(life: Life, held: int) -> dict[int, int]:
    """What the life allocated and used in all but for GPUs, by the place among the amounts.

    Others may have the CPUs of one that is suspended. Its memory and its GPUs stay its own.
    """
    cpu = life.cpus * max(0, held - (life.suspended_seconds or 0))
    memory = (life.memory or 0) // _MIB * held
    found = {_CPU: cpu, _MEMORY: memory}
    if life.ended and life.cpu_seconds is not None:
        found[_CPU_USED], found[_CPU_KNOWN] = round(life.cpu_seconds * 1000), cpu
    if life.ended and life.memory_used is not None and life.memory is not None:
        found[_MEMORY_USED], found[_MEMORY_KNOWN] = life.memory_used * held // _MIB, memory
    if life.energy:
        found[_ENERGY] = life.energy
    return found


def _gpu_totals(life: Life, seconds: int) -> dict[int, int]:
    """The same of GPUs of one type, which were held for so many seconds."""
    found = {_GPU: seconds}
    if life.ended and life.gpu_share is not None:
        found[_GPU_USED], found[_GPU_KNOWN] = round(life.gpu_share * seconds * 1000), seconds
    return found


def _days(start: int, until: int) -> Iterator[tuple[int, int, int]]:
    """(day, seconds before it, seconds to its end) of each day that is touched."""
    at = start
    while at < until:
        day = at // DAY
        end = min(until, (day + 1) * DAY)
        yield day, at - start, end - start
        at = end


def _share(amount: int, before: int, after: int, whole: int) -> int:
    """The part of an amount that falls on a day; the parts of all days add up to the amount."""
    return amount * after // whole - amount * before // whole


def deltas(sums: Sums) -> Mapping[Key, Amounts]:
    """What is left of sums after adding and taking away."""
    return {Key(*key): Amounts(*row) for key, row in sums.items() if any(row)}
