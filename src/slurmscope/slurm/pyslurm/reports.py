# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What slurmctld says of itself: its statistics and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from slurmscope.model import Backfill, Config, Cycles, Rpc, Scheduler
from slurmscope.slurm.probe import NEW_API, OLD_API
from slurmscope.slurm.pyslurm.reader import Number, Words, names, record, time
from slurmscope.slurm.text import (
    ACCOUNTING_HOST,
    ACCOUNTING_TYPE,
    GATHER_TYPE,
    PRIVATE_DATA,
    SLURM_USER,
    TRACK_TYPE,
    Marks,
    Parsed,
)

_MICROS = 1e6
_EVENTS = ("submitted", "started", "completed", "canceled", "failed")


class _Statistics(msgspec.Struct):
    """What both APIs have under one name."""

    server_thread_count: int
    agent_queue_size: int
    jobs_submitted: int
    jobs_started: int
    jobs_completed: int
    jobs_canceled: int
    jobs_failed: int
    jobs_pending: int
    jobs_running: int
    schedule_cycle_last: int
    schedule_cycle_max: int
    schedule_cycle_counter: int
    schedule_cycle_sum: int


class _OldRpc(msgspec.Struct):
    id: int
    count: int
    total_time: int


class _OldStatistics(_Statistics):
    req_time: int
    req_time_start: int
    schedule_cycle_depth: int
    schedule_queue_len: int
    bf_backfilled_jobs: int
    bf_last_backfilled_jobs: int
    bf_cycle_counter: int
    bf_cycle_sum: int
    bf_cycle_last: int
    bf_cycle_max: int
    bf_last_depth: int
    bf_last_depth_try: int
    bf_depth_sum: int
    bf_depth_try_sum: int
    bf_queue_len: int
    bf_queue_len_sum: int
    bf_when_last_cycle: int
    rpc_type_stats: dict[str, _OldRpc] = {}
    rpc_user_stats: dict[str, _OldRpc] = {}
    job_states_ts: Number = None


class _NewRpc(msgspec.Struct):
    count: int
    time: int = 0
    id: int | None = None
    user_id: int | None = None


class _Exits(msgspec.Struct):
    end_of_job_queue: int
    default_queue_depth: int
    max_job_start: int
    blocked_on_licenses: int
    max_rpc_count: int
    max_time: int


class _NewStatistics(_Statistics):
    request_time: int
    data_since: int
    agent_count: int
    agent_thread_count: int
    dbd_agent_queue_size: int
    schedule_cycle_mean_depth: int
    schedule_queue_length: int
    backfilled_jobs: int
    last_backfilled_jobs: int
    backfilled_het_jobs: int
    backfill_cycle_counter: int
    backfill_cycle_sum: int
    backfill_cycle_last: int
    backfill_cycle_max: int
    backfill_cycle_last_when: Number
    backfill_last_depth: int
    backfill_last_depth_try: int
    backfill_depth_sum: int
    backfill_depth_try_sum: int
    backfill_queue_length: int
    backfill_queue_length_sum: int
    backfill_table_size: int
    backfill_table_size_sum: int
    gettimeofday_latency: int
    rpcs_by_type: dict[str, _NewRpc] = {}
    rpcs_by_user: dict[str, _NewRpc] = {}
    rpcs_pending: dict[str, _NewRpc] = {}
    schedule_exit: _Exits | None = None


def _mean(total: int, cycles: int) -> int | None:
    """In whole numbers, as sdiag has it; none without a cycle."""
    return total // cycles if cycles else None


def _mean_seconds(micros: int, cycles: int) -> float | None:
    found = _mean(micros, cycles)
    return None if found is None else found / _MICROS


def _per_minute(cycles: int, seconds: int) -> int | None:
    return cycles // (seconds // 60) if seconds > 60 else None


def _exits(found: _Exits | None) -> dict[str, int]:
    """By the words of sdiag's."""
    if found is None:
        return {}
    return {
        "End of job queue": found.end_of_job_queue,
        "Hit default_queue_depth": found.default_queue_depth,
        "Hit sched_max_job_start": found.max_job_start,
        "Blocked on licenses": found.blocked_on_licenses,
        "Hit max_rpc_cnt": found.max_rpc_count,
        "Timeout (max_sched_time)": found.max_time,
    }


def _main(one: _Statistics, depth: int | None, queue: int, seconds: int, exits: dict[str, int]) -> Cycles:
    cycles = one.schedule_cycle_counter
    return Cycles(
        total=cycles,
        last_seconds=one.schedule_cycle_last / _MICROS,
        max_seconds=one.schedule_cycle_max / _MICROS,
        mean_seconds=_mean_seconds(one.schedule_cycle_sum, cycles),
        mean_depth=depth,
        last_queue_length=queue,
        per_minute=_per_minute(cycles, seconds),
        exits=exits,
    )


def _events(one: _Statistics) -> dict[str, int]:
    return {event: getattr(one, f"jobs_{event}") for event in _EVENTS}


def _states(one: _Statistics) -> dict[str, int]:
    return {"pending": one.jobs_pending, "running": one.jobs_running}


