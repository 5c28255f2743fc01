# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of a job's cgroups, of either version. What the kernel does not tell is None, and so is "max".

The parsers are pure; a file that is not there, or holds something else, costs only what it would have told.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from typing import TypeVar

import msgspec

from slurmscope.measure import Pressure
from slurmscope.node.mounts import V2

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 1 << 16
_SHORT = 2048
_NO_LIMIT = 1 << 60  # version 1 writes "none" as the most that fits in pages of an address space
_LONGEST = 24  # a counter of 64 bits has 20 digits
_PRESSURE = re.compile(rb"^(some|full) [^\n]*?total=([0-9]{1,20})$", re.MULTILINE)
_DEVICE = re.compile(rb"^([0-9]+:[0-9]+) .*?rbytes=([0-9]{1,20}) wbytes=([0-9]{1,20})(?![0-9])", re.MULTILINE)
# What is gone meanwhile, or was never there, is nobody's fault. Not supported are pressures where they are off, and
# the processes of a threaded group, which are told in the one above it.
GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.ENOTDIR, errno.EOPNOTSUPP})


NAMESPACE = "namespace"
"""Why a process cannot be read that is in another namespace of pids."""


class Missed:
    """Counts what could not be read, by why."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.now = 0

    def add(self, why: str) -> None:
        self.counts[why] = self.counts.get(why, 0) + 1
        self.now += 1


def read(path: str, missed: Missed, most: float = inf) -> bytes | None:
    """A small file of the kernel's, by three calls: this is done thousands of times at each look.

    `most` is for those whose length a user decides; about so much is read of them.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = piece = os.read(handle, _MOST)
            # long files come a page at a time, and of a page as much as whole lines fill
            while len(piece) > _SHORT and len(found) < most:
                piece = os.read(handle, _MOST)
                found += piece
            return found
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in GONE:
            missed.add("permission" if error.errno in (errno.EACCES, errno.EPERM) else "error")
        return None


class Figures(msgspec.Struct, kw_only=True):
    """What the cgroups of a job tell."""

    cpus: int | None = None
    cpu_seconds: float | None = None
    user_seconds: float | None = None
    system_seconds: float | None = None
    core_seconds: dict[int, float] | None = None
    throttled_seconds: float | None = None
    throttled_periods: int | None = None
    memory: int | None = None
    anonymous: int | None = None
    file: int | None = None
    shared: int | None = None
    swap: int | None = None
    peak: int | None = None
    limit: int | None = None
    oom_kills: int | None = None
    cpu_pressure: Pressure | None = None
    memory_pressure: Pressure | None = None
    io_pressure: Pressure | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None


# --- pure -----------------------------------------------------------------------------------------------------------


def parse_number(text: bytes) -> int | None:
    """A number; None for `max`, and for what is none."""
    if len(text) > _LONGEST:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def parse_limit(text: bytes) -> int | None:
    found = parse_number(text)
    return None if found is None or found < 0 or found >= _NO_LIMIT else found


def parse_keyed(text: bytes) -> dict[str, int]:
    """Lines of a name and a number, as memory.stat and cpu.stat have them."""
    found = {}
    for line in text.split(b"\n"):
        name, _, value = line.partition(b" ")
        number = parse_number(value)
        if number is not None:
            found[name.decode("ascii", "replace")] = number
    return found


def parse_cpus(text: bytes) -> list[int]:
    """`0-3,7`, as cpuset.cpus has it."""
    found: list[int] = []
    for part in text.strip().split(b","):
        first, _, last = part.partition(b"-")
        low, high = parse_number(first), parse_number(last or first)
        if low is not None and high is not None and 0 <= low <= high < 1 << 16:
            found.extend(range(low, high + 1))
    return found


def parse_pressure(text: bytes) -> Pressure | None:
    """`some avg10=… total=123` and `full …`, in microseconds."""
    found = {kind: int(total) / 1e6 for kind, total in _PRESSURE.findall(text)}
    return Pressure(found[b"some"], found.get(b"full")) if b"some" in found else None


@lru_cache(1024)
def _stacked(device: bytes) -> bool:
    """Whether a device (`253:0`) lies on others (LVM, md): what goes through it is counted again for those."""
    try:
        return bool(os.listdir(f"/sys/dev/block/{device.decode('ascii', 'replace')}/slaves"))  # noqa: PTH208
    except OSError:
        return False


