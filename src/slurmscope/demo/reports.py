# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulation's fair shares, limits and statistics in the terms of the model."""

from __future__ import annotations

from slurmscope import model
from slurmscope.demo import people
from slurmscope.demo.cluster import HOUR
from slurmscope.demo.ledger import DBD_RPCS, RPCS, Calls, CycleCount
from slurmscope.demo.limits import DEBUG_WALL, JOBS
from slurmscope.demo.records import VERSION
from slurmscope.demo.simulation import MIN_JOB_AGE, Simulation
from slurmscope.demo.work import rhythm

CLUSTER = "demo"
_SYSTEM_IDS = {
    "root": 0,
    "slurm": 64030,
    "icinga": 995,
    "jupyterhub": 994,
    "xdmod": 993,
    "ops.lang": 1001,
    "ops.weber": 1002,
}
_FIRST_UID = 20_001
_MAIN_EXITS = (
    "End of job queue",
    "Hit default_queue_depth",
    "Hit sched_max_job_start",
    "Blocked on licenses",
    "Hit max_rpc_cnt",
    "Timeout (max_sched_time)",
)
_BACKFILL_EXITS = (
    "End of job queue",
    "Hit bf_max_job_start",
    "Hit bf_max_job_test",
    "System state changed",
    "Hit table size limit (bf_node_space_size)",
    "Timeout (bf_max_time)",
)


def config(simulation: Simulation) -> model.Config:
    return model.Config(
        cluster=CLUSTER,
        version=VERSION,
        boot_time=simulation.begin,
        settings={
            "AccountingStorageEnforce": "associations,limits,qos",
            "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "JobAcctGatherType": "jobacct_gather/cgroup",
            "MaxJobCount": "50000",
            "MinJobAge": f"{MIN_JOB_AGE} sec",
            "PriorityDecayHalfLife": "7-00:00:00",
            "PriorityFlags": "FAIR_TREE",
            "PriorityType": "priority/multifactor",
            "SchedulerParameters": "bf_interval=150,bf_max_job_part=50,batch_sched_delay=2",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CORE_MEMORY",
        },
    )


def controllers(simulation: Simulation) -> tuple[model.Controller, ...]:
    return model.Controller("ctl1", "primary", True), model.Controller("ctl2", "backup", True)


def shares(simulation: Simulation) -> tuple[model.Share, ...]:
    return tuple(
        model.Share(
            account=one.account,
            user=one.user,
            partition=None,
            parent=one.parent,
            depth=one.depth,
            raw_shares=one.shares,
            norm_shares=one.norm_shares,
            raw_usage=float(round(one.usage)),
            norm_usage=None if one.parent is None else one.norm_usage,
            effective_usage=one.effective_usage,
            fair_share=one.factor,
            level_fs=one.level,
        )
        for one in simulation.shares.tree
    )


def coordinators(simulation: Simulation) -> tuple[model.Coordinator, ...]:
    return tuple(model.Coordinator(account, user) for account, user in people.coordinators(simulation.users))


def limits(simulation: Simulation) -> tuple[model.Limit, ...]:
    found = [
        model.Limit(
            kind=rule.kind,
            account=rule.account,
            user=user,
            partition=None,
            qos=rule.qos,
            name=rule.name,
            tres=None if rule.tres == JOBS else rule.tres,
            limit=float(rule.limit),
            used=None if used is None else float(used),
        )
        for rule, user, used in simulation.limits.tally(simulation.users)
    ]
    found.append(model.Limit("qos", None, None, None, "debug", "MaxWallPJ", None, float(DEBUG_WALL), None))
    return tuple(found)


def _uid(simulation: Simulation, user: str) -> int:
    places = {one.name: place for place, one in enumerate(simulation.users)}
    return _FIRST_UID + places[user] if user in places else _SYSTEM_IDS.get(user, 992)


