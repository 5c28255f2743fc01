# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What slurmctld and slurmdbd say of themselves and of who used what: diag, ping, shares, slurmdbd's diag, accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import Accounting, Backfill, Config, Controller, Coordinator, Cycles, Rpc, Scheduler, Share
from slurmscope.slurm.openapi.reader import (
    MICROS,
    NO_NUMBERS,
    Boxed,
    Number,
    Words,
    amount,
    count,
    opened,
    records,
    time,
    whole,
    whole_answer,
    words,
)
from slurmscope.slurm.statistics import merged
from slurmscope.slurm.text import Malformed, Marks, Parsed

_EVENTS = ("submitted", "started", "completed", "canceled", "failed")
# The reasons for which a cycle ended, as sdiag writes them.
_MAIN_EXITS = {
    "end_job_queue": "End of job queue",
    "default_queue_depth": "Hit default_queue_depth",
    "max_job_start": "Hit sched_max_job_start",
    "licenses": "Blocked on licenses",
    "max_rpc_cnt": "Hit max_rpc_cnt",
    "max_sched_time": "Timeout (max_sched_time)",
}
_BACKFILL_EXITS = {
    "end_job_queue": "End of job queue",
    "bf_max_job_start": "Hit bf_max_job_start",
    "bf_max_job_test": "Hit bf_max_job_test",
    "state_changed": "System state changed",
    "bf_node_space_size": "Hit table size limit (bf_node_space_size)",
    "bf_max_time": "Timeout (bf_max_time)",
}


class _Rpc(msgspec.Struct):
    count: Number
    message_type: str | None = None
    type_id: Number = None
    user: str | None = None
    user_id: Number = None
    total_time: Number = None


class _Statistics(msgspec.Struct):
    """All but a few are optional: v0.0.37 tells less than half of it."""

    req_time: Number
    req_time_start: Number
    server_thread_count: Number
    agent_queue_size: Number
    dbd_agent_queue_size: Number
    schedule_cycle_total: Number
    schedule_cycle_last: Number
    schedule_cycle_max: Number
    schedule_queue_length: Number
    jobs_submitted: Number
    jobs_started: Number
    jobs_completed: Number
    jobs_canceled: Number
    jobs_failed: Number
    bf_backfilled_jobs: Number
    bf_last_backfilled_jobs: Number
    bf_cycle_counter: Number
    bf_cycle_last: Number
    bf_queue_len: Number
    bf_cycle_max: Number = None
    agent_count: Number = 0
    agent_thread_count: Number = 0
    gettimeofday_latency: Number = None
    jobs_pending: Number = None
    jobs_running: Number = None
    job_states_ts: Number = None
    schedule_cycle_mean: Number = None
    schedule_cycle_mean_depth: Number = None
    schedule_cycle_per_minute: Number = None
    schedule_exit: dict[str, Number] = {}
    bf_backfilled_het_jobs: Number = 0
    bf_cycle_mean: Number = None
    bf_depth_mean: Number = None
    bf_depth_mean_try: Number = None
    bf_exit: dict[str, Number] = {}
    bf_last_depth: Number = None
    bf_last_depth_try: Number = None
    bf_queue_len_mean: Number = None
    bf_table_size: Number = None
    bf_table_size_sum: Number = None
    bf_when_last_cycle: Number = None
    rpcs_by_message_type: list[_Rpc] | None = None
    rpcs_by_user: list[_Rpc] | None = None
    pending_rpcs: list[_Rpc] = []


def _seconds(value: Number) -> float | None:
    found = whole(value)
    return None if found is None else found / MICROS


def _exits(found: Mapping[str, Number], words: Mapping[str, str]) -> dict[str, int]:
    return {words.get(name, name): count(value) for name, value in found.items()}


def _types(found: Sequence[_Rpc] | None) -> tuple[Rpc, ...]:
    return merged(
        Rpc(one.message_type or "", whole(one.type_id), count(one.count), _seconds(one.total_time) or 0.0)
        for one in found or ()
    )


def _users(found: Sequence[_Rpc] | None) -> tuple[Rpc, ...]:
    return merged(
        Rpc(one.user or "", whole(one.user_id), count(one.count), _seconds(one.total_time) or 0.0)
        for one in found or ()
    )