def parse_io(text: bytes) -> tuple[int, int]:
    """io.stat of version 2: read and written, over all devices that are not made of others."""
    told = [(int(read_), int(written)) for device, read_, written in _DEVICE.findall(text) if not _stacked(device)]
    return sum(one for one, _ in told), sum(one for _, one in told)


def parse_blkio(text: bytes) -> tuple[int, int] | None:
    """blkio.throttle.io_service_bytes of version 1: `8:0 Read 123`.

    None where it tells of no device: from Linux 6.10 on that is so of all groups until a device has had a limit.
    """
    sums: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        parts = line.split()
        if len(parts) != 3 or parts[1] not in (b"Read", b"Write") or _stacked(parts[0]):
            continue
        if (number := parse_number(parts[2])) is not None:
            sums[parts[1]] = sums.get(parts[1], 0) + number
    return (sums.get(b"Read", 0), sums.get(b"Write", 0)) if sums else None


# --- reading --------------------------------------------------------------------------------------------------------


def figures(folders: Mapping[str, str], missed: Missed) -> Figures:
    found = Figures()
    if V2 in folders:
        _read_v2(folders[V2], found, missed)
    for controller, reader in _V1.items():
        if controller in folders:
            reader(folders[controller], found, missed)
    return found


def _value(folder: str, name: str, parse: Callable[[bytes], T], missed: Missed) -> T | None:
    text = read(f"{folder}/{name}", missed)
    return None if text is None else parse(text)


def _read_v2(folder: str, found: Figures, missed: Missed) -> None:
    cpu = _value(folder, "cpu.stat", parse_keyed, missed) or {}
    found.cpu_seconds = _seconds(cpu.get("usage_usec"), 1e6)
    found.user_seconds = _seconds(cpu.get("user_usec"), 1e6)
    found.system_seconds = _seconds(cpu.get("system_usec"), 1e6)
    found.throttled_seconds = _seconds(cpu.get("throttled_usec"), 1e6)
    found.throttled_periods = cpu.get("nr_throttled")
    if cpus := _value(folder, "cpuset.cpus.effective", parse_cpus, missed):
        found.cpus = len(cpus)
    found.memory = _value(folder, "memory.current", parse_number, missed)
    if found.memory is not None:
        stat = _value(folder, "memory.stat", parse_keyed, missed) or {}
        found.anonymous, found.shared = stat.get("anon"), stat.get("shmem")
        if (cached := stat.get("file")) is not None:
            found.file = max(0, cached - (found.shared or 0))  # they are not counted at one moment
        found.peak = _value(folder, "memory.peak", parse_number, missed)
        found.limit = _value(folder, "memory.max", parse_limit, missed)
        found.swap = _value(folder, "memory.swap.current", parse_number, missed)
        found.oom_kills = (_value(folder, "memory.events", parse_keyed, missed) or {}).get("oom_kill")
    found.cpu_pressure = _value(folder, "cpu.pressure", parse_pressure, missed)
    found.memory_pressure = _value(folder, "memory.pressure", parse_pressure, missed)
    found.io_pressure = _value(folder, "io.pressure", parse_pressure, missed)
    if devices := _value(folder, "io.stat", parse_io, missed):
        found.device_read_bytes, found.device_written_bytes = devices


def _read_cpuacct(folder: str, found: Figures, missed: Missed) -> None:
    found.cpu_seconds = _seconds(_value(folder, "cpuacct.usage", parse_number, missed), 1e9)
    stat = _value(folder, "cpuacct.stat", parse_keyed, missed) or {}
    found.user_seconds, found.system_seconds = (_seconds(stat.get(name), _TICKS) for name in ("user", "system"))
    cores = read(f"{folder}/cpuacct.usage_percpu", missed)
    if cores is not None:
        numbers = [parse_number(one) for one in cores.split()]
        # a job touches few of the many that a node has
        found.core_seconds = {core: used / 1e9 for core, used in enumerate(numbers) if used}


