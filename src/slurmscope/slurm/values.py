# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The small languages inside Slurm's output: times, durations, sizes, TRES, GRES, hostlists, array ids, states.

Pure functions on text. Those that cannot make sense of their argument raise ValueError; the parsers of rows turn
that into one skipped row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import isfinite, isnan

from slurmscope.model import NODE_BASE_STATES

# What Slurm prints for "there is none", by command, field and version.
ABSENT = frozenset(
    {"", "N/A", "n/a", "None", "NONE", "(null)", "Unknown", "UNKNOWN", "NOT_SET", "n/s", "None assigned"}
)
# 0 and the two highest 32-bit numbers stand for "no time"
_NO_TIMES = frozenset({0, 0xFFFFFFFE, 0xFFFFFFFF})
MINUTE = 60


def text(value: str) -> str | None:
    return None if value in ABSENT else value


def names(value: str) -> tuple[str, ...]:
    """A comma list; ALL and absent are the empty one."""
    return () if value in ABSENT or value == "ALL" else tuple(value.split(","))


def number(value: str) -> int | None:
    return None if value in ABSENT or value in ("UNLIMITED", "INFINITE") else int(value)


def decimal(value: str) -> float | None:
    """Also "inf" and "nan", which sshare prints: the first is a number, the second is none."""
    if value in ABSENT:
        return None
    found = float(value)
    return None if isnan(found) else found


def epoch(value: str) -> int | None:
    """A time as SLURM_TIME_FORMAT=%s makes Slurm print it."""
    if value in ABSENT:
        return None
    seconds = int(value)
    return None if seconds in _NO_TIMES else seconds


@lru_cache(4096)
def duration(value: str) -> int | None:
    """Seconds in `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS`, or `D-HH`, `D-HH:MM`; None when there is no limit."""
    if value in ABSENT or value in ("UNLIMITED", "INFINITE", "Partition_Limit", "INVALID"):
        return None
    days, dash, clock = value.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if len(parts) > 3 or min(parts) < 0:
        raise ValueError(f"not a duration: {value!r}")
    if dash:  # days are followed by hours first, minutes and seconds may be missing
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return int(days) * 86400 + hours * 3600 + minutes * 60 + seconds
    if len(parts) == 1:  # a bare number is minutes wherever Slurm takes or prints one
        return parts[0] * 60
    hours, minutes, seconds = [0, 0, *parts][-3:]
    return hours * 3600 + minutes * 60 + seconds


_UNITS = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


@lru_cache(4096)
def size(value: str, unit: str = "M") -> int:
    """Bytes in `4000M`, `62.50G`, `0`; a bare number is in `unit`."""
    scale = _UNITS.get(value[-1:].upper())
    return _scaled(value, _UNITS[unit]) if scale is None else _scaled(value[:-1], scale)


def _scaled(amount: str, scale: int) -> int:
    if amount.isascii() and amount.isdigit():
        return int(amount) * scale
    product = float(amount) * scale
    if not isfinite(product):
        raise ValueError(f"not an amount: {amount!r}")
    return round(product)


def _count(value: str) -> int:
    """A plain count, which Slurm may shorten with a decimal K, M, …"""
    scale = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.get(value[-1:])
    return int(value) if scale is None else _scaled(value[:-1], scale)


_IN_BYTES = frozenset({"mem", "vmem", "gres/gpumem"})


@lru_cache(8192)
def _tres(value: str) -> tuple[tuple[str, int], ...]:
    found = []
    for item in value.split(","):
        name, equals, amount = item.rpartition("=")
        if not equals or not name:
            raise ValueError(f"not a TRES list: {value!r}")
        if name in _IN_BYTES or name.startswith("bb/"):
            found.append((name, size(amount)))
        else:
            found.append((name, _count(amount)))
    return tuple(found)


def tres(value: str) -> dict[str, int]:
    """`cpu=4,mem=125G,gres/gpu:a100=2` as counts, memory in bytes."""
    return {} if value in ABSENT else dict(_tres(value))


_USED = re.compile(r"(?:^|,)(fs/disk|mem)=([^,]+)")


def used_bytes(value: str) -> tuple[int | None, int | None]:
    """Memory, and what went to or from disks, in bytes, of what sacct tells as used:
    `cpu=00:00:02,fs/disk=5709,mem=125054976,vmem=128077824`."""
    memory = disk = None
    for name, amount in _USED.findall(value):
        count = int(amount) if amount.isdigit() else size(amount, "B")
        if name == "mem":
            memory = count
        else:
            disk = count
    return memory, disk


def gpus_of_tres(found: dict[str, int]) -> dict[str, int]:
    """GPUs by type; those that no type accounts for are under ""."""
    total = found.get("gres/gpu")
    typed = {name[9:]: count for name, count in found.items() if name.startswith("gres/gpu:") and count}
    if total is None:
        return typed
    rest = total - sum(typed.values())
    if rest > 0:
        typed[""] = rest
    return typed


