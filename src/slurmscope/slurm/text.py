# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Slurm's text output to the model: pure functions from bytes.

No row can break a parser: one that cannot be read is counted, kept as a sample for the log, and skipped.

Bytes that are not UTF-8 (anybody may put them into a job's name) become `\\xNN`, so that no value can break a sink
later on and none is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from sys import intern
from typing import Any, Generic, TypeVar

import msgspec

from slurmscope.model import (
    Config,
    Controller,
    Job,
    License,
    Node,
    Partition,
    Reservation,
)
from slurmscope.slurm import probe, values
from slurmscope.slurm.values import decimal, duration, epoch, names, number, text

T = TypeVar("T")
_SAMPLES = 5


class Parsed(msgspec.Struct, Generic[T]):
    value: T
    skipped: int = 0
    samples: list[tuple[str, str]] = []  # (what was wrong, the row), of the first few that were skipped
    memo: Mapping[bytes, Any] = {}  # rows and what they were read as, to be given to the next call
    note: str = ""  # what is to be known of the whole, such as that a count is only a floor

    def skip(self, error: Exception, row: str) -> None:
        self.skipped += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append((f"{type(error).__name__}: {error}", row))

    def check(self, found: int) -> None:
        """Where not one row could be read, the answer is none."""
        if self.skipped and not found:
            raise Malformed(f"no row could be read, such as {self.samples[0][1][:200]!r}: {self.samples[0][0]}")


class Malformed(ValueError):
    """An answer that is not what the command prints at all, so that there is nothing to keep of it."""


def decode(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def read_rows(rows: Iterable[bytes], read: Callable[[str], T], memo: Mapping[bytes, Any]) -> Parsed[tuple[T, ...]]:
    """Each row through `read`, unless it is one that was there the last time: most of a queue is.

    What it costs is then in what changed and not in how long the queue is.
    """
    seen: dict[bytes, T] = {}
    found: list[T] = []
    parsed: Parsed[tuple[T, ...]] = Parsed((), samples=[])
    for row in rows:
        item = memo.get(row)
        if item is None:
            try:
                item = read(decode(row))
            except (ValueError, LookupError, ArithmeticError) as error:
                parsed.skip(error, decode(row))
                continue
        seen[row] = item
        found.append(item)
    parsed.check(len(found))
    parsed.value = tuple(found)
    parsed.memo = seen
    return parsed


# --- squeue ---------------------------------------------------------------------------------------------------


class Marks(msgspec.Struct, frozen=True):
    """What stands behind users' own words, and at the end of the rows, of one run of squeue; see probe.marks()."""

    field: str
    end: str

    @classmethod
    def random(cls) -> Marks:
        return cls(*probe.marks())


def _job(row: str) -> Job:
    *plain, free = row.split("|", len(probe.PLAIN_FIELDS))
    (
        id_,
        array,
        user,
        account,
        partition,
        qos,
        state,
        reason,
        priority,
        nodes,
        cpus,
        tres,
        submit,
        eligible,
        start,
        end,
        limit,
        node_list,
        reservation,
        login,
        restarts,
        exit_code,
    ) = plain
    dependency, feature, licenses, name = free.split("\0")
    array_id, spec = values.job_id(array)
    amounts = values.tres(tres)
    return Job(
        id=int(id_),
        array_id=None if spec is None else array_id,
        array_tasks=None if spec is None else spec.strip("[]"),
        tasks=1 if spec is None else values.array_size(spec)[0],
        name=name,
        user=intern(user),
        account=intern("" if account == "(null)" else account),
        partition=intern(partition),
        qos=intern("" if qos == "(null)" else qos),
        state=intern(state),
        reason=None if reason in values.ABSENT else intern(reason),
        priority=number(priority),
        submit_time=epoch(submit),
        eligible_time=epoch(eligible),
        start_time=epoch(start),
        end_time=epoch(end),
        time_limit=duration(limit),
        cpus=int(cpus),
        memory=amounts.get("mem"),
        gpus=values.gpus_of_tres(amounts) if "gpu" in tres else _NO_GPUS,
        nodes=int(nodes.partition("-")[0]),  # a waiting job may ask for "2-4"
        node_list=intern("" if node_list in values.ABSENT else node_list),
        reservation=text(reservation),
        dependency=text(dependency),
        features=text(feature),
        licenses=text(licenses),
        login_node=None if login in values.ABSENT else intern(login),
        restarts=number(restarts),
        exit_code=values.exit_code(exit_code),
    )


_NO_GPUS: dict[str, int] = {}  # one for the many jobs without


def parse_jobs(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    """`squeue -O` with these marks. NUL, which no name can hold, takes the place of the run's own field mark, so
    that a row that has not changed is the same bytes as in the run before."""
    rows = data.replace(marks.field.encode(), b"\0").split(marks.end.encode() + b"\n")
    rest = rows.pop()
    if rest:  # squeue died, its output was cut, or it is not squeue's: what was known before is better
        raise Malformed(f"the output does not end with a whole row: {decode(rest)[:200]!r}")
    if rows:  # lines that somebody prints before, such as a word of welcome: the first field has none
        rows[0] = rows[0][rows[0].rfind(b"\n", 0, rows[0].find(b"|") + 1) + 1 :]
    return read_rows(rows, _job, memo)


# --- scontrol show … --oneliner -------------------------------------------------------------------------------

_PAIR = re.compile(r"(\S+?)=(\S*)")


def pairs_of(row: str, *free_text: str, after: str = "") -> tuple[dict[str, str], str]:
    """The `k=v` pairs of a row before the first of the fields of free text, and the rest.

    Free text may hold anything that looks like a pair. Slurm prints such fields last; `after` names a field that
    comes before all of them.
    """
    start = max(0, row.find(f" {after}=")) if after else 0
    cut = len(row)
    for field in free_text:
        at = row.find(f" {field}=", start, cut)
        cut = at if at >= 0 else cut
    return dict(_PAIR.findall(row[:cut])), row[cut:]


_REASON = re.compile(r" Reason=(.*) \[([^\[\]@]*)@(\w+)\](?: {2,}(.*?))?(?= Comment=| Extra=|$)", re.DOTALL)
# one that stands in slurm.conf was set by nobody at no time
_BARE_REASON = re.compile(r" Reason=(.*?)()()()(?= Comment=| Extra=|$)", re.DOTALL)


def _node(row: str) -> Node:
    pairs, tail = pairs_of(row, "Reason", "Comment", "Extra", after="AllocTRES")
    state, flags = values.node_state(pairs["State"])
    reason = _REASON.match(tail) or _BARE_REASON.match(tail)
    cpus = int(pairs["CPUTot"])
    return Node(
        name=intern(pairs["NodeName"]),
        state=state,
        flags=flags,
        partitions=_partitions_of(pairs.get("Partitions", "")),
        cpus=cpus,
        cpus_effective=int(pairs.get("CPUEfctv", cpus)),
        cpus_allocated=int(pairs["CPUAlloc"]),
        load=decimal(pairs.get("CPULoad", "")),
        memory=values.size(pairs["RealMemory"]),
        memory_reserved=values.size(pairs["MemSpecLimit"]) if "MemSpecLimit" in pairs else None,
        memory_allocated=values.size(pairs["AllocMem"]),
        memory_free=None if pairs["FreeMem"] in values.ABSENT else values.size(pairs["FreeMem"]),
        gpus=values.gpus_of_gres(pairs["Gres"]),
        gpus_allocated=values.gpus_of_gres(pairs.get("GresUsed", "")),
        weight=number(pairs.get("Weight", "")),
        version=text(pairs.get("Version", "")),
        features=names(pairs.get("ActiveFeatures", "")),
        boot_time=epoch(pairs.get("BootTime", "")),
        reason=" ".join(filter(None, (reason[1], reason[4]))) if reason else None,
        reason_user=(reason[2] or None) if reason else None,
        reason_time=epoch(reason[3]) if reason else None,
        threads_per_core=values.threads_per_core(
            cpus, *(number(pairs.get(name, "")) for name in ("Sockets", "CoresPerSocket", "ThreadsPerCore"))
        ),
    )


_partition_lists: dict[str, tuple[str, ...]] = {}


def _partitions_of(value: str) -> tuple[str, ...]:
    """One tuple for all the nodes that are in the same partitions."""
    if len(_partition_lists) > 10_000:
        _partition_lists.clear()
    return _partition_lists.setdefault(value, tuple(filter(None, value.split(","))))


def lines(data: bytes) -> list[bytes]:
    return [line for line in data.split(b"\n") if line.strip()]


def _records(data: bytes, first: str, none: str) -> list[bytes]:
    """The lines of `scontrol show --oneliner`, whose records begin with `first=`; `none` begins the line that says
    that there are none."""
    found = lines(data)
    if found and not found[0].startswith((first.encode() + b"=", none.encode())):
        raise Malformed(f"expected {first}=…, found {decode(found[0])[:200]!r}")
    return [line for line in found if line.startswith(first.encode() + b"=")]


def parse_nodes(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Node, ...]]:
    """`scontrol show nodes --oneliner`.

    An operator's comment may hold a newline; what follows it is not a record of its own, nor is a second one of a
    node that is already there.
    """
    parsed = read_rows(_records(data, "NodeName", "No nodes"), _node, memo)
    by_name: dict[str, Node] = {}
    for node in parsed.value:
        if by_name.setdefault(node.name, node) is not node:
            parsed.skipped += 1
            parsed.samples.append(("a second record of one node", node.name))
    parsed.value = tuple(by_name.values())
    return parsed


def _partition(row: str) -> Partition:
    pairs, _ = pairs_of(row)
    return Partition(
        name=intern(pairs["PartitionName"]),
        state=pairs["State"],
        default=pairs.get("Default") == "YES",
        hidden=pairs.get("Hidden") == "YES",
        node_list=text(pairs.get("Nodes", "")) or "",
        nodes=int(pairs["TotalNodes"]),
        cpus=int(pairs["TotalCPUs"]),
        max_time=duration(pairs.get("MaxTime", "")),
        default_time=duration(pairs.get("DefaultTime", "")),
        max_nodes=number(pairs.get("MaxNodes", "")),
        priority_tier=number(pairs.get("PriorityTier", "")),
        priority_factor=number(pairs.get("PriorityJobFactor", "")),
        preempt_mode=text(pairs.get("PreemptMode", "")),
        qos=text(pairs.get("QoS", "")),
        allow_accounts=names(pairs.get("AllowAccounts", "")),
    )


def parse_partitions(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Partition, ...]]:
    return read_rows(_records(data, "PartitionName", "No partitions"), _partition, memo)


def _hostlist(value: str) -> str:
    """A hostlist that can be taken apart later."""
    values.hosts(value)
    return text(value) or ""


def _reservation(row: str) -> Reservation:
    pairs, _ = pairs_of(row, "Comment")
    return Reservation(
        name=pairs["ReservationName"],
        state=pairs.get("State", ""),
        start_time=int(pairs["StartTime"]),
        end_time=int(pairs["EndTime"]),
        node_list=_hostlist(pairs.get("Nodes", "")),
        nodes=int(pairs["NodeCnt"]),
        cores=number(pairs.get("CoreCnt", "")),
        flags=tuple(flag.partition("=")[0] for flag in names(pairs.get("Flags", ""))),  # PURGE_COMP=00:05:00
        partition=text(pairs.get("PartitionName", "")),
        users=names(pairs.get("Users", "")),
        accounts=names(pairs.get("Accounts", "")),
        licenses=text(pairs.get("Licenses", "")),
        tres=values.tres(pairs.get("TRES", "")),
    )


def parse_reservations(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Reservation, ...]]:
    return read_rows(_records(data, "ReservationName", "No reservations"), _reservation, memo)


