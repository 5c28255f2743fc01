# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - what a panel says is one line, and what it asks another
"""Rows of nodes and of what they have: what there is now, CPUs, memory and GPUs."""

from __future__ import annotations

from tools.dashboard.panels import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    YELLOW,
    Col,
    areas,
    bars,
    levels,
    lines,
    row,
    stat,
    table,
    words,
)
from tools.dashboard.queries import share

NOW = row("Now",
    stat("Slurm", "Whether slurmctld answered all that it was asked in the last poll. When it does not, everything below is what was last known: see how old it is, and 'Which part' under 'slurmscope itself'. 'Not scraped' means that Prometheus gets nothing from slurmscope at all: look at its service and at the target in Prometheus.",
        "max(slurm_up{}) or vector(-1)", texts=words({1: ("answers", GREEN), 0: ("silent", RED), -1: ("not scraped", RED)}), colours=levels(RED, (1, GREEN))),
    stat("Age of the data", "How old the oldest of jobs, nodes, scheduler and controllers is. Up to 10 s is normal (poll.interval); it grows when slurmctld is slow, for then slurmscope rests longer between polls, or when it is down.",
        'max(slurm_part_age_seconds{part=~"jobs|nodes|scheduler|controllers"})', unit="s", decimals=0, colours=levels(GREEN, (60, YELLOW), (300, RED))),
    stat("Nodes", "Nodes on which a job could start if there were room, and all nodes. The rest is down, drained, failing, in maintenance, not responding, powered down or rebooting: the table in the next row says why.",
        ("sum(slurm_cluster_nodes_usable{})", "usable"), ('sum(slurm_cluster_nodes{state!="future"})', "all")),
    stat("CPUs allocated", "Allocated CPUs as a part of all CPUs, those of nodes that are not usable included. Low with a long queue: look at why jobs wait, and at what could start now (Room).",
        share('slurm_cluster_cpus{use="allocated"}', "slurm_cluster_cpus{}"), unit="percentunit", decimals=1),
    stat("GPUs allocated", "Allocated GPUs as a part of all GPUs, those of nodes that are not usable included.",
        share('slurm_cluster_gpus{use="allocated"}', "slurm_cluster_gpus{}"), unit="percentunit", decimals=1, empty="no GPUs"),
    stat("Running", "Jobs that run; each task of an array is one.",
        'sum(slurm_queue_jobs{state="running"})'),
    stat("Pending", "Jobs that wait, held and dependent ones included; each task of an array is one, as slurmctld counts.",
        'sum(slurm_queue_jobs{state="pending"})', colours=levels(YELLOW)),
    stat("Longest wait", "How long ago the job became eligible that waits longest. Held, dependent and later ones do not count. If it grows by a day every day, nothing can ever start that job: look at what it asks for.",
        "max(slurm_partition_pending_oldest_seconds{})", unit="s", decimals=1, colours=levels(GREEN, (86400, YELLOW), (604800, RED))),
)  # fmt: skip

NODES = row("Nodes",
    areas("Nodes by state and flags", "Every node once, by its base state and the flags that are set together. An idle node with the flag drain is idle for nobody; planned ones are kept free for a job that backfill has planned.",
        ("sum by (state, flags) (slurm_cluster_nodes{}) > 0", "{{state}} {{flags}}"), beside="max", h=9,
        colours={"/^allocated *$/": BLUE, "/^mixed *$/": "light-blue", "/^idle *$/": GREEN, "/drain|fail/": ORANGE, "/^(down|error|unknown)|not_responding/": RED}),
    lines("Nodes by flag", "Nodes on which a flag is set; one with two flags is counted under both. A rise of not_responding is the network or slurmd, a rise of drain is mostly the health check: see the reasons below.",
        ("sum by (flag) (slurm_cluster_nodes_flagged{}) > 0", "{{flag}}"), beside="max", h=9),
    table("Nodes with a reason", "Nodes that somebody or something has taken out of service, since when and why. With no CPUs in use the node can be repaired now; the others still run jobs. The oldest are on top: bring them back with `scontrol update nodename=… state=resume`, or take them out of slurm.conf.",
        Col("", "max by (node, state, flags, reason, user) (slurm_node_reason_info{})"),
        Col("since", "1000 * max by (node) (slurm_node_reason_timestamp_seconds{})", unit="dateTimeAsIso", width=190),
        Col("for", "time() - max by (node) (slurm_node_reason_timestamp_seconds{})", unit="s", width=120),
        Col("CPUs in use", 'max by (node) (slurm_node_cpus_by_use{use="allocated"} and on (cluster, node) slurm_node_reason_info{})', width=120),
        labels="node state flags reason user", sort="since", widths={"node": 160, "state": 110, "flags": 160, "user": 140}, h=9,
    ),
    lines("Load and allocated CPUs", "The sum of the nodes' load averages beside the CPUs that are allocated. Load far below means that jobs hold CPUs they do not use; far above, that they start more threads than they asked CPUs for.",
        ("slurm_cluster_load{}", "load"),
        ('sum(slurm_cluster_cpus{use="allocated"})', "allocated"),
        ("sum(slurm_cluster_cpus{})", "all CPUs")),
    bars("Most load per CPU", "The ten nodes with the most load for each of their CPUs. Above 1 more wants to run than can: jobs that are not bound to their CPUs, a file system that hangs (which counts as load), or something beside Slurm.",
        ("topk(10, slurm_node_load{} / on (cluster, node) sum by (cluster, node) (slurm_node_cpus_by_use{}))", "{{node}}"), colours=levels(BLUE, (1.1, YELLOW), (1.5, RED))),
    bars("Least load per allocated CPU", "The ten nodes whose allocated CPUs do least. Near 0 their jobs hold CPUs and compute nothing: they hang, wait for a licence or for input, or use a GPU alone. Ask their owners.",
        ('bottomk(10, slurm_node_load{} / on (cluster, node) (slurm_node_cpus_by_use{use="allocated"} > 0))', "{{node}}"), colours=levels(RED, (0.25, YELLOW), (0.7, BLUE)), ceiling=1),
)  # fmt: skip

