# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of slurmctld's own statistics (sdiag) and of slurmdbd's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View
from slurmscope.model import Accounting, Cycles, Scheduler
from slurmscope.slurm.source import own_user


def _of(value: Callable[[Scheduler], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.scheduler.value
        return [] if found is None else [((), value(found))]

    return samples


def _of_cycles(value: Callable[[Cycles], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.scheduler.value
        return [] if found is None else [(("main",), value(found.main)), (("backfill",), value(found.backfill))]

    return samples


def _total(name: str) -> Callable[[View], Iterable[Sample]]:
    return lambda view: view.tally.totals(name)


def _of_users(calls: str, shown: str, family: str) -> Callable[[View], Iterable[Sample]]:
    """The users that ask most; counters have no `other`, which would fall when somebody comes up from it."""

    def samples(view: View) -> Iterable[Sample]:
        ranked = sorted(view.tally.totals(calls), key=lambda one: (-one[1], one[0]))
        view.dropped[family] = max(0, len(ranked) - view.top)
        return [(user, view.tally.total(shown, *user)) for user, _ in ranked[: view.top]]

    return samples


def _counted(view: View) -> Iterable[Sample]:
    found = view.snapshot.scheduler.value
    return [] if found is None else [((state,), count) for state, count in found.job_states.items()]


def _pending(view: View) -> Iterable[Sample]:
    found = view.snapshot.scheduler.value
    return [] if found is None else [((kind,), count) for kind, count in found.rpcs_pending.items()]


def _own_share(view: View) -> Iterable[Sample]:
    found = view.snapshot.scheduler.value
    calls = {rpc.name: rpc.calls for rpc in found.rpc_users} if found else {}
    total = sum(calls.values())
    user = own_user()
    return [((user,), calls.get(user, 0) / total)] if total else []


_S = ("scheduler",)

TOPIC: Topic[View] = Topic(
    "scheduler",
    "scheduler",
    frozenset(),
    (
        Family("slurm_scheduler_threads", GAUGE, "Threads of slurmctld that are busy with an RPC.", (), _of(lambda one: one.threads)),
        Family("slurm_scheduler_agent_queue_length", GAUGE, "Messages to nodes that wait to be sent.", (), _of(lambda one: one.agent_queue)),
        Family("slurm_scheduler_agents", GAUGE, "Agents that are sending messages to nodes.", (), _of(lambda one: one.agents)),
        Family("slurm_scheduler_agent_threads", GAUGE, "Threads of those agents.", (), _of(lambda one: one.agent_threads)),
        Family("slurm_scheduler_dbd_queue_length", GAUGE, "Messages that wait for slurmdbd. It grows while slurmdbd is down; at MaxDBDMsgs they are lost.", (), _of(lambda one: one.dbd_queue)),
        Family("slurm_scheduler_job_events_total", COUNTER, "Jobs submitted, started, completed, canceled, failed.", ("event",), _total("job_events")),
        Family("slurm_scheduler_counted_jobs", GAUGE, "Jobs pending and running as slurmctld itself last counted them.", ("state",), _counted),
        Family("slurm_scheduler_counted_timestamp_seconds", GAUGE, "When slurmctld last counted them.", (), _of(lambda one: one.job_states_time)),
        Family("slurm_scheduler_cycles_total", COUNTER, "Cycles of the main and of the backfill scheduler.", _S, _total("cycles")),
        Family("slurm_scheduler_cycle_last_seconds", GAUGE, "How long the last cycle took.", _S, _of_cycles(lambda one: one.last_seconds)),
        Family("slurm_scheduler_cycle_max_seconds", GAUGE, "The longest cycle since the statistics began.", _S, _of_cycles(lambda one: one.max_seconds)),
        Family("slurm_scheduler_cycle_mean_seconds", GAUGE, "The mean cycle since the statistics began.", _S, _of_cycles(lambda one: one.mean_seconds)),
        Family("slurm_scheduler_cycle_depth_mean", GAUGE, "Jobs that a cycle looked at, in the mean since the statistics began.", _S, _of_cycles(lambda one: one.mean_depth)),
        Family("slurm_scheduler_queue_length", GAUGE, "Jobs that waited to be looked at when the last cycle began.", _S, _of_cycles(lambda one: one.last_queue_length)),
        Family("slurm_scheduler_exits_total", COUNTER, "Why cycles ended (from Slurm 23.02 on).", ("scheduler", "reason"), _total("exits")),
        Family("slurm_scheduler_backfilled_jobs_total", COUNTER, "Jobs started by backfill.", (), _total("backfilled_jobs")),
        Family("slurm_scheduler_backfilled_het_components_total", COUNTER, "Components of heterogeneous jobs started by backfill.", (), _total("backfilled_het")),
        Family("slurm_scheduler_backfilled_jobs_since_reset", GAUGE, "Jobs started by backfill since the statistics began.", (), _of(lambda one: one.backfill_more.jobs_since_cycle)),
        Family("slurm_scheduler_backfill_last_timestamp_seconds", GAUGE, "When backfill last ran.", (), _of(lambda one: one.backfill_more.last_when)),
        Family("slurm_scheduler_backfill_last_depth", GAUGE, "Jobs that the last backfill cycle looked at.", (), _of(lambda one: one.backfill_more.last_depth)),
        Family("slurm_scheduler_backfill_last_depth_tried", GAUGE, "Jobs that the last backfill cycle tried to start.", (), _of(lambda one: one.backfill_more.last_depth_tried)),
        Family("slurm_scheduler_backfill_depth_tried_mean", GAUGE, "Jobs that a backfill cycle tried to start, in the mean.", (), _of(lambda one: one.backfill_more.mean_depth_tried)),
        Family("slurm_scheduler_backfill_queue_length_mean", GAUGE, "Jobs that waited when a backfill cycle began, in the mean.", (), _of(lambda one: one.backfill_more.mean_queue_length)),
        Family("slurm_scheduler_backfill_table_size", GAUGE, "Time slots that the last backfill cycle tested.", (), _of(lambda one: one.backfill_more.last_table_size)),
        Family("slurm_scheduler_backfill_table_size_mean", GAUGE, "Time slots that a backfill cycle tested, in the mean.", (), _of(lambda one: one.backfill_more.mean_table_size)),
        Family("slurm_scheduler_latency_seconds", GAUGE, "What 1000 calls to gettimeofday() take slurmctld's machine.", (), _of(lambda one: one.latency_seconds)),
        Family("slurm_scheduler_statistics_timestamp_seconds", GAUGE, "When slurmctld's statistics began: at its start, a reset, or midnight.", (), _of(lambda one: one.since)),
        Family("slurm_rpcs_total", COUNTER, "Questions to slurmctld by type.", ("type",), _total("rpcs")),
        Family("slurm_rpc_seconds_total", COUNTER, "Time that slurmctld spent on them.", ("type",), _total("rpc_seconds")),
        Family("slurm_user_rpcs_total", COUNTER, "Questions to slurmctld by user, of the users that ask most.", ("user",), _of_users("user_rpcs", "user_rpcs", "slurm_user_rpcs_total")),
        Family("slurm_user_rpc_seconds_total", COUNTER, "Time that slurmctld spent on a user's questions.", ("user",), _of_users("user_rpcs", "user_rpc_seconds", "slurm_user_rpc_seconds_total")),
        Family("slurm_rpcs_pending", GAUGE, "Questions that wait for slurmctld by type.", ("type",), _pending),
        Family("slurm_own_rpc_ratio", GAUGE, "The part of slurmctld's RPCs that came from the user that slurmscope runs as. As root it counts slurmd's too: run it as a user of its own.", ("user",), _own_share),
    ),
)  # fmt: skip


def _of_dbd(value: Callable[[Accounting], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.accounting.value
        return [] if found is None else [((), value(found))]

    return samples


ACCOUNTING: Topic[View] = Topic(
    "accounting",
    "accounting",
    frozenset(),
    (
        Family("slurm_dbd_rollup_timestamp_seconds", GAUGE, "When slurmdbd last rolled its records up into usage.", (), _of_dbd(lambda one: one.rollup_last)),
        Family("slurm_dbd_rollup_last_seconds", GAUGE, "How long that rollup took.", (), _of_dbd(lambda one: one.rollup_last_seconds)),
        Family("slurm_dbd_rollup_max_seconds", GAUGE, "The longest rollup since slurmdbd's statistics began.", (), _of_dbd(lambda one: one.rollup_max_seconds)),
        Family("slurm_dbd_rollups_total", COUNTER, "Rollups of slurmdbd.", (), _total("dbd_rollups")),
        Family("slurm_dbd_rollup_seconds_total", COUNTER, "Time that slurmdbd spent in rollups.", (), _total("dbd_rollup_seconds")),
        Family("slurm_dbd_rpcs_total", COUNTER, "Questions to slurmdbd by type.", ("type",), _total("dbd_rpcs")),
        Family("slurm_dbd_rpc_seconds_total", COUNTER, "Time that slurmdbd spent on them.", ("type",), _total("dbd_rpc_seconds")),
        Family("slurm_dbd_user_rpcs_total", COUNTER, "Questions to slurmdbd by user, of the users that ask most.", ("user",), _of_users("dbd_user_rpcs", "dbd_user_rpcs", "slurm_dbd_user_rpcs_total")),
        Family("slurm_dbd_user_rpc_seconds_total", COUNTER, "Time that slurmdbd spent on a user's questions.", ("user",), _of_users("dbd_user_rpcs", "dbd_user_rpc_seconds", "slurm_dbd_user_rpc_seconds_total")),
        Family("slurm_dbd_statistics_timestamp_seconds", GAUGE, "When slurmdbd's statistics began.", (), _of_dbd(lambda one: one.since)),
    ),
)  # fmt: skip