def _license(row: str) -> License:
    pairs, _ = pairs_of(row)
    return License(
        name=pairs["LicenseName"],
        total=int(pairs["Total"]),
        used=int(pairs["Used"]),
        free=int(pairs["Free"]),
        reserved=int(pairs.get("Reserved", 0)),
        remote=pairs.get("Remote") == "yes",
        nodes=text(pairs.get("Nodes", "")),
    )


def parse_licenses(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[License, ...]]:
    return read_rows(_records(data, "LicenseName", "No licenses"), _license, memo)


_PING = re.compile(r"Slurmctld\(([^)]*)\) at (\S+) (?:is|are) (\S+)$", re.IGNORECASE)


def _controllers(row: str) -> tuple[Controller, ...]:
    match = _PING.match(row.strip())
    if match is None:
        raise ValueError("not a line of scontrol ping")
    # old versions have both in one line: Slurmctld(primary/backup) at a/b are UP/DOWN
    rows = zip(*(part.split("/") for part in match.groups()), strict=True)
    return tuple(Controller(host, role, state.upper() == "UP") for role, host, state in rows)


def parse_controllers(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Controller, ...]]:
    # an administrator gets a warning in capitals between rules of asterisks when all are down
    rows = [line for line in lines(data) if not line.startswith(b"*")]
    if not rows:
        raise Malformed("no controller in it")
    parsed = read_rows(rows, _controllers, memo)
    return Parsed(tuple(one for row in parsed.value for one in row), parsed.skipped, parsed.samples)


def parse_config(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Config]:
    found: dict[str, str] = {}
    for line in decode(data).split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key.strip(), value.strip())
    if "ClusterName" not in found or "SLURM_VERSION" not in found:
        raise Malformed("no ClusterName or SLURM_VERSION in the configuration")
    kept = {key: found[key] for key in _SETTINGS if key in found}
    return Parsed(Config(found["ClusterName"], found["SLURM_VERSION"], epoch(found.get("BOOT_TIME", "")), kept))


# what changes the meaning of other parts
STORE_FLAGS = "AccountingStoreFlags"
ACCOUNTING_TYPE, PRIVATE_DATA = "AccountingStorageType", "PrivateData"
DBD = "accounting_storage/slurmdbd"
# … and what `slurmscope doctor` looks at besides
ACCOUNTING_HOST, SLURM_USER = "AccountingStorageHost", "SlurmUser"
GATHER_TYPE, TRACK_TYPE = "JobAcctGatherType", "ProctrackType"
_SETTINGS = (ACCOUNTING_TYPE, STORE_FLAGS, PRIVATE_DATA, ACCOUNTING_HOST, SLURM_USER, GATHER_TYPE, TRACK_TYPE)
