# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of a cluster, whatever way it was read.

Rules that every reader and every user of these types may rely on:

- Base units: seconds, bytes, counts. Times are UTC epoch seconds.
- Unknown is ``None`` and never 0.
- A job is (cluster, job id, submit time): Slurm recycles ids. ``Job.key`` is that identity within a cluster.
- A pending array is one record that stands for ``tasks`` tasks; every count counts tasks, and what a record says
  of CPUs, memory, GPUs and nodes is said of one task.
- A node's state is a base and a set of flags. Nothing is folded into "drain".
- allocated + idle + other = total, for CPUs and for memory; allocated + idle + stranded + unavailable = total for
  GPUs.
- A part that could not be read keeps its last good value and grows old; it never turns into zeros.

Structs are not tracked by the garbage collector (``gc=False``): they never refer back to what refers to them, and
a hundred thousand of them would make every collection slow.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

# Every state that squeue can print: the base states first, then the flags that it prints in place of the base.
PENDING, RUNNING, SUSPENDED = "PENDING", "RUNNING", "SUSPENDED"
JOB_BASE_STATES = (
    PENDING,
    RUNNING,
    SUSPENDED,
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
)
JOB_STATES = (*JOB_BASE_STATES, "COMPLETING", "CONFIGURING")
# Slurm prints these in place of a base state: the job's base state is RUNNING (or it is suspended by its owner),
# so that it holds its allocation.
HOLDING_STATES = frozenset(
    {
        RUNNING,
        SUSPENDED,
        "COMPLETING",
        "CONFIGURING",
        "RESIZING",
        "SIGNALING",
        "STOPPED",
        "POWER_UP_NODE",
        "EXPEDITING",
    }
)
# … and these in place of PENDING: the job waits (again).
WAITING_STATES = frozenset({PENDING, "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})

NODE_BASE_STATES = ("IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")
NODE_FLAGS = (
    "BLOCKED",
    "CLOUD",
    "COMPLETING",
    "DRAIN",
    "DYNAMIC_FUTURE",
    "DYNAMIC_NORM",
    "EXTERNAL",
    "FAIL",
    "INVALID_REG",
    "MAINT",
    "NOT_RESPONDING",
    "PLANNED",
    "POWERED_DOWN",
    "POWERING_DOWN",
    "POWERING_UP",
    "POWER_DOWN",
    "POWER_UP",
    "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
    "RESERVED",
)
_USABLE_BASES = frozenset({"IDLE", "MIXED", "ALLOCATED"})
# With any of these a job cannot start on the node now. PLANNED, RESERVED, COMPLETING and a requested reboot leave it
# schedulable, for some jobs at least; and a node that is powered down is given to a job like any other, and booted.
_UNUSABLE_FLAGS = frozenset(
    {
        "BLOCKED",
        "DRAIN",
        "FAIL",
        "INVALID_REG",
        "MAINT",
        "NOT_RESPONDING",
        "POWERING_DOWN",
        "POWER_DOWN",
        "REBOOT_ISSUED",
    }
)


# What every way of reading a cluster fills in; without these nothing can be said of a job or a node. Times and texts
# that some have and some have not (a reason, a start) are not among them, nor is what a way may not know.
CRUCIAL_JOB_FIELDS = (
    "id",
    "tasks",
    "name",
    "user",
    "account",
    "partition",
    "qos",
    "state",
    "priority",
    "submit_time",
    "cpus",
    "nodes",
)
CRUCIAL_NODE_FIELDS = (
    "name",
    "state",
    "partitions",
    "cpus",
    "cpus_effective",
    "cpus_allocated",
    "memory",
    "memory_allocated",
)


class Job(msgspec.Struct, frozen=True, gc=False):
    """One record of the queue: a job, an array task, or the pending rest of an array."""

    id: int
    array_id: int | None  # the id of the array that the record belongs to
    array_tasks: str | None  # "3" for one task, "2-6%2" for the pending rest
    tasks: int  # how many tasks the record stands for
    name: str
    user: str
    account: str
    partition: str  # "a,b" while a job waits in several
    qos: str
    state: str
    reason: str | None
    priority: int | None
    submit_time: int | None
    eligible_time: int | None
    start_time: int | None  # of a waiting job: the scheduler's guess
    end_time: int | None  # of a running job: when its limit ends
    time_limit: int | None  # None: no limit
    cpus: int
    memory: int | None
    gpus: dict[str, int]  # by type; "" for GPUs asked for without one
    nodes: int
    node_list: str  # hostlist of the nodes that it holds, "" while it waits
    reservation: str | None
    dependency: str | None
    features: str | None
    licenses: str | None
    login_node: str | None  # the host that it was submitted from
    restarts: int | None
    exit_code: str | None  # status and signal, "3:0"

    @property
    def key(self) -> tuple[int, int]:
        """The job's identity within its cluster, over recycled ids."""
        return self.id, self.submit_time or 0

    @property
    def waiting(self) -> bool:
        return self.state in WAITING_STATES

    @property
    def holding(self) -> bool:
        """It has an allocation: its CPUs, memory and GPUs are taken."""
        return self.state in HOLDING_STATES

    @property
    def partitions(self) -> list[str]:
        return self.partition.split(",")


class Node(msgspec.Struct, frozen=True, gc=False):
    name: str
    state: str  # one of NODE_BASE_STATES
    flags: frozenset[str]
    partitions: tuple[str, ...]
    cpus: int
    cpus_effective: int  # less the ones kept for the system
    cpus_allocated: int
    load: float | None
    memory: int
    memory_reserved: int | None  # kept for the system (MemSpecLimit)
    memory_allocated: int
    memory_free: int | None  # as the node's kernel sees it
    gpus: dict[str, int]
    gpus_allocated: dict[str, int]
    weight: int | None
    version: str | None
    features: tuple[str, ...]
    boot_time: int | None
    reason: str | None
    reason_user: str | None
    reason_time: int | None
    # What follows of the above. It is worked out once, for it is asked for dozens of times at each poll.
    usable: bool = False  # a job could start here now, if there were room
    cpus_idle: int = 0
    memory_idle: int = 0  # memory that a job could still get, which is not what the kernel calls free
    threads_per_core: int | None = None  # of its CPUs; 1 where Slurm counts cores, whatever threads these have

    def __post_init__(self) -> None:
        usable = self.state in _USABLE_BASES and self.flags.isdisjoint(_UNUSABLE_FLAGS)
        cpus = self.cpus_effective - self.cpus_allocated
        memory = self.memory - (self.memory_reserved or 0) - self.memory_allocated
        msgspec.structs.force_setattr(self, "usable", usable)
        msgspec.structs.force_setattr(self, "cpus_idle", max(0, cpus) if usable else 0)
        msgspec.structs.force_setattr(self, "memory_idle", max(0, memory) if usable else 0)

    @property
    def cpus_other(self) -> int:
        """Neither allocated nor idle: the node is not usable, or keeps them for the system."""
        return max(0, self.cpus - self.cpus_allocated - self.cpus_idle)

    @property
    def memory_other(self) -> int:
        return max(0, self.memory - self.memory_allocated - self.memory_idle)

    def gpu_use(self) -> dict[str, dict[str, int]]:
        """GPUs by type and use. A free GPU is stranded when no CPU or no memory is left beside it."""
        if not self.usable:
            free = "unavailable"
        elif self.cpus_idle and (self.memory_idle or not self.memory):
            free = "idle"
        else:
            free = "stranded"
        uses = {}
        # Gres and GresUsed may disagree on types, where slurm.conf names none: what is taken is taken from some type
        strays = sum(count for kind, count in self.gpus_allocated.items() if kind not in self.gpus)
        for kind, total in self.gpus.items():
            taken = min(total, self.gpus_allocated.get(kind, 0) + strays)
            strays -= taken - min(taken, self.gpus_allocated.get(kind, 0))
            use = {"allocated": taken, "idle": 0, "stranded": 0, "unavailable": 0}
            use[free] = total - taken
            uses[kind] = use
        return uses


class Partition(msgspec.Struct, frozen=True, gc=False):
    name: str
    state: str  # UP, DOWN, DRAIN or INACTIVE
    default: bool | None
    hidden: bool | None
    node_list: str
    nodes: int
    cpus: int
    max_time: int | None
    default_time: int | None
    max_nodes: int | None
    priority_tier: int | None
    priority_factor: int | None
    preempt_mode: str | None
    qos: str | None
    allow_accounts: tuple[str, ...]  # empty: all


class Reservation(msgspec.Struct, frozen=True, gc=False):
    name: str
    state: str | None
    start_time: int
    end_time: int
    node_list: str
    nodes: int
    cores: int | None
    flags: tuple[str, ...]
    partition: str | None
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    licenses: str | None
    tres: dict[str, int]

    def active(self, now: float) -> bool:
        return self.start_time <= now < self.end_time


class License(msgspec.Struct, frozen=True, gc=False):
    name: str
    total: int
    used: int
    free: int
    reserved: int
    remote: bool
    nodes: str | None = None  # of one that belongs to some nodes only, of which there may be several by one name


class Rpc(msgspec.Struct, frozen=True, gc=False):
    """How often a daemon was asked something, or by somebody, since its statistics began."""

    name: str
    id: int | None
    calls: int
    seconds: float


class Cycles(msgspec.Struct, frozen=True, gc=False):
    """One of slurmctld's two schedulers."""

    total: int
    last_seconds: float
    max_seconds: float | None
    mean_seconds: float | None
    mean_depth: float | None
    last_queue_length: int
    per_minute: float | None
    exits: dict[str, int]  # why its cycles ended; empty before Slurm 23.02


class Backfill(msgspec.Struct, frozen=True, gc=False):
    """What only the backfill scheduler tells."""

    jobs_since_start: int
    jobs_since_cycle: int
    het_components: int | None
    last_when: int | None
    last_depth: int | None
    last_depth_tried: int | None
    mean_depth_tried: float | None
    mean_queue_length: float | None
    last_table_size: int | None
    mean_table_size: float | None


class Scheduler(msgspec.Struct, frozen=True, gc=False):
    """All that sdiag tells."""

    time: int
    since: int  # when the statistics were last reset
    threads: int
    agent_queue: int
    agents: int | None
    agent_threads: int | None
    dbd_queue: int | None
    jobs: dict[str, int]  # submitted, started, completed, canceled, failed since then
    job_states: dict[str, int]  # pending, running: as slurmctld counted them at `job_states_time`
    job_states_time: int | None
    main: Cycles
    backfill: Cycles
    backfill_more: Backfill
    latency_seconds: float | None  # of 1000 calls to gettimeofday()
    rpcs: tuple[Rpc, ...]
    rpc_users: tuple[Rpc, ...]
    rpcs_pending: dict[str, int]


class Share(msgspec.Struct, frozen=True, gc=False):
    """One row of the fair-share tree."""

    account: str
    user: str | None  # None: the account itself
    partition: str | None  # of an association that holds in one partition only
    parent: str | None
    depth: int
    raw_shares: int | None  # None: "parent", or the root
    norm_shares: float | None
    raw_usage: float | None  # CPU-seconds (or billing-seconds), decayed
    norm_usage: float | None
    effective_usage: float | None
    fair_share: float | None
    level_fs: float | None


class Limit(msgspec.Struct, frozen=True, gc=False):
    """One limit that is set, with what counts against it."""

    kind: str  # "association" or "qos"
    account: str | None
    user: str | None
    partition: str | None
    qos: str | None
    name: str  # as sacctmgr spells it: GrpTRES, MaxJobs, …
    tres: str | None  # "cpu", "gres/gpu:a100", … for limits on trackable resources
    limit: float
    used: float | None  # None: Slurm keeps no tally for this one (it holds for each job)

    @property
    def unit(self) -> str:
        """The base unit: `count`, `bytes`, `seconds`, or a product, such as `count-seconds` of CPUs."""
        timed = "Mins" in self.name or "Wall" in self.name
        counted = "bytes" if self.tres in ("mem", "vmem") or (self.tres or "").startswith("bb/") else "count"
        if not timed:
            return counted
        return f"{counted}-seconds" if self.tres else "seconds"


class Coordinator(msgspec.Struct, frozen=True, gc=False):
    """Somebody who may see and manage an account, as Slurm's accounting has it; of its parent's too."""

    account: str
    user: str


class Controller(msgspec.Struct, frozen=True, gc=False):
    host: str
    role: str  # primary, backup, backup1, …
    up: bool


class Accounting(msgspec.Struct, frozen=True, gc=False):
    """slurmdbd, as `sacctmgr show stats` has it."""

    time: int | None
    since: int
    rollup_last: int | None
    rollup_cycles: int | None
    rollup_seconds: float | None
    rollup_last_seconds: float | None
    rollup_max_seconds: float | None
    rpcs: tuple[Rpc, ...]
    rpc_users: tuple[Rpc, ...]


class Config(msgspec.Struct, frozen=True, gc=False):
    """The few lines of `scontrol show config` that change how the rest is read."""

    cluster: str  # "": not told
    version: str
    boot_time: int | None
    settings: dict[str, str]


class Part(msgspec.Struct, Generic[T], gc=False):
    """One part of a snapshot: the last good value, when and whence it came, and what is wrong since."""

    value: T | None = None
    time: float | None = None  # when the value was read
    source: str = ""
    seconds: float = 0.0  # what the last try took
    rows_skipped: int = 0  # in the value: rows that could not be read
    error: str | None = None  # of the last try; None when that was good
    failures: int = 0  # tries in a row without success

    @property
    def good(self) -> bool:
        return self.value is not None and self.error is None


class Cost(msgspec.Struct):
    """What one part has cost since the start."""

    runs: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0
    bytes: int = 0
    rows_skipped: int = 0


class Snapshot(msgspec.Struct):
    """A cluster as far as it is known now."""

    cluster: str = ""
    config: Part[Config] = msgspec.field(default_factory=Part)
    jobs: Part[tuple[Job, ...]] = msgspec.field(default_factory=Part)
    nodes: Part[tuple[Node, ...]] = msgspec.field(default_factory=Part)
    scheduler: Part[Scheduler] = msgspec.field(default_factory=Part)
    controllers: Part[tuple[Controller, ...]] = msgspec.field(default_factory=Part)
    partitions: Part[tuple[Partition, ...]] = msgspec.field(default_factory=Part)
    reservations: Part[tuple[Reservation, ...]] = msgspec.field(default_factory=Part)
    licenses: Part[tuple[License, ...]] = msgspec.field(default_factory=Part)
    shares: Part[tuple[Share, ...]] = msgspec.field(default_factory=Part)
    limits: Part[tuple[Limit, ...]] = msgspec.field(default_factory=Part)
    accounting: Part[Accounting] = msgspec.field(default_factory=Part)
    coordinators: Part[tuple[Coordinator, ...]] = msgspec.field(default_factory=Part)

    def part(self, name: str) -> Part[Any]:
        found: Part[Any] = getattr(self, name)
        return found

    def replaced(self, **parts: Part[Any]) -> Snapshot:
        """A snapshot with some parts new. The others are shared: parts are never changed once they are in one."""
        return msgspec.structs.replace(self, **parts)


PARTS = tuple(name for name in Snapshot.__struct_fields__ if name != "cluster")