_GRES = re.compile(r"([^:,()=]+)(?::([^,()]*?))??(?::([0-9.]+[KMGT]?))?(?:\(([^()]*)\))?$")


def _items(value: str, opening: str, closing: str) -> Iterator[str]:
    """The items of a comma list, whose commas inside brackets do not count."""
    depth = start = 0
    for at, char in enumerate(value):
        if char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
        elif char == "," and not depth:
            yield value[start:at]
            start = at + 1
    if depth:
        raise ValueError(f"a bracket that does not pair: {value[:80]!r}")
    yield value[start:]


@lru_cache(4096)
def gres(value: str) -> tuple[tuple[str, str, int], ...]:
    """(name, type, count) of each item of `gpu:a100:4(S:0-1),gpu:1,tpu:0`; the type is "" when there is none."""
    if value in ABSENT:
        return ()
    found = []
    for item in _items(value, "(", ")"):
        match = _GRES.match(item.removeprefix("gres/").removeprefix("gres:"))
        if match is None:
            raise ValueError(f"not a GRES: {item!r}")
        name, kind, count, _ = match.groups()
        kind = (kind or "").removesuffix(":no_consume").removeprefix("no_consume")
        found.append((name, "" if kind == "(null)" else kind, 1 if count is None else _count(count)))
    return tuple(found)


def gpus_of_gres(value: str) -> dict[str, int]:
    """GPUs by type, MIG slices by the name that Slurm has for them. Shards and MPS are shares, not GPUs."""
    found: dict[str, int] = {}
    # `gpu:(null):0(IDX:N/A)` is how an untyped GPU that nobody uses is printed
    for name, kind, count in gres(value.replace(":(null)", "")):
        if name == "gpu" and count:
            found[kind] = found.get(kind, 0) + count
    return found


# sinfo and scontrol hang these on a state
_SUFFIX_FLAGS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# sinfo folds a base and its flags into one word; this unfolds them as far as the word tells
_FOLDED = {
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "UNK": ("UNKNOWN",),
    "ERR": ("ERROR",),
    "FUTR": ("FUTURE",),
    "COMP": ("ALLOCATED", "COMPLETING"),
    "COMPLETING": ("ALLOCATED", "COMPLETING"),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAIN": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAIL": ("IDLE", "FAIL"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "FAILG": ("ALLOCATED", "FAIL"),
    "MAINT": ("IDLE", "MAINT"),
    "RESERVED": ("IDLE", "RESERVED"),
    "RESV": ("IDLE", "RESERVED"),
    "PLANNED": ("IDLE", "PLANNED"),
    "PLND": ("IDLE", "PLANNED"),
    "INVAL": ("DOWN", "INVALID_REG"),
    "REBOOT": ("IDLE", "REBOOT_ISSUED"),
    "BOOT": ("IDLE", "REBOOT_ISSUED"),
    "BLOCKED": ("IDLE", "BLOCKED"),
    "POWERED_DOWN": ("IDLE", "POWERED_DOWN"),
    "POWER_DOWN": ("IDLE", "POWER_DOWN"),
    "POWERING_DOWN": ("IDLE", "POWERING_DOWN"),
    "POW_DN": ("IDLE", "POWERING_DOWN"),
    "POWERING_UP": ("IDLE", "POWERING_UP"),
    "POW_UP": ("IDLE", "POWERING_UP"),
}
# other spellings of one flag
_FLAG_NAMES = {
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "FAILING": "FAIL",
    "NO_RESPOND": "NOT_RESPONDING",
    "MAINTENANCE": "MAINT",
    "REBOOT": "REBOOT_REQUESTED",
    "RES": "RESERVED",
    "DYN_FUTURE": "DYNAMIC_FUTURE",
    "DYN_NORM": "DYNAMIC_NORM",
    "DYNAMIC_NORMAL": "DYNAMIC_NORM",
    "INVALID": "INVALID_REG",
}


@lru_cache(1024)
def node_state(value: str) -> tuple[str, frozenset[str]]:
    """Base and flags of `IDLE+DRAIN`, `DOWN*+DRAIN`, `mix-`, `drained$`, `IDLE+CLOUD+POWERED_DOWN`, …

    A word that is not known stays a flag under its own name, so that a state that Slurm invents tomorrow is seen.
    """
    base: str | None = None
    flags: set[str] = set()
    for word in value.upper().split("+"):
        while word and word[-1] in _SUFFIX_FLAGS:
            flags.add(_SUFFIX_FLAGS[word[-1]])
            word = word[:-1]  # noqa: PLW2901 - the word is peeled from its end
        if not word:
            continue
        if base is None and word in NODE_BASE_STATES:
            base = word
        elif base is None and word in _FOLDED:
            base, *more = _FOLDED[word]
            flags.update(more)
        else:
            flags.add(_FLAG_NAMES.get(word, word))
    if base is None and not flags:
        raise ValueError(f"not a node state: {value!r}")
    return base or "UNKNOWN", frozenset(flags)


class TooMany(ValueError):
    """A hostlist or an array stands for more than anybody has: nothing is gained by filling the memory."""


_MOST = 2_000_000
_BRACKETS = re.compile(r"([^\[\],]*)\[([^\[\]]*)\]")


def _ranges(inside: str) -> Iterator[tuple[int, int, int]]:
    """(first, last, width) of each item of `1-4,08,10-12`."""
    for item in inside.split(","):
        first, dash, last = item.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"not a range: {item!r}")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise ValueError(f"a range that ends before it begins: {item!r}")
        yield low, high, len(first)


