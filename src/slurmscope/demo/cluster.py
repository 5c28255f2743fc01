# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The hardware of the simulated cluster: its nodes, what they have left, its partitions and its reservations.

Memory is in MiB here, as in slurm.conf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from slurmscope.slurm.values import hosts

if TYPE_CHECKING:
    from slurmscope.demo.jobs import Job

HOUR, DAY, WEEK = 3600, 86400, 604800
# 1970 began on a Thursday
_FIRST_MONDAY = 4 * DAY


@dataclass(frozen=True, slots=True)
class Kind:
    """A model of node, and how many there are of it."""

    prefix: str
    digits: int
    count: int
    cpus: int
    memory: int
    gpu: str = ""
    gpus: int = 0
    system_cpus: int = 0  # kept from jobs (CoreSpecCount)
    system_memory: int = 4096  # kept from jobs (MemSpecLimit)
    weight: int = 10
    features: tuple[str, ...] = ()


KINDS = (
    Kind("cpu", 3, 128, 64, 256_000, features=("icelake", "ib")),
    Kind("big", 2, 8, 128, 2_063_000, system_memory=8192, weight=50, features=("genoa", "ib")),
    Kind("l40s-", 2, 12, 64, 515_000, "l40s", 4, system_memory=8192, weight=60, features=("genoa",)),
    Kind("mig-", 2, 4, 64, 515_000, "a100_3g.20gb", 8, system_memory=8192, weight=70, features=("milan", "mig")),
    Kind("a100-", 2, 32, 64, 515_000, "a100", 4, system_memory=8192, weight=80, features=("milan", "ib")),
    Kind("h100-", 2, 16, 96, 1_031_000, "h100", 8, 8, 16_384, weight=100, features=("sapphire", "ib")),
)


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    node_list: str
    max_time: int
    default_time: int
    tier: int = 1
    factor: int = 1
    qos: str | None = None
    default: bool = False


PARTITIONS = (
    Partition("cpu", "cpu[003-128]", 3 * DAY, 4 * HOUR, default=True),
    Partition("gpu", "l40s-[01-12],mig-[01-04],a100-[01-32],h100-[01-16]", 3 * DAY, 4 * HOUR),
    Partition("long", "cpu[065-128],big[05-08]", 14 * DAY, 3 * DAY),
    Partition("debug", "cpu[001-004],mig-[01-04]", HOUR, 900, tier=10, factor=10, qos="debug"),
    Partition("bigmem", "big[01-08]", 7 * DAY, DAY),
)


@dataclass(frozen=True, slots=True)
class Licence:
    name: str
    total: int
    remote: bool


LICENCES = (Licence("ansys", 24, True), Licence("matlab", 60, False))


class Fault:
    """Why a node takes no jobs."""

    __slots__ = ("reason", "since", "state", "user")

    DRAIN, DOWN, REBOOT_REQUESTED, REBOOT_ISSUED = "drain", "down", "reboot requested", "reboot issued"

    def __init__(self, state: str, reason: str, user: str, since: int) -> None:
        self.state = state
        self.reason = reason
        self.user = user
        self.since = since


class Node:
    """A node and what is left of it."""

    __slots__ = (
        "boot_time",
        "closes",
        "cpus",
        "fault",
        "free_cpus",
        "free_gpus",
        "free_memory",
        "index",
        "jobs",
        "kind",
        "maintained",
        "memory",
        "name",
        "number",
        "open",
        "partitions",
        "planned",
        "reservation",
        "timeline",
        "weight",
    )

    def __init__(self, kind: Kind, number: int, index: int, boot_time: int) -> None:
        self.kind = kind
        self.number = number
        self.index = index
        self.name = f"{kind.prefix}{number:0{kind.digits}d}"
        self.partitions: tuple[str, ...] = ()
        self.weight = kind.weight
        # what jobs can have at most, and what is left of it
        self.cpus = self.free_cpus = kind.cpus - kind.system_cpus
        self.memory = self.free_memory = kind.memory - kind.system_memory
        self.free_gpus = kind.gpus
        self.jobs: dict[Job, None] = {}  # what holds it, completing jobs included; a dict, for it keeps an order
        self.timeline: list[tuple[int, Job]] | None = None  # its jobs by the end of their limits, when last asked for
        self.open = True  # neither a fault nor maintenance; kept up by the machine
        self.fault: Fault | None = None
        self.boot_time = boot_time
        self.planned = False  # kept free for a job that backfill wants to start here
        self.reservation: str | None = None  # the active one that it belongs to, unless that is maintenance
        self.maintained = False  # maintenance has it now
        self.closes: float = inf  # when the coming maintenance begins: jobs must be over by then

    def ends(self) -> list[tuple[int, Job]]:
        """Its jobs, and when each must have gone, the first one first."""
        if self.timeline is None:
            self.timeline = sorted(((job.deadline, job) for job in self.jobs), key=lambda one: (one[0], one[1].id))
        return self.timeline


