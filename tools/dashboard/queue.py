# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""The row of jobs: how many, why and how long they wait, and who holds what."""

from __future__ import annotations

from tools.dashboard.panels import YELLOW, areas, bars, heatmap, levels, lines, row
from tools.dashboard.queries import SELDOM, most_held, quantiles

_AGES = "sum by (le) (slurm_partition_pending_age_seconds_bucket{PART})"
_WAITS = "(rate(slurm_job_wait_seconds_bucket{PART}[$__rate_interval]))"

QUEUE = row("Queue",
    lines("Jobs by state", "Jobs of the whole cluster that have not ended, by state. Many that are completing for long mean an epilog or a file system that hangs.",
        ('sum by (state) (slurm_queue_jobs{state=~"running|pending|suspended|completing|configuring"})', "{{state}}")),
    areas("Jobs that ended otherwise than well", "Jobs that failed, ran out of time or memory, lost their node or were cancelled or preempted, as long as slurmctld remembers them (MinJobAge, 300 s by default). node_fail and boot_fail are the site's to mend.",
        ('sum by (state) (slurm_queue_jobs{state=~"failed|timeout|out_of_memory|node_fail|boot_fail|deadline|cancelled|preempted"})', "{{state}}")),
    lines("Jobs per minute", "Jobs submitted, started, completed, cancelled and failed in a minute, as slurmctld counts them. Submitted for long above started: the queue grows.",
        ("60 * sum by (event) (rate(slurm_scheduler_job_events_total{}[$__rate_interval]))", "{{event}}")),
    areas("Running jobs by partition", "Jobs that run in the chosen partitions.",
        ('sum by (partition) (slurm_partition_queue_jobs{PART,state="running"})', "{{partition}}"), w=6),
    areas("Pending jobs by partition", "Jobs that wait for the chosen partitions. A job that waits for two is counted in both.",
        ('sum by (partition) (slurm_partition_queue_jobs{PART,state="pending"})', "{{partition}}"), w=6),
    areas("Why jobs wait", "Waiting jobs of the chosen partitions by the reason that Slurm gives. Priority and Resources: the cluster is full. Assoc… and QOS…: a limit holds them back, see Policy. ReqNodeNotAvail: a reservation or drained nodes. JobHeld…, Dependency, BeginTime: they cannot start yet.",
        ("sum by (reason) (slurm_queue_pending_jobs{PART})", "{{reason}}"), beside="max"),
    lines("How long waiting jobs have waited", "Of the jobs that wait now in the chosen partitions: how long ago half, nine in ten and all but one in a hundred became eligible at most. It rises while jobs cannot start and falls when they do.",
        *quantiles(_AGES), unit="s"),
    heatmap("Age of the queue", "The jobs that wait now by how long ago they became eligible: each row is a range of ages, the colour is the number of jobs. A band that climbs is a group of jobs that does not start.",
        _AGES),
    lines("Longest wait by partition", "How long ago the job became eligible that waits longest in each chosen partition; 0 when none waits.",
        ("max by (partition) (slurm_partition_pending_oldest_seconds{PART})", "{{partition}}"), unit="s"),
    lines("How long started jobs had waited", "Of the jobs that started in the chosen partitions around each moment (20 minutes at least): how long half, nine in ten and all but one in a hundred had waited from eligible to start. It is what people feel.",
        *quantiles(f"sum by (le) {_WAITS}"), step=SELDOM, unit="s", w=12),
    lines("Wait of the median job by partition", "How long half of the jobs at most had waited that started in each chosen partition around each moment. Where nothing started there is nothing to draw.",
        (f"histogram_quantile(0.5, sum by (le, partition) {_WAITS})", "{{partition}}"), step=SELDOM, unit="s", w=12),
    areas("CPUs by user", "CPUs of the ten users that held most in the time shown, whole cluster.",
        most_held("slurm_user_queue_cpus", "user"), beside="mean"),
    areas("GPUs by user", "GPUs of the ten users that held most in the time shown, of all types, whole cluster.",
        most_held("slurm_user_queue_gpus", "user"), beside="mean"),
    areas("CPUs by account", "CPUs of the ten accounts that held most in the time shown, whole cluster.",
        most_held("slurm_account_queue_cpus", "account"), beside="mean"),
    areas("GPUs by account", "GPUs of the ten accounts that held most in the time shown, of all types, whole cluster.",
        most_held("slurm_account_queue_gpus", "account"), beside="mean"),
    bars("Most waiting jobs by user", "The ten users with the most waiting jobs now, tasks of arrays counted each. One name with thousands: see whether a limit (MaxSubmitJobs, MaxArraySize) should be there.",
        ('topk(10, slurm_user_queue_jobs{state="pending",user!="other"} > 0)', "{{user}}"), colours=levels(YELLOW), w=12),
    areas("CPUs by QOS", "CPUs that the running jobs of each QOS hold.",
        ('sum by (qos) (slurm_qos_queue_cpus{state="running"})', "{{qos}}"), beside="max"),
)  # fmt: skip