def _old_scheduler(one: _OldStatistics) -> Scheduler:
    cycles = one.bf_cycle_counter
    depth = _mean(one.schedule_cycle_depth, one.schedule_cycle_counter)
    return Scheduler(
        time=one.req_time,
        since=one.req_time_start,
        threads=one.server_thread_count,
        agent_queue=one.agent_queue_size,
        agents=None,
        agent_threads=None,
        dbd_queue=None,
        jobs=_events(one),
        job_states=_states(one),
        job_states_time=time(one.job_states_ts),
        main=_main(one, depth, one.schedule_queue_len, one.req_time - one.req_time_start, {}),
        backfill=Cycles(
            total=cycles,
            last_seconds=one.bf_cycle_last / _MICROS,
            max_seconds=one.bf_cycle_max / _MICROS,
            mean_seconds=_mean_seconds(one.bf_cycle_sum, cycles),
            mean_depth=_mean(one.bf_depth_sum, cycles),
            last_queue_length=one.bf_queue_len,
            per_minute=None,
            exits={},
        ),
        backfill_more=Backfill(
            jobs_since_start=one.bf_backfilled_jobs,
            jobs_since_cycle=one.bf_last_backfilled_jobs,
            het_components=None,
            last_when=time(one.bf_when_last_cycle),
            last_depth=one.bf_last_depth,
            last_depth_tried=one.bf_last_depth_try,
            mean_depth_tried=_mean(one.bf_depth_try_sum, cycles),
            mean_queue_length=_mean(one.bf_queue_len_sum, cycles),
            last_table_size=None,
            mean_table_size=None,
        ),
        latency_seconds=None,
        rpcs=_old_rpcs(one.rpc_type_stats),
        rpc_users=_old_rpcs(one.rpc_user_stats),
        rpcs_pending={},
    )


def _old_rpcs(found: Mapping[str, _OldRpc]) -> tuple[Rpc, ...]:
    return tuple(Rpc(name, rpc.id, rpc.count, rpc.total_time / _MICROS) for name, rpc in found.items())


def _new_rpcs(found: Mapping[str, _NewRpc]) -> tuple[Rpc, ...]:
    return tuple(Rpc(name, rpc.id or rpc.user_id or 0, rpc.count, rpc.time / _MICROS) for name, rpc in found.items())


def _new_scheduler(one: _NewStatistics) -> Scheduler:
    cycles = one.backfill_cycle_counter
    depth = one.schedule_cycle_mean_depth if one.schedule_cycle_counter else None
    seconds = one.request_time - one.data_since
    return Scheduler(
        time=one.request_time,
        since=one.data_since,
        threads=one.server_thread_count,
        agent_queue=one.agent_queue_size,
        agents=one.agent_count,
        agent_threads=one.agent_thread_count,
        dbd_queue=one.dbd_agent_queue_size,
        jobs=_events(one),
        job_states=_states(one),
        job_states_time=None,
        main=_main(one, depth, one.schedule_queue_length, seconds, _exits(one.schedule_exit)),
        backfill=Cycles(
            total=cycles,
            last_seconds=one.backfill_cycle_last / _MICROS,
            max_seconds=one.backfill_cycle_max / _MICROS,
            mean_seconds=_mean_seconds(one.backfill_cycle_sum, cycles),
            mean_depth=_mean(one.backfill_depth_sum, cycles),
            last_queue_length=one.backfill_queue_length,
            per_minute=None,
            exits={},
        ),
        backfill_more=Backfill(
            jobs_since_start=one.backfilled_jobs,
            jobs_since_cycle=one.last_backfilled_jobs,
            het_components=one.backfilled_het_jobs,
            last_when=time(one.backfill_cycle_last_when),
            last_depth=one.backfill_last_depth,
            last_depth_tried=one.backfill_last_depth_try,
            mean_depth_tried=_mean(one.backfill_depth_try_sum, cycles),
            mean_queue_length=_mean(one.backfill_queue_length_sum, cycles),
            last_table_size=one.backfill_table_size,
            mean_table_size=_mean(one.backfill_table_size_sum, cycles),
        ),
        latency_seconds=one.gettimeofday_latency / _MICROS,
        rpcs=_new_rpcs(one.rpcs_by_type),
        rpc_users=_new_rpcs(one.rpcs_by_user),
        rpcs_pending={name: rpc.count for name, rpc in one.rpcs_pending.items()},
    )


def parse_scheduler(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Scheduler]:
    found = record(data, {OLD_API: _OldStatistics, NEW_API: _NewStatistics})
    return Parsed(_old_scheduler(found) if isinstance(found, _OldStatistics) else _new_scheduler(found))


class _Config(msgspec.Struct, kw_only=True):
    """What both APIs have under one name."""

    cluster_name: str
    version: str
    accounting_storage_type: str | None = None
    accounting_storage_host: str | None = None
    job_acct_gather_type: str | None = None
    proctrack_type: str | None = None
    slurm_user_name: str | None = None
    slurm_user_id: int | None = None


class _OldConfig(_Config, kw_only=True):
    private_data: int  # bits; the old API's list of them knows no events
    boot_time: Number = None


class _NewConfig(_Config, kw_only=True):
    private_data: Words
    boot_time: Number = msgspec.field(name="slurmctld_boot_time", default=None)


_PRIVATE_BITS = ("jobs", "nodes", "partitions", "usage", "users", "accounts", "reservations", "cloud", "events")


def parse_config(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Config]:
    found = record(data, {OLD_API: _OldConfig, NEW_API: _NewConfig})
    if isinstance(found, _OldConfig):
        private = tuple(word for bit, word in enumerate(_PRIVATE_BITS) if found.private_data >> bit & 1)
    else:
        private = names(found.private_data)
    settings = {
        ACCOUNTING_TYPE: found.accounting_storage_type or "(null)",
        PRIVATE_DATA: ",".join(sorted(private)) or "none",
        ACCOUNTING_HOST: found.accounting_storage_host,
        GATHER_TYPE: found.job_acct_gather_type,
        TRACK_TYPE: found.proctrack_type,
        SLURM_USER: found.slurm_user_name and f"{found.slurm_user_name}({found.slurm_user_id})",
    }
    told = {name: value for name, value in settings.items() if value}
    return Parsed(Config(found.cluster_name, found.version, time(found.boot_time), told))