def _rpcs(
    simulation: Simulation, calls: Calls, kinds: dict[str, tuple[int, float]]
) -> tuple[tuple[model.Rpc, ...], tuple[model.Rpc, ...]]:
    """The same questions by type and by user, the most frequent first."""
    by_kind: dict[str, int] = {}
    by_user: dict[str, tuple[int, float]] = {}
    for (kind, user), count in calls.at(simulation.now).items():
        by_kind[kind] = by_kind.get(kind, 0) + count
        asked, seconds = by_user.get(user, (0, 0.0))
        by_user[user] = asked + count, seconds + count * kinds[kind][1]
    types = [
        model.Rpc(kind, kinds[kind][0], count, round(count * kinds[kind][1], 6)) for kind, count in by_kind.items()
    ]
    users = [
        model.Rpc(user, _uid(simulation, user), asked, round(seconds, 6)) for user, (asked, seconds) in by_user.items()
    ]
    types.sort(key=lambda rpc: (-rpc.calls, rpc.name))
    users.sort(key=lambda rpc: (-rpc.calls, rpc.name))
    return tuple(types), tuple(users)


def _cycles(count: CycleCount, minutes: float, exits: tuple[str, ...]) -> model.Cycles:
    return model.Cycles(
        total=count.total,
        last_seconds=count.last / 1e6,
        max_seconds=count.longest / 1e6,
        mean_seconds=count.micros // count.total / 1e6 if count.total else None,
        mean_depth=count.depth // count.total if count.total else None,
        last_queue_length=count.last_look.length,
        per_minute=int(count.total / minutes) if minutes >= 1 else None,
        exits={reason: count.total if reason == exits[0] else 0 for reason in exits},
    )


def scheduler(simulation: Simulation) -> model.Scheduler:
    ledger, now = simulation.ledger, simulation.now
    rpcs, rpc_users = _rpcs(simulation, ledger.calls, RPCS)
    minutes = (now - ledger.since) / 60
    backfill = ledger.backfill
    many = max(1, backfill.total)
    waves = now * 7919 % 97  # a number that looks like chance
    pressed = rhythm(now) > 0.8 and waves < 30  # while somebody asks twice a second
    return model.Scheduler(
        time=now,
        since=ledger.since,
        threads=1 + waves % 4 + 3 * pressed,
        agent_queue=waves // 80,
        agents=waves // 60,
        agent_threads=3 * (waves // 60),
        dbd_queue=waves // 70,
        jobs=dict(ledger.jobs),
        job_states=dict(ledger.counted),
        job_states_time=ledger.counted_at,
        main=_cycles(ledger.main, minutes, _MAIN_EXITS),
        backfill=_cycles(backfill, minutes, _BACKFILL_EXITS),
        backfill_more=model.Backfill(
            jobs_since_start=ledger.backfilled,
            jobs_since_cycle=ledger.backfilled_today,
            het_components=0,
            last_when=backfill.last_when,
            last_depth=backfill.last_look.depth,
            last_depth_tried=backfill.last_look.tried,
            mean_depth_tried=backfill.tried // many,
            mean_queue_length=backfill.lengths // many,
            last_table_size=backfill.last_slots,
            mean_table_size=backfill.slots // many,
        ),
        latency_seconds=(21 + waves % 9) / 1e6,
        rpcs=rpcs,
        rpc_users=rpc_users,
        rpcs_pending={"REQUEST_JOB_INFO": 1 + waves % 3} if pressed else {},
    )


def _rollup_seconds(hour: int) -> float:
    return 0.8 + hour * 7919 % 101 / 100 + (6.0 if hour % 24 == 0 else 0.0)  # at midnight a day is summed up too


def accounting(simulation: Simulation) -> model.Accounting:
    ledger, now = simulation.ledger, simulation.now
    rpcs, rpc_users = _rpcs(simulation, ledger.dbd_calls, DBD_RPCS)
    rollups = [_rollup_seconds(hour) for hour in range(ledger.begin // HOUR + 1, now // HOUR + 1)]
    return model.Accounting(
        time=now,
        since=ledger.begin,
        rollup_last=now // HOUR * HOUR if rollups else None,
        rollup_cycles=len(rollups),
        rollup_seconds=round(sum(rollups), 6),
        rollup_last_seconds=rollups[-1] if rollups else None,
        rollup_max_seconds=max(rollups, default=None),
        rpcs=rpcs,
        rpc_users=rpc_users,
    )
