# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""The row of slurmctld and slurmdbd: whether they answer, how they schedule, and who keeps them busy."""

from __future__ import annotations

from tools.dashboard.panels import GREEN, RED, areas, lines, row, timeline, words
from tools.dashboard.queries import SLOW, Asked, most_asked


def _cycle(scheduler: str) -> list[Asked]:
    return [
        (f'slurm_scheduler_cycle_{what}_seconds{{scheduler="{scheduler}"}}', what) for what in ("last", "mean", "max")
    ]


SLURMCTLD = row("slurmctld",
    timeline("Who answered", "Whether slurmctld answered all of each poll, which controllers answered a ping, and whether slurmdbd gave its statistics. slurmdbd may be red because slurmscope's user may not ask: it must be an operator.",
        ("slurm_up{}", "all of the poll"),
        ("slurm_controller_up{}", "{{role}} {{host}}"),
        ("slurm_dbd_up{}", "slurmdbd"),
        texts=words({1: ("answers", GREEN), 0: ("silent", RED)}),
    ),
    lines("Cycles per minute", "Cycles of the main and of the backfill scheduler in a minute. No backfill for minutes: it is disabled, or one cycle takes that long.",
        ("60 * sum by (scheduler) (rate(slurm_scheduler_cycles_total{}[$__rate_interval]))", "{{scheduler}}")),
    areas("Why cycles ended", "What ended the cycles, per minute (from Slurm 23.02 on). End of job queue is good. Timeout or a limit that was hit: jobs far down the queue are never looked at; see max_sched_time, bf_max_time and bf_max_job_test. Reasons that never occurred are left out.",
        ("60 * (sum by (scheduler, reason) (rate(slurm_scheduler_exits_total{}[$__rate_interval])) and sum by (scheduler, reason) (slurm_scheduler_exits_total{}) > 0)", "{{scheduler}}: {{reason}}")),
    lines("Main cycle", "How long the main scheduler's cycles take: the last, and the mean and the longest since the statistics began (midnight, mostly). Locks are held meanwhile: above a second, commands of users begin to wait.",
        *_cycle("main"), unit="s"),
    lines("Backfill cycle", "How long backfill's cycles take, the pauses in which it gives way (bf_yield_interval) included. As long as bf_max_time: the end of the queue is not looked at.",
        *_cycle("backfill"), unit="s"),
    lines("How deep backfill looks", "Jobs in the queue when the last backfill cycle began, jobs that it looked at, and jobs that it tried to start. Looked at far below the queue: bf_max_job_test and the limits per user and partition end it early.",
        ('slurm_scheduler_queue_length{scheduler="backfill"}', "in the queue"),
        ("slurm_scheduler_backfill_last_depth{}", "looked at"),
        ("slurm_scheduler_backfill_last_depth_tried{}", "tried"),
    ),
    lines("Questions by type", "RPCs to slurmctld per second of the ten types asked most in the time shown. REQUEST_JOB_INFO is squeue: a rise is somebody's loop, which the panel beside it names.",
        most_asked("slurm_rpcs_total", "type"), beside="mean", unit="reqps", h=9),
    lines("Questions by user", "RPCs to slurmctld per second of the ten users that asked most in the time shown. slurm and root are the daemons themselves. Write to anybody else who is near them, or set rl_enable in SlurmctldParameters.",
        most_asked("slurm_user_rpcs_total", "user"), beside="mean", unit="reqps", h=9),
    areas("Time spent on questions by type", "Seconds per second that slurmctld spends on the ten types that took most in the time shown. 1 is one thread that does nothing else.",
        most_asked("slurm_rpc_seconds_total", "type"), beside="mean", unit="none", h=9),
    areas("Time spent on questions by user", "Seconds per second that slurmctld spends on the questions of the ten users that took most in the time shown.",
        most_asked("slurm_user_rpc_seconds_total", "user"), beside="mean", unit="none", h=9),
    lines("Threads", "Threads of slurmctld that are busy with an RPC. At 256 it takes no more questions, and clients time out. A plateau means that they wait for a lock: see what takes the time above.",
        ("slurm_scheduler_threads{}", "on questions"), ("slurm_scheduler_agent_threads{}", "of agents")),
    lines("Queues", "Messages that wait: to nodes (agents) and to slurmdbd. The first grows when nodes do not answer. The second grows while slurmdbd is down or slow; at MaxDBDMsgs records of jobs are lost: act before.",
        ("slurm_scheduler_agent_queue_length{}", "to nodes"), ("slurm_scheduler_dbd_queue_length{}", "to slurmdbd")),
    areas("Questions that wait", "Questions that wait for slurmctld by type, where its version tells. Nothing here is good; what stays here says that slurmctld is behind.",
        ("sum by (type) (slurm_rpcs_pending{})", "{{type}}")),
    lines("slurmdbd: questions by user", "RPCs to slurmdbd per second of the ten users that asked most in the time shown. sacct in loops is what makes it slow.",
        most_asked("slurm_dbd_user_rpcs_total", "user"), step=SLOW, beside="mean", unit="reqps"),
    areas("slurmdbd: time spent by type", "Seconds per second that slurmdbd spends on the ten types that took most in the time shown.",
        most_asked("slurm_dbd_rpc_seconds_total", "type"), step=SLOW, beside="mean", unit="none"),
)  # fmt: skip