CPUS_AND_MEMORY = row("CPUs and memory",
    areas("CPUs by use", "Allocated, idle and other CPUs of the whole cluster; they add up to all there are. Other: the node is not usable, or keeps them for the system.",
        ("sum by (use) (slurm_cluster_cpus{})", "{{use}}")),
    lines("CPUs allocated by partition", "Allocated CPUs of the nodes of the chosen partitions, as a part of all. Partitions share nodes, so that who allocated them may have come by another partition.",
        (share('slurm_partition_cpus_by_use{PART,use="allocated"}', "slurm_partition_cpus_by_use{PART}", "partition"), "{{partition}}"), unit="percentunit", ceiling=1),
    lines("CPUs held and asked for", "CPUs that running jobs hold and that waiting ones ask for, beside all there are. The height of pending in whole clusters says how much work is in the queue.",
        ('sum by (state) (slurm_queue_cpus{state=~"running|pending"})', "{{state}}"),
        ("sum(slurm_cluster_cpus{})", "all CPUs")),
    areas("Memory by use", "Memory that jobs were allocated, that a job could still get, and that nobody can: on nodes that are not usable, or kept for the system.",
        ("sum by (use) (slurm_cluster_memory_bytes{})", "{{use}}"), unit="bytes"),
    lines("Memory allocated by partition", "Allocated memory of the nodes of the chosen partitions, as a part of all. Fuller than the CPUs: jobs ask for more memory than a CPU's share, and CPUs (and GPUs) stay free beside them.",
        (share('slurm_partition_memory_by_use_bytes{PART,use="allocated"}', "slurm_partition_memory_by_use_bytes{PART}", "partition"), "{{partition}}"), unit="percentunit", ceiling=1),
    lines("Memory allocated and touched", "Memory that is allocated to jobs beside memory that the nodes' kernels do not call free, caches included. Touched far below allocated: people ask for memory they do not need, and others wait for it.",
        ('sum(slurm_cluster_memory_bytes{use="allocated"})', "allocated"),
        ("sum(sum by (cluster, node) (slurm_node_memory_by_use_bytes{}) - on (cluster, node) slurm_node_memory_os_free_bytes{})", "touched"),
        ("sum(slurm_cluster_memory_bytes{})", "all"),
        unit="bytes",
    ),
)  # fmt: skip

_ASKED = 'sum by (type) (slurm_queue_gpus{state="pending"})'


def _gpus(use: str) -> str:
    return f'sum by (type) (slurm_cluster_gpus{{use="{use}"}})'


GPUS = row("GPUs",
    areas("GPUs by use", "Allocated, idle, stranded and unavailable GPUs; they add up to all there are. Stranded ones are free on a usable node that has no free CPU or no free memory beside them: nobody can have them until a job there ends. Unavailable ones are free on a node that is not usable.",
        ("sum by (use) (slurm_cluster_gpus{})", "{{use}}")),
    lines("GPUs allocated by type", "Allocated GPUs of each type as a part of all of that type. An old type that is empty while a new one is full is an answer to who waits.",
        (share('slurm_cluster_gpus{use="allocated"}', "slurm_cluster_gpus{}", "type"), "{{type}}"), unit="percentunit", ceiling=1),
    areas("GPUs that jobs wait for", "GPUs that waiting jobs ask for, by type; untyped where they take any.",
        (_ASKED, "{{type}}")),
    table("GPUs by type", "All GPUs of each type by use, and those that waiting jobs ask for. Types of which more are idle than asked for could take more work; where some are asked for and idle, look at why those jobs wait.",
        Col("all", "sum by (type) (slurm_cluster_gpus{})"),
        Col("allocated", _gpus("allocated")),
        Col("idle", _gpus("idle")),
        Col("stranded", _gpus("stranded")),
        Col("unavailable", _gpus("unavailable")),
        Col("asked for", _ASKED),
        labels="type", sort="-all", w=10,
    ),
    areas("Stranded GPUs by type", "Free GPUs that no job can get, for want of a CPU or memory on the same node. If this is often above 0, keep CPUs for the GPUs: `MaxCPUsPerNode` on partitions that share the nodes, `DefMemPerGPU`.",
        (_gpus("stranded"), "{{type}}"), w=7),
    bars("Where GPUs are stranded", "Nodes with free GPUs and no free CPU or memory beside them, now.",
        ('topk(20, sum by (node, type) (slurm_node_gpus_by_use{use="stranded"}) > 0)', "{{node}} {{type}}"), colours=levels(ORANGE), empty="nowhere", w=7),
)  # fmt: skip