def _main(found: _Statistics) -> Cycles:
    # sdiag says nothing of a rate in the first minute
    young = count(found.req_time) - count(found.req_time_start) <= 60
    total = count(found.schedule_cycle_total)
    return Cycles(
        total=total,
        last_seconds=count(found.schedule_cycle_last) / MICROS,
        max_seconds=count(found.schedule_cycle_max) / MICROS,
        # sdiag says nothing of a mean before there was a cycle
        mean_seconds=_seconds(found.schedule_cycle_mean) if total else None,
        mean_depth=whole(found.schedule_cycle_mean_depth) if total else None,
        last_queue_length=count(found.schedule_queue_length),
        per_minute=None if young else whole(found.schedule_cycle_per_minute),
        exits=_exits(found.schedule_exit, _MAIN_EXITS),
    )


def _backfill(found: _Statistics) -> Cycles:
    total = count(found.bf_cycle_counter)
    return Cycles(
        total=total,
        last_seconds=count(found.bf_cycle_last) / MICROS,
        max_seconds=_seconds(found.bf_cycle_max),
        mean_seconds=_seconds(found.bf_cycle_mean) if total else None,
        mean_depth=whole(found.bf_depth_mean) if total else None,
        last_queue_length=count(found.bf_queue_len),
        per_minute=None,  # sdiag has none for this one
        exits=_exits(found.bf_exit, _BACKFILL_EXITS),
    )


def _backfill_more(found: _Statistics) -> Backfill:
    total = count(found.bf_cycle_counter)
    tables = whole(found.bf_table_size_sum)
    return Backfill(
        jobs_since_start=count(found.bf_backfilled_jobs),
        jobs_since_cycle=count(found.bf_last_backfilled_jobs),
        het_components=count(found.bf_backfilled_het_jobs),
        last_when=time(found.bf_when_last_cycle),
        last_depth=whole(found.bf_last_depth),
        last_depth_tried=whole(found.bf_last_depth_try),
        mean_depth_tried=whole(found.bf_depth_mean_try) if total else None,
        mean_queue_length=whole(found.bf_queue_len_mean) if total else None,
        last_table_size=whole(found.bf_table_size),
        # Slurm's own bf_table_size_mean is the queue's
        mean_table_size=tables // total if total and tables is not None else None,
    )


def parse_scheduler(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Scheduler]:
    found = whole_answer(data, opened(data).statistics, "statistics", _Statistics)
    states = {"pending": whole(found.jobs_pending), "running": whole(found.jobs_running)}
    latency = _seconds(found.gettimeofday_latency)
    return Parsed(
        Scheduler(
            time=count(found.req_time),
            since=count(found.req_time_start),
            threads=count(found.server_thread_count),
            agent_queue=count(found.agent_queue_size),
            agents=count(found.agent_count),
            agent_threads=count(found.agent_thread_count),
            dbd_queue=count(found.dbd_agent_queue_size),
            jobs={event: count(getattr(found, f"jobs_{event}")) for event in _EVENTS},
            job_states={state: number for state, number in states.items() if number is not None},
            job_states_time=time(found.job_states_ts),
            main=_main(found),
            backfill=_backfill(found),
            backfill_more=_backfill_more(found),
            latency_seconds=latency,
            rpcs=_types(found.rpcs_by_message_type),
            rpc_users=_users(found.rpcs_by_user),
            rpcs_pending={one.message_type or "": count(one.count) for one in found.pending_rpcs},
        )
    )


class _Ping(msgspec.Struct):
    hostname: str
    pinged: str | None = None
    ping: str | None = None  # before data_parser
    responding: bool | None = None
    mode: str | None = None
    primary: bool | None = None


def _controllers(data: bytes) -> Parsed[tuple[Controller, ...]]:
    backups = 0

    def controller(found: _Ping) -> Controller:
        nonlocal backups
        role = found.mode
        if role is None:
            # v0.0.45 says no more than whether it is the first
            backups += not found.primary
            role = "primary" if found.primary else "backup" if backups == 1 else f"backup{backups}"
        said = found.pinged or found.ping
        return Controller(found.hostname, role, said == "UP" if said else bool(found.responding))

    return records(data, "pings", _Ping, controller)


def parse_controllers(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Controller, ...]]:
    return _controllers(data)


class _Fairshare(msgspec.Struct, frozen=True):
    factor: Number = None
    level: Number = None


class _Share(msgspec.Struct):
    name: str
    type: Words
    parent: str | None = None
    partition: str | None = None
    shares: Number = None
    shares_normalized: Number = None
    usage: Number = None
    usage_normalized: Number = None
    effective_usage: Number = None
    fairshare: _Fairshare = _Fairshare()


class _Shares(msgspec.Struct):
    shares: list[_Share]


