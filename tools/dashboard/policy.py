# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""Rows of what could start now, and of what is allowed: limits, shares, licences and reservations."""

from __future__ import annotations

from tools.dashboard.panels import GREEN, GREY, ORANGE, RED, YELLOW, Col, levels, lines, row, table, words
from tools.dashboard.queries import SLOW

_OF_LIMIT = "max by (kind, account, user, partition, qos, name, tres, unit)"  # without the metrics' names, to be merged
_FULL = "topk(15, slurm_limit_used{} / (slurm_limit{} > 0))"  # a limit of 0 forbids; it has no fullness
_OF_SHARE = "max by (account, user, partition)"
_LEAST = 'bottomk(15, slurm_share_factor{user!=""})'


def _room(what: str, by: str = "partition") -> str:
    return f"max by ({by}) (slurm_partition_{what}{{PART}})"


ROOM = row("Room",
    table("What could start now", "What a job could get this moment in each chosen partition, on usable nodes with a CPU and memory to spare that no active reservation holds, and the most that is left on one node. Few usable nodes: see the reasons in Nodes; many and none with room: the partition is full, reserved or not up. Partitions share nodes: do not add them up. Much in all and little on one node is fragmentation: jobs on one big node wait beside it.",
        Col("", "max by (partition, state) (slurm_partition_state{PART} == 1)"),
        Col("usable nodes", _room("nodes_usable")),
        Col("nodes with room", _room("startable_nodes")),
        Col("CPUs", _room("startable_cpus")),
        Col("memory", _room("startable_memory_bytes"), unit="bytes"),
        Col("most CPUs on a node", _room("largest_cpus")),
        Col("most memory on a node", _room("largest_memory_bytes"), unit="bytes"),
        Col("CPUs asked for", 'max by (partition) (slurm_partition_queue_cpus{PART,state="pending"})'),
        labels="partition state", w=14,
    ),
    table("GPUs that could start now", "GPUs that a job could get this moment in each chosen partition, by type, the most that are left on one node, and those that waiting jobs ask for (untyped where they take any).",
        Col("GPUs", _room("startable_gpus", "partition, type")),
        Col("most on a node", _room("largest_gpus", "partition, type")),
        Col("asked for", 'max by (partition, type) (slurm_partition_queue_gpus{PART,state="pending"})'),
        labels="partition type", w=10,
    ),
    lines("CPUs that could start now", "CPUs that jobs could get at once in each chosen partition.",
        (_room("startable_cpus"), "{{partition}}")),
    lines("Largest block of CPUs on one node", "The largest job on one node that could start at once in each chosen partition. 0: nothing starts there before something ends.",
        (_room("largest_cpus"), "{{partition}}")),
    lines("Largest block of GPUs on one node", "The most GPUs of a type that a job on one node could get at once in each chosen partition.",
        (_room("largest_gpus", "partition, type"), "{{partition}} {{type}}")),
)  # fmt: skip

POLICY = row("Policy",
    table("Limits nearest to full", "The fifteen limits of associations and QOSs of which most is used. Jobs behind a full one wait with a reason that begins with Assoc or QOS. The name is sacctmgr's, used and limit are in the unit beside them. Above 100 %: it was lowered under what was in use. Limits of 0 are left out. Nothing here: no limit is set, or slurmscope's user may not see them.",
        Col("full", f"{_OF_LIMIT} ({_FULL})", unit="percentunit", gauge=levels(GREEN, (0.8, YELLOW), (0.95, RED))),
        Col("used", f"{_OF_LIMIT} (slurm_limit_used{{}} and {_FULL})", unit="sishort"),
        Col("limit", f"{_OF_LIMIT} (slurm_limit{{}} and {_FULL})", unit="sishort"),
        labels="kind account user partition qos name tres unit", sort="-full", h=11,
    ),
    table("Lowest fair-share factors", "The fifteen users whose jobs come last by fair share: from 0 (used most) to 1. Usage is the user's part of the cluster's decayed use, shares what was assigned among those of the same parent. Somebody who complains of waiting and is on this list has had more than others.",
        Col("factor", f"{_OF_SHARE} ({_LEAST})", unit="none", gauge=levels(ORANGE, (0.1, YELLOW), (0.5, GREEN))),
        Col("usage", f"{_OF_SHARE} (slurm_share_norm_usage{{}} and {_LEAST})", unit="percentunit"),
        Col("shares", f"{_OF_SHARE} (slurm_share_norm_shares{{}} and {_LEAST})", unit="percentunit"),
        labels="user account partition", sort="factor", w=12, h=10,
    ),
    lines("Licences in use", "Licences that jobs hold as a part of all that Slurm knows. At 100 % jobs wait with the reason Licenses.",
        ('slurm_license_seats{use="used"} / on (cluster, license) group_left () (slurm_license_capacity{} > 0)', "{{license}}"), step=SLOW, unit="percentunit", w=12, h=10),
    table("Reservations", "Reservations that are open or to come. Nodes that a reservation will take soon run no jobs that would last into it: a reason for idle nodes beside a long queue.",
        Col("window", "max by (reservation, flags, users, accounts, partition) (slurm_reservation_active{} * on (cluster, reservation) group_left (flags, users, accounts, partition) slurm_reservation_info{})", texts=words({1: ("open", GREEN), 0: ("closed", GREY)})),
        Col("begins", "1000 * max by (reservation) (slurm_reservation_start_timestamp_seconds{})", unit="dateTimeAsIso"),
        Col("ends", "1000 * max by (reservation) (slurm_reservation_end_timestamp_seconds{})", unit="dateTimeAsIso"),
        Col("nodes", "max by (reservation) (slurm_reservation_nodes{})"),
        Col("cores", "max by (reservation) (slurm_reservation_cores{})"),
        labels="reservation flags users accounts partition", sort="begins", h=7,
    ),
)  # fmt: skip