def _read_memory(folder: str, found: Figures, missed: Missed) -> None:
    found.memory = _value(folder, "memory.usage_in_bytes", parse_number, missed)
    stat = _value(folder, "memory.stat", parse_keyed, missed) or {}
    found.anonymous, found.shared = stat.get("total_rss"), stat.get("total_shmem")
    found.swap = stat.get("total_swap")
    if (cached := stat.get("total_cache")) is not None:
        found.file = max(0, cached - (found.shared or 0))
    found.peak = _value(folder, "memory.max_usage_in_bytes", parse_number, missed)
    found.limit = _value(folder, "memory.limit_in_bytes", parse_limit, missed)
    # this one is of the folder alone; steps and tasks have their own
    found.oom_kills = (_value(folder, "memory.oom_control", parse_keyed, missed) or {}).get("oom_kill")


def _read_cpuset(folder: str, found: Figures, missed: Missed) -> None:
    if cpus := _value(folder, "cpuset.cpus", parse_cpus, missed):
        found.cpus = len(cpus)
        if found.core_seconds is not None:
            # those that it may use are told at 0 too
            found.core_seconds = dict.fromkeys(cpus, 0.0) | found.core_seconds


def _read_cpu(folder: str, found: Figures, missed: Missed) -> None:
    stat = _value(folder, "cpu.stat", parse_keyed, missed) or {}
    found.throttled_seconds, found.throttled_periods = (
        _seconds(stat.get("throttled_time"), 1e9),
        stat.get("nr_throttled"),
    )


def _read_blkio(folder: str, found: Figures, missed: Missed) -> None:
    if devices := _value(folder, "blkio.throttle.io_service_bytes_recursive", parse_blkio, missed):
        found.device_read_bytes, found.device_written_bytes = devices


# in this order: the cores that a job may use are laid over those that it used
_V1: dict[str, Callable[[str, Figures, Missed], None]] = {
    "cpuacct": _read_cpuacct,
    "memory": _read_memory,
    "cpuset": _read_cpuset,
    "cpu": _read_cpu,
    "blkio": _read_blkio,
}


class Local(msgspec.Struct, frozen=True, gc=False):
    """What is counted in one folder, and not in those above it."""

    oom_kills: int = 0
    throttled_seconds: float = 0.0
    throttled_periods: int = 0

    def __add__(self, other: Local) -> Local:
        return Local(
            self.oom_kills + other.oom_kills,
            self.throttled_seconds + other.throttled_seconds,
            self.throttled_periods + other.throttled_periods,
        )


def local(folders: Mapping[str, str], inside: str, missed: Missed) -> Local:
    kills = periods = 0
    seconds = 0.0
    if "memory" in folders:
        found = _value(f"{folders['memory']}/{inside}", "memory.oom_control", parse_keyed, missed) or {}
        kills = found.get("oom_kill", 0)
    for controller, name, per_second in ((V2, "throttled_usec", 1e6), ("cpu", "throttled_time", 1e9)):
        if controller in folders:
            found = _value(f"{folders[controller]}/{inside}", "cpu.stat", parse_keyed, missed) or {}
            seconds += found.get(name, 0) / per_second
            periods += found.get("nr_throttled", 0)
    return Local(kills, seconds, periods)


def _seconds(value: int | None, per_second: float) -> float | None:
    return None if value is None else value / per_second


# --- processes ------------------------------------------------------------------------------------------------------

_ORDER = (V2, "cpuacct", "memory", "cpuset", "freezer", "pids", "devices", "cpu", "blkio")


def processes(folders: Mapping[str, str], missed: Missed) -> dict[int, str]:
    """The processes of a job, and the folder within the job's where each is."""
    for controller in _ORDER:
        if controller in folders:
            found: dict[int, str] = {}
            _walk(folders[controller], "", found, missed)
            if found:
                return found
    return {}


def _walk(folder: str, inside: str, found: dict[int, str], missed: Missed, depth: int = 0) -> None:
    for pid in (read(f"{folder}/cgroup.procs", missed) or b"").split():
        number = parse_number(pid)
        if number:
            found[number] = inside
        else:
            missed.add(NAMESPACE)  # 0: a process that is not of our namespace
    if depth >= _DEEPEST:
        return
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno not in GONE:
            missed.add("error")
        return
    for name in names:
        _walk(f"{folder}/{name}", f"{inside}/{name}" if inside else name, found, missed, depth + 1)


_DEEPEST = 16  # containers make groups of their own below a task's