def _endless(value: Number) -> float | None:
    """A number that may be endless; v0.0.45 writes the highest of 64 bits."""
    found = inf if isinstance(value, Boxed) and value.infinite else _decimal(value)
    return inf if found is not None and found >= 2**63 else found


def _decimal(value: Number) -> float | None:
    found = amount(value)
    return None if found is None or found in NO_NUMBERS else float(found)


def parse_shares(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Share, ...]]:
    """The fair-share tree, each record of which names its parent, which comes before it."""
    depths: dict[str, int] = {"": -1}
    found = []
    for one in whole_answer(data, opened(data).shares, "shares", _Shares).shares:
        user = one.name if "USER" in words(one.type) else None
        parent = one.parent or ""
        depth = depths.get(parent, 0) + 1
        if user is None:
            depths.setdefault(one.name, depth)
        raw = whole(one.shares)
        found.append(
            Share(
                account=intern(parent if user else one.name),
                user=user,
                partition=one.partition or None,
                parent=parent or None,
                depth=depth,
                raw_shares=raw,
                norm_shares=_decimal(one.shares_normalized),
                raw_usage=_decimal(one.usage),
                norm_usage=_decimal(one.usage_normalized),
                effective_usage=_decimal(one.effective_usage),
                fair_share=_decimal(one.fairshare.factor) if user else None,
                level_fs=_endless(one.fairshare.level),
            )
        )
    return Parsed(tuple(found))


class _Duration(msgspec.Struct, frozen=True):
    last: Number = None
    max: Number = None
    time: Number = None


class _Rollup(msgspec.Struct, frozen=True):
    count: Number = None
    last_run: Number = None
    duration: _Duration = _Duration()


class _Rollups(msgspec.Struct, frozen=True):
    hourly: _Rollup = _Rollup()


class _Taken(msgspec.Struct, frozen=True):
    total: Number = None


class _DbdRpc(msgspec.Struct):
    count: Number
    kind: str | None = msgspec.field(name="rpc", default=None)
    user: str | None = None
    time: _Taken = _Taken()

    def named(self, name: str | None) -> Rpc:
        return Rpc(name or "", None, count(self.count), _seconds(self.time.total) or 0.0)


class _DbdStatistics(msgspec.Struct):
    time_start: Number
    rollups: _Rollups | list[Any] | None = None
    rpcs: list[_DbdRpc] = msgspec.field(name="RPCs", default=[])
    users: list[_DbdRpc] = []


def parse_accounting(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Accounting]:
    found = whole_answer(data, opened(data).statistics, "statistics", _DbdStatistics)
    # the text tells of the hourly rollup alone
    rollup = found.rollups.hourly if isinstance(found.rollups, _Rollups) else _Rollup()
    return Parsed(
        Accounting(
            time=None,
            since=count(found.time_start),
            rollup_last=time(rollup.last_run),
            rollup_cycles=whole(rollup.count),
            rollup_seconds=_seconds(rollup.duration.time),
            rollup_last_seconds=_seconds(rollup.duration.last),
            rollup_max_seconds=_seconds(rollup.duration.max),
            rpcs=merged(one.named(one.kind) for one in found.rpcs),
            rpc_users=merged(one.named(one.user) for one in found.users),
        )
    )


class _Coordinator(msgspec.Struct):
    name: str


class _Account(msgspec.Struct):
    name: str
    coordinators: list[_Coordinator | str] | None = None


def _coordinators(found: _Account) -> tuple[Coordinator, ...]:
    users = (one if isinstance(one, str) else one.name for one in found.coordinators or ())
    return tuple(Coordinator(intern(found.name), intern(user)) for user in users if user)


def parse_coordinators(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Coordinator, ...]]:
    parsed = records(data, "accounts", _Account, _coordinators)
    if not parsed.value:  # there is always one, `root`
        raise Malformed("no account in it")
    return Parsed(tuple(one for some in parsed.value for one in some), parsed.skipped, parsed.samples)


class _Release(msgspec.Struct):
    release: str | None = None
    cluster: str | None = None


def parse_config(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Config]:
    """What every answer says of its own: Slurm's version and, since 23.11, the cluster's name."""
    meta = opened(data).meta
    raw = (meta.new or meta.old) if meta else msgspec.Raw()
    found = whole_answer(data, raw, "meta.slurm", _Release)
    if not found.release:
        raise Malformed("no version of Slurm's in it")
    return Parsed(Config(found.cluster or "", found.release, None, {}))