def build(boot_time: int) -> list[Node]:
    nodes = [
        Node(kind, number, 0, boot_time - 9 * DAY - 97 * number)
        for kind in KINDS
        for number in range(1, kind.count + 1)
    ]
    members = {partition.name: frozenset(hosts(partition.node_list)) for partition in PARTITIONS}
    for index, node in enumerate(nodes):
        node.index = index
        node.partitions = tuple(name for name, inside in members.items() if node.name in inside)
    return nodes


def folded(nodes: Iterable[Node]) -> str:
    """The nodes as a hostlist, as Slurm writes it: `cpu[001-004,007],big02`."""
    spans: dict[Kind, list[list[int]]] = {}
    for node in sorted(nodes, key=lambda one: one.index):
        found = spans.setdefault(node.kind, [])
        if found and found[-1][1] == node.number - 1:
            found[-1][1] = node.number
        else:
            found.append([node.number, node.number])
    parts = []
    for kind, found in spans.items():
        inside = ",".join(
            f"{low:0{kind.digits}d}" if low == high else f"{low:0{kind.digits}d}-{high:0{kind.digits}d}"
            for low, high in found
        )
        single = len(found) == 1 and found[0][0] == found[0][1]
        parts.append(f"{kind.prefix}{inside}" if single else f"{kind.prefix}[{inside}]")
    return ",".join(parts)


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    start: int
    end: int
    node_list: str
    flags: tuple[str, ...]
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()

    @property
    def maintenance(self) -> bool:
        return "MAINT" in self.flags


COURSE = "hpc101"
# A rack is serviced each week, one after the other.
_SERVICED = (
    *(f"cpu[{8 * rack + 1:03d}-{8 * rack + 8:03d}],a100-[{2 * rack + 1:02d}-{2 * rack + 2:02d}]" for rack in range(15)),
    "big[01-04],h100-[01-04],l40s-[01-06]",
    "big[05-08],h100-[05-08],l40s-[07-12]",
    "mig-[01-04],h100-[09-16],a100-[31-32]",
)
_SERVICE_AT, _SERVICE_TIME = DAY + 5 * HOUR, 4 * HOUR  # Tuesdays from 05:00 to 09:00 UTC
_TERM = 12 * WEEK


def reservations(now: int) -> tuple[Reservation, ...]:
    """Those that are active at `now`, and the next maintenance."""
    monday = (now - _FIRST_MONDAY) // WEEK
    found = []
    for week in (monday, monday + 1):
        start = _FIRST_MONDAY + week * WEEK + _SERVICE_AT
        end = start + _SERVICE_TIME
        if end <= now:
            continue
        nodes = _SERVICED[week % len(_SERVICED)]
        found.append(Reservation(f"maint-{week % 1000:03d}", start, end, nodes, ("MAINT", "IGNORE_JOBS", "SPEC_NODES")))
        if start > now:
            break
    term = _FIRST_MONDAY + (now - _FIRST_MONDAY) // _TERM * _TERM
    course = Reservation(COURSE, term, term + _TERM, "cpu[125-128]", ("SPEC_NODES",), accounts=(COURSE,))
    return (*found, course)


def next_change(now: int) -> int:
    """When the list of reservations, or which of them are active, will next be another."""
    return int(min(time for one in reservations(now) for time in (one.start, one.end) if time > now))