def host_count(value: str) -> int:
    """How many hosts a hostlist names, without naming them."""
    if value in ABSENT:
        return 0
    total = 0
    for item in _items(value, "[", "]"):
        hosts = 1
        for _, inside in _BRACKETS.findall(item):
            hosts *= sum(high - low + 1 for low, high, _ in _ranges(inside))
        total += hosts
    return total


@lru_cache(1024)
def hosts(value: str) -> tuple[str, ...]:
    """The hosts that `n[1-2],rack[1-2]n[01-16]` names, in order."""
    if value in ABSENT:
        return ()
    if host_count(value) > _MOST:
        raise TooMany(f"more than {_MOST} hosts: {value[:80]!r}")
    found: list[str] = []
    for item in _items(value, "[", "]"):
        prefixes = [""]
        end = 0
        for match in _BRACKETS.finditer(item):
            before, inside = match.groups()
            tails = [f"{n:0{width}d}" for low, high, width in _ranges(inside) for n in range(low, high + 1)]
            prefixes = [prefix + before + tail for prefix in prefixes for tail in tails]
            end = match.end()
        found.extend(prefix + item[end:] for prefix in prefixes)
    if any("[" in host or "]" in host for host in found):
        raise ValueError(f"brackets that do not pair: {value!r}")
    return tuple(found)


def threads_per_core(cpus: int, sockets: int | None, cores: int | None, threads: int | None) -> int | None:
    """How many of a node's CPUs are one core, with so many cores a socket.

    Slurm counts hardware threads as CPUs, unless slurm.conf gives a node as many CPUs as it has cores.
    """
    if not threads or not sockets or not cores:
        return threads or None
    return min(threads, max(1, cpus // (sockets * cores)))


def exit_code(value: str) -> str | None:
    """Status and signal, `3:0`; squeue of 22.05 prints what wait() gave, 768."""
    if not value.isdigit():
        return text(value)
    return f"{int(value) >> 8}:{int(value) & 127}"


def job_id(value: str) -> tuple[int, str | None]:
    """The id and the tasks of `4`, `4_2`, `4_[2-6%2]`; of the component `4+1` of a heterogeneous job, 4."""
    number_, underscore, spec = value.partition("_")
    if not underscore:
        return int(number_.partition("+")[0]), None
    if not spec:
        raise ValueError(f"not a job id: {value[:80]!r}")
    return int(number_), spec


def tasks_of_bits(value: str) -> str:
    """`1-2,4-6` for `0x76`."""
    bits = bin(int(value, 16))[:1:-1]
    spans: list[list[int]] = []
    for task, bit in enumerate(bits):
        if bit == "1":
            if spans and spans[-1][1] == task - 1:
                spans[-1][1] = task
            else:
                spans.append([task, task])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def array_size(spec: str) -> tuple[int, bool]:
    """How many tasks `3`, `[2-6%2]`, `1-100000:7%50` or `1,3-5` stands for, and whether that is all.

    squeue cuts long lists short unless SLURM_BITSTR_LEN=0, with `...` or in the middle of a word and without the
    closing bracket; then the count is only a floor.
    """
    whole = "..." not in spec and spec.startswith("[") == spec.endswith("]")
    items = spec.strip("[]").partition("%")[0].split(",")
    total = 0
    for at, item in enumerate(items):
        span, _, step = item.partition(":")
        first, dash, last = span.partition("-")
        if not whole and at == len(items) - 1:  # what it was cut in says no more than that there is one more
            total += first.isdigit()
            continue
        if not first.isdigit() or (dash and not last.isdigit()) or (step and not step.isdigit()):
            raise ValueError(f"not an array's tasks: {spec[:80]!r}")
        low, high, stride = int(first), int(last) if dash else int(first), int(step or 1)
        if high < low or stride < 1:
            raise ValueError(f"not an array's tasks: {spec[:80]!r}")
        total += (high - low) // stride + 1
    if total > 2**31:
        raise TooMany(f"more tasks than an array can have: {spec[:80]!r}")
    return total, whole
